//! Tenant isolation at runtime: statements of the app's role, without the checks of the program.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use trueup_model::OrgId;
use trueup_model::billing::BillingSettings;
use trueup_model::drift::{DivergenceState, DriftPolicy};
use trueup_model::principal::Role;
use trueup_store::door::{InvitationSpec, RequestContext, ServiceRequest, SubscriptionRequest};
use trueup_store::{IdempotencyKey, Lease};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::drift::standing;
use crate::finding::candidate;
use crate::life_newer::billed;
use crate::project::proof;
use crate::secret::{set_for, set_variable_for};
use crate::stage::{PROJECT, Stage, at, gone, web};

/// The SQLSTATE of Postgres for insufficient privilege.
const FORBIDDEN: &str = "42501";

/// A stage with two orgs, each with a project, a service and a row in every tenant table.
pub(crate) async fn two_orgs() -> (Stage, OrgId, OrgId) {
    let stage = Stage::new().await;
    let ours = stage.db.org;
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(theirs).await;
    let lease = stage.lease().await;
    for org in [ours, theirs] {
        for service in ["web", "old"] {
            let (name, request) = (name(service), web("nginx:1"));
            let wanted = ServiceRequest::declare(PROJECT, &name, &request);
            let app = &stage.db.app;
            let idempotency_key =
                Some(IdempotencyKey::new(service.to_owned(), "key".to_owned(), b"{}"));
            let context = RequestContext { idempotency_key, ..stage.context() };
            app.accept_service(org, &wanted, &context, at(1)).await.unwrap();
        }
        let rows = stage.services(org).await;
        let old = rows.iter().find(|row| row.service.name.as_str() == "old").unwrap();
        sqlx::query("update services set desired = 'deleted' where id = $1")
            .bind(old.service.id.uuid())
            .execute(&stage.owner)
            .await
            .unwrap();
        let web = rows.iter().find(|row| row.service.name.as_str() == "web").unwrap();
        let reports = [gone(old, 1), standing(web, 5, DivergenceState::InConflict)];
        stage.db.worker.record_reports(lease, &reports, at(6)).await.unwrap();
        set_for(&stage, org, "theirs alone").await.unwrap();
        set_variable_for(&stage, org).await;
        stage.open(org, "web", "public").await.unwrap();
        request_preview(&stage, org).await;
        stage.add(org, "web", "www.example.org").await.unwrap();
        former_project(&stage, org, lease).await;
        billed(&stage, org).await;
    }
    stage.db.worker.claim_orders(lease, 100, at(7)).await.unwrap();
    // Findings belong to the platform, like other tables that only operators have rows in.
    assert_eq!(stage.sweep(vec![candidate("left", true)], 8).await, 1);
    stage.seal().await;
    stage.declare("more", "nginx:1").await;
    for (org, token) in [(ours, "ours"), (theirs, "theirs")] {
        stage.db.setup.ensure_token(token, "key", Role::Owner, Some(org), at(0)).await.unwrap();
        stage.db.user(&format!("{token}@example.com"), Role::Owner, org).await;
        let invited = "invited@example.com".parse().unwrap();
        let spec = InvitationSpec { email: &invited, role: Role::Viewer, project: None };
        stage.db.app.create_invitation(org, &spec, &stage.context(), at(8)).await.unwrap();
        let (member, context) = (format!("{token}@example.com"), stage.context());
        let of = (member.as_str(), PROJECT);
        stage.db.app.put_project_role(org, of, Role::Admin, &context, at(9)).await.unwrap();
        vouched(&stage, org, &member).await;
        subscribed(&stage, org).await;
    }
    (stage, ours, theirs)
}

/// Gives an org a subscription, and its project a quota.
async fn subscribed(stage: &Stage, org: OrgId) {
    let app = &stage.db.app;
    let wanted = SubscriptionRequest { offer: "team", version: None, next_period: false };
    let settings = BillingSettings::default();
    app.put_subscription(org, wanted, &settings, &stage.context(), at(9)).await.unwrap();
    let limit = app.find_quota(org).await.unwrap().limit;
    let put = app.put_project_quota(org, PROJECT, Some(limit), &stage.context(), at(9)).await;
    assert!(put.unwrap().1);
}

