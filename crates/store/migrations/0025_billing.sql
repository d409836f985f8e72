-- Usage: what pods and disks used, derived from their transitions. A row that grows is not rewritten
-- while nothing changes: it reaches as far as the sources of its cluster were heard.

-- A text as a range of one value, so that an exclusion constraint needs no extension.
create type usage_key as range (subtype = text, collation = "C");

create table usage_intervals (
    id             uuid primary key,
    org_id         uuid not null references orgs (id),
    project_id     uuid,
    -- Null for an object without a service.
    service_id     uuid,
    cluster_id     uuid not null references clusters (id),
    object         text not null,
    -- Where it was observed: pods, claims or traffic.
    source         text not null,
    plan           text,
    -- The quantity of each meter: {"pod_seconds": {"per_second": 1}}.
    quantities     jsonb not null,
    starts_at      timestamptz not null,
    ends_at        timestamptz not null check (ends_at >= starts_at),
    -- Whether later evidence may change it, and whether contact alone extends it.
    open           boolean not null,
    growing        boolean not null check (open or not growing),
    delivery       text not null,
    basis          text not null,
    simulated      boolean not null,
    first_evidence jsonb not null,
    last_evidence  jsonb not null,
    late           boolean not null,
    skewed         boolean not null,
    recorded_at    timestamptz not null,
    -- When a correction replaced it. It stays as evidence of what was charged before.
    superseded_at  timestamptz,
    constraint usage_intervals_overlap exclude using gist (
        usage_key(cluster_id::text || ' ' || source || ' ' || object,
                  cluster_id::text || ' ' || source || ' ' || object, '[]') with &&,
        tstzrange(starts_at, case when growing then null else ends_at end) with &&)
        where (superseded_at is null) deferrable initially deferred
);
create index usage_intervals_by_org on usage_intervals (org_id, ends_at) where superseded_at is null;
create index usage_intervals_growing on usage_intervals (org_id) where superseded_at is null and growing;
create index usage_intervals_by_object on usage_intervals (cluster_id, object) where superseded_at is null;
create index usage_intervals_by_service on usage_intervals (service_id) where superseded_at is null;

-- Not even the owner changes a closed interval, except to say that a correction replaced it.
create function keep_usage_interval() returns trigger
    language plpgsql
as $$
begin
    if tg_op = 'UPDATE' then
        if old.superseded_at is null
           and (old.open or to_jsonb(new) - 'superseded_at' = to_jsonb(old) - 'superseded_at') then
            return new;
        end if;
    end if;
    raise exception 'a closed usage interval never changes; it can only be superseded'
        using errcode = 'restrict_violation';
end $$;
create trigger usage_intervals_are_kept before update or delete on usage_intervals
    for each row execute function keep_usage_interval();

-- Times in which an object may have existed, and was not observed: rows, never zeros.
create table usage_gaps (
    id            uuid primary key,
    org_id        uuid not null references orgs (id),
    service_id    uuid,
    cluster_id    uuid not null references clusters (id),
    object        text not null,
    source        text not null,
    starts_at     timestamptz not null,
    ends_at       timestamptz not null check (ends_at > starts_at),
    gap           jsonb not null,
    recorded_at   timestamptz not null,
    superseded_at timestamptz
);
create unique index usage_gaps_by_object on usage_gaps (cluster_id, object, source) where superseded_at is null;
create index usage_gaps_by_org on usage_gaps (org_id, ends_at) where superseded_at is null;

-- How far each source of a cluster was heard **and recorded**. One row for all of its objects.
create table usage_watermarks (
    cluster_id uuid not null references clusters (id),
    source     text not null,
    seen_at    timestamptz not null,
    observer   text not null,
    epoch      bigint not null,
    primary key (cluster_id, source)
);

-- What has to be metered again: an object with new transitions, a node that changed, a service with a new
-- release. Marks of the same thing are one row; a mark that is set again while it is worked on stays.
create table usage_marks (
    cluster_id uuid not null references clusters (id),
    kind       text not null check (kind in ('object', 'node', 'service')),
    key        text not null,
    -- Since when something may have changed.
    since      timestamptz not null,
    seq        bigint not null default 1,
    primary key (cluster_id, kind, key)
);

-- The pods that were on a node, and the changes of nodes.
create index transitions_by_node on transitions (cluster_id, (detail ->> 'node')) where what = 'scheduled';
create index transitions_of_nodes on transitions (cluster_id, id) where kind = 'Node';

-- A release may change the plan of existing objects. A trigger, so that no writer of releases can forget it.
create function mark_release() returns trigger
    language plpgsql security definer set search_path = pg_catalog, public
as $$
begin
    insert into usage_marks (cluster_id, kind, key, since)
    select s.cluster_id, 'service', new.service_id::text, new.accepted_at from services s where s.id = new.service_id
    on conflict (cluster_id, kind, key) do update
        set seq = usage_marks.seq + 1, since = least(usage_marks.since, excluded.since);
    return null;
end $$;
-- The first release of a service has no objects yet.
create trigger releases_are_metered after insert on releases
    for each row when (new.generation > 1) execute function mark_release();
