-- Roles in single projects, and a second wall: beside its org, a transaction names the projects that it sees.

-- A transaction sees either the whole org (`*`) or these projects, and nothing when it says neither: a forgotten
-- setting is an empty answer and not a leak.
create function trueup_whole_org() returns boolean
    language sql stable
    return current_setting('trueup.projects', true) = '*';
create function trueup_projects() returns uuid[]
    language sql stable
    return nullif(nullif(current_setting('trueup.projects', true), '*'), '')::uuid[];

-- The role of a principal in one project, besides its role in the org.
create table role_bindings (
    principal_id uuid not null,
    project_id   uuid not null,
    org_id       uuid not null references orgs (id),
    role         text not null check (role in ('viewer', 'developer', 'admin')),
    created_at   timestamptz not null,
    removed_at   timestamptz,
    foreign key (org_id, project_id) references projects (org_id, id)
);
-- A principal has one role in a project at a time.
create unique index role_bindings_current on role_bindings (principal_id, project_id) where removed_at is null;
create index role_bindings_of_org on role_bindings (org_id) where removed_at is null;

-- Belongs to the org, and may do there what their roles in projects say.
alter table memberships drop constraint memberships_role_of_org,
    add constraint memberships_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             else role in ('member', 'viewer', 'billing', 'developer', 'admin', 'owner') end);
alter table invitations add column project_id uuid,
    drop constraint invitations_role_of_org,
    add constraint invitations_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             when project_id is not null then role in ('viewer', 'developer', 'admin')
             else role in ('member', 'viewer', 'billing', 'developer', 'admin', 'owner') end),
    add constraint invitations_project foreign key (org_id, project_id) references projects (org_id, id);
-- The only project that a token reaches.
alter table tokens add column project_id uuid,
    drop constraint tokens_role_of_org,
    add constraint tokens_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             when project_id is not null then role in ('viewer', 'developer', 'admin')
             else role in ('member', 'viewer', 'billing', 'developer', 'admin', 'owner') end),
    add constraint tokens_project foreign key (org_id, project_id) references projects (org_id, id);
grant select (project_id) on tokens to trueup_app;
grant select (project_id) on invitations to trueup_app;

alter table role_bindings enable row level security;
alter table role_bindings force row level security;
create policy owner_all on role_bindings to trueup_owner using (true) with check (true);
create policy app_org on role_bindings to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org());
grant select, insert, update (role, removed_at) on role_bindings to trueup_app;

-- The second wall. Each policy is restrictive: it takes away from what the wall around the org lets through.
-- The settings are read once for each statement.
create policy app_project on projects as restrictive to trueup_app
    using ((select trueup_whole_org()) or id = any((select trueup_projects())::uuid[]));
