//! The second wall: a transaction sees the projects that it names, and nothing of the others.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use trueup_model::ProjectId;
use trueup_rules::access::Reach;
use trueup_store::EventQuery;

use crate::stage::{PROJECT, Stage, at};
use crate::tenant::{tenant_tables, two_orgs};

/// Tables of tenants without a second wall. Who sees only some projects has no operation that reads them, or
/// must count what is in the others.
const OF_THE_ORG: &[&str] = &[
    "identities",
    "identity_providers",
    "provider_domains",
    "provider_sign_ins",
    "subscriptions",
    "billing_accounts",
    "budgets",
    "credits",
    "invitations",
    "invoice_credits",
    "invoice_entries",
    "invoices",
    "ledger_entries",
    "ledger_heads",
    "ledger_postings",
    "memberships",
    "org_keys",
    // Decided about without a look into the others: they are summed for the quota and the budget.
    "quotas",
    "reservations",
    "idempotency_keys",
    "tokens",
    // Written by requests and read by operators.
    "wakes",
    "findings",
    "usage_watermarks",
    "sessions",
    "users",
];

async fn count(app: &mut PgConnection, statement: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.to_owned()))
        .fetch_one(app)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// S16: no table with rows of projects is forgotten, and a transaction that names no projects sees none.
#[tokio::test]
async fn s16_every_table_of_projects_is_behind_the_second_wall() {
    let (stage, ours, _) = two_orgs().await;
    let projects: Vec<String> =
        stage.all(&format!("select id::text from projects where org_id = '{}'", ours.uuid())).await;
    let mut app = PgConnection::connect(&stage.db.urls.app).await.unwrap();
    for table in tenant_tables(&stage).await {
        if OF_THE_ORG.contains(&table.as_str()) {
            continue;
        }
        let mut seen = Vec::new();
        for (org, visible) in [
            (Some(ours), Some("*".to_owned())),
            (Some(ours), Some(format!("{{{}}}", projects.join(",")))),
            (Some(ours), Some("{00000000-0000-0000-0000-00000000000f}".to_owned())),
            (Some(ours), Some("{}".to_owned())),
            (Some(ours), None),
        ] {
            let org = org.map_or_else(String::new, |org| org.uuid().to_string());
            let visible = visible.unwrap_or_default();
            let enter = format!(
                "begin; select set_config('trueup.org', '{org}', true),
                               set_config('trueup.projects', '{visible}', true)"
            );
            sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut app).await.unwrap();
            seen.push(count(&mut app, &format!("select count(*) from {table}")).await);
            sqlx::raw_sql("rollback").execute(&mut app).await.unwrap();
        }
        assert!(seen[0] > 0, "{table} should have rows, or this test is void");
        assert!(seen[1] > 0 && seen[1] <= seen[0], "{table} of its projects: {seen:?}");
        assert_eq!(seen[2..], [0, 0, 0], "{table} of other projects, of none, without the setting");
    }
}

