//! Seeds an install: its first orgs, tokens, clusters, plans and templates.

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use sqlx::types::Json;
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::offer::Offer;
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;
use trueup_model::principal::Role;
use trueup_model::template::Template;
use trueup_model::token::id_in;
use trueup_rules::admit::FieldError;
use trueup_rules::admit::template::follows;
use uuid::Uuid;

use crate::db::begin::begin;
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::row::{json, read_json};
use crate::{Error, offer, plan, price, subscription};

/// The hash of a token that is stored instead of the token.
#[must_use]
pub fn token_hash(token: &str) -> Vec<u8> {
    Sha256::digest(token.as_bytes()).to_vec()
}

/// Seeds an install as the schema owner. Every function is idempotent.
#[derive(Debug)]
pub struct Setup {
    pool: PgPool,
}

impl Setup {
    /// Connects as the schema owner.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn connect(owner_url: &str) -> Result<Self, Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect(owner_url).await?;
        Ok(Self { pool })
    }

    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// The org with this name, created if it does not exist.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_org(&self, name: &str, now: Timestamp) -> Result<OrgId, Error> {
        let (id,): (Uuid,) = sqlx::query_as(
            "insert into orgs (id, name, created_at) values ($1, $2, $3)
             on conflict (name) do update set name = excluded.name returning id",
        )
        .bind(new_id::<trueup_model::id::noun::Org>(now).uuid())
        .bind(name)
        .bind(sql(now))
        .fetch_one(&self.pool)
        .await?;
        Ok(OrgId::from_uuid(id))
    }

    /// Whether the index for searches by service name exists; see `bootstrap`.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn has_name_index(&self) -> Result<bool, Error> {
        let (there,): (bool,) =
            sqlx::query_as("select to_regclass('public.services_name_search') is not null")
                .fetch_one(&self.pool)
                .await?;
        Ok(there)
    }

    /// The cluster with this name, created if it does not exist.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_cluster(&self, name: &str, now: Timestamp) -> Result<ClusterId, Error> {
        let (id,): (Uuid,) = sqlx::query_as(
            "insert into clusters (id, name, created_at) values ($1, $2, $3)
             on conflict (name) do update set name = excluded.name returning id",
        )
        .bind(new_id::<trueup_model::id::noun::Cluster>(now).uuid())
        .bind(name)
        .bind(sql(now))
        .fetch_one(&self.pool)
        .await?;
        Ok(ClusterId::from_uuid(id))
    }

    /// Makes this token valid for a role; `org` is `None` for operators.
    ///
    /// Another token of that name is revoked: a lost token is replaced by a new token file. A
    /// revoked token stays revoked.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_token(
        &self,
        token: &str,
        name: &str,
        role: Role,
        org: Option<OrgId>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (org, hash) = (org.unwrap_or(PLATFORM).uuid(), token_hash(token));
        sqlx::query(
            "update tokens set revoked_at = $4
             where org_id = $1 and name = $2 and hash <> $3 and revoked_at is null",
        )
        .bind(org)
        .bind(name)
        .bind(&hash)
        .bind(sql(now))
        .execute(&self.pool)
        .await?;
        sqlx::query(
            "insert into tokens (id, org_id, name, role, hash, created_at)
             values ($1, $2, $3, $4, $5, $6) on conflict (hash) do nothing",
        )
        .bind(id_in(token).unwrap_or_else(|| new_id(now)).uuid())
        .bind(org)
        .bind(name)
        .bind(role.into_str())
        .bind(hash)
        .bind(sql(now))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Creates a plan unless one of this name exists: changes by operators are kept.
    ///
    /// The price of a shipped plan holds from the epoch, whatever the clock of the first request.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_plan(&self, plan: &Plan) -> Result<(), Error> {
        let mut tx = begin(&self.pool).await?;
        let added = sqlx::query(
            "insert into plan_bodies (name, body, retired) values ($1, $2, $3)
             on conflict (name) do nothing",
        )
        .bind(plan.name.as_str())
        .bind(plan::body(plan))
        .bind(plan.retired)
        .execute(&mut *tx)
        .await?;
        if added.rows_affected() == 1 {
            let (now,): (jiff_sqlx::Timestamp,) =
                sqlx::query_as("select now()").fetch_one(&mut *tx).await?;
            let from = Timestamp::UNIX_EPOCH;
            price::append(&mut tx, plan, from, now.to_jiff(), "Trueup").await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Publishes a shipped offer unless one of this name exists: changes by operators are kept.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_offer(&self, terms: &Offer) -> Result<(), Error> {
        let mut tx = begin(&self.pool).await?;
        let (known, now): (bool, jiff_sqlx::Timestamp) =
            sqlx::query_as("select exists (select from offers where name = $1), now()")
                .bind(terms.name.as_str())
                .fetch_one(&mut *tx)
                .await?;
        if !known {
            offer::append(&mut tx, terms, 1, now.to_jiff(), "Trueup").await?;
        }
        tx.commit().await?;
        Ok(())
    }

    /// Subscribes an org that never had a subscription, and for which nothing was posted yet, to an offer.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_subscription(
        &self,
        org: OrgId,
        offer: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = begin(&self.pool).await?;
        sqlx::query(
            "insert into subscriptions (id, org_id, number, offer_name, offer_version, valid_from,
                                        created_at, created_by)
             select $1, $2, 1, o.name, o.version, $4, $4, 'Trueup'
             from offers o
             where o.name = $3
               and not exists (select from subscriptions where org_id = $2)
               and not exists (select from ledger_entries where org_id = $2)
             order by o.version desc limit 1",
        )
        .bind(new_id::<trueup_model::id::noun::Subscription>(now).uuid())
        .bind(org.uuid())
        .bind(offer)
        .bind(sql(now))
        .execute(&mut *tx)
        .await?;
        subscription::apply(&mut tx, org, now).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Publishes a shipped template.
    ///
    /// A published version never changes: if an earlier Trueup shipped another body, this one
    /// becomes the next version.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn ensure_template(&self, shipped: &Template) -> Result<Shipped, Error> {
        let rows: Vec<(i32, Json<Value>)> =
            sqlx::query_as("select version, body from templates where name = $1 order by version")
                .bind(shipped.name.as_str())
                .fetch_all(&self.pool)
                .await?;
        let mut last = None;
        for (_, body) in rows {
            let known: Template = read_json("template", body)?;
            if *shipped == (Template { version: shipped.version, ..known.clone() }) {
                return Ok(Shipped::Known);
            }
            last = Some(known);
        }
        let (next, outcome) = match last {
            None => (shipped.clone(), Shipped::New),
            Some(last) => {
                let errors = follows(&last, shipped);
                if !errors.is_empty() {
                    return Ok(Shipped::CannotFollow { version: last.version, errors });
                }
                let version = last.version.saturating_add(1);
                (Template { version, ..shipped.clone() }, Shipped::Next { version })
            }
        };
        sqlx::query(
            "insert into templates (name, version, body) values ($1, $2, $3)
             on conflict (name, version) do nothing",
        )
        .bind(next.name.as_str())
        .bind(i32::try_from(next.version).unwrap_or(i32::MAX))
        .bind(json(&next))
        .execute(&self.pool)
        .await?;
        Ok(outcome)
    }
}

/// The result of [`Setup::ensure_template`].
#[derive(Debug, Clone, PartialEq)]
pub enum Shipped {
    /// The template is new and was published.
    New,
    /// This body was published before.
    Known,
    /// The template existed with another body; this one was published as its next version.
    Next {
        /// The new version.
        version: u32,
    },
    /// The body is not a valid successor of the last version; nothing was published.
    CannotFollow {
        /// The last published version.
        version: u32,
        /// Why not.
        errors: Vec<FieldError>,
    },
}
