-- The end of a project: promised, proved, and its name free again.

alter table projects
    add column desired     text not null default 'active' check (desired in ('active', 'deleted')),
    -- When its end was asked for.
    add column deleting_at timestamptz,
    -- When it was verified to be gone. The row stays.
    add column deleted_at  timestamptz,
    add constraint projects_deleting_check check ((desired = 'deleted') = (deleting_at is not null)),
    add constraint projects_deleted_check check (deleted_at is null or desired = 'deleted');

-- A name is free again once its project is verified to be gone.
alter table projects drop constraint projects_name_key;
create unique index projects_name_key on projects (org_id, name) where deleted_at is null;

grant update (desired, deleting_at, generation) on projects to trueup_app;
grant update (deleted_at) on projects to trueup_worker;

create table project_receipts (
    project_id  uuid primary key,
    org_id      uuid not null,
    receipt     jsonb not null,
    verified_at timestamptz not null,
    foreign key (org_id, project_id) references projects (org_id, id)
);
alter table project_receipts enable row level security;
alter table project_receipts force row level security;
create policy owner_all on project_receipts to trueup_owner using (true) with check (true);
create policy app_read on project_receipts for select to trueup_app using (org_id = trueup_org());
create policy worker_all on project_receipts to trueup_worker using (true) with check (true);
grant select on project_receipts to trueup_app;
grant select, insert on project_receipts to trueup_worker;
