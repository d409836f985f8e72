//! Tenant isolation in the schema, read from Postgres' catalogue: a new table, view or function
//! without it fails here.

use crate::stage::Stage;

/// The migrator's table, created before there are policies; no runtime role may access it.
const MIGRATOR: &str = "_sqlx_migrations";

/// S16.
#[tokio::test]
async fn s16_every_table_forces_row_level_security() {
    let stage = Stage::new().await;
    let open: Vec<String> = stage
        .all(&format!(
            "select relname::text from pg_class
             where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'f')
               and relname <> '{MIGRATOR}' and not (relrowsecurity and relforcerowsecurity)"
        ))
        .await;
    assert!(open.is_empty(), "without forced row-level security: {open:?}");
    // A view reads with its owner's privileges unless it is a security invoker.
    let views: Vec<String> = stage
        .all(
            "select relname::text from pg_class
             where relnamespace = 'public'::regnamespace and relkind in ('v', 'm')
               and not coalesce('security_invoker=true' = any(reloptions), false)",
        )
        .await;
    assert!(views.is_empty(), "views that bypass row-level security: {views:?}");
}

/// S16.
#[tokio::test]
async fn s16_runtime_roles_own_nothing_and_bypass_nothing() {
    let stage = Stage::new().await;
    for role in ["trueup_app", "trueup_worker"] {
        let rights: String = stage
            .one(&format!(
                "select concat_ws(' ', rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,
                        pg_has_role(oid, 'trueup_owner', 'member'),
                        has_schema_privilege(oid, 'public', 'create'))
                 from pg_roles where rolname = '{role}'"
            ))
            .await;
        assert_eq!(rights, "f f f f f f f", "{role}");
        let owned: i64 = stage
            .one(&format!(
                "select (select count(*) from pg_class where relowner = '{role}'::regrole)
                      + (select count(*) from pg_proc where proowner = '{role}'::regrole)"
            ))
            .await;
        assert_eq!(owned, 0, "{role}");
    }
    // Not even the owner bypasses row-level security: it has a policy of its own.
    let owner: String = stage
        .one("select concat_ws(' ', rolsuper, rolbypassrls) from pg_roles where rolname = 'trueup_owner'")
        .await;
    assert_eq!(owner, "f f");
}

#[tokio::test]
async fn each_tenant_policy_checks_the_org() {
    let stage = Stage::new().await;
    let loose: Vec<String> = stage
        .all(
            "select p.tablename || '.' || p.policyname from pg_policies p
             where 'trueup_app' = any(p.roles) and p.schemaname = 'public'
               and exists (select from information_schema.columns c
                           where c.table_name = p.tablename and c.column_name = 'org_id')
               and p.permissive = 'PERMISSIVE'
               and not (p.qual = '(org_id = trueup_org())'
                        and p.with_check = '(org_id = trueup_org())')
             order by 1",
        )
        .await;
    // List prices belong to no org: see `price.rs`.
    let prices = ["app_end", "app_publish", "app_read"].map(|one| format!("price_versions.{one}"));
    assert_eq!(loose[..3], prices);
    // Who signs in with a provider is not known yet.
    assert_eq!(loose[3..], ["provider_sign_ins.app_platform", "wakes.app_platform"]);
    // Operators see the wakes of every org through the platform's org, read-only.
    let platform: Vec<String> = stage
        .all(
            "select concat_ws(' ', tablename, cmd, qual) from pg_policies
             where policyname = 'app_platform' order by 1",
        )
        .await;
    let only_platform = "(trueup_org() = '00000000-0000-0000-0000-000000000000'::uuid)";
    // So do they see the capacity of clusters.
    let tables = [
        "capacity_costs SELECT",
        "capacity_days SELECT",
        "provider_sign_ins ALL",
        "sessions ALL",
        "sign_in_attempts ALL",
        "users ALL",
        "wakes SELECT",
    ];
    assert_eq!(platform, tables.map(|table| format!("{table} {only_platform}")));
    let for_everybody: Vec<String> = stage
        .all("select tablename || '.' || policyname from pg_policies where 'public' = any(roles)")
        .await;
    assert!(for_everybody.is_empty(), "{for_everybody:?}");
    // Tables without org_id that every tenant can read.
    let shared: Vec<String> = stage
        .all(
            "select c.relname::text from pg_class c
             where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
               and has_any_column_privilege('trueup_app', c.oid, 'select')
               and not exists (select from pg_attribute a
                               where a.attrelid = c.oid and a.attname = 'org_id')
             order by 1",
        )
        .await;
    // Users and sessions are seen in the platform's org alone, see `people.rs`.
    let expected = [
        "capacity_costs",
        "capacity_days",
        "clusters",
        "offers",
        "orgs",
        "plan_bodies",
        "platform",
        "sessions",
        "sign_in_attempts",
        "templates",
        "usage_watermarks",
        "users",
        "watch_gaps",
    ];
    assert_eq!(shared, expected);
}

