-- Drift: where a cluster differs from its desired state, what was decided about that, and what it costs.

-- The policies of services and projects. Templates have theirs in their body.
alter table services add column drift jsonb not null default '{}';
alter table projects add column drift jsonb not null default '{}';

-- One difference each. A row stays after it ended, and after its unit was deleted.
create table divergences (
    id            uuid primary key,
    org_id        uuid not null references orgs (id),
    project_id    uuid not null,
    subject_kind  text not null check (subject_kind in ('project', 'service')),
    subject_id    uuid not null,
    cluster_id    uuid not null references clusters (id),
    kind          text not null,
    namespace     text not null,
    name          text not null,
    -- Empty for the object itself.
    field         text not null,
    class         text not null check (class in
                      ('edited', 'deleted', 'extra', 'foreign_writer', 'broken_proof', 'regressed')),
    -- Null for no value. Of Secrets only digests.
    wanted        jsonb,
    live          jsonb,
    -- The field manager that wrote it.
    manager       text,
    verdict       text not null check (verdict in ('enforce', 'adopt', 'ignore')),
    state         text not null check (state in
                      ('open', 'proposed', 'ignored', 'in_conflict', 'reverted', 'adopted', 'restored',
                       'superseded', 'rejected', 'expired')),
    -- Of the order that it was last seen with.
    generation    bigint not null,
    first_seen_at timestamptz not null,
    last_seen_at  timestamptz not null,
    -- When the difference was gone from the cluster; it costs until then. A proposal may wait after that,
    -- and a rejected value may still be there.
    gone_at       timestamptz,
    -- When nothing was left to decide.
    ended_at      timestamptz,
    -- When a proposal expires.
    expires_at    timestamptz,
    decided_by    text,
    -- Why Trueup itself rejected it.
    decided_why   text,
    hourly_micros bigint,
    currency      text,
    check ((ended_at is null) = (state in ('open', 'proposed', 'ignored', 'in_conflict'))),
    check (state <> 'proposed' or expires_at is not null),
    check ((hourly_micros is null) = (currency is null)),
    foreign key (org_id, project_id) references projects (org_id, id)
);
create unique index divergences_open on divergences (cluster_id, subject_id, kind, namespace, name, field)
    where ended_at is null;
-- For the report writer: what may still change.
create index divergences_unsettled on divergences (subject_id) where ended_at is null or gone_at is null;
-- For orders: what stands, and what was reverted or adopted lately.
create index divergences_by_subject on divergences (subject_id, gone_at);
-- For lists: what is open, and everything.
create index divergences_open_of_org on divergences (org_id, id) where ended_at is null;
create index divergences_of_org on divergences (org_id, id);
-- For sums since a time.
create index divergences_gone on divergences (org_id, gone_at);
-- For the adopter.
create index divergences_proposed on divergences (cluster_id, expires_at) where state = 'proposed';

-- Fields that two writers fight over: they are not enforced until a person decides.
create table conflicts (
    id           uuid primary key,
    org_id       uuid not null references orgs (id),
    project_id   uuid not null,
    subject_kind text not null check (subject_kind in ('project', 'service')),
    subject_id   uuid not null,
    cluster_id   uuid not null references clusters (id),
    kind         text not null,
    namespace    text not null,
    name         text not null,
    field        text not null,
    manager      text,
    raised_at    timestamptz not null,
    decision     text check (decision in ('ours', 'adopt', 'ignore')),
    settled_by   text,
    settled_at   timestamptz,
    -- Until when the decision holds; null for ever.
    holds_until  timestamptz,
    check ((settled_at is null) = (decision is null)),
    check ((settled_at is null) = (settled_by is null)),
    check (holds_until is null or settled_at is not null),
    foreign key (org_id, project_id) references projects (org_id, id)
);
create unique index conflicts_open on conflicts (cluster_id, subject_id, kind, namespace, name, field)
    where settled_at is null;
create index conflicts_by_subject on conflicts (subject_id);
create index conflicts_of_org on conflicts (org_id, id);

-- What a finding would be sold for per hour, by the last plan of the service on its label.
alter table findings
    add column hourly_micros bigint,
    add column currency      text,
    add constraint findings_price check ((hourly_micros is null) = (currency is null));

do $$
declare t text;
begin
    foreach t in array array['divergences', 'conflicts'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
    end loop;
end $$;
grant select, update (state, gone_at, ended_at, decided_by) on divergences to trueup_app;
grant select, update (decision, settled_by, settled_at, holds_until) on conflicts to trueup_app;
grant select, insert, update on divergences to trueup_worker;
-- It updates none: the grant lets it lock a row that is being settled.
grant select, insert, update (manager) on conflicts to trueup_worker;
