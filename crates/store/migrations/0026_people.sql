-- People: users with passwords, their memberships in orgs, and sessions.
--
-- Users and sessions belong to no tenant: only a transaction of the platform's org sees them. An org sees those of
-- its members' rows that it needs, and no column from which one could sign in.

create table users (
    id            uuid primary key,
    -- In lower case.
    email         text not null constraint users_email_key unique check (email = lower(email)),
    name          text not null,
    -- Argon2id, with its parameters and salt.
    password_hash text not null,
    created_at    timestamptz not null
);

-- The role of a user in an org. The platform's org has operators and auditors.
create table memberships (
    id         uuid primary key,
    org_id     uuid not null references orgs (id),
    user_id    uuid not null references users (id),
    role       text not null,
    created_at timestamptz not null,
    removed_at timestamptz,
    constraint memberships_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             else role in ('viewer', 'billing', 'developer', 'admin', 'owner') end),
    unique (org_id, id)
);
-- A user is a member of an org once at a time.
create unique index memberships_current on memberships (user_id, org_id) where removed_at is null;
create index memberships_of_org on memberships (org_id) where removed_at is null;

-- One sign-in of a browser or of the command line: by a user, or with a token.
create table sessions (
    id         uuid primary key,
    hash       bytea not null constraint sessions_hash_key unique,
    user_id    uuid references users (id),
    token_id   uuid references tokens (id),
    created_at timestamptz not null,
    -- Roughly: written at most once in five minutes. The session ends when it was not used for half a day.
    used_at    timestamptz not null,
    expires_at timestamptz not null,
    revoked_at timestamptz,
    constraint sessions_one_principal check ((user_id is null) <> (token_id is null))
);
create index sessions_of_user on sessions (user_id) where revoked_at is null;

-- Failed sign-ins of the last minutes, by digests of the address, of the client, and of both.
create table sign_in_attempts (
    key      bytea primary key,
    failures integer not null,
    since    timestamptz not null
);

-- A single-use offer of a membership, for one address. Its code is in the mail alone.
create table invitations (
    id          uuid primary key,
    org_id      uuid not null references orgs (id),
    email       text not null check (email = lower(email)),
    role        text not null,
    hash        bytea not null constraint invitations_hash_key unique,
    -- The user or token that invited: its right to do so is checked again when the invitation is accepted.
    inviter_id  uuid not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    accepted_at timestamptz,
    -- Who accepted.
    user_id     uuid references users (id),
    revoked_at  timestamptz,
    constraint invitations_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             else role in ('viewer', 'billing', 'developer', 'admin', 'owner') end),
    constraint invitations_end_once check (accepted_at is null or revoked_at is null)
);
-- One address has one open invitation of an org.
create unique index invitations_open on invitations (org_id, email)
    where accepted_at is null and revoked_at is null;

-- The code that creates the first account of an install without demo data.
create table setup_codes (
    hash       bytea primary key,
    created_at timestamptz not null,
    used_at    timestamptz
);

-- The user that created a token: it ends with their membership.
alter table tokens add column user_id uuid references users (id),
    drop constraint tokens_role_check,
    drop constraint tokens_operators_are_the_platforms,
    add constraint tokens_role_of_org check (
        case when org_id = '00000000-0000-0000-0000-000000000000' then role in ('operator', 'auditor')
             else role in ('viewer', 'billing', 'developer', 'admin', 'owner') end);
grant select (user_id) on tokens to trueup_app;