/// Gives an org an identity provider that vouches for a member.
async fn vouched(stage: &Stage, org: OrgId, member: &str) {
    sqlx::query(
        r#"with provider as (
               insert into identity_providers (id, org_id, name, issuer, client_id, groups_claim, groups, enabled,
                                               outage_minutes, created_at)
               values (gen_random_uuid(), $1, 'idp', 'https://id.example.com', 'trueup', 'groups',
                       '[{"group": "dev", "role": "developer"}]', true, 60, $3) returning id),
           domain as (
               insert into provider_domains (id, org_id, provider_id, host, created_at, check_requested_at)
               select gen_random_uuid(), $1, id, $1 || '.example.com', $3, $3 from provider)
           insert into identities (id, org_id, provider_id, user_id, subject, created_at, confirmed_at)
           select gen_random_uuid(), $1, p.id, u.id, '1', $3, $3
           from provider p, users u where u.email = $2"#,
    )
    .bind(org.uuid())
    .bind(member)
    .bind(jiff_sqlx::Timestamp::from(at(9)))
    .execute(&stage.owner)
    .await
    .unwrap();
}

/// Requests a preview of a new service for an org.
async fn request_preview(stage: &Stage, org: OrgId) {
    let (new, request) = (name("new"), web("nginx:1"));
    let wanted = ServiceRequest::declare(PROJECT, &new, &request);
    stage.db.app.request_preview(org, &wanted, &stage.context(), at(6)).await.unwrap();
}

/// Gives an org a deleted project with its receipt.
async fn former_project(stage: &Stage, org: OrgId, lease: Lease) {
    let (app, former) = (&stage.db.app, name("former"));
    app.accept_project(org, &former, &DriftPolicy::default(), &stage.context(), at(1))
        .await
        .unwrap();
    let ended = app.delete_project(org, former.as_str(), &stage.context(), at(3)).await.unwrap();
    stage.db.worker.record_reports(lease, &[proof(&ended.row)], at(6)).await.unwrap();
}

/// The tables with an org that the app may read, except prices: of them every org also sees the list,
/// see `price.rs`. Sign-ins with a provider belong to nobody yet.
pub(crate) async fn tenant_tables(stage: &Stage) -> Vec<String> {
    let tables: Vec<String> = stage
        .all(
            "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
             where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
               and a.attname = 'org_id' and has_any_column_privilege('trueup_app', c.oid, 'select')
               and c.relname not in ('price_versions', 'provider_sign_ins') order by 1",
        )
        .await;
    assert!(tables.len() >= 10, "{tables:?}");
    tables
}

async fn app(stage: &Stage) -> PgConnection {
    PgConnection::connect(&stage.db.urls.app).await.unwrap()
}

async fn run(connection: &mut PgConnection, statement: &str) -> Result<u64, String> {
    let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await;
    done.map(|done| done.rows_affected()).map_err(|error| {
        let said = error.as_database_error().and_then(|said| said.code());
        said.map_or_else(|| error.to_string(), |code| code.into_owned())
    })
}

async fn count(connection: &mut PgConnection, statement: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.to_owned()))
        .fetch_one(connection)
        .await
        .unwrap_or_else(|error| panic!("{statement}: {error}"))
}

async fn enter(connection: &mut PgConnection, org: OrgId) {
    let enter = format!(
        "begin; select set_config('trueup.org', '{}', true), set_config('trueup.projects', '*', true)",
        org.uuid()
    );
    run(connection, &enter).await.unwrap();
}

fn new_project(org: OrgId, cluster: &str, tail: &str) -> String {
    format!(
        "insert into projects (id, org_id, name, cluster_id, namespace, generation, created_at)
         values (gen_random_uuid(), '{}', '{tail}', '{cluster}', '{tail}', 1, now())",
        org.uuid()
    )
}

#[tokio::test]
async fn s16_without_an_org_nothing_is_visible_and_nothing_can_be_added() {
    let (stage, ours, _) = two_orgs().await;
    let mut app = app(&stage).await;
    for table in tenant_tables(&stage).await {
        let all: i64 = stage.one(&format!("select count(*) from {table}")).await;
        assert!(all > 0, "{table} should have rows, or this test is void");
        let seen = count(&mut app, &format!("select count(*) from {table}")).await;
        assert_eq!(seen, 0, "{table}");
    }
    assert_eq!(count(&mut app, "select count(*) from orgs").await, 0);
    let insert = new_project(ours, &stage.db.cluster.uuid().to_string(), "x");
    assert_eq!(run(&mut app, &insert).await, Err(FORBIDDEN.to_owned()));
    for statement in ["update services set generation = 9", "update wakes set attempts = 9"] {
        assert_eq!(run(&mut app, statement).await, Ok(0), "{statement}");
    }
}

#[tokio::test]
async fn s16_an_invalid_org_is_an_error_or_sees_nothing() {
    let (stage, ..) = two_orgs().await;
    let mut app = app(&stage).await;
    for org in ["", "00000000-0000-0000-0000-000000000000"] {
        let enter = format!(
            "select set_config('trueup.org', '{org}', false), set_config('trueup.projects', '*', false)"
        );
        run(&mut app, &enter).await.unwrap();
        assert_eq!(count(&mut app, "select count(*) from services").await, 0, "{org:?}");
    }
    run(&mut app, "select set_config('trueup.org', '%', false)").await.unwrap();
    assert!(run(&mut app, "select * from services").await.is_err());
}

