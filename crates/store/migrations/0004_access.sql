-- Tokens that people make, narrow and revoke; orgs that operators make; and an org for the platform
-- itself, so that operators' tokens and facts stand behind the same walls as everybody else's.

insert into orgs (id, name, created_at)
values ('00000000-0000-0000-0000-000000000000', 'trueup', '2026-01-01T00:00:00Z');

alter table tokens drop constraint tokens_operator_has_no_org;
update tokens set org_id = '00000000-0000-0000-0000-000000000000' where org_id is null;
alter table tokens
    alter column org_id set not null,
    -- Null means everything that the role includes.
    add column permissions text[],
    add column revoked_at timestamptz,
    -- Roughly: written at most once an hour.
    add column used_at timestamptz,
    add constraint tokens_operators_are_the_platforms
        check ((role = 'operator') = (org_id = '00000000-0000-0000-0000-000000000000')),
    add constraint tokens_org_id_key unique (org_id, id);
-- A name is free again once its token is revoked.
create unique index tokens_name_key on tokens (org_id, name) where revoked_at is null;

create policy app_org on tokens to trueup_app
    using (org_id = trueup_org()) with check (org_id = trueup_org());
-- What is stored of the secret stays out of reach: a column that cannot be read cannot leak.
grant select (id, org_id, name, role, permissions, created_at, expires_at, revoked_at, used_at),
      insert, update (revoked_at, used_at) on tokens to trueup_app;

-- An org is made by a transaction in its own name, and all of them are seen in the platform's.
drop policy app_org on orgs;
create policy app_org on orgs for select to trueup_app
    using (id = trueup_org() or trueup_org() = '00000000-0000-0000-0000-000000000000');
create policy app_new on orgs for insert to trueup_app with check (id = trueup_org());
grant insert on orgs to trueup_app;

drop function authenticate;
create function authenticate(token_hash bytea, now timestamptz)
    returns table (id uuid, org_id uuid, name text, role text, permissions text[],
                   expires_at timestamptz, used_at timestamptz)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select t.id, t.org_id, t.name, t.role, t.permissions, t.expires_at, t.used_at from tokens t
        where t.hash = token_hash and t.revoked_at is null
          and (t.expires_at is null or t.expires_at > now);
    end;
revoke execute on function authenticate from public;
grant execute on function authenticate to trueup_app;
