-- The first tables. Three roles: the owner migrates and owns, `trueup_app` answers requests for one
-- org at a time, `trueup_worker` runs the loops. Row-level security is forced on every table, so
-- that a missing WHERE is an empty answer and not a leak.

create function trueup_org() returns uuid
    language sql stable
    return nullif(current_setting('trueup.org', true), '')::uuid;

-- Nouns ------------------------------------------------------------------------------------------

create table orgs (
    id         uuid primary key,
    name       text not null constraint orgs_name_key unique,
    created_at timestamptz not null
);

create table tokens (
    id         uuid primary key,
    org_id     uuid references orgs (id),
    name       text not null,
    role       text not null check (role in ('viewer', 'developer', 'owner', 'operator')),
    hash       bytea not null constraint tokens_hash_key unique,
    created_at timestamptz not null,
    expires_at timestamptz,
    constraint tokens_operator_has_no_org check ((role = 'operator') = (org_id is null))
);

create table clusters (
    id         uuid primary key,
    name       text not null constraint clusters_name_key unique,
    note       text,
    heard_at   timestamptz,
    created_at timestamptz not null
);

create table templates (
    name    text not null,
    version integer not null,
    body    jsonb not null,
    primary key (name, version)
);

create table projects (
    id         uuid not null,
    org_id     uuid not null references orgs (id),
    name       text not null,
    cluster_id uuid not null references clusters (id),
    namespace  text not null,
    generation bigint not null,
    created_at timestamptz not null,
    primary key (id),
    unique (org_id, id),
    constraint projects_name_key unique (org_id, name),
    constraint projects_namespace_key unique (cluster_id, namespace)
);

create table services (
    id               uuid not null,
    org_id           uuid not null,
    project_id       uuid not null,
    name             text not null,
    cluster_id       uuid not null references clusters (id),
    object_name      text not null,
    template_name    text not null,
    template_version integer not null,
    parameters       jsonb not null,
    spec             jsonb not null,
    desired          text not null check (desired in ('active', 'paused', 'deleted')),
    generation       bigint not null,
    accepted_at      timestamptz not null,
    deleted_at       timestamptz,
    primary key (id),
    unique (org_id, id),
    foreign key (org_id, project_id) references projects (org_id, id),
    foreign key (template_name, template_version) references templates (name, version),
    constraint services_object_name_key unique (cluster_id, object_name)
);
-- A name is free again once its service is verified to be gone.
create unique index services_name_key on services (project_id, name) where deleted_at is null;
create index services_by_cluster on services (cluster_id) where deleted_at is null;

create table releases (
    id               uuid primary key,
    org_id           uuid not null,
    service_id       uuid not null,
    generation       bigint not null,
    template_name    text not null,
    template_version integer not null,
    parameters       jsonb not null,
    spec             jsonb not null,
    desired          text not null,
    principal        text not null,
    accepted_at      timestamptz not null,
    foreign key (org_id, service_id) references services (org_id, id),
    constraint releases_generation_key unique (service_id, generation)
);

-- Execution --------------------------------------------------------------------------------------

create table wakes (
    unit_kind     text not null check (unit_kind in ('project', 'service')),
    unit_id       uuid not null,
    org_id        uuid not null,
    cluster_id    uuid not null,
    lane          text not null,
    state         text not null default 'queued' check (state in ('queued', 'running', 'dead')),
    due_at        timestamptz not null,
    requested_seq bigint not null default 1,
    claimed_seq   bigint,
    attempts      integer not null default 0,
    last_error    text,
    primary key (unit_kind, unit_id)
);
create index wakes_due on wakes (cluster_id, due_at) where state = 'queued';

-- Who works on a cluster. The epoch is written only when the holder changes; heartbeats go to a row
-- of their own, so that fencing reads never wait for them.
create table leases (
    cluster_id uuid primary key references clusters (id),
    holder     text not null,
    epoch      bigint not null
);
create table lease_heartbeats (
    cluster_id uuid primary key references leases (cluster_id),
    epoch      bigint not null,
    expires_at timestamptz not null
);

