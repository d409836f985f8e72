-- Domains: host names that lead to services. Any org may ask for any host, so that asking tells nothing
-- about others; a host leads somewhere only once it is proved to be the org's, and then it is one org's.

alter table clusters add column routing jsonb not null default '{}';
create policy app_routing on clusters for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
grant update (routing) on clusters to trueup_app;

create table domains (
    id          uuid primary key,
    org_id      uuid not null,
    service_id  uuid not null,
    host        text not null check (host = lower(host) and length(host) <= 253),
    tls         text not null check (tls in ('auto', 'off')),
    made_by     text not null,
    created_at  timestamptz not null,
    verified_at timestamptz,
    verified_by text,
    deleted_at  timestamptz,
    unique (org_id, id),
    foreign key (org_id, service_id) references services (org_id, id)
);
create unique index domains_own_key on domains (org_id, host) where deleted_at is null;
create unique index domains_host_key on domains (host) where verified_at is not null and deleted_at is null;
create index domains_by_service on domains (service_id) where deleted_at is null;

alter table domains enable row level security;
alter table domains force row level security;
create policy owner_all on domains to trueup_owner using (true) with check (true);
create policy worker_all on domains to trueup_worker using (true) with check (true);
create policy app_org on domains to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());

grant select, insert, update on domains to trueup_app;
grant select on domains to trueup_worker;
grant update (deleted_at) on domains to trueup_worker;