#[tokio::test]
async fn an_org_sees_all_of_its_own_and_nothing_of_another() {
    let (stage, ours, theirs) = two_orgs().await;
    let mut app = app(&stage).await;
    for (org, other) in [(ours, theirs), (theirs, ours)] {
        enter(&mut app, org).await;
        for table in tenant_tables(&stage).await {
            let own = format!("select count(*) from {table} where org_id = '{}'", org.uuid());
            let expected: i64 = stage.one(&own).await;
            let seen = count(&mut app, &format!("select count(*) from {table}")).await;
            assert_eq!(seen, expected, "{table}");
            let foreign = format!("select count(*) from {table} where org_id = '{}'", other.uuid());
            assert_eq!(count(&mut app, &foreign).await, 0, "{table}");
        }
        assert_eq!(count(&mut app, "select count(*) from orgs").await, 1);
        let change =
            format!("update services set generation = 9 where org_id = '{}'", other.uuid());
        assert_eq!(run(&mut app, &change).await, Ok(0));
        let give = format!("update services set org_id = '{}'", other.uuid());
        assert_eq!(run(&mut app, &give).await, Err(FORBIDDEN.to_owned()));
        run(&mut app, "rollback").await.unwrap();

        enter(&mut app, org).await;
        let insert = new_project(other, &stage.db.cluster.uuid().to_string(), "x");
        assert_eq!(run(&mut app, &insert).await, Err(FORBIDDEN.to_owned()));
        run(&mut app, "rollback").await.unwrap();
    }
}

#[tokio::test]
async fn s16_a_shared_pool_does_not_mix_orgs() {
    let (stage, ours, theirs) = two_orgs().await;
    let app = &stage.db.app;
    let mine = stage.services(ours).await;
    let yours = stage.services(theirs).await;
    for _ in 0..25 {
        assert_eq!(stage.services(ours).await, mine);
        assert_eq!(stage.services(theirs).await, yours);
        let stranger = yours[0].service.id.to_string();
        assert_eq!(app.find_service(ours, PROJECT, &stranger).await.unwrap(), None);
    }
    assert!(mine.iter().all(|row| row.service.org == ours));
    assert!(yours.iter().all(|row| row.service.org == theirs));
    // All of that used a few shared connections.
    let connections: i64 = stage
        .one("select count(*) from pg_stat_activity where application_name = 'trueup-app' and datname = current_database()")
        .await;
    assert!(connections <= 16, "{connections}");
}

#[tokio::test]
async fn s16_the_org_setting_ends_with_its_transaction() {
    let (stage, ours, theirs) = two_orgs().await;
    let mut app = app(&stage).await;
    for end in ["commit", "rollback"] {
        for (org, stranger) in [(ours, theirs), (theirs, ours)] {
            enter(&mut app, org).await;
            assert!(count(&mut app, "select count(*) from services").await > 0);
            let foreign =
                format!("select count(*) from services where org_id = '{}'", stranger.uuid());
            assert_eq!(count(&mut app, &foreign).await, 0);
            run(&mut app, end).await.unwrap();
            assert_eq!(count(&mut app, "select count(*) from services").await, 0, "{end}");
        }
    }
}

#[tokio::test]
async fn the_same_name_in_two_orgs_names_different_projects() {
    let (stage, ours, theirs) = two_orgs().await;
    let app = &stage.db.app;
    let mine = app.find_project(ours, PROJECT).await.unwrap().unwrap().project;
    let yours = app.find_project(theirs, PROJECT).await.unwrap().unwrap().project;
    assert_eq!(mine.name, yours.name);
    assert_ne!(mine.id, yours.id);
    assert_ne!(mine.namespace, yours.namespace);
    // The id does not help either.
    let id = yours.id.to_string();
    assert_eq!(app.find_project(ours, &id).await.unwrap(), None);
}

