-- Several processes on one database. What a holder of a lease has written down it may hear of too late: it
-- tells the same batch again, and this says that it is known.

create table settle_marks (
    cluster_id uuid primary key references clusters (id),
    epoch      bigint not null,
    -- Counts up from one within an epoch.
    batch      bigint not null
);
alter table settle_marks enable row level security;
alter table settle_marks force row level security;
create policy owner_all on settle_marks to trueup_owner using (true) with check (true);
create policy worker_all on settle_marks to trueup_worker using (true) with check (true);
grant select, insert, update on settle_marks to trueup_worker;