/// S16: also a statement without any condition cannot write beyond the wall.
#[tokio::test]
async fn s16_no_statement_writes_beyond_the_second_wall() {
    let (stage, ours, _) = two_orgs().await;
    let mut app = PgConnection::connect(&stage.db.urls.app).await.unwrap();
    for (statement, expected) in [
        ("update services set generation = 99", Ok(0)),
        ("update projects set generation = 99", Ok(0)),
        ("update variables set value = 'theirs'", Ok(0)),
        ("update secrets set set_by = 'theirs'", Ok(0)),
        ("update domains set deleted_at = now()", Ok(0)),
        ("update role_bindings set role = 'admin'", Ok(0)),
        (
            "insert into variables (org_id, project_id, name, value, version, set_by, set_at)
             select org_id, project_id, 'X', 'x', 1, 'x', now() from role_bindings",
            Ok(0),
        ),
    ] {
        let enter = format!(
            "begin; select set_config('trueup.org', '{}', true),
                           set_config('trueup.projects', '{{00000000-0000-0000-0000-00000000000f}}', true)",
            ours.uuid()
        );
        sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut app).await.unwrap();
        let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut app).await;
        assert_eq!(done.map(|done| done.rows_affected()).map_err(|_| ()), expected, "{statement}");
        sqlx::raw_sql("rollback").execute(&mut app).await.unwrap();
    }
    // A project whose id is known: its rows cannot be added to, although it exists.
    let known: String = stage
        .one(&format!("select id::text from projects where org_id = '{}' limit 1", ours.uuid()))
        .await;
    let enter = format!(
        "begin; select set_config('trueup.org', '{}', true), set_config('trueup.projects', '{{}}', true)",
        ours.uuid()
    );
    sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut app).await.unwrap();
    let insert = format!(
        "insert into variables (org_id, project_id, name, value, version, set_by, set_at)
         values ('{}', '{known}', 'X', 'x', 1, 'x', now())",
        ours.uuid()
    );
    let refused = sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut app).await.unwrap_err();
    assert!(refused.to_string().contains("row-level security"), "{refused}");
}

/// The app of some projects lists what is theirs, events included, and is never widened again.
#[tokio::test]
async fn app_within_projects_sees_their_events_alone() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    stage.declare("web", "nginx:1").await;
    let blog = "blog".parse().unwrap();
    app.accept_project(org, &blog, &Default::default(), &stage.context(), at(2)).await.unwrap();
    stage.db.seal().await;
    let id = |row: Option<trueup_store::ProjectRow>| row.unwrap().project.id;
    let blog = id(app.find_project(org, "blog").await.unwrap());
    let shop = id(app.find_project(org, PROJECT).await.unwrap());
    let within = |ids: &[ProjectId]| app.within(&Reach::Projects(ids.iter().copied().collect()));
    let query = EventQuery { limit: 100, ..EventQuery::default() };
    let all = app.list_events(org, &query).await.unwrap().len();
    let of = async |app: &trueup_store::App| {
        let events = app.list_events(org, &query).await.unwrap();
        let projects = app.list_projects(org).await.unwrap();
        let names: BTreeSet<String> =
            projects.iter().map(|row| row.project.name.to_string()).collect();
        (events.len(), app.last_position(org).await.unwrap(), names)
    };
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let last = app.last_position(org).await.unwrap();
    assert_eq!(of(&within(&[blog])).await, (1, last, named(&["blog"])));
    let (events, position, names) = of(&within(&[shop])).await;
    assert!(events >= 2 && events < all && position < last, "{events} of {all}, {position}");
    assert_eq!(names, named(&[PROJECT]));
    assert_eq!(of(&within(&[])).await, (0, 0, named(&[])));
    let narrower = within(&[blog]).within(&Reach::Projects(BTreeSet::from([shop, blog])));
    assert_eq!(of(&narrower).await.2, named(&["blog"]));
    assert_eq!(of(&within(&[blog]).within(&Reach::Org)).await.2, named(&["blog"]));
}

/// S16: a table whose rows name a project or a service is behind the second wall, or counts for the org.
#[tokio::test]
async fn s16_new_tables_of_projects_get_the_second_wall() {
    let stage = Stage::new().await;
    let open: Vec<String> = stage
        .all(
            "select distinct c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
             where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
               and a.attname in ('project_id', 'service_id', 'subject_id')
               and has_any_column_privilege('trueup_app', c.oid, 'select')
               and not exists (select from pg_policies p
                               where p.tablename = c.relname and p.permissive = 'RESTRICTIVE'
                                 and p.qual like '%trueup_whole_org%')
             order by 1",
        )
        .await;
    for table in &open {
        assert!(OF_THE_ORG.contains(&table.as_str()), "{table} shows what is in other projects");
    }
    assert!(open.contains(&"reservations".to_owned()), "{open:?}");
}
