-- Findings: objects in a cluster that carry our label and that nothing records, or only something that is
-- verified to be gone. They are found by sweeps, closed when they are gone, and never deleted. Whose they
-- were is what nobody knows for sure, so they belong to the platform's own org.

create table findings (
    id               uuid primary key,
    org_id           uuid not null references orgs (id),
    cluster_id       uuid not null references clusters (id),
    class            text not null check (class in ('orphan', 'unproved')),
    kind             text not null,
    namespace        text not null,
    name             text not null,
    uid              text not null,
    resource_version text not null,
    -- What it says it belongs to.
    unit             text,
    -- How many objects of ours the cluster had when this was last seen: the budget's share is of these.
    among            bigint not null,
    found_at         timestamptz not null,
    seen_at          timestamptz not null,
    closed_at        timestamptz,
    closed_why       text,
    -- Who asked for its removal and when; it is answered by a close, or by why it was kept.
    remove_at        timestamptz,
    remove_by        text,
    kept_why         text,
    check ((closed_at is null) = (closed_why is null)),
    check ((remove_at is null) = (remove_by is null))
);
create unique index findings_open on findings (cluster_id, uid) where closed_at is null;
create index findings_asked on findings (cluster_id, remove_at) where remove_at is not null;

alter table findings enable row level security;
alter table findings force row level security;
create policy owner_all on findings to trueup_owner using (true) with check (true);
create policy app_org on findings to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());
create policy worker_all on findings to trueup_worker using (true) with check (true);
grant select, update (remove_at, remove_by, kept_why) on findings to trueup_app;
grant select, insert, update on findings to trueup_worker;
