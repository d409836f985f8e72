//! Migrations of databases filled by older versions: no row is lost, everything can be read, and
//! the program continues to write. The rows come from fixtures, see `fixture.rs`.

use std::collections::{BTreeMap, BTreeSet};
use trueup_testkit::report_batch::RecordReports as _;

use jiff::Timestamp;
use serde_json::Value;
use trueup_model::OrgId;
use trueup_model::id::{ProjectId, ServiceId};
use trueup_model::org::PLATFORM;
use trueup_rules::envelope::Keyring;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_store::{Comparison, DivergenceFilter, IdempotencyKey, WakeFilter};
use trueup_testkit::test_db::name;
use uuid::Uuid;

use crate::chain::verified;
use crate::fixture::{Fixture, Row, all_rows, digest, migrations, start, tables};
use crate::life::{SECRET, TOKEN, life};
use crate::stage::{PROJECT, Stage, at, gone, web};

/// Set to write the fixture of the newest schema.
const UPDATE: &str = "TRUEUP_UPDATE";
/// The command for that.
const COMMAND: &str = "TRUEUP_UPDATE=1 cargo test -p trueup-store --test it fixture";
/// Each schema from this one on has a fixture. Of older ones only schema 15 has one, written by
/// commit e208d7e.
const KEPT_SINCE: i64 = 19;
/// Schemas that no release had: their migrations landed together with a newer one.
const NEVER_NEWEST: std::ops::RangeInclusive<i64> = 28..=32;
/// Columns that a start rewrites on purpose: transaction ids of another Postgres server, and bodies
/// of plans, whose prices got versions.
const REWRITTEN: [(&str, &str); 2] = [("event_queue", "xid"), ("plan_bodies", "body")];
/// Tables that migrations 20, 21 and 24 rename or merge.
const TABLES: [(&str, &str); 4] = [
    ("plans", "plan_bodies"),
    ("repeats", "idempotency_keys"),
    ("plan_requests", "preview_requests"),
    ("project_receipts", "receipts"),
];
/// Columns that migrations 20 and 21 rename, by the table's name today.
const COLUMNS: [(&str, &str, &str); 23] = [
    ("events", "unit_kind", "subject_kind"),
    ("events", "unit_id", "subject_id"),
    ("event_queue", "unit_id", "subject_id"),
    ("event_seals", "unit_id", "subject_id"),
    ("statuses", "unit_kind", "subject_kind"),
    ("statuses", "unit_id", "subject_id"),
    ("resources", "unit_kind", "subject_kind"),
    ("resources", "unit_id", "subject_id"),
    ("wakes", "unit_kind", "subject_kind"),
    ("wakes", "unit_id", "subject_id"),
    ("wakes", "cluster_id", "scope_id"),
    ("leases", "cluster_id", "scope_id"),
    ("lease_heartbeats", "cluster_id", "scope_id"),
    ("receipts", "service_id", "subject_id"),
    ("receipts", "project_id", "subject_id"),
    ("preview_requests", "plan", "preview"),
    ("domains", "asked_at", "check_requested_at"),
    ("domains", "looks", "checks"),
    ("domains", "look_at", "next_check_at"),
    ("domains", "tried_at", "check_started_at"),
    ("domains", "looked_at", "checked_at"),
    ("domains", "saw", "check_result"),
    ("domains", "saw_why", "check_detail"),
];

