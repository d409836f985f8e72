-- Templates are published and deprecated through the door by operators. A published version never
-- changes: its body has no grant to be updated. A row without `published_at` was shipped.

alter table templates
    add column published_at  timestamptz,
    add column published_by  text,
    add column deprecated_at timestamptz,
    add column deprecated_by text,
    add column instead       text,
    add constraint templates_version_positive check (version > 0),
    add constraint templates_deprecated_says_instead
        check ((deprecated_at is null) = (instead is null));

-- Templates belong to no org: every tenant reads them, and only a transaction of the platform writes.
create policy app_publish on templates for insert to trueup_app
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000'
                and published_at is not null and deprecated_at is null);
create policy app_deprecate on templates for update to trueup_app
    using (trueup_org() = '00000000-0000-0000-0000-000000000000')
    with check (trueup_org() = '00000000-0000-0000-0000-000000000000');

grant insert (name, version, body, published_at, published_by) on templates to trueup_app;
grant update (deprecated_at, deprecated_by, instead) on templates to trueup_app;
