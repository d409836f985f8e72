-- Raw transitions of pods, disks and nodes: appended as they are seen, never changed, a partition for
-- each month. Bills are computed from them.

create table transitions (
    id               uuid not null,
    org_id           uuid not null,
    service_id       uuid,
    cluster_id       uuid not null,
    kind             text not null,
    uid              text not null,
    namespace        text not null,
    name             text not null,
    what             text not null,
    container        text,
    detail           jsonb,
    -- When, by Kubernetes' own stamp; then when it was seen; and, where it happened unseen, since when
    -- it may have.
    at               timestamptz,
    seen_at          timestamptz not null,
    after            timestamptz,
    resource_version text not null,
    observer         text not null,
    epoch            bigint not null,
    -- No foreign key: attaching a partition with one would lock the services. Org and service come
    -- from one head, which has it.
    primary key (id, seen_at)
) partition by range (seen_at);
create index transitions_by_uid on transitions (cluster_id, uid, what);
create index transitions_by_service on transitions (service_id, id);

-- What is known of each incarnation that is there: the end of its series. A sight that says the same
-- writes nothing.
create table transition_heads (
    cluster_id uuid not null references clusters (id),
    uid        text not null,
    org_id     uuid not null,
    service_id uuid,
    kind       text not null,
    namespace  text not null,
    name       text not null,
    level      jsonb not null,
    seen_at    timestamptz not null,
    primary key (cluster_id, uid),
    foreign key (org_id, service_id) references services (org_id, id)
);
create index transition_heads_by_kind on transition_heads (cluster_id, kind);

-- When nobody watched a kind. It is about all objects of the kind, so it belongs to no org.
create table watch_gaps (
    id         uuid primary key,
    cluster_id uuid not null references clusters (id),
    kind       text not null,
    -- Unknown where nobody had watched before.
    from_at    timestamptz,
    until_at   timestamptz not null,
    observer   text not null,
    epoch      bigint not null
);
create index watch_gaps_by_kind on watch_gaps (cluster_id, kind, until_at);

-- When each kind was last heard, by its name: one value for a whole cluster.
alter table clusters add column watches jsonb not null default '{}';
grant update (watches) on clusters to trueup_worker;

do $$
declare t text;
begin
    foreach t in array array['transitions', 'transition_heads', 'watch_gaps'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
    foreach t in array array['transitions', 'transition_heads'] loop
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
    end loop;
end $$;
create policy app_read on watch_gaps for select to trueup_app using (true);

grant select on transitions, watch_gaps to trueup_app;
grant select, insert on transitions, watch_gaps to trueup_worker;
grant select, insert, update, delete on transition_heads to trueup_worker;

-- Makes the partitions from one month to two after another, where they are missing. Loops own
-- nothing, so this is done for them. Attaching takes no lock that a reader or a writer would wait
-- for, and nobody but the owner reaches a partition except through its parent.
create function make_transition_partitions(earliest timestamptz, latest timestamptz) returns void
    language plpgsql security definer set search_path = pg_catalog, public
as $$
declare
    month timestamp := date_trunc('month', earliest at time zone 'utc');
    last  timestamp := date_trunc('month', latest at time zone 'utc') + interval '2 months';
    part  text;
begin
    while month <= last loop
        part := 'transitions_' || to_char(month, 'YYYY_MM');
        if to_regclass('public.' || part) is null then
            perform pg_advisory_xact_lock(hashtext('make_transition_partitions'));
            -- Read from the table itself: what is looked up by name may still be remembered as missing.
            if not exists (select from pg_class c where c.relname = part and c.relnamespace = 'public'::regnamespace) then
                execute format('create table public.%I (like public.transitions including defaults including constraints)', part);
                execute format('alter table public.%I enable row level security', part);
                execute format('alter table public.%I force row level security', part);
                execute format('create policy owner_all on public.%I to trueup_owner using (true) with check (true)', part);
                execute format('alter table public.transitions attach partition public.%I for values from (%L) to (%L)',
                    part, month at time zone 'utc', (month + interval '1 month') at time zone 'utc');
            end if;
        end if;
        month := month + interval '1 month';
    end loop;
end $$;
revoke execute on function make_transition_partitions from public;
grant execute on function make_transition_partitions to trueup_worker;