/// A new migration comes with a fixture, on which the next migration is tested.
#[tokio::test]
async fn every_schema_has_a_fixture_and_the_newest_fills_every_column() {
    let stage = life().await;
    let today = Fixture::of(&stage).await;
    if std::env::var_os(UPDATE).is_some() {
        today.write();
    }
    let kept = Fixture::versions();
    let needs_one = |version: i64| version >= KEPT_SINCE && !NEVER_NEWEST.contains(&version);
    for (version, _) in migrations().iter().filter(|(version, _)| needs_one(*version)) {
        assert!(
            kept.contains(version),
            "schema {version} has no fixture. Make it with `{COMMAND}` while {version} is the newest, \
             commit it, and keep all older ones"
        );
    }
    assert!(kept.first().is_some_and(|oldest| *oldest < KEPT_SINCE), "{kept:?}");
    for version in kept {
        let fixture = Fixture::read(version);
        assert_eq!(fixture.version, version);
        assert_eq!(
            fixture.digest,
            digest(version),
            "a migration up to {version} was changed: a database that has run it refuses to start. \
             Add a new one. If no release has it yet, run `{COMMAND}`"
        );
    }
    let newest = Fixture::read(today.version);
    assert_eq!(
        newest.counts(),
        today.counts(),
        "life.rs changed; update the fixture with `{COMMAND}`"
    );
    let columns: Vec<(String, String)> = sqlx::query_as(
        "select table_name::text, column_name::text from information_schema.columns
         where table_schema = 'public'",
    )
    .fetch_all(&stage.owner)
    .await
    .unwrap();
    let tables: BTreeSet<String> = tables(&stage.owner).await.into_iter().collect();
    let empty: Vec<String> = columns
        .into_iter()
        .filter(|(table, _)| tables.contains(table))
        .filter(|(table, column)| {
            let rows = newest.rows.get(table).map_or(&[][..], Vec::as_slice);
            !rows.iter().any(|row| row.contains_key(column))
        })
        .map(|(table, column)| format!("{table}.{column}"))
        .collect();
    assert!(empty.is_empty(), "add what fills these columns to life.rs: {empty:?}");
}

#[tokio::test]
async fn migrations_keep_every_row_of_older_databases() {
    for version in Fixture::versions() {
        let mut fixture = Fixture::read(version);
        let stage = start(fixture.load().await).await;
        fixture.rows = with_names_of_today(fixture.rows);
        let versions: Vec<i64> =
            stage.all("select version from _sqlx_migrations order by version").await;
        let expected: Vec<i64> = migrations().into_iter().map(|(version, _)| version).collect();
        assert_eq!(versions, expected, "the list in bootstrap.rs should be the folder");
        let now = all_rows(&stage.owner).await;
        for (table, rows) in &fixture.rows {
            let mut left = now[table].clone();
            assert_eq!(left.len(), rows.len(), "schema {version}: rows of {table}");
            for row in rows {
                let same = left.iter().position(|one| survives(table, row, one));
                let same = same.unwrap_or_else(|| {
                    panic!("schema {version}: {table} has lost {row:?}; what is left: {left:#?}")
                });
                left.swap_remove(same);
            }
        }
        reads(&stage, &fixture).await;
        continues(&stage, version).await;
        // The next start finds nothing to do.
        let stage = start(stage.db.urls.clone()).await;
        assert_eq!(stage.db.unsealed().await, 0);
    }
}

/// Rows of older schemas under the names of today.
fn with_names_of_today(rows: BTreeMap<String, Vec<Row>>) -> BTreeMap<String, Vec<Row>> {
    let mut renamed: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (table, rows) in rows {
        let today = TABLES.iter().find(|(former, _)| *former == table);
        let table = today.map_or(table, |(_, today)| (*today).to_owned());
        let column = |column: String| {
            let today = COLUMNS.iter().find(|(of, former, _)| *of == table && *former == column);
            today.map_or(column, |(_, _, today)| (*today).to_owned())
        };
        let row = |row: Row| row.into_iter().map(|(name, value)| (column(name), value)).collect();
        renamed.entry(table.clone()).or_default().extend(rows.into_iter().map(row));
    }
    renamed
}

/// Whether a row has everything it had.
fn survives(table: &str, before: &Row, now: &Row) -> bool {
    before.iter().all(|(column, value)| {
        let value = match (column.as_str(), value.as_str()) {
            ("check_result", Some("doubt")) => &Value::from("indeterminate"),
            _ => value,
        };
        REWRITTEN.contains(&(table, column)) || now.get(column) == Some(value)
    })
}

fn uuid(row: &Row, column: &str) -> Uuid {
    row[column].as_str().unwrap().parse().unwrap()
}