-- Every key that was ever ordered, written before the first object is: a crash never leaves an
-- object that nobody knows of.
create table resources (
    cluster_id       uuid not null,
    kind             text not null,
    namespace        text not null,
    name             text not null,
    org_id           uuid not null,
    unit_kind        text not null,
    unit_id          uuid not null,
    first_generation bigint not null,
    uid              text,
    recorded_at      timestamptz not null,
    seen_at          timestamptz,
    primary key (cluster_id, kind, namespace, name)
);
create index resources_by_unit on resources (unit_kind, unit_id);

-- Observed and projected -------------------------------------------------------------------------

create table statuses (
    unit_kind     text not null,
    unit_id       uuid not null,
    org_id        uuid not null,
    phase         text not null,
    health        text not null,
    status        jsonb not null,
    inputs        jsonb,
    as_of         timestamptz not null,
    rules_version integer not null,
    projection    bigint not null default 1,
    primary key (unit_kind, unit_id)
);

create table receipts (
    service_id  uuid primary key,
    org_id      uuid not null,
    receipt     jsonb not null,
    verified_at timestamptz not null,
    foreign key (org_id, service_id) references services (org_id, id)
);

-- Events -----------------------------------------------------------------------------------------

create table events (
    id         uuid primary key,
    org_id     uuid not null,
    source     text not null,
    type       text not null,
    version    integer not null default 1,
    unit_kind  text not null,
    unit_id    uuid not null,
    generation bigint not null,
    at         timestamptz not null,
    trace      text,
    body       jsonb not null
);

-- What the sealer has yet to put in order. The transaction's id lets it wait for slower writers.
create table event_queue (
    seq      bigint generated always as identity primary key,
    event_id uuid not null,
    org_id   uuid not null,
    unit_id  uuid not null,
    xid      xid8 not null default pg_current_xact_id()
);

-- The order of events: readers see only what is here. Positions have no gaps within an org.
create table event_seals (
    org_id          uuid not null,
    position        bigint not null,
    global_position bigint generated always as identity,
    event_id        uuid not null references events (id),
    unit_id         uuid not null,
    primary key (org_id, position)
);
create index event_seals_by_unit on event_seals (org_id, unit_id, position);

-- Walls ------------------------------------------------------------------------------------------

do $$
declare t text;
begin
    for t in select tablename from pg_tables where schemaname = 'public' and tablename not like '\_sqlx%' loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
    end loop;
    -- Tenants see rows of the org that the transaction names, and nothing when it names none.
    foreach t in array array['projects', 'services', 'releases', 'wakes', 'resources', 'statuses',
                             'receipts', 'events', 'event_queue', 'event_seals'] loop
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
    foreach t in array array['clusters', 'templates', 'leases', 'lease_heartbeats', 'orgs'] loop
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
end $$;
create policy app_read on clusters for select to trueup_app using (true);
create policy app_read on templates for select to trueup_app using (true);
create policy app_org on orgs for select to trueup_app using (id = trueup_org());

grant select on orgs, clusters, templates to trueup_app;
grant select, insert, update on projects, services, wakes to trueup_app;
grant select, insert on releases, events, event_queue, statuses to trueup_app;
grant select on resources, receipts, event_seals to trueup_app;

grant select on orgs, clusters, templates, projects, services, releases to trueup_worker;
grant update (note, heard_at) on clusters to trueup_worker;
grant update (deleted_at) on services to trueup_worker;
grant select, insert, update, delete on wakes, leases, lease_heartbeats to trueup_worker;
grant select, insert, update on resources, statuses to trueup_worker;
grant select, insert on receipts, events, event_seals to trueup_worker;
grant select, insert, delete on event_queue to trueup_worker;

-- Who a token is, asked before any org is known: the one question that row-level security cannot
-- answer for the app role, so it is answered by this function and nothing else.
create function authenticate(token_hash bytea, now timestamptz)
    returns table (id uuid, org_id uuid, name text, role text)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.org_id, t.name, t.role from tokens t
        where t.hash = token_hash and (t.expires_at is null or t.expires_at > now);
    end;
revoke execute on function authenticate from public;
grant execute on function authenticate to trueup_app;

-- An operator names the org by its name or id.
create function find_org(wanted text) returns uuid
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select o.id from orgs o where o.name = wanted or o.id::text = wanted;
    end;
revoke execute on function find_org from public;
grant execute on function find_org to trueup_app;
