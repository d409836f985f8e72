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

-- Endpoints --------------------------------------------------------------------------------------

-- The ports that a cluster's endpoints may have, one row each, and who has it. A port has one
-- holder whatever its protocol, because Kubernetes gives out node ports so. Nobody reads this table
-- for a tenant: a port is taken by the function below and given back by settle.
create table endpoint_ports (
    cluster_id  uuid not null references clusters (id),
    port        integer not null check (port between 1 and 65535),
    endpoint_id uuid constraint endpoint_ports_holder_key unique,
    primary key (cluster_id, port)
);

create table endpoints (
    id                 uuid primary key,
    org_id             uuid not null,
    service_id         uuid not null,
    cluster_id         uuid not null,
    name               text not null,
    port               text not null,
    protocol           text not null check (protocol in ('TCP', 'UDP')),
    node_port          integer not null,
    made_by            text not null,
    created_at         timestamptz not null,
    deleted_at         timestamptz,
    deleted_generation bigint,
    released_at        timestamptz,
    unique (org_id, id),
    foreign key (org_id, service_id) references services (org_id, id),
    foreign key (cluster_id, node_port) references endpoint_ports (cluster_id, port)
);
create unique index endpoints_name_key on endpoints (org_id, service_id, name) where deleted_at is null;
-- A port is not given to the next one before the last one is seen to be gone.
create unique index endpoints_port_key on endpoints (cluster_id, node_port) where released_at is null;
create index endpoints_by_service on endpoints (service_id) where released_at is null;

do $$
declare t text;
begin
    foreach t in array array['endpoint_ports', 'endpoints'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
end $$;
create policy app_org on endpoints to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());

grant select, insert, update on endpoints to trueup_app;
grant select on endpoints to trueup_worker;
grant update (released_at, deleted_at) on endpoints to trueup_worker;
grant select on endpoint_ports to trueup_worker;
grant update (endpoint_id) on endpoint_ports to trueup_worker;

-- Takes the lowest free port of a cluster. Which ports others have is nobody's business, so this is
-- asked over the wall and answers with one number.
create function take_port(wanted_cluster uuid, holder uuid) returns integer
    language sql volatile security definer set search_path = pg_catalog, public
    begin atomic
        update endpoint_ports p set endpoint_id = holder
        from (select f.cluster_id, f.port from endpoint_ports f
              where f.cluster_id = wanted_cluster and f.endpoint_id is null
              order by f.port limit 1 for update skip locked) free
        where p.cluster_id = free.cluster_id and p.port = free.port
        returning p.port;
    end;
revoke execute on function take_port from public;
grant execute on function take_port to trueup_app;
