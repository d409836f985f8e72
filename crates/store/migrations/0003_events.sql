-- Events: what caused them, and a chain of hashes over their order. The hashes of events that were
-- sealed before are computed right after this migration, by the program: see `backfill.rs`.

alter table events add column cause uuid;

-- With which event somebody asked for a generation of a unit: the cause of what follows.
create index events_asked on events (unit_id, generation) where source = 'user';

-- What readers filter by is kept beside the position, so that a filter never visits what it leaves out.
alter table event_seals
    add column type       text,
    add column generation bigint,
    add column hash       bytea,
    add column sealed_at  timestamptz;
update event_seals s set type = e.type, generation = e.generation from events e where e.id = s.event_id;
-- A sealer of an older version must not go on: its seals would have no hash.
alter table event_seals
    alter column type set not null,
    alter column generation set not null,
    add constraint event_seals_hash_check check (length(hash) = 32),
    add constraint event_seals_event_key unique (event_id);
create index event_seals_by_type on event_seals (org_id, type, position);
