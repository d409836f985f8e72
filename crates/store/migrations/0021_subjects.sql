-- Subjects and scopes (docs/adr/0046): events, wakes, statuses and receipts are about a subject, which need
-- not be a project or a service; work and its leases have a scope, which need not be a cluster.

alter table events rename column unit_kind to subject_kind;
alter table events rename column unit_id to subject_id;
alter table event_queue rename column unit_id to subject_id;
alter table event_seals rename column unit_id to subject_id;
alter index event_seals_by_unit rename to event_seals_by_subject;
alter table statuses rename column unit_kind to subject_kind;
alter table statuses rename column unit_id to subject_id;
alter table resources rename column unit_kind to subject_kind;
alter table resources rename column unit_id to subject_id;
alter index resources_by_unit rename to resources_by_subject;

alter table wakes rename column unit_kind to subject_kind;
alter table wakes rename column unit_id to subject_id;
alter table wakes drop constraint wakes_unit_kind_check;
alter table wakes rename column cluster_id to scope_id;
alter table wakes add column scope_kind text not null default 'cluster'
    check (scope_kind in ('cluster', 'engine', 'site', 'platform'));
alter table wakes alter column scope_kind drop default;

alter table lease_heartbeats drop constraint lease_heartbeats_cluster_id_fkey;
alter table lease_heartbeats drop constraint lease_heartbeats_pkey;
alter table leases drop constraint leases_cluster_id_fkey;
alter table leases drop constraint leases_pkey;
alter table leases rename column cluster_id to scope_id;
alter table leases add column scope_kind text not null default 'cluster'
    check (scope_kind in ('cluster', 'engine', 'site', 'platform'));
alter table leases alter column scope_kind drop default;
alter table leases add primary key (scope_kind, scope_id);
alter table lease_heartbeats rename column cluster_id to scope_id;
alter table lease_heartbeats add column scope_kind text not null default 'cluster';
alter table lease_heartbeats alter column scope_kind drop default;
alter table lease_heartbeats add primary key (scope_kind, scope_id);
alter table lease_heartbeats add constraint lease_heartbeats_lease
    foreign key (scope_kind, scope_id) references leases (scope_kind, scope_id);

-- One table of receipts. A receipt outlives what it is about, so nothing is referenced.
alter table receipts drop constraint receipts_org_id_service_id_fkey;
alter table receipts drop constraint receipts_pkey;
alter table receipts rename column service_id to subject_id;
alter table receipts add column subject_kind text not null default 'service';
alter table receipts alter column subject_kind drop default;
alter table receipts add primary key (subject_kind, subject_id);
insert into receipts (subject_kind, subject_id, org_id, receipt, verified_at)
    select 'project', project_id, org_id, receipt, verified_at from project_receipts;
drop table project_receipts;

-- Events name principals by id; readers ask for the names, which can be erased. Of operators, who belong to
-- the platform, every org may know the name.
create function principal_names(ids uuid[]) returns table (id uuid, name text)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.name from tokens t
        where t.id = any(ids) and t.org_id in (trueup_org(), '00000000-0000-0000-0000-000000000000');
    end;
revoke execute on function principal_names from public;
grant execute on function principal_names to trueup_app;