do $$
declare t text;
begin
    foreach t in array array['users', 'memberships', 'sessions', 'sign_in_attempts', 'invitations',
                             'setup_codes'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
    end loop;
    foreach t in array array['users', 'sessions', 'sign_in_attempts'] loop
        execute format('create policy app_platform on %I to trueup_app
            using (trueup_org() = ''00000000-0000-0000-0000-000000000000'')
            with check (trueup_org() = ''00000000-0000-0000-0000-000000000000'')', t);
    end loop;
end $$;
create policy app_org on memberships to trueup_app
    using (org_id = trueup_org()) with check (org_id = trueup_org());
create policy app_org on invitations to trueup_app
    using (org_id = trueup_org()) with check (org_id = trueup_org());
create policy app_members on users for select to trueup_app
    using (exists (select from memberships m where m.user_id = users.id and m.org_id = trueup_org()));

grant select (id, email, name, created_at), insert on users to trueup_app;
grant select, insert, update (role, removed_at) on memberships to trueup_app;
grant select (id, user_id, token_id, created_at, used_at, expires_at, revoked_at),
      insert, update (used_at, revoked_at) on sessions to trueup_app;
grant select, insert, update on sign_in_attempts to trueup_app;
grant select (id, org_id, email, role, inviter_id, created_at, expires_at, accepted_at, user_id, revoked_at),
      insert, update (accepted_at, user_id, revoked_at) on invitations to trueup_app;

-- Whose password to check, asked before anybody is known; and whether the user has a role anywhere: others cannot
-- sign in, but may accept an invitation.
create function find_login(wanted text) returns table (id uuid, password_hash text, is_member boolean)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select u.id, u.password_hash,
               exists (select from memberships m where m.user_id = u.id and m.removed_at is null)
        from users u where u.email = wanted;
    end;
revoke execute on function find_login from public;
grant execute on function find_login to trueup_app;

-- The open invitation with this code, and the role that its inviter has today: in that org, of the platform, or of
-- the token.
create function find_invitation(invitation_hash bytea, now timestamptz)
    returns table (id uuid, org_id uuid, org_name text, email text, role text,
                   inviter_role text, inviter_permissions text[])
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select i.id, i.org_id, o.name, i.email, i.role, coalesce(own.role, everywhere.role, t.role), t.permissions
        from invitations i
        join orgs o on o.id = i.org_id and o.deleting_at is null
        left join memberships own
            on own.user_id = i.inviter_id and own.org_id = i.org_id and own.removed_at is null
        left join memberships everywhere
            on everywhere.user_id = i.inviter_id and everywhere.removed_at is null
               and everywhere.org_id = '00000000-0000-0000-0000-000000000000'
        left join tokens t
            on t.id = i.inviter_id and t.revoked_at is null and (t.expires_at is null or t.expires_at > now)
        where i.hash = invitation_hash and i.accepted_at is null and i.revoked_at is null and i.expires_at > now;
    end;
revoke execute on function find_invitation from public;
grant execute on function find_invitation to trueup_app;

-- Uses the code of the first account up. There is none once anybody has an account.
create function use_setup_code(code_hash bytea, now timestamptz) returns boolean
    language sql security definer set search_path = pg_catalog, public
    begin atomic
        with used as (
            update setup_codes c set used_at = now
            where c.hash = code_hash and c.used_at is null and not exists (select from users)
            returning c.hash)
        select exists (select from used);
    end;
revoke execute on function use_setup_code from public;
grant execute on function use_setup_code to trueup_app;

-- Whose session it is: one row for each membership of its user, or the row of its token.
create function authenticate_session(session_hash bytea, now timestamptz)
    returns table (session_id uuid, expires_at timestamptz, used_at timestamptz, user_id uuid, token_id uuid,
                   name text, email text, org_id uuid, org_name text, role text, permissions text[],
                   token_expires_at timestamptz)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select s.id, s.expires_at, s.used_at, u.id, null::uuid, u.name, u.email,
               m.org_id, o.name, m.role, null::text[], null::timestamptz
        from sessions s join users u on u.id = s.user_id
        join memberships m on m.user_id = u.id and m.removed_at is null
        join orgs o on o.id = m.org_id
        where s.hash = session_hash and s.revoked_at is null and s.expires_at > now
          and s.used_at > now - interval '12 hours'
        union all
        select s.id, least(s.expires_at, t.expires_at), s.used_at, null, t.id, t.name, null,
               t.org_id, o.name, t.role, t.permissions, t.expires_at
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
create function live_credential(wanted bytea, org uuid, now timestamptz) returns table (id uuid, role text)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.role from authenticate(wanted, now) t
        union all
        select s.session_id, s.role from authenticate_session(wanted, now) s where s.org_id = org;
    end;
revoke execute on function live_credential from public;
grant execute on function live_credential to trueup_app;

-- The names of tokens and of users, for events. A user who left an org is still named in its events.
create or replace function principal_names(ids uuid[]) returns table (id uuid, name text)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.name from tokens t
        where t.id = any(ids) and t.org_id in (trueup_org(), '00000000-0000-0000-0000-000000000000')
        union all
        select u.id, u.name from users u
        where u.id = any(ids)
          and exists (select from memberships m where m.user_id = u.id
                      and m.org_id in (trueup_org(), '00000000-0000-0000-0000-000000000000'));
    end;