#[tokio::test]
async fn history_is_append_only() {
    let stage = Stage::new().await;
    let rewritable: Vec<String> = stage
        .all(
            "select r.rolname || ' ' || t.name || ' ' || p.kind
             from (values ('trueup_app'), ('trueup_worker')) r (rolname),
                  (values ('events'), ('event_seals'), ('releases'), ('receipts'), ('transitions'),
                  ('watch_gaps'), ('price_versions')) t (name),
                  (values ('update'), ('delete'), ('truncate')) p (kind)
             where has_table_privilege(r.rolname, t.name, p.kind)",
        )
        .await;
    assert!(rewritable.is_empty(), "{rewritable:?}");
    // Requests record and change; they never remove a row. A sign-in with a provider works once.
    let removable: Vec<String> = stage
        .all(
            "select relname::text from pg_class
             where relnamespace = 'public'::regnamespace and relkind = 'r'
               and (has_table_privilege('trueup_app', oid, 'delete')
                    or has_table_privilege('trueup_app', oid, 'truncate'))",
        )
        .await;
    assert_eq!(removable, ["provider_sign_ins"]);
    // Desired state has one writer: the worker may only record that a service is deleted, and when its
    // active hours are due again.
    let columns: Vec<String> = stage
        .all(
            "select a.attname::text from pg_attribute a
             where a.attrelid = 'services'::regclass and a.attnum > 0
               and has_column_privilege('trueup_worker', a.attrelid, a.attnum, 'update')",
        )
        .await;
    assert_eq!(columns, ["deleted_at", "schedule_at"]);
}

#[tokio::test]
async fn only_these_functions_bypass_row_level_security() {
    let stage = Stage::new().await;
    let functions: Vec<String> = stage
        .all(
            "select concat_ws(' ', proname, proconfig::text,
                    has_function_privilege('trueup_app', oid, 'execute'),
                    has_function_privilege('trueup_worker', oid, 'execute'))
             from pg_proc where pronamespace = 'public'::regnamespace and prosecdef order by proname",
        )
        .await;
    let path = r#"{"search_path=pg_catalog, public"}"#;
    assert_eq!(
        functions,
        [
            format!("authenticate {path} t f"),
            format!("authenticate_session {path} t f"),
            format!("find_invitation {path} t f"),
            format!("find_login {path} t f"),
            format!("find_org {path} t f"),
            format!("find_provider_of {path} t f"),
            // A trigger function.
            format!("give_quota {path} f f"),
            format!("live_credential {path} t f"),
            // Creates partitions for the worker, which owns no tables.
            format!("make_transition_partitions {path} f t"),
            // A trigger function: no writer of releases can forget the meter.
            format!("mark_release {path} f f"),
            format!("principal_names {path} t f"),
            format!("search_services {path} t f"),
            format!("take_port {path} t f"),
            format!("use_setup_code {path} t f"),
        ]
    );
}

/// S15.
#[tokio::test]
async fn s15_foreign_keys_between_tenant_rows_include_the_org() {
    let stage = Stage::new().await;
    // A foreign key checks rows that row-level security hides: without the org it is an oracle.
    let bare: Vec<String> = stage
        .all(
            "select k.conname::text from pg_constraint k
             where k.contype = 'f' and k.connamespace = 'public'::regnamespace
               and exists (select from pg_attribute a where a.attrelid = k.conrelid and a.attname = 'org_id')
               and exists (select from pg_attribute a where a.attrelid = k.confrelid and a.attname = 'org_id')
               and not exists (select from pg_attribute a
                               where a.attrelid = k.conrelid and a.attnum = any(k.conkey)
                                 and a.attname = 'org_id')",
        )
        .await;
    assert_eq!(bare, ["event_seals_event_id_fkey"], "only the sealer writes seals");
}

/// S15: a name that is unique across orgs would reveal to one tenant what another has.
#[tokio::test]
async fn s15_chosen_names_are_unique_within_an_org_only() {
    let stage = Stage::new().await;
    let telling: Vec<String> = stage
        .all(
            "select i.indexrelid::regclass::text from pg_index i
             where i.indisunique
               and exists (select from pg_attribute a where a.attrelid = i.indrelid and a.attname = 'org_id')
               and exists (select from pg_attribute a
                           where a.attrelid = i.indrelid and a.attnum = any(i.indkey) and a.attname = 'name')
               and not exists (select from pg_attribute a
                               where a.attrelid = i.indrelid and a.attnum = any(i.indkey)
                                 and a.attname in ('org_id', 'project_id', 'cluster_id'))",
        )
        .await;
    assert!(telling.is_empty(), "{telling:?}");
}

/// S08: a hash can be written and never read, not even by the role that writes it.
#[tokio::test]
async fn s08_no_runtime_role_can_read_hashes() {
    let stage = Stage::new().await;
    let readers: Vec<String> = stage
        .all(
            "select r.rolname || ' ' || p.kind
             from (values ('trueup_app'), ('trueup_worker')) r (rolname),
                  (values ('select'), ('update')) p (kind),
                  (values ('tokens', 'hash'), ('sessions', 'hash'), ('users', 'password_hash'),
                          ('invitations', 'hash'), ('setup_codes', 'hash')) c (of, name)
             where has_column_privilege(r.rolname, c.of, c.name, p.kind)",
        )
        .await;
    assert!(readers.is_empty(), "{readers:?}");
    let worker: i64 = stage
        .one(
            "select count(*) from pg_attribute where attrelid = 'tokens'::regclass and attnum > 0
              and has_column_privilege('trueup_worker', attrelid, attnum, 'select')",
        )
        .await;
    assert_eq!(worker, 0, "the worker needs no tokens");
    let changeable: Vec<String> = stage
        .all(
            "select attname::text from pg_attribute where attrelid = 'tokens'::regclass and attnum > 0
             and has_column_privilege('trueup_app', attrelid, attnum, 'update') order by 1",
        )
        .await;
    assert_eq!(changeable, ["revoked_at", "used_at"], "a token's role never changes");
}
