//! Bootstrap of a shared server: ownership is checked before anything is changed.

use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use trueup_store::{App, RolePasswords, Worker, bootstrap, is_ours};
use trueup_testkit::own_postgres::OwnPostgres;
use trueup_testkit::test_db::{passwords, server};

#[tokio::test]
async fn roles_with_other_passwords_are_not_ours() {
    let admin = server().await;
    assert!(is_ours(admin, "trueup_is_not_there", &passwords()).await.unwrap());
    let text = || "another".to_owned();
    let other = RolePasswords { owner: text(), app: text(), worker: text() };
    assert!(!is_ours(admin, "trueup_is_not_there", &other).await.unwrap());
}

/// Managed Postgres offers no superuser, only a role that may create roles and databases.
#[tokio::test]
async fn bootstrap_works_without_a_superuser() {
    let server = OwnPostgres::start("without-superuser").await;
    // In its own task, so that the server is stopped even if it panics.
    let mut tasks = JoinSet::new();
    tasks.spawn(prepare_without_superuser(server.admin_url()));
    let outcome = tasks.join_next().await;
    server.stop().await;
    outcome.unwrap().unwrap();
}

async fn prepare_without_superuser(admin: String) {
    let mut connection = PgConnection::connect(&admin).await.unwrap();
    let made = "create role admin_without_superuser login createrole createdb nosuperuser password 'secret'";
    sqlx::raw_sql(made).execute(&mut connection).await.unwrap();
    let (_, place) = admin.rsplit_once('@').unwrap();
    let url = format!("postgres://admin_without_superuser:secret@{place}");
    for start in ["the first start", "the second one"] {
        assert!(is_ours(&url, "trueup", &passwords()).await.unwrap(), "{start}");
        let urls = bootstrap(&url, "trueup", &passwords()).await;
        let urls = urls.unwrap_or_else(|error| panic!("{start}: {error:?}"));
        App::connect(&urls.app).unwrap().ping().await.unwrap();
        let unsealed = Worker::connect(&urls.worker).unwrap().unsealed_events().await.unwrap();
        assert_eq!(unsealed.count, 0, "{start}");
    }
}
