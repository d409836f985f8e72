//! Walls as the schema builds them: read from Postgres' own catalogue, so that a new table, view or
//! function without them fails here.

use crate::stage::Stage;

/// Kept by the migrator, before there are policies; no role of the running program may touch it.
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
    // A view reads with its owner's rights unless it is told otherwise.
    let views: Vec<String> = stage
        .all(
            "select relname::text from pg_class
             where relnamespace = 'public'::regnamespace and relkind in ('v', 'm')
               and not coalesce('security_invoker=true' = any(reloptions), false)",
        )
        .await;
    assert!(views.is_empty(), "views that go around the walls: {views:?}");
}

/// S16.
#[tokio::test]
async fn s16_the_running_program_owns_nothing_and_bypasses_nothing() {
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
    // Not even the owner goes around the walls: it has a policy like everybody else.
    let owner: String = stage
        .one("select concat_ws(' ', rolsuper, rolbypassrls) from pg_roles where rolname = 'trueup_owner'")
        .await;
    assert_eq!(owner, "f f");
}

#[tokio::test]
async fn each_policy_for_tenants_asks_for_the_org() {
    let stage = Stage::new().await;
    let loose: Vec<String> = stage
        .all(
            "select p.tablename || '.' || p.policyname from pg_policies p
             where 'trueup_app' = any(p.roles) and p.schemaname = 'public'
               and exists (select from information_schema.columns c
                           where c.table_name = p.tablename and c.column_name = 'org_id')
               and not (p.qual = '(org_id = trueup_org())'
                        and p.with_check = '(org_id = trueup_org())')",
        )
        .await;
    assert_eq!(loose, ["wakes.app_platform"]);
    // What operators look after in every org, in the platform's name: they see it and no more.
    let platform: String = stage
        .one("select cmd || ' ' || qual from pg_policies where policyname = 'app_platform'")
        .await;
    assert_eq!(platform, "SELECT (trueup_org() = '00000000-0000-0000-0000-000000000000'::uuid)");
    let for_everybody: Vec<String> = stage
        .all("select tablename || '.' || policyname from pg_policies where 'public' = any(roles)")
        .await;
    assert!(for_everybody.is_empty(), "{for_everybody:?}");
    // What has no org_id and can still be read by every tenant.
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
    assert_eq!(shared, ["clusters", "orgs", "plans", "platform", "templates", "watch_gaps"]);
}

#[tokio::test]
async fn history_can_be_added_to_and_not_rewritten() {
    let stage = Stage::new().await;
    let rewritable: Vec<String> = stage
        .all(
            "select r.rolname || ' ' || t.name || ' ' || p.kind
             from (values ('trueup_app'), ('trueup_worker')) r (rolname),
                  (values ('events'), ('event_seals'), ('releases'), ('receipts'), ('transitions'),
                  ('watch_gaps')) t (name),
                  (values ('update'), ('delete'), ('truncate')) p (kind)
             where has_table_privilege(r.rolname, t.name, p.kind)",
        )
        .await;
    assert!(rewritable.is_empty(), "{rewritable:?}");
    // Requests record and change; they never remove a row.
    let removable: Vec<String> = stage
        .all(
            "select relname::text from pg_class
             where relnamespace = 'public'::regnamespace and relkind = 'r'
               and (has_table_privilege('trueup_app', oid, 'delete')
                    or has_table_privilege('trueup_app', oid, 'truncate'))",
        )
        .await;
    assert!(removable.is_empty(), "{removable:?}");
    // What is desired has one writer: the loops may only note that a service is gone.
    let columns: Vec<String> = stage
        .all(
            "select a.attname::text from pg_attribute a
             where a.attrelid = 'services'::regclass and a.attnum > 0
               and has_column_privilege('trueup_worker', a.attrelid, a.attnum, 'update')",
        )
        .await;
    assert_eq!(columns, ["deleted_at"]);
}

#[tokio::test]
async fn only_these_functions_look_over_the_walls_and_only_for_the_app() {
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
            format!("find_org {path} t f"),
            // A trigger: nobody calls it.
            format!("give_quota {path} f f"),
            // Makes partitions for the loops, which own nothing.
            format!("make_transition_partitions {path} f t"),
            format!("search_services {path} t f"),
            format!("take_port {path} t f"),
        ]
    );
}

/// S15.
#[tokio::test]
async fn s15_foreign_keys_between_tenants_rows_carry_the_org() {
    let stage = Stage::new().await;
    // A key checks what row-level security would hide, so one without the org is an oracle.
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

/// S15: a name that is unique beyond its org would tell one tenant what another has.
#[tokio::test]
async fn s15_what_people_choose_is_unique_within_an_org_only() {
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

/// S08: what is stored of a token can be written and never read, not even by the one who writes it.
#[tokio::test]
async fn s08_no_role_of_the_running_program_reads_what_is_stored_of_a_token() {
    let stage = Stage::new().await;
    let readers: Vec<String> = stage
        .all(
            "select r.rolname || ' ' || p.kind
             from (values ('trueup_app'), ('trueup_worker')) r (rolname),
                  (values ('select'), ('update')) p (kind)
             where has_column_privilege(r.rolname, 'tokens', 'hash', p.kind)",
        )
        .await;
    assert!(readers.is_empty(), "{readers:?}");
    let worker: i64 = stage
        .one(
            "select count(*) from pg_attribute where attrelid = 'tokens'::regclass and attnum > 0
              and has_column_privilege('trueup_worker', attrelid, attnum, 'select')",
        )
        .await;
    assert_eq!(worker, 0, "the loops have no business with tokens");
    let changeable: Vec<String> = stage
        .all(
            "select attname::text from pg_attribute where attrelid = 'tokens'::regclass and attnum > 0
             and has_column_privilege('trueup_app', attrelid, attnum, 'update') order by 1",
        )
        .await;
    assert_eq!(changeable, ["revoked_at", "used_at"], "a role is never raised in place");
}