do $$
declare t text;
begin
    foreach t in array array['services', 'variables', 'secrets', 'preview_requests', 'divergences', 'conflicts',
                             'usage_intervals', 'role_bindings'] loop
        execute format('create policy app_project on %I as restrictive to trueup_app
            using ((select trueup_whole_org()) or project_id = any((select trueup_projects())::uuid[]))', t);
    end loop;
    -- A service is looked up behind the wall itself.
    foreach t in array array['releases', 'endpoints', 'domains', 'transitions', 'transition_heads', 'usage_gaps'] loop
        execute format('create policy app_project on %I as restrictive to trueup_app
            using ((select trueup_whole_org()) or exists (select from services s where s.id = service_id))', t);
    end loop;
    foreach t in array array['resources', 'statuses', 'receipts'] loop
        execute format('create policy app_project on %I as restrictive to trueup_app
            using ((select trueup_whole_org()) or subject_id = any((select trueup_projects())::uuid[])
                   or exists (select from services s where s.id = subject_id))', t);
    end loop;
    -- What a request records may be about the org; it is read by those who see the whole org.
    foreach t in array array['events', 'event_queue', 'event_seals'] loop
        execute format('create policy app_project on %I as restrictive for select to trueup_app
            using ((select trueup_whole_org()) or subject_id = any((select trueup_projects())::uuid[])
                   or exists (select from services s where s.id = subject_id))', t);
    end loop;
end $$;

-- Looks over the wall around names, not over the projects.
create or replace function search_services(wanted text, most integer) returns setof uuid
    language plpgsql stable security definer set search_path = pg_catalog, public
    as $$
begin
    -- Executed and not planned once: only a plan that knows the text knows how few names hold it.
    return query execute
        'select s.id from public.services s
         where s.org_id = public.trueup_org() and s.deleted_at is null and s.name like $1
           and ((select public.trueup_whole_org()) or s.project_id = any((select public.trueup_projects())::uuid[]))
         limit $2'
        using '%' || regexp_replace(wanted, '([\\%_])', '\\\1', 'g') || '%', most;
end $$;

-- The roles of a principal in single projects. A deleted project has no name: it is found by its id alone.
create function roles_in_projects(wanted uuid, of_org uuid) returns jsonb
    language sql stable
    return (select coalesce(jsonb_agg(jsonb_build_object(
                'project', b.project_id, 'role', b.role,
                'name', case when p.deleted_at is null then p.name end) order by b.project_id), '[]')
            from role_bindings b join projects p on p.id = b.project_id
            where b.principal_id = wanted and b.org_id = of_org and b.removed_at is null);
revoke execute on function roles_in_projects from public;
-- The same for the role of a token that reaches one project.
create function role_in_project(wanted uuid, of_role text) returns jsonb
    language sql stable
    return (select coalesce(jsonb_agg(jsonb_build_object(
                'project', p.id, 'role', of_role,
                'name', case when p.deleted_at is null then p.name end)), '[]')
            from projects p where p.id = wanted);
revoke execute on function role_in_project from public;

drop function live_credential;
drop function authenticate;
create function authenticate(token_hash bytea, now timestamptz)
    returns table (id uuid, org_id uuid, name text, role text, permissions text[],
                   expires_at timestamptz, used_at timestamptz, projects jsonb)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.org_id, t.name, case when t.project_id is null then t.role else 'member' end,
               t.permissions, t.expires_at, t.used_at, role_in_project(t.project_id, t.role)
        from tokens t
        where t.hash = token_hash and t.revoked_at is null
          and (t.expires_at is null or t.expires_at > now);
    end;
revoke execute on function authenticate from public;
grant execute on function authenticate to trueup_app;

drop function authenticate_session;
create function authenticate_session(session_hash bytea, now timestamptz)
    returns table (session_id uuid, expires_at timestamptz, used_at timestamptz, user_id uuid, token_id uuid,
                   name text, email text, org_id uuid, org_name text, role text, permissions text[],
                   token_expires_at timestamptz, projects jsonb)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select s.id, s.expires_at, s.used_at, u.id, null::uuid, u.name, u.email,
               m.org_id, o.name, m.role, null::text[], null::timestamptz, roles_in_projects(u.id, m.org_id)
        from sessions s join users u on u.id = s.user_id
        join memberships m on m.user_id = u.id and m.removed_at is null
        join orgs o on o.id = m.org_id
        where s.hash = session_hash and s.revoked_at is null and s.expires_at > now
          and s.used_at > now - interval '12 hours'
        union all
        select s.id, least(s.expires_at, t.expires_at), s.used_at, null, t.id, t.name, null,
               t.org_id, o.name, case when t.project_id is null then t.role else 'member' end,
               t.permissions, t.expires_at, role_in_project(t.project_id, t.role)
        from sessions s join tokens t on t.id = s.token_id
        join orgs o on o.id = t.org_id
        where s.hash = session_hash and s.revoked_at is null and s.expires_at > now
          and s.used_at > now - interval '12 hours'
          and t.revoked_at is null and (t.expires_at is null or t.expires_at > now)
        order by 9, 8;
    end;
revoke execute on function authenticate_session from public;
grant execute on function authenticate_session to trueup_app;

-- Whether a token, or a session in an org, is valid: what the streams of both ask every second.
create function live_credential(wanted bytea, org uuid, now timestamptz)
    returns table (id uuid, role text, projects jsonb)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.role, t.projects from authenticate(wanted, now) t
        union all
        select s.session_id, s.role, s.projects from authenticate_session(wanted, now) s where s.org_id = org;
    end;
revoke execute on function live_credential from public;
grant execute on function live_credential to trueup_app;

drop function find_invitation;
create function find_invitation(invitation_hash bytea, now timestamptz)
    returns table (id uuid, org_id uuid, org_name text, email text, role text, project_id uuid,
                   inviter_role text, inviter_permissions text[])
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select i.id, i.org_id, o.name, i.email, i.role, i.project_id,
               coalesce(own.role, everywhere.role, case when t.project_id is null then t.role else 'member' end),
               t.permissions
        from invitations i
        join orgs o on o.id = i.org_id and o.deleting_at is null
        left join projects p on p.id = i.project_id
        left join memberships own
            on own.user_id = i.inviter_id and own.org_id = i.org_id and own.removed_at is null
        left join memberships everywhere
            on everywhere.user_id = i.inviter_id and everywhere.removed_at is null
               and everywhere.org_id = '00000000-0000-0000-0000-000000000000'
        left join tokens t
            on t.id = i.inviter_id and t.revoked_at is null and (t.expires_at is null or t.expires_at > now)
        where i.hash = invitation_hash and i.accepted_at is null and i.revoked_at is null and i.expires_at > now
          and p.deleted_at is null;
    end;
revoke execute on function find_invitation from public;
grant execute on function find_invitation to trueup_app;