/// Checks that the store reads what the rows contain.
async fn reads(stage: &Stage, fixture: &Fixture) {
    reads_services(stage, fixture).await;
    reads_projects(stage, fixture).await;
    reads_platform(stage, fixture).await;
    reads_orgs(stage, fixture).await;
    let app = &stage.db.app;
    let org = stage.db.org;
    assert!(!app.list_volumes(org, PROJECT).await.unwrap().unwrap().is_empty());
    assert!(!app.list_endpoints(org, PROJECT).await.unwrap().unwrap().is_empty());
    assert!(!app.list_domains(org, PROJECT).await.unwrap().unwrap().is_empty());
    assert!(!app.list_variables(org, PROJECT, None).await.unwrap().unwrap().is_empty());
    assert!(!app.list_secrets(org, PROJECT, None).await.unwrap().unwrap().is_empty());
}

/// The row of a table that has this id in a column.
fn row_of<'a>(fixture: &'a Fixture, table: &str, column: &str, id: Uuid) -> Option<&'a Row> {
    fixture.rows[table].iter().find(|row| uuid(row, column) == id)
}

/// Phase, generation, receipt and releases of every service.
async fn reads_services(stage: &Stage, fixture: &Fixture) {
    let app = &stage.db.app;
    for row in &fixture.rows["services"] {
        let (id, org) = (uuid(row, "id"), OrgId::from_uuid(uuid(row, "org_id")));
        let shown = ServiceId::from_uuid(id).to_string();
        let detail = app.find_service(org, PROJECT, &shown).await.unwrap().unwrap();
        let phase = serde_json::to_value(detail.row.status.phase).unwrap();
        assert_eq!(
            Some(&phase),
            row_of(fixture, "statuses", "subject_id", id).map(|row| &row["phase"]),
            "{shown}"
        );
        assert_eq!(Value::from(detail.row.service.generation), row["generation"], "{shown}");
        let receipt =
            row_of(fixture, "receipts", "subject_id", id).map(|row| row["receipt"].clone());
        assert_eq!(detail.receipt.map(|it| serde_json::to_value(it).unwrap()), receipt, "{shown}");
        let releases = app.list_releases(org, (PROJECT, &shown), None, 100).await.unwrap().unwrap();
        let rows = fixture.rows["releases"].iter().filter(|row| uuid(row, "service_id") == id);
        assert_eq!(releases.len(), rows.count(), "{shown}");
        app.list_transitions(org, (PROJECT, &shown), None, 100).await.unwrap().unwrap();
    }
}

async fn reads_projects(stage: &Stage, fixture: &Fixture) {
    let app = &stage.db.app;
    for row in &fixture.rows["projects"] {
        let (id, org) = (uuid(row, "id"), OrgId::from_uuid(uuid(row, "org_id")));
        let shown = ProjectId::from_uuid(id).to_string();
        let project = app.find_project(org, &shown).await.unwrap().unwrap();
        let receipt = row_of(fixture, "receipts", "subject_id", id);
        assert_eq!(project.receipt.is_some(), receipt.is_some(), "{shown}");
    }
}

/// Plans with the prices they had, which hold from the epoch.
async fn reads_plans(stage: &Stage, fixture: &Fixture) {
    let app = &stage.db.app;
    let plans = app.list_plans(at(2000)).await.unwrap();
    let rows = &fixture.rows["plan_bodies"];
    assert_eq!(plans.len(), rows.len());
    for plan in plans {
        let prices = app.list_plan_prices(plan.name.as_str()).await.unwrap().unwrap();
        let row = rows.iter().find(|row| row["name"] == plan.name.as_str()).unwrap();
        // Bodies have no price since schema 24.
        if let Some(price) = row["body"].get("hourly") {
            assert_eq!(serde_json::to_value(plan.hourly).unwrap(), *price);
            let [only] = &prices[..] else { panic!("{prices:?}") };
            assert!(only.is_of(&plan), "{only:?}");
            assert_eq!((only.from, only.until), (Timestamp::UNIX_EPOCH, None));
        }
    }
}

