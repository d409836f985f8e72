-- Where the capacity of each cluster went, by day in UTC: computed from stored usage and kept, so that
-- a day on which more was used than existed is found and stays visible.
create table capacity_days (
    cluster_id      uuid not null references clusters (id),
    day             date not null,
    meter           text not null,
    -- In millionths of the meter's unit.
    capacity        numeric not null check (capacity >= 0),
    delivered       numeric not null check (delivered >= 0),
    under_delivered numeric not null check (under_delivered >= 0),
    orphan          numeric not null check (orphan >= 0),
    gap             numeric not null check (gap >= 0),
    -- How far the sources were heard. Before the end of the day, it is not complete.
    known_until     timestamptz not null,
    computed_at     timestamptz not null,
    primary key (cluster_id, day, meter)
);

-- What the unsold part of it would have cost at list prices.
create table capacity_costs (
    cluster_id  uuid not null references clusters (id),
    day         date not null,
    why         text not null check (why in ('orphan', 'gap', 'under_delivered')),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    micros      bigint not null,
    primary key (cluster_id, day, why, currency)
);

-- Days are computed again when usage in them was recorded or corrected.
create index usage_intervals_changed on usage_intervals (cluster_id, (greatest(recorded_at, superseded_at)));

do $$
declare t text;
begin
    foreach t in array array['capacity_days', 'capacity_costs'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
        -- It is about all orgs, so only a transaction of the platform reads it.
        execute format('create policy app_platform on %I for select to trueup_app using (trueup_org() = ''00000000-0000-0000-0000-000000000000'')', t);
    end loop;
end $$;
grant select on capacity_days, capacity_costs to trueup_app;
grant select, insert, update on capacity_days to trueup_worker;
grant select, insert, update, delete on capacity_costs to trueup_worker;
