//! Isolation of templates: they belong to no org, and published versions never change.

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use trueup_model::template::Template;
use trueup_store::Shipped;
use trueup_testkit::test_db::TestDb;

use crate::stage::Stage;

async fn app(db: &TestDb) -> PgPool {
    PgPoolOptions::new().max_connections(1).connect(&db.urls.app).await.unwrap()
}

const PUBLISH: &str = "insert into templates (name, version, body, published_at, published_by)
                       values ('bot', 1, '{}', now(), 'x')";

#[tokio::test]
async fn a_transaction_of_a_tenant_cannot_publish_or_deprecate() {
    let db = TestDb::new().await;
    let pool = app(&db).await;
    let org = db.org.uuid().to_string();
    let mut connection = pool.acquire().await.unwrap();
    sqlx::query("select set_config('trueup.org', $1, false)")
        .bind(org)
        .execute(&mut *connection)
        .await
        .unwrap();
    let published = sqlx::query(PUBLISH).execute(&mut *connection).await;
    assert!(published.is_err(), "{published:?}");
    let deprecate = "update templates set deprecated_at = now(), instead = 'x'";
    let touched = sqlx::query(deprecate).execute(&mut *connection).await.unwrap();
    assert_eq!(touched.rows_affected(), 0);

    let platform = "select set_config('trueup.org', $1, false)";
    sqlx::query(platform)
        .bind(trueup_model::org::PLATFORM.uuid().to_string())
        .execute(&mut *connection)
        .await
        .unwrap();
    sqlx::query(PUBLISH).execute(&mut *connection).await.unwrap();
}

#[tokio::test]
async fn a_published_template_cannot_change() {
    let db = TestDb::new().await;
    let pool = app(&db).await;
    let platform = trueup_model::org::PLATFORM.uuid().to_string();
    sqlx::query("select set_config('trueup.org', $1, false)")
        .bind(platform)
        .execute(&pool)
        .await
        .unwrap();
    for statement in [
        "update templates set body = '{}'",
        "update templates set version = 2",
        "update templates set published_by = 'x'",
        "delete from templates",
        "insert into templates (name, version, body, published_at, deprecated_at, instead)
         values ('bot', 1, '{}', now(), now(), 'x')",
        // A row that claims to be shipped.
        "insert into templates (name, version, body) values ('bot', 1, '{}')",
        "update templates set deprecated_at = now()",
    ] {
        let outcome = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await;
        assert!(outcome.is_err(), "{statement}: {outcome:?}");
    }
}

/// An older install contains the templates of an older release.
#[tokio::test]
async fn a_shipped_template_whose_body_changed_becomes_the_next_version() {
    let stage = Stage::new().await;
    let setup = &stage.db.setup;
    let web = "web@1".parse().unwrap();
    let shipped = stage.db.app.find_template(&web).await.unwrap().unwrap();
    assert_eq!(setup.ensure_template(&shipped).await.unwrap(), Shipped::Known);

    let newer = Template { summary: "Better.".to_owned(), ..shipped.clone() };
    assert_eq!(setup.ensure_template(&newer).await.unwrap(), Shipped::Next { version: 2 });
    assert_eq!(setup.ensure_template(&newer).await.unwrap(), Shipped::Known, "at the next start");
    let versions = stage.db.app.list_template_versions("web").await.unwrap();
    let listed: Vec<(u32, &str)> =
        versions.iter().map(|one| (one.version, one.summary.as_str())).collect();
    assert_eq!(listed, [(1, shipped.summary.as_str()), (2, "Better.")]);
    assert_eq!(setup.ensure_template(&shipped).await.unwrap(), Shipped::Known, "an older release");

    let mut other = newer.clone();
    other.spec["workload"] = serde_json::json!("stateful_set");
    let refused = setup.ensure_template(&other).await.unwrap();
    assert!(matches!(refused, Shipped::CannotFollow { version: 2, .. }), "{refused:?}");
    assert_eq!(stage.db.app.list_template_versions("web").await.unwrap().len(), 2);
}
