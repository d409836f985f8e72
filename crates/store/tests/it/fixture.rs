//! Fixtures: the rows of a filled database, one file per kept schema version.
//!
//! A file begins with the version and a digest of its migrations. Then each table follows with its
//! rows, one JSON object a line, without the columns that are null.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, SqlSafeStr};
use trueup_store::{App, Setup, Urls, Worker, bootstrap};
use trueup_testkit::test_db::{TestDb, passwords, server};

use crate::stage::{Stage, at};

/// One row, without null columns.
pub(crate) type Row = Map<String, Value>;

/// The rows of a database, by table.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(crate) version: i64,
    pub(crate) digest: String,
    pub(crate) rows: BTreeMap<String, Vec<Row>>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Version and text of each migration, read from their folder, not from the list in the program.
pub(crate) fn migrations() -> Vec<(i64, String)> {
    let mut all: Vec<(i64, String)> = fs::read_dir(folder("migrations"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.split('_').next().unwrap().parse().unwrap(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// A digest of the schema of a version.
pub(crate) fn digest(version: i64) -> String {
    let mut digest = Sha256::new();
    for (_, text) in migrations().iter().filter(|(number, _)| *number <= version) {
        digest.update(text);
    }
    digest.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The tables that hold rows of their own, in the order of their names.
pub(crate) async fn tables(owner: &PgPool) -> Vec<String> {
    let tables = "select relname::text from pg_class
         where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
           and not relispartition and relname <> '_sqlx_migrations' order by 1";
    sqlx::query_scalar(tables).fetch_all(owner).await.unwrap()
}

/// Every row of every table.
pub(crate) async fn all_rows(owner: &PgPool) -> BTreeMap<String, Vec<Row>> {
    let mut connection = owner.acquire().await.unwrap();
    sqlx::raw_sql("set time zone 'UTC'").execute(&mut *connection).await.unwrap();
    let mut all = BTreeMap::new();
    for table in tables(owner).await {
        let statement = AssertSqlSafe(format!("select to_jsonb(t)::text from {table} t"));
        let texts: Vec<String> =
            sqlx::query_scalar(statement).fetch_all(&mut *connection).await.unwrap();
        let row = |text: &String| {
            let mut row: Row = serde_json::from_str(text).unwrap();
            row.retain(|_, value| !value.is_null());
            row
        };
        let mut rows: Vec<Row> = texts.iter().map(row).collect();
        rows.sort_by_cached_key(|row| Value::Object(row.clone()).to_string());
        all.insert(table, rows);
    }
    all
}

impl Fixture {
    /// The rows of a database of the newest version.
    pub(crate) async fn of(stage: &Stage) -> Self {
        let version = migrations().last().unwrap().0;
        Self { version, digest: digest(version), rows: all_rows(&stage.owner).await }
    }

    fn path(version: i64) -> PathBuf {
        folder("tests/fixtures").join(format!("{version:04}.rows"))
    }

    /// The versions that have a fixture.
    pub(crate) fn versions() -> Vec<i64> {
        let files = fs::read_dir(folder("tests/fixtures")).unwrap();
        let mut versions: Vec<i64> = files
            .map(|file| {
                file.unwrap().path().file_stem().unwrap().to_str().unwrap().parse().unwrap()
            })
            .collect();
        versions.sort_unstable();
        versions
    }

    pub(crate) fn read(version: i64) -> Self {
        let text = fs::read_to_string(Self::path(version)).unwrap();
        let mut lines = text.lines();
        let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
        assert_eq!((head[0], head[2]), ("schema", "digest"), "{head:?}");
        let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        let mut table = String::new();
        for line in lines.filter(|line| !line.is_empty()) {
            if line.starts_with('{') {
                rows.entry(table.clone()).or_default().push(serde_json::from_str(line).unwrap());
            } else {
                line.clone_into(&mut table);
            }
        }
        Self { version: head[1].parse().unwrap(), digest: head[3].to_owned(), rows }
    }

    pub(crate) fn write(&self) {
        let mut text = format!("schema {} digest {}\n", self.version, self.digest);
        for (table, rows) in self.rows.iter().filter(|(_, rows)| !rows.is_empty()) {
            text += &format!("\n{table}\n");
            for row in rows {
                text += &format!("{}\n", Value::Object(row.clone()));
            }
        }
        fs::write(Self::path(self.version), text).unwrap();
    }

    /// How many rows each table has.
    pub(crate) fn counts(&self) -> BTreeMap<&str, usize> {
        let rows = self.rows.iter().filter(|(_, rows)| !rows.is_empty());
        rows.map(|(table, rows)| (table.as_str(), rows.len())).collect()
    }

    /// A database that was migrated to this version and no further, with these rows in it.
    pub(crate) async fn load(&self) -> Urls {
        let admin = server().await;
        let name = format!("test_{}_schema{}", std::process::id(), self.version);
        let mut connection = PgConnection::connect(admin).await.unwrap();
        for statement in [
            format!("drop database if exists {name} with (force)"),
            format!("create database {name} owner trueup_owner"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        }
        let urls = Urls::new(admin, &name, &passwords()).unwrap();
        let migration = |(version, text): (i64, String)| {
            let text = AssertSqlSafe(text).into_sql_str();
            Migration::new(version, "".into(), MigrationType::Simple, text, false)
        };
        let old = migrations().into_iter().filter(|(number, _)| *number <= self.version);
        let migrator = Migrator::with_migrations(old.map(migration).collect());
        let owner = PgPool::connect(&urls.owner).await.unwrap();
        migrator.run(&owner).await.unwrap();
        owner.close().await;
        // Like a restored dump: without triggers, and with sequences that continue.
        let place = urls.owner.rsplit('/').next().unwrap();
        let (server, _) = admin.rsplit_once('/').unwrap();
        let mut admin = PgConnection::connect(&format!("{server}/{place}")).await.unwrap();
        let restoring = "set session_replication_role = replica; set time zone 'UTC'";
        sqlx::raw_sql(restoring).execute(&mut admin).await.unwrap();
        self.insert(&mut admin).await;
        urls
    }

    async fn insert(&self, admin: &mut PgConnection) {
        // The program creates partitions when they are needed.
        let months = "select make_transition_partitions(min(at), max(at))
             from (select (jsonb_array_elements($1) ->> 'seen_at')::timestamptz as at) seen";
        if let Some(rows) = self.rows.get("transitions") {
            let rows = Value::Array(rows.iter().cloned().map(Value::Object).collect());
            sqlx::query(months).bind(sqlx::types::Json(rows)).execute(&mut *admin).await.unwrap();
        }
        for (table, rows) in &self.rows {
            // The fixture also contains the rows that migrations insert.
            let empty = AssertSqlSafe(format!("delete from {table}"));
            sqlx::raw_sql(empty).execute(&mut *admin).await.unwrap();
            let insert = format!(
                "insert into {table} overriding system value
                 select * from jsonb_populate_recordset(null::{table}, $1)"
            );
            let rows = Value::Array(rows.iter().cloned().map(Value::Object).collect());
            let done = sqlx::query(AssertSqlSafe(insert))
                .bind(sqlx::types::Json(rows))
                .execute(&mut *admin)
                .await;
            done.unwrap_or_else(|error| panic!("{table}: {error}"));
        }
        let columns: Vec<(String, String)> = sqlx::query_as(
            "select table_name::text, column_name::text from information_schema.columns
             where table_schema = 'public' and is_identity = 'YES'",
        )
        .fetch_all(&mut *admin)
        .await
        .unwrap();
        for (table, column) in columns {
            let next = format!(
                "select setval(pg_get_serial_sequence('{table}', '{column}'), max({column}))
                 from {table}"
            );
            sqlx::raw_sql(AssertSqlSafe(next)).execute(&mut *admin).await.unwrap();
        }
    }
}

/// Starts the program on a database, and returns a stage on it.
pub(crate) async fn start(urls: Urls) -> Stage {
    let database = urls.owner.rsplit('/').next().unwrap().split('?').next().unwrap();
    bootstrap(server().await, database, &passwords()).await.unwrap();
    let setup = Setup::connect(&urls.owner).await.unwrap();
    let db = TestDb {
        app: App::connect(&urls.app).unwrap(),
        worker: Worker::connect(&urls.worker).unwrap(),
        org: setup.ensure_org("acme", at(0)).await.unwrap(),
        cluster: setup.ensure_cluster("test", at(0)).await.unwrap(),
        setup,
        urls,
    };
    let owner = PgPool::connect(&db.urls.owner).await.unwrap();
    let principal = db.owner();
    Stage { db, owner, principal }
}
