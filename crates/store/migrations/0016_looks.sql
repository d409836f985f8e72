-- Trueup looks into DNS for the proof of a host by itself, soon after somebody asked and then less and less.

alter table domains
    -- When somebody last asked for the proof to be looked for, and how many looks began since.
    add column asked_at     timestamptz,
    add column looks        integer not null default 0,
    -- When the next look is due. None: nobody looks until somebody asks.
    add column look_at      timestamptz,
    -- When the last look began.
    add column tried_at     timestamptz,
    -- What the last look saw that ended, and did not prove it.
    add column looked_at    timestamptz,
    add column saw          text check (saw in ('nothing', 'other_texts', 'doubt')),
    add column saw_why      text,
    -- When the operator took the proof back. The text of this domain proves nothing since.
    add column withdrawn_at timestamptz,
    add check ((looked_at is null) = (saw is null) and (looked_at is null) = (saw_why is null));
create index domains_due on domains (look_at)
    where look_at is not null and verified_at is null and deleted_at is null;

update domains d set withdrawn_at = w.at
    from (select e.org_id, e.unit_id, e.body ->> 'host' as host, max(e.at) as at from events e
          where e.type = 'DomainVerified' and e.body ->> 'verified' = 'false' group by 1, 2, 3) w
    where w.org_id = d.org_id and w.unit_id = d.service_id and w.host = d.host
      and w.at >= d.created_at and d.verified_at is null;
update domains set asked_at = now(), look_at = now()
    where verified_at is null and deleted_at is null and withdrawn_at is null;

grant update (looks, look_at, tried_at, looked_at, saw, saw_why) on domains to trueup_worker;

-- What Trueup changes by itself is the cause of what follows, like what somebody asked for.
drop index events_asked;
create index events_asked on events (unit_id, generation) where source in ('user', 'system');