/// Data of the platform, and a token.
async fn reads_platform(stage: &Stage, fixture: &Fixture) {
    let (app, version) = (&stage.db.app, fixture.version);
    let wakes = app.list_wakes(PLATFORM, WakeFilter::default(), 1000).await.unwrap();
    assert_eq!(wakes.len(), fixture.rows["wakes"].len());
    let findings = app.list_findings(true, None, 1000).await.unwrap();
    assert_eq!(findings.len(), fixture.rows["findings"].len());
    reads_plans(stage, fixture).await;
    // Without the platform's own org.
    assert_eq!(app.list_orgs().await.unwrap().len() + 1, fixture.rows["orgs"].len());
    app.list_templates().await.unwrap();
    app.list_clusters().await.unwrap();
    assert!(app.authenticate(TOKEN, at(2000)).await.unwrap().is_some(), "schema {version}");
}

/// How many rows of a table belong to an org; none if the table is newer than the fixture.
fn count_of(fixture: &Fixture, table: &str, org: OrgId) -> usize {
    let rows = fixture.rows.get(table).map_or(&[][..], Vec::as_slice);
    rows.iter().filter(|row| uuid(row, "org_id") == org.uuid()).count()
}

/// Events, divergences, the chain of events, and projections that can be rebuilt byte for byte.
async fn reads_orgs(stage: &Stage, fixture: &Fixture) {
    let (app, version) = (&stage.db.app, fixture.version);
    for row in &fixture.rows["orgs"] {
        let org = OrgId::from_uuid(uuid(row, "id"));
        app.list_tokens(org).await.unwrap();
        app.find_quota(org).await.unwrap();
        let events = stage.sealed(org).await;
        let sealed =
            fixture.rows["event_seals"].iter().filter(|row| uuid(row, "org_id") == org.uuid());
        assert_eq!(events.len(), sealed.count(), "schema {version}");
        if !events.is_empty() {
            verified(&events);
        }
        let all = DivergenceFilter { ended: true, ..DivergenceFilter::default() };
        let divergences = app.list_divergences(org, &all, None, 1000).await.unwrap();
        assert_eq!(divergences.len(), count_of(fixture, "divergences", org));
        let conflicts = app.list_conflicts(org, true, None, 1000).await.unwrap();
        assert_eq!(conflicts.len(), count_of(fixture, "conflicts", org));
        for rebuilt in app.rebuild_projections(org, None, 1000).await.unwrap() {
            let different = matches!(rebuilt.comparison, Comparison::Different { .. });
            assert!(!different, "schema {version}: {rebuilt:?}");
        }
    }
}

/// The program continues where the older one stopped.
async fn continues(stage: &Stage, version: i64) {
    let (app, org) = (&stage.db.app, stage.db.org);
    assert!(stage.db.unsealed().await > 0, "some events of the older version wait for the sealer");
    let before = stage.sealed(org).await.len();
    // The idempotency key of a request that the older version accepted is found.
    let idempotency_key = Some(IdempotencyKey::new("web".to_owned(), "key".to_owned(), b"{}"));
    let context = RequestContext { idempotency_key, ..stage.context() };
    let (web_name, request) = (name("web"), web("nginx:1"));
    let wanted = ServiceRequest::declare(PROJECT, &web_name, &request);
    let known = app.accept_service(org, &wanted, &context, at(2000)).await.unwrap();
    assert!(!known.changed, "schema {version}");

    let generation = stage.find("web").await.unwrap().service.generation;
    let web = stage.declare("web", "nginx:2").await.row;
    assert_eq!(web.service.generation, generation + 1);
    stage.declare("new", "nginx:1").await;
    stage.set_variable(Some("new"), "GREETING", "hello").await.unwrap();
    stage.open(org, "new", "public").await.unwrap();
    stage.add(org, "new", "new.example.org").await.unwrap();
    let decryptor = Keyring::new(&[7; 32]).decryptor();
    let secret = stage.decrypted("web", "KEY", &decryptor).await.unwrap();
    assert_eq!(secret.reveal(), SECRET);

    let row = stage.delete("creating").await.unwrap().row;
    let lease = stage.lease().await;
    let absent = [gone(&row, row.service.generation)];
    assert_eq!(stage.db.worker.record_reports(lease, &absent, at(2001)).await.unwrap(), 1);
    stage.seal().await;
    let events = stage.sealed(org).await;
    assert!(events.len() > before + 6, "{} of schema {version}", events.len());
    verified(&events);
}
