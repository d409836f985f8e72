-- Active hours: when a service runs. Outside of them it is paused, through the door like any other change.

alter table services
    -- Null for always.
    add column active_hours  jsonb,
    -- Paused by its hours, and not by a person.
    add column scheduled_off boolean not null default false,
    -- When its hours change something next; null for never.
    add column schedule_at   timestamptz,
    add constraint services_scheduled_off check (not scheduled_off or active_hours is not null);

create index services_by_schedule on services (cluster_id, schedule_at)
    where schedule_at is not null and desired <> 'deleted';

-- The loop sets alarms again after the clock was set back; everything else is written by the door.
grant update (schedule_at) on services to trueup_worker;
