-- Prices are versions: immutable and dated, so that publishing a new one never changes the past.

-- The time that a transaction decides at: that of its request, or else the database's own.
create function trueup_now() returns timestamptz
    language sql stable
    return coalesce(nullif(current_setting('trueup.now', true), '')::timestamptz, now());

-- The text of an item as a range of one value: ranges have an index for exclusion constraints without
-- an extension.
create type price_key as range (subtype = text, collation = "C");

create table price_versions (
    id          uuid primary key,
    -- `pod:small`, `disk_gib:small`, or a meter.
    item        text not null,
    -- The org that it overrides the list price for; null for the list price itself.
    org_id      uuid references orgs (id),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    -- The first moment it holds, and the first moment it no longer holds.
    valid_from  timestamptz not null,
    valid_until timestamptz check (valid_until > valid_from),
    scheme      jsonb not null,
    created_at  timestamptz not null,
    created_by  text not null,
    constraint price_versions_overlap exclude using gist (
        price_key(item || ' ' || currency || coalesce(' ' || org_id::text, ''),
                  item || ' ' || currency || coalesce(' ' || org_id::text, ''), '[]') with &&,
        tstzrange(valid_from, valid_until) with &&)
);
create index price_versions_by_item on price_versions (item, valid_from);

-- Not even the owner changes a version, except for its end, once.
create function keep_price_version() returns trigger
    language plpgsql
as $$
begin
    if tg_op = 'UPDATE' then
        if old.valid_until is null and new.valid_until is not null
           and to_jsonb(new) - 'valid_until' = to_jsonb(old) - 'valid_until' then
            return new;
        end if;
    end if;
    raise exception 'a price version never changes; only its end can be set, once'
        using errcode = 'restrict_violation';
end $$;
create trigger price_versions_are_kept before update or delete on price_versions
    for each row execute function keep_price_version();

alter table price_versions enable row level security;
alter table price_versions force row level security;
create policy owner_all on price_versions to trueup_owner using (true) with check (true);
create policy worker_all on price_versions to trueup_worker using (true) with check (true);
-- Every tenant reads the list prices and its own ones, and only a transaction of the platform writes.
create policy app_read on price_versions for select to trueup_app
    using (org_id is null or org_id = trueup_org());
create policy app_publish on price_versions for insert to trueup_app
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
create policy app_end on price_versions for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');
grant select, insert, update (valid_until) on price_versions to trueup_app;
grant select on price_versions to trueup_worker;

-- The price that each plan has today. When it began is not known: former prices were overwritten. So it
-- holds from the epoch, and all usage that was ever recorded has a price.
insert into price_versions (id, item, currency, valid_from, scheme, created_at, created_by)
select gen_random_uuid(), price.item, p.body #>> '{hourly,currency}', 'epoch'::timestamptz,
       jsonb_build_object(
           'charge', jsonb_build_object('by', 'per_unit', 'micros', price.micros, 'per', 3600),
           'included_units', 0, 'minimum_micros', 0),
       now(), 'Trueup'
from plans p
cross join lateral (values
    ('pod:' || p.name, (p.body #>> '{hourly,micros}')::bigint),
    ('disk_gib:' || p.name, coalesce((p.body ->> 'disk_gib_hourly_micros')::bigint, 0))
) price (item, micros);

-- A plan's body keeps everything but its price.
alter table plans rename to plan_bodies;
alter index plans_pkey rename to plan_bodies_pkey;
update plan_bodies set body = body - 'hourly' - 'disk_gib_hourly_micros';

-- Plans with the list price that holds. A plan has a price from its creation on without a hole; a clock
-- that is behind that of the creation finds the first one. The prices of plans are per hour.
create view plans with (security_invoker = true) as
select b.name,
       b.body || jsonb_build_object(
           'hourly', jsonb_build_object('micros', pod.micros, 'currency', pod.currency),
           'disk_gib_hourly_micros', disk.micros) as body,
       b.retired
from plan_bodies b
left join lateral (
    select v.currency, (v.scheme #>> '{charge,micros}')::bigint as micros
    from price_versions v where v.item = 'pod:' || b.name and v.org_id is null
    order by v.valid_from <= trueup_now() desc,
             abs(extract(epoch from v.valid_from - trueup_now())) limit 1
) pod on true
left join lateral (
    select (v.scheme #>> '{charge,micros}')::bigint as micros
    from price_versions v where v.item = 'disk_gib:' || b.name and v.org_id is null
    order by v.valid_from <= trueup_now() desc,
             abs(extract(epoch from v.valid_from - trueup_now())) limit 1
) disk on true;
grant select on plans to trueup_app, trueup_worker;

-- The price version of a pod that a release was accepted under. Null without a plan, and where the
-- release is older than the versions. No foreign key: it would look past row-level security.
alter table releases add column price_version uuid;