#[tokio::test]
async fn tokens_are_authenticated_and_never_read() {
    let (stage, ours, _) = two_orgs().await;
    let setup = &stage.db.setup;
    setup.ensure_token("s3cret", "ada", Role::Viewer, Some(ours), at(0)).await.unwrap();
    let mut app = app(&stage).await;
    enter(&mut app, ours).await;
    for table in ["tokens", "_sqlx_migrations", "leases", "lease_heartbeats"] {
        run(&mut app, "savepoint here").await.unwrap();
        let read = format!("select * from {table}");
        assert_eq!(run(&mut app, &read).await, Err(FORBIDDEN.to_owned()), "{table}");
        run(&mut app, "rollback to here").await.unwrap();
    }
    let app = &stage.db.app;
    let ada = app.authenticate("s3cret", at(1)).await.unwrap().unwrap();
    assert_eq!((ada.name.as_str(), ada.role, ada.org), ("ada", Role::Viewer, Some(ours)));
    for wrong in ["", "s3cret ", "S3CRET", "' or true --", "\0"] {
        assert_eq!(app.authenticate(wrong, at(1)).await.unwrap(), None, "{wrong:?}");
    }
    sqlx::query("update tokens set expires_at = to_timestamp($1::bigint)")
        .bind(at(10).as_second())
        .execute(&stage.owner)
        .await
        .unwrap();
    assert!(app.authenticate("s3cret", at(9)).await.unwrap().is_some());
    assert_eq!(app.authenticate("s3cret", at(10)).await.unwrap(), None);
}

#[tokio::test]
async fn an_operator_finds_an_org_by_name_or_id_and_by_nothing_else() {
    let (stage, ours, theirs) = two_orgs().await;
    let app = &stage.db.app;
    let printed = theirs.to_string();
    let plain = theirs.uuid().to_string();
    for (wanted, org) in [("acme", ours), ("other", theirs), (&printed, theirs), (&plain, theirs)] {
        assert_eq!(app.find_org(wanted).await.unwrap(), Some(org), "{wanted}");
    }
    for wanted in ["", "%", "ACME", "acme' or true --", "org_"] {
        assert_eq!(app.find_org(wanted).await.unwrap(), None, "{wanted:?}");
    }
}

/// The search function bypasses row-level security, so it must check the org itself.
#[tokio::test]
async fn s14_a_search_by_name_finds_nothing_of_another_org() {
    let (stage, ours, theirs) = two_orgs().await;
    let mut app = app(&stage).await;
    let hits = "select count(*) from search_services('web', 1000)";
    assert_eq!(count(&mut app, hits).await, 0, "without an org there is nothing");
    for org in [ours, theirs] {
        enter(&mut app, org).await;
        assert_eq!(count(&mut app, hits).await, 1, "each has one, and sees that one");
        let foreign = format!(
            "select count(*) from search_services('web', 1000) id
             where not exists (select from services s where s.id = id and s.org_id = '{}')",
            org.uuid()
        );
        assert_eq!(count(&mut app, &foreign).await, 0);
        for text in ["%", "_", "w_b", "we%", "\\", "\\%", "''", "web'' or true --"] {
            let wild = format!("select count(*) from search_services('{text}', 1000)");
            assert_eq!(count(&mut app, &wild).await, 0, "{text} is a text and no pattern");
        }
        // Deleted services are not found, and the limit is applied.
        let gone = "select count(*) from search_services('old', 1000)";
        assert_eq!(count(&mut app, gone).await, 0);
        let none = "select count(*) from search_services('web', 0)";
        assert_eq!(count(&mut app, none).await, 0);
        run(&mut app, "rollback").await.unwrap();
    }
}

/// The index exists and fits the query; without it a search would scan all names.
#[tokio::test]
async fn a_search_by_name_uses_the_index() {
    let stage = Stage::new().await;
    let index: String =
        stage.one("select indexdef from pg_indexes where indexname = 'services_name_search'").await;
    assert!(index.contains("gin (org_id, name gin_trgm_ops)"), "{index}");
    let many = format!(
        "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
             template_version, parameters, spec, desired, generation, accepted_at, created_at)
         select gen_random_uuid(), p.org_id, p.id, 'name-' || md5(n::text), p.cluster_id, 'x' || n,
                'web', 1, '{{}}', '{{}}', 'active', 1, now(), now()
         from projects p, generate_series(1, 5000) n where p.org_id = '{}'",
        stage.db.org.uuid()
    );
    for statement in [many.as_str(), "analyze services"] {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&stage.owner).await.unwrap();
    }
    // With so few rows any plan is fast; at 100,000 only this one is.
    let mut owner = PgConnection::connect(&stage.db.urls.owner).await.unwrap();
    let only =
        "set enable_seqscan = off; set enable_indexscan = off; set enable_indexonlyscan = off";
    run(&mut owner, only).await.unwrap();
    let org = format!("set trueup.org = '{}'", stage.db.org.uuid());
    run(&mut owner, &org).await.unwrap();
    let plan: Vec<String> = sqlx::query_scalar(
        "explain select s.id from services s
         where s.org_id = trueup_org() and s.deleted_at is null and s.name like '%c4ca4238a%'",
    )
    .fetch_all(&mut owner)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(plan.contains("Bitmap Index Scan on services_name_search"), "{plan}");
    assert!(plan.contains("~~ '%c4ca4238a%'"), "{plan}");
}