revoke execute on function mark_release from public;

do $$
declare t text;
begin
    foreach t in array array['usage_intervals', 'usage_gaps', 'usage_watermarks', 'usage_marks'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
    foreach t in array array['usage_intervals', 'usage_gaps'] loop
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
    end loop;
end $$;
create policy app_read on usage_watermarks for select to trueup_app using (true);
grant select on usage_intervals, usage_gaps, usage_watermarks to trueup_app;
grant select, insert on usage_intervals, usage_gaps to trueup_worker;
grant update on usage_intervals to trueup_worker;
grant update (superseded_at) on usage_gaps to trueup_worker;
grant select, insert, update on usage_watermarks to trueup_worker;
grant select, insert, update, delete on usage_marks to trueup_worker;

-- Everything that was recorded before is metered once.
insert into usage_marks (cluster_id, kind, key, since)
select distinct cluster_id, 'object', uid, 'epoch'::timestamptz from transitions
where kind in ('Pod', 'PersistentVolumeClaim')
on conflict do nothing;

-- The ledger: double entry in millionths of a currency, append-only, a sequence without holes for each org.

-- How an org is billed. An org without a row has the defaults.
create table billing_accounts (
    org_id     uuid primary key references orgs (id),
    currency   text not null check (currency ~ '^[A-Z]{3}$'),
    -- An IANA name; billing periods are calendar months in it.
    time_zone  text not null,
    -- The tax on invoices, in millionths: 190000 is 19 %.
    tax_ppm    integer not null default 0 check (tax_ppm between 0 and 1000000),
    -- Who pays, as printed on invoices.
    legal_name text not null default '',
    address    text not null default '',
    changed_at timestamptz not null
);

-- The end of each org's ledger. Its lock orders the writers.
create table ledger_heads (
    org_id     uuid primary key references orgs (id),
    seq        bigint not null default 0,
    -- When usage was last posted, and how far the sources of each cluster were heard by then.
    accrued_at timestamptz,
    heard      jsonb,
    -- How many invoices and credit notes there are: their numbers have no holes.
    invoices   bigint not null default 0
);

create table ledger_entries (
    org_id       uuid not null references orgs (id),
    seq          bigint not null check (seq > 0),
    -- The hash that makes it unique: two processes that post the same step compute the same one.
    key          bytea not null unique check (length(key) = 32),
    kind         text not null check (kind in ('usage', 'credit', 'invoice', 'payment')),
    -- The line it is about, and the hash of that line's identity; null if it is not about usage.
    line         jsonb,
    line_key     bytea,
    period_from  timestamptz,
    period_until timestamptz,
    evidence     bytea not null check (length(evidence) = 32),
    -- How much usage it adds, in millionths of the meter's unit.
    quantity     numeric not null default 0,
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    -- What it is about, such as the number of an invoice.
    reference    text,
    posted_at    timestamptz not null,
    primary key (org_id, seq),
    check ((kind = 'usage') = (line is not null and line_key is not null and period_from is not null))
);
create index ledger_entries_by_period on ledger_entries (org_id, period_from) where kind = 'usage';

create table ledger_postings (
    org_id     uuid not null,
    seq        bigint not null,
    place      integer not null,
    account    text not null,
    service_id uuid,
    -- A debit if it is positive.
    micros     bigint not null check (micros <> 0),
    primary key (org_id, seq, place),
    foreign key (org_id, seq) references ledger_entries (org_id, seq)
);
create index ledger_postings_by_account on ledger_postings (org_id, account);

-- Every statement that adds postings leaves each entry balanced.
create function check_postings() returns trigger
    language plpgsql
as $$
declare wrong record;
begin
    select p.org_id, p.seq, sum(p.micros) as total into wrong
    from ledger_postings p join (select distinct org_id, seq from added) a on a.org_id = p.org_id and a.seq = p.seq
    group by p.org_id, p.seq having sum(p.micros) <> 0 limit 1;
    if found then
        raise exception 'ledger entry % of org % sums to %, not to zero', wrong.seq, wrong.org_id, wrong.total
            using errcode = 'check_violation';
    end if;
    return null;
end $$;
create trigger postings_are_balanced after insert on ledger_postings
    referencing new table as added for each statement execute function check_postings();

-- At its commit, an entry has postings and follows the one before.
create function check_entry() returns trigger
    language plpgsql
as $$
begin
    if not exists (select from ledger_postings p where p.org_id = new.org_id and p.seq = new.seq) then
        raise exception 'ledger entry % has no postings', new.seq using errcode = 'check_violation';
    end if;
    if new.seq > 1 and not exists (select from ledger_entries e where e.org_id = new.org_id and e.seq = new.seq - 1) then
        raise exception 'ledger entry % leaves a hole', new.seq using errcode = 'check_violation';
    end if;
    return null;
end $$;
create constraint trigger entries_are_complete after insert on ledger_entries
    deferrable initially deferred for each row execute function check_entry();

-- Not even the owner changes the ledger.
create function keep_ledger() returns trigger
    language plpgsql
as $$
begin
    raise exception 'the ledger is append-only; post a correction' using errcode = 'restrict_violation';
end $$;
create trigger entries_are_kept before update or delete or truncate on ledger_entries
    for each statement execute function keep_ledger();
create trigger postings_are_kept before update or delete or truncate on ledger_postings
    for each statement execute function keep_ledger();

-- Invoices: issued once, then only paid or voided. The document is what was sent, to the byte.
create table invoices (
    id           uuid primary key,
    org_id       uuid not null references orgs (id),
    number       text not null,
    state        text not null check (state in ('issued', 'paid', 'void')),
    period_from  timestamptz not null,
    period_until timestamptz not null,
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    -- What is left to pay after credit.
    due_micros   bigint not null,
    document     text not null,
    hash         bytea not null check (length(hash) = 32),
    issued_at    timestamptz not null,
    due_at       timestamptz not null,
    paid_at      timestamptz,
    voided_at    timestamptz,
    -- Why it was voided, or how it was paid.
    reason       text,
    unique (org_id, number),
    unique (org_id, id),
    check ((state = 'paid') = (paid_at is not null) and (state = 'void') = (voided_at is not null))
);
create index invoices_by_org on invoices (org_id, id);

-- Which entries of usage are on which invoice. Those of a void invoice are invoiced again.
create table invoice_entries (
    org_id     uuid not null,
    seq        bigint not null,
    invoice_id uuid not null,
    released   boolean not null default false,
    primary key (invoice_id, seq),
    foreign key (org_id, invoice_id) references invoices (org_id, id),
    foreign key (org_id, seq) references ledger_entries (org_id, seq)
);
create unique index invoice_entries_once on invoice_entries (org_id, seq) where not released;

create function keep_invoice() returns trigger
    language plpgsql
as $$
begin
    if tg_op = 'UPDATE' then
        if old.state = 'issued' and new.state <> 'issued'
           and to_jsonb(new) - 'state' - 'paid_at' - 'voided_at' - 'reason'
             = to_jsonb(old) - 'state' - 'paid_at' - 'voided_at' - 'reason' then
            return new;
        end if;
    end if;
    raise exception 'an invoice never changes; it can only be paid or voided, once'
        using errcode = 'restrict_violation';
end $$;
create trigger invoices_are_kept before update or delete on invoices
    for each row execute function keep_invoice();

-- Credit that an org was granted. What was granted never changes; it is used in the order of its end.
create table credits (
    id             uuid primary key,
    org_id         uuid not null references orgs (id),
    granted_micros bigint not null check (granted_micros > 0),
    used_micros    bigint not null default 0 check (used_micros >= 0),
    expired_micros bigint not null default 0 check (expired_micros >= 0),
    currency       text not null check (currency ~ '^[A-Z]{3}$'),
    reason         text not null,
    expires_at     timestamptz,
    granted_at     timestamptz not null,
    granted_by     text not null,
    unique (org_id, id),
    check (used_micros + expired_micros <= granted_micros)
);
create index credits_by_org on credits (org_id, id);

-- Which credit paid which part of an invoice, so that a void invoice gives it back.
create table invoice_credits (
    org_id     uuid not null,
    invoice_id uuid not null,
    credit_id  uuid not null,
    micros     bigint not null check (micros > 0),
    primary key (invoice_id, credit_id),
    foreign key (org_id, invoice_id) references invoices (org_id, id),
    foreign key (org_id, credit_id) references credits (org_id, id)
);

-- How much an org may spend in a billing period, and what happens then.
create table budgets (
    org_id       uuid primary key references orgs (id),
    -- Null after it was removed.
    limit_micros bigint check (limit_micros > 0),
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    at_limit     text not null check (at_limit in ('warn', 'refuse', 'pause')),
    -- What was posted in the billing period that began then, and the highest threshold it reached.
    period_from  timestamptz not null,
    spent_micros bigint not null default 0,
    reached      integer not null default 0,
    changed_at   timestamptz not null
);

-- What a service costs per hour as it was accepted, so that a budget can hold it until the end of the period.
alter table reservations add column hourly_micros bigint not null default 0;

do $$
declare t text;
begin
    foreach t in array array['billing_accounts', 'ledger_heads', 'ledger_entries', 'ledger_postings',
                             'invoices', 'invoice_entries', 'credits', 'invoice_credits',
                             'budgets'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
    end loop;
end $$;
grant select, insert, update on billing_accounts to trueup_app;
grant select, insert, update on budgets to trueup_app;
grant select, update on budgets to trueup_worker;
grant select on billing_accounts to trueup_worker;
grant select, insert, update on ledger_heads to trueup_app, trueup_worker;
grant select, insert on ledger_entries, ledger_postings to trueup_app, trueup_worker;
grant select, insert on invoices, invoice_entries, credits, invoice_credits to trueup_app, trueup_worker;
grant update (state, paid_at, voided_at, reason) on invoices to trueup_app, trueup_worker;
grant update (released) on invoice_entries to trueup_app, trueup_worker;
grant update (used_micros, expired_micros) on credits to trueup_app, trueup_worker;
