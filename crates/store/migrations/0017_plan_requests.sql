-- Plan requests: what a declaration of a service would really do, asked of the executor of its cluster.
-- A row holds what would be promised (never a secret: those join an order outside of the database), is
-- filled once, and is forgotten some time after it expired.

create table plan_requests (
    id           uuid primary key,
    org_id       uuid not null,
    project_id   uuid not null,
    cluster_id   uuid not null references clusters (id),
    -- For a new service the id that it would get.
    service_id   uuid not null,
    service      jsonb not null,
    generation   bigint not null,
    order_digest text not null,
    requested_by text not null,
    created_at   timestamptz not null,
    deadline_at  timestamptz not null,
    expires_at   timestamptz not null,
    state        text not null default 'waiting' check (state in ('waiting', 'filled', 'failed', 'void')),
    -- Why it failed or does not hold, or what is waited for.
    why          text,
    plan         jsonb,
    hash         text,
    checked_at   timestamptz,
    check ((state in ('filled', 'void')) = (plan is not null)),
    check ((plan is null) = (hash is null)),
    check (state not in ('failed', 'void') or why is not null),
    foreign key (org_id, project_id) references projects (org_id, id)
);
create index plan_requests_open on plan_requests (cluster_id, created_at) where state in ('waiting', 'filled');
create index plan_requests_old on plan_requests (expires_at);
create index plan_requests_of_org on plan_requests (org_id, expires_at);

alter table plan_requests enable row level security;
alter table plan_requests force row level security;
create policy owner_all on plan_requests to trueup_owner using (true) with check (true);
create policy app_org on plan_requests to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());
create policy worker_all on plan_requests to trueup_worker using (true) with check (true);
grant select, insert on plan_requests to trueup_app;
grant select, delete, update (state, why, plan, hash, checked_at) on plan_requests to trueup_worker;
