-- The deletion of an org: requested once, and never withdrawn. The row stays, with its events and receipts.

-- When the deletion was requested. From then on no project is accepted in the org.
alter table orgs add column deleting_at timestamptz;

-- Also needed to lock the row; an org is deleted by a transaction in its own name.
create policy app_delete on orgs for update to trueup_app
    using (id = trueup_org()) with check (id = trueup_org());
grant update (deleting_at) on orgs to trueup_app;
