-- The driver: wakes that wait in lanes, are claimed fairly by org and may be poison; switches that stop
-- every act without stopping anybody from looking.

-- Wakes ------------------------------------------------------------------------------------------

alter table wakes
    -- Which request asked for it, for the log lines of what follows.
    add column trace   text,
    -- Whether the cluster is to be read afresh instead of trusting what was heard.
    add column fresh   boolean not null default false,
    -- How often its pass met a defect since somebody last asked; only that makes it dead.
    add column poison  integer not null default 0,
    add column died_at timestamptz,
    add constraint wakes_lane_check check (lane in ('user_change', 'delete', 'repair', 'sweep')),
    add constraint wakes_died_check check ((state = 'dead') = (died_at is not null));

-- A claim walks from org to org inside a lane, and takes the oldest of each.
drop index wakes_due;
create index wakes_in_turn on wakes (cluster_id, lane, org_id, due_at) where state = 'queued';
create index wakes_dead on wakes (died_at) where state = 'dead';

-- Operators look after wakes of every org; they still change them one org at a time.
create policy app_platform on wakes for select to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000');

-- Freezes ----------------------------------------------------------------------------------------

-- One row for the whole platform. What is frozen is observed and not touched.
create table platform (
    only_row   boolean primary key default true check (only_row),
    frozen_at  timestamptz,
    frozen_by  text,
    frozen_why text,
    constraint platform_frozen_check check (num_nulls(frozen_at, frozen_by, frozen_why) in (0, 3))
);
insert into platform default values;
alter table platform enable row level security;
alter table platform force row level security;
create policy owner_all on platform to trueup_owner using (true) with check (true);
create policy worker_read on platform for select to trueup_worker using (true);
create policy app_read on platform for select to trueup_app using (true);
create policy app_freeze on platform for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
grant select, update (frozen_at, frozen_by, frozen_why) on platform to trueup_app;
grant select on platform to trueup_worker;

alter table clusters
    add column frozen_at  timestamptz,
    add column frozen_by  text,
    add column frozen_why text,
    add constraint clusters_frozen_check check (num_nulls(frozen_at, frozen_by, frozen_why) in (0, 3));
create policy app_freeze on clusters for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
grant update (frozen_at, frozen_by, frozen_why) on clusters to trueup_app;

alter table services
    add column frozen_at  timestamptz,
    add column frozen_by  text,
    add column frozen_why text,
    add constraint services_frozen_check check (num_nulls(frozen_at, frozen_by, frozen_why) in (0, 3));
