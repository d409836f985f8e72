-- Variables and secrets that are set beside a manifest, for a project or for one service. A name
-- that was taken away stays as a row without a value, so that its versions are never used twice.

-- Each org's data key, sealed by a key of the install that is never in this database. Without the
-- row nothing that it sealed opens again.
create table org_keys (
    org_id     uuid primary key references orgs (id),
    key        integer not null,
    nonce      bytea not null,
    sealed     bytea not null,
    created_at timestamptz not null
);

create table variables (
    org_id     uuid not null,
    project_id uuid not null,
    service_id uuid,
    name       text not null,
    value      text,
    version    bigint not null,
    set_by     text not null,
    set_at     timestamptz not null,
    foreign key (org_id, project_id) references projects (org_id, id),
    foreign key (org_id, service_id) references services (org_id, id),
    constraint variables_name_key unique nulls not distinct (project_id, service_id, name)
);
create index variables_by_service on variables (service_id);

create table secrets (
    org_id     uuid not null,
    project_id uuid not null,
    service_id uuid,
    name       text not null,
    nonce      bytea,
    sealed     bytea,
    version    bigint not null,
    set_by     text not null,
    set_at     timestamptz not null,
    foreign key (org_id, project_id) references projects (org_id, id),
    foreign key (org_id, service_id) references services (org_id, id),
    constraint secrets_name_key unique nulls not distinct (project_id, service_id, name),
    constraint secrets_are_whole check ((nonce is null) = (sealed is null))
);
create index secrets_by_service on secrets (service_id);

do $$
declare t text;
begin
    foreach t in array array['org_keys', 'variables', 'secrets'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
end $$;

grant select, insert on org_keys to trueup_app;
grant select, insert, update on variables, secrets to trueup_app;
grant select on org_keys to trueup_worker;
-- What belonged to a service goes when its absence is verified.
grant select, delete on variables, secrets to trueup_worker;
