-- The door completed: plans with prices, quotas, what was done under each generation, and repeats of
-- requests known again by their key.

create table plans (
    name    text primary key,
    body    jsonb not null,
    retired boolean not null default false
);

alter table services add column plan_name text references plans (name);
alter table services add column created_at timestamptz;
update services set created_at = accepted_at;
alter table services alter column created_at set not null;
alter table releases add column action text not null default 'declare';
alter table releases alter column action drop default;

-- Lists go by name and id; a page begins where the last one ended.
create index services_by_name on services (org_id, name, id) where deleted_at is null;
create index services_by_project on services (org_id, project_id, name, id) where deleted_at is null;

create index statuses_by_health on statuses (org_id, health) where unit_kind = 'service';
create index statuses_by_phase on statuses (org_id, phase) where unit_kind = 'service';

-- Quotas -----------------------------------------------------------------------------------------
-- One row per org. A promise is made by a conditional update of it, never by counting first.

create table quotas (
    org_id            uuid primary key references orgs (id),
    services_limit    bigint not null default 200,
    services_used     bigint not null default 0,
    cpu_millis_limit  bigint not null default 100000,
    cpu_millis_used   bigint not null default 0,
    memory_mib_limit  bigint not null default 262144,
    memory_mib_used   bigint not null default 0,
    storage_gib_limit bigint not null default 2000,
    storage_gib_used  bigint not null default 0,
    gpus_limit        bigint not null default 8,
    gpus_used         bigint not null default 0
);

-- What each service holds of its org's quota. Capacity stays held until its absence is verified.
create table reservations (
    service_id  uuid primary key,
    org_id      uuid not null,
    services    bigint not null,
    cpu_millis  bigint not null,
    memory_mib  bigint not null,
    storage_gib bigint not null,
    gpus        bigint not null,
    foreign key (org_id, service_id) references services (org_id, id)
);

-- Every org has a quota from its first moment, whoever makes the org.
create function give_quota() returns trigger
    language plpgsql security definer set search_path = pg_catalog, public
    as $$ begin insert into quotas (org_id) values (new.id); return null; end $$;
revoke execute on function give_quota from public;
create trigger orgs_have_quotas after insert on orgs for each row execute function give_quota();
insert into quotas (org_id) select id from orgs;

-- Services of an older install hold what they were promised.
insert into reservations (service_id, org_id, services, cpu_millis, memory_mib, storage_gib, gpus)
select id, org_id, (desired <> 'deleted')::int,
       coalesce((spec->>'replicas')::bigint * (spec#>>'{resources,cpu_millis}')::bigint, 0),
       coalesce((spec->>'replicas')::bigint * (spec#>>'{resources,memory_mib}')::bigint, 0),
       coalesce((spec->>'replicas')::bigint * (spec#>>'{volume,size_gib}')::bigint, 0), 0
from services where deleted_at is null;
update quotas q set services_used = r.services, cpu_millis_used = r.cpu_millis,
                    memory_mib_used = r.memory_mib, storage_gib_used = r.storage_gib
from (select org_id, sum(services) services, sum(cpu_millis) cpu_millis, sum(memory_mib) memory_mib,
             sum(storage_gib) storage_gib from reservations group by org_id) r
where r.org_id = q.org_id;

-- Repeats ----------------------------------------------------------------------------------------

create table repeats (
    org_id     uuid not null references orgs (id),
    principal  uuid not null,
    route      text not null,
    key        text not null,
    body_hash  bytea not null,
    subject    text not null,
    created_at timestamptz not null,
    constraint repeats_key primary key (org_id, principal, route, key)
);
create index repeats_by_age on repeats (created_at);

-- Walls ------------------------------------------------------------------------------------------

do $$
declare t text;
begin
    foreach t in array array['plans', 'quotas', 'reservations', 'repeats'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
    foreach t in array array['quotas', 'reservations', 'repeats'] loop
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
    end loop;
end $$;
-- Plans belong to no org: every tenant reads them, and only a transaction of the platform writes.
create policy app_read on plans for select to trueup_app using (true);
create policy app_sell on plans for insert to trueup_app
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
create policy app_change on plans for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');

grant select, insert, update on plans, reservations to trueup_app;
grant select, update on quotas to trueup_app;
-- A key that is older than it is kept may be used for something else.
grant select, insert, update on repeats to trueup_app;
grant select on plans to trueup_worker;
grant select, update on quotas to trueup_worker;
grant select, delete on reservations, repeats to trueup_worker;
