//! Prepares a server: roles, database and schema. Idempotent; runs at every start.

use std::str::FromStr;

use sha2::{Digest, Sha256};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, SqlSafeStr};

use trueup_rules::scram;

use crate::Error;
use crate::db::backfill;

/// Forward-only migrations. Listed by hand: sqlx's macro would pull in its compile-time checks.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "skeleton", include_str!("../../migrations/0001_skeleton.sql")),
    (2, "door", include_str!("../../migrations/0002_door.sql")),
    (3, "events", include_str!("../../migrations/0003_events.sql")),
    (4, "access", include_str!("../../migrations/0004_access.sql")),
    (5, "templates", include_str!("../../migrations/0005_templates.sql")),
    (6, "secrets", include_str!("../../migrations/0006_secrets.sql")),
    (7, "search", include_str!("../../migrations/0007_search.sql")),
    (8, "domains", include_str!("../../migrations/0008_domains.sql")),
    (9, "deletion", include_str!("../../migrations/0009_deletion.sql")),
    (10, "driver", include_str!("../../migrations/0010_driver.sql")),
    (11, "replicas", include_str!("../../migrations/0011_replicas.sql")),
    (12, "transitions", include_str!("../../migrations/0012_transitions.sql")),
    (13, "projects", include_str!("../../migrations/0013_projects.sql")),
    (15, "findings", include_str!("../../migrations/0015_findings.sql")),
    (16, "looks", include_str!("../../migrations/0016_looks.sql")),
    (17, "plan_requests", include_str!("../../migrations/0017_plan_requests.sql")),
    (18, "ending", include_str!("../../migrations/0018_ending.sql")),
    (19, "identity", include_str!("../../migrations/0019_identity.sql")),
    (20, "plain_names", include_str!("../../migrations/0020_plain_names.sql")),
    (21, "subjects", include_str!("../../migrations/0021_subjects.sql")),
    (22, "org_deletion", include_str!("../../migrations/0022_org_deletion.sql")),
    (23, "drift", include_str!("../../migrations/0023_drift.sql")),
    (24, "prices", include_str!("../../migrations/0024_prices.sql")),
    (25, "billing", include_str!("../../migrations/0025_billing.sql")),
    (26, "people", include_str!("../../migrations/0026_people.sql")),
    (27, "divergence retention", include_str!("../../migrations/0027_divergence_retention.sql")),
    (28, "active_hours", include_str!("../../migrations/0028_active_hours.sql")),
    (29, "org_limits", include_str!("../../migrations/0029_org_limits.sql")),
    (30, "bindings", include_str!("../../migrations/0030_bindings.sql")),
    (31, "capacity", include_str!("../../migrations/0031_capacity.sql")),
    (32, "providers", include_str!("../../migrations/0032_providers.sql")),
    (33, "subscriptions", include_str!("../../migrations/0033_subscriptions.sql")),
];

/// A digest of all migrations: changes whenever one is added or edited.
#[must_use]
pub fn schema_digest() -> String {
    let text: Vec<&str> = MIGRATIONS.iter().map(|(_, _, text)| *text).collect();
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.concat().as_bytes())[..6])
}

/// Passwords of the three roles.
#[derive(Clone)]
pub struct RolePasswords {
    /// For `trueup_owner`, which migrates.
    pub owner: String,
    /// For `trueup_app`, which serves requests.
    pub app: String,
    /// For `trueup_worker`, which runs the control loops.
    pub worker: String,
}

impl std::fmt::Debug for RolePasswords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RolePasswords(…)")
    }
}

/// The connection URL of each role.
#[derive(Debug, Clone)]
pub struct Urls {
    /// For seeding and migrating.
    pub owner: String,
    /// For serving requests.
    pub app: String,
    /// For the control loops.
    pub worker: String,
}

/// Whether the server's roles have these passwords or do not exist yet.
///
/// Roles with other passwords belong to another master key, and so does their data.
///
/// # Errors
/// The server cannot be reached.
pub async fn is_ours(
    admin_url: &str,
    database: &str,
    passwords: &RolePasswords,
) -> Result<bool, Error> {
    let admin = PgConnectOptions::from_str(admin_url)?;
    let mut connection = PgConnection::connect_with(&admin).await?;
    let exists = role_exists(&mut connection, "trueup_owner").await?;
    let login = login_options(&mut connection, &admin, database).await?;
    connection.close().await?;
    Ok(!exists || can_log_in(&login, "trueup_owner", &passwords.owner).await?)
}

/// Options for a login to the database, or to the admin's while it does not exist.
async fn login_options(
    connection: &mut PgConnection,
    admin: &PgConnectOptions,
    database: &str,
) -> Result<PgConnectOptions, Error> {
    let exists: bool =
        sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(database)
            .fetch_one(connection)
            .await?;
    Ok(if exists { admin.clone().database(database) } else { admin.clone() })
}

async fn role_exists(connection: &mut PgConnection, role: &str) -> Result<bool, Error> {
    let exists = sqlx::query_scalar("select exists (select from pg_roles where rolname = $1)")
        .bind(role)
        .fetch_one(connection)
        .await?;
    Ok(exists)
}

