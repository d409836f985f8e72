-- Offers: named, versioned terms. A version never changes.
create table offers (
    name       text not null,
    version    integer not null check (version > 0),
    body       jsonb not null,
    created_at timestamptz not null,
    created_by text not null,
    primary key (name, version)
);

-- What an org subscribed to. A change is a row of its own, and a row never changes: it holds until one
-- that was recorded later begins.
create table subscriptions (
    id            uuid primary key,
    org_id        uuid not null references orgs (id),
    -- Its place among the changes of the org, without holes.
    number        integer not null check (number > 0),
    offer_name    text not null,
    offer_version integer not null,
    -- The first moment it holds: never before it was recorded.
    valid_from    timestamptz not null,
    created_at    timestamptz not null,
    created_by    text not null,
    check (valid_from >= created_at),
    unique (org_id, number),
    unique (org_id, id),
    foreign key (offer_name, offer_version) references offers (name, version)
);

create function keep_subscription() returns trigger
    language plpgsql
as $$
begin
    raise exception 'offers and subscriptions never change; publish another version, or record another change'
        using errcode = 'restrict_violation';
end $$;
create trigger offers_are_kept before update or delete or truncate on offers
    for each statement execute function keep_subscription();
create trigger subscriptions_are_kept before update or delete or truncate on subscriptions
    for each statement execute function keep_subscription();

-- Where the limits of a quota come from, and the subscription that was applied to it last.
alter table quotas
    add column limits_from text not null default 'default'
        check (limits_from in ('default', 'operator', 'subscription')),
    add column subscription_id uuid,
    -- When the next recorded change of the subscription begins.
    add column limits_until timestamptz,
    add foreign key (org_id, subscription_id) references subscriptions (org_id, id);

-- What happens because the org has no balance left; null while it has some, or is billed afterwards.
alter table ledger_heads add column at_zero text check (at_zero in ('warn', 'refuse', 'pause'));

do $$
declare t text;
begin
    foreach t in array array['offers', 'subscriptions'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
end $$;
-- Every tenant reads the offers, and only a transaction of the platform publishes them.
create policy app_read on offers for select to trueup_app using (true);
create policy app_publish on offers for insert to trueup_app
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
create policy app_org on subscriptions to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());
grant select, insert on offers, subscriptions to trueup_app;
grant select on offers, subscriptions to trueup_worker;

-- Budgets of projects, next to that of their org: a row without a project is the org's.
alter table budgets
    drop constraint budgets_pkey,
    add column project_id uuid,
    add foreign key (org_id, project_id) references projects (org_id, id);
create unique index budgets_once on budgets (org_id, project_id) nulls not distinct;

-- Quotas of projects, below that of their org. What a project uses is the sum of its services' reservations,
-- which change only under the lock of the org's quota.
create table project_quotas (
    project_id        uuid primary key,
    org_id            uuid not null references orgs (id),
    services_limit    bigint not null check (services_limit >= 0),
    cpu_millis_limit  bigint not null check (cpu_millis_limit >= 0),
    memory_mib_limit  bigint not null check (memory_mib_limit >= 0),
    storage_gib_limit bigint not null check (storage_gib_limit >= 0),
    gpus_limit        bigint not null check (gpus_limit >= 0),
    -- False after it was removed.
    holds             boolean not null,
    changed_at        timestamptz not null,
    foreign key (org_id, project_id) references projects (org_id, id)
);
alter table project_quotas enable row level security;
alter table project_quotas force row level security;
create policy owner_all on project_quotas to trueup_owner using (true) with check (true);
create policy worker_all on project_quotas to trueup_worker using (true) with check (true);
create policy app_org on project_quotas to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());
create policy app_project on project_quotas as restrictive to trueup_app
    using ((select trueup_whole_org()) or project_id = any((select trueup_projects())::uuid[]));
grant select, insert, update on project_quotas to trueup_app;
grant select on project_quotas to trueup_worker;
