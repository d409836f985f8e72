-- Identity providers: where the people of an org sign in, their domains, and whom they vouch for.
--
-- A provider belongs to one org, and a session that began with it reaches that org alone: whoever runs the provider
-- of one tenant must not become somebody in another.

create table identity_providers (
    id             uuid primary key,
    org_id         uuid not null references orgs (id),
    name           text not null,
    issuer         text not null,
    client_id      text not null,
    -- Encrypted with the org's data key; null for a public client.
    nonce          bytea,
    sealed         bytea,
    groups_claim   text not null,
    -- In the order in which they count: [{"group": …, "role": …}].
    groups         jsonb not null,
    enabled        boolean not null,
    outage_minutes integer not null check (outage_minutes between 5 and 1440),
    created_at     timestamptz not null,
    deleted_at     timestamptz,
    -- What was last heard of it.
    confirmed_at   timestamptz,
    failed_at      timestamptz,
    failure        text,
    unique (org_id, id),
    constraint identity_providers_secret_is_whole check ((nonce is null) = (sealed is null))
);
create unique index identity_providers_name on identity_providers (org_id, name) where deleted_at is null;

-- The domains of the addresses that a provider vouches for. Each is proved like a domain of a service: by a TXT
-- record with its id.
create table provider_domains (
    id                 uuid primary key,
    org_id             uuid not null,
    provider_id        uuid not null,
    host               text not null,
    created_at         timestamptz not null,
    check_requested_at timestamptz not null,
    checks             integer not null default 0,
    next_check_at      timestamptz,
    checked_at         timestamptz,
    check_result       text,
    check_detail       text,
    verified_at        timestamptz,
    deleted_at         timestamptz,
    foreign key (org_id, provider_id) references identity_providers (org_id, id)
);
create unique index provider_domains_name on provider_domains (provider_id, host) where deleted_at is null;
-- One org has a domain: an address leads to one provider.
create unique index provider_domains_host_key on provider_domains (host)
    where verified_at is not null and deleted_at is null;
create index provider_domains_due on provider_domains (next_check_at)
    where next_check_at is not null and verified_at is null and deleted_at is null;

-- What a provider says about one person.
create table identities (
    id            uuid primary key,
    org_id        uuid not null,
    provider_id   uuid not null,
    user_id       uuid not null references users (id),
    -- The provider's own name for the person.
    subject       text not null,
    -- Encrypted with the org's data key; null if the provider gives none.
    nonce         bytea,
    sealed        bytea,
    created_at    timestamptz not null,
    confirmed_at  timestamptz not null,
    next_check_at timestamptz,
    failed_at     timestamptz,
    ended_at      timestamptz,
    -- Why it ended, and what the provider answered then.
    end_reason    text,
    foreign key (org_id, provider_id) references identity_providers (org_id, id),
    constraint identities_token_is_whole check ((nonce is null) = (sealed is null)),
    constraint identities_end_has_a_reason check ((ended_at is null) = (end_reason is null)),
    unique (org_id, id)
);
create unique index identities_current on identities (provider_id, subject) where ended_at is null;
create index identities_due on identities (next_check_at) where ended_at is null and next_check_at is not null;
create index identities_of_user on identities (user_id) where ended_at is null;

-- Sign-ins that a browser has not come back from yet: deleted when it does, so that each works once.
create table provider_sign_ins (
    -- Of the state that the provider returns.
    hash        bytea primary key,
    -- Of the secret in the browser's cookie.
    browser     bytea not null,
    org_id      uuid not null,
    provider_id uuid not null,
    nonce       text not null,
    verifier    text not null,
    expires_at  timestamptz not null,
    foreign key (org_id, provider_id) references identity_providers (org_id, id)
);
create index provider_sign_ins_expired on provider_sign_ins (expires_at);

-- Whoever signs in with a provider alone has no password.
alter table users alter column password_hash drop not null;
-- The provider that gives the role. Roles that people gave have none, and no provider changes them.
alter table memberships add column provider_id uuid,
    add foreign key (org_id, provider_id) references identity_providers (org_id, id);
-- The identity that the sign-in was with.
alter table sessions add column identity_id uuid references identities (id);
create index sessions_of_identity on sessions (identity_id) where revoked_at is null;

do $$
declare t text;
begin
    foreach t in array array['identity_providers', 'provider_domains', 'identities', 'provider_sign_ins'] loop
        execute format('alter table %I enable row level security', t);
        execute format('alter table %I force row level security', t);
        execute format('create policy owner_all on %I to trueup_owner using (true) with check (true)', t);
    end loop;
    foreach t in array array['identity_providers', 'provider_domains', 'identities'] loop
        execute format('create policy app_org on %I to trueup_app using (org_id = trueup_org()) with check (org_id = trueup_org())', t);
        execute format('create policy worker_all on %I to trueup_worker using (true) with check (true)', t);
    end loop;
end $$;
create policy app_platform on provider_sign_ins to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');

grant select, insert, update on identity_providers, provider_domains, identities to trueup_app;
grant select, insert, delete on provider_sign_ins to trueup_app;
grant update (provider_id) on memberships to trueup_app;
grant select (identity_id) on sessions to trueup_app;
grant select on identity_providers, provider_domains, identities to trueup_worker;
grant update (confirmed_at, failed_at, failure) on identity_providers to trueup_worker;
grant update (checks, next_check_at, checked_at, check_result, check_detail) on provider_domains to trueup_worker;
grant update (next_check_at, failed_at) on identities to trueup_worker;

-- The provider of addresses in a domain, asked before anybody is known.
create function find_provider_of(wanted text) returns table (id uuid, org_id uuid)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select p.id, p.org_id
        from provider_domains d
        join identity_providers p on p.id = d.provider_id and p.deleted_at is null and p.enabled
        join orgs o on o.id = p.org_id and o.deleting_at is null
        where d.host = wanted and d.verified_at is not null and d.deleted_at is null;
    end;
revoke execute on function find_provider_of from public;
grant execute on function find_provider_of to trueup_app;

-- As before, and: a session of an identity reaches the org of its provider alone, and only as long as the provider
-- is enabled and has confirmed the person lately. A role that a provider gives is reached with it alone.
create or replace function authenticate_session(session_hash bytea, now timestamptz)
    returns table (session_id uuid, expires_at timestamptz, used_at timestamptz, user_id uuid, token_id uuid,
                   name text, email text, org_id uuid, org_name text, role text, permissions text[],
                   token_expires_at timestamptz, projects jsonb)
    language sql stable security definer set search_path = pg_catalog, public
    begin atomic
        select s.id, s.expires_at, s.used_at, u.id, null::uuid, u.name, u.email,
               m.org_id, o.name, m.role, null::text[], null::timestamptz, roles_in_projects(u.id, m.org_id)
        from sessions s join users u on u.id = s.user_id
        left join identities i on i.id = s.identity_id
        left join identity_providers p on p.id = i.provider_id
        join memberships m on m.user_id = u.id and m.removed_at is null
            and (case when s.identity_id is null then m.provider_id is null else m.org_id = i.org_id end)
        join orgs o on o.id = m.org_id
        where s.hash = session_hash and s.revoked_at is null and s.expires_at > now
          and s.used_at > now - interval '12 hours'
          and (s.identity_id is null
               or (i.ended_at is null and p.deleted_at is null and p.enabled
                   and i.confirmed_at > now - make_interval(mins => p.outage_minutes)))
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