/// Whether a role can log in with this password.
async fn can_log_in(login: &PgConnectOptions, role: &str, password: &str) -> Result<bool, Error> {
    let login = login.clone().username(role).password(password);
    match PgConnection::connect_with(&login).await {
        Ok(connection) => {
            connection.close().await?;
            Ok(true)
        }
        // Class 28: authentication failed.
        Err(sqlx::Error::Database(db_error))
            if db_error.code().is_some_and(|c| c.starts_with("28")) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates roles and database where they are missing and brings the schema up to date.
///
/// `admin_url` must be allowed to create roles and databases; it need not be a superuser.
///
/// # Errors
/// The database cannot be reached, or a migration does not apply.
pub async fn bootstrap(
    admin_url: &str,
    database: &str,
    passwords: &RolePasswords,
) -> Result<Urls, Error> {
    let admin = PgConnectOptions::from_str(admin_url)?;
    let mut connection = PgConnection::connect_with(&admin).await?;
    // Serializes processes that start at the same time.
    sqlx::query("select pg_advisory_lock(7308604)").execute(&mut connection).await?;
    let login = login_options(&mut connection, &admin, database).await?;
    create_roles(&mut connection, &login, passwords).await?;
    create_database(&mut connection, database).await?;

    let owner =
        admin.clone().username("trueup_owner").password(&passwords.owner).database(database);
    let pool = PgPoolOptions::new().max_connections(1).connect_with(owner).await?;
    migrator().run(&pool).await.map_err(Error::Migrate)?;
    index_names(&pool).await?;
    backfill::hash_seals(&pool).await?;
    backfill::restamp_queue(&pool).await?;
    pool.close().await;
    connection.close().await?;

    Urls::new(admin_url, database, passwords)
}

/// Creates the trigram index for searches by a part of a name, if the extensions are available.
///
/// Without them searches return the same rows, only slower ([`crate::Setup::has_name_index`]). The
/// extensions ship with Postgres, and a database owner may install them.
async fn index_names(pool: &PgPool) -> Result<(), Error> {
    const INDEX: &str = "set client_min_messages = warning;
        create extension if not exists pg_trgm;
        create extension if not exists btree_gin;
        create index if not exists services_name_search on services
            using gin (org_id, name gin_trgm_ops) with (fastupdate = off) where deleted_at is null;
        reset client_min_messages";
    let made = sqlx::raw_sql(INDEX).execute(pool).await;
    let unavailable = |error: &sqlx::Error| {
        let code = error.as_database_error().and_then(|db_error| db_error.code());
        // The extension is not installed, or the role may not create it.
        code.is_some_and(|code| matches!(&*code, "0A000" | "58P01" | "42501"))
    };
    match made {
        Err(error) if !unavailable(&error) => Err(error.into()),
        Err(_) | Ok(_) => Ok(()),
    }
}

impl Urls {
    /// The URLs of a database that was bootstrapped before.
    ///
    /// # Errors
    /// The admin URL cannot be parsed.
    pub fn new(admin_url: &str, database: &str, passwords: &RolePasswords) -> Result<Self, Error> {
        let admin = PgConnectOptions::from_str(admin_url)?;
        let url = |role: &str, password: &str| {
            let options = admin.clone().username(role).password(password).database(database);
            sqlx::ConnectOptions::to_url_lossy(&options).to_string()
        };
        Ok(Self {
            owner: url("trueup_owner", &passwords.owner),
            app: url("trueup_app", &passwords.app),
            worker: url("trueup_worker", &passwords.worker),
        })
    }
}

fn migrator() -> Migrator {
    let migration = |(version, name, text): (i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, text.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().copied().map(migration).collect())
}

/// Creates the roles, or sets the passwords of those that cannot log in.
///
/// The server may log these statements. They contain no password: the server gets what it would
/// store of it.
async fn create_roles(
    connection: &mut PgConnection,
    login: &PgConnectOptions,
    passwords: &RolePasswords,
) -> Result<(), Error> {
    let roles = [
        ("trueup_owner", &passwords.owner),
        ("trueup_app", &passwords.app),
        ("trueup_worker", &passwords.worker),
    ];
    for (role, password) in roles {
        let template = if !role_exists(connection, role).await? {
            "create role %I login nosuperuser nobypassrls password %L"
        } else if !can_log_in(login, role, password).await? {
            "alter role %I login password %L"
        } else {
            continue;
        };
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).expect("the operating system should have randomness");
        // Utility statements take no parameters: format() quotes identifiers and verifiers.
        let statement: String = sqlx::query_scalar("select format($1, $2, $3)")
            .bind(template)
            .bind(role)
            .bind(scram::verifier(password, &salt))
            .fetch_one(&mut *connection)
            .await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn create_database(connection: &mut PgConnection, database: &str) -> Result<(), Error> {
    let statement: Option<(String,)> = sqlx::query_as(
        "select format('create database %I owner trueup_owner', $1::text)
         where not exists (select from pg_database where datname = $1)",
    )
    .bind(database)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some((statement,)) = statement {
        grant_owner(connection).await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await?;
    }
    Ok(())
}

/// Grants `trueup_owner` to an admin that is not a superuser.
///
/// Only a superuser may create a database for any owner; another role must be able to become that
/// owner, and may grant itself membership in the roles that it created.
async fn grant_owner(connection: &mut PgConnection) -> Result<(), Error> {
    let (is_superuser,): (bool,) =
        sqlx::query_as("select rolsuper from pg_roles where rolname = current_user")
            .fetch_one(&mut *connection)
            .await?;
    if !is_superuser {
        let granted = "grant trueup_owner to current_user with inherit false, set true";
        sqlx::raw_sql(granted).execute(connection).await?;
    }
    Ok(())
}
