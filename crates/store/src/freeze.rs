//! Freezes of services, clusters and the platform: no writes to the cluster while one is active.
//!
//! Frozen units are still observed, and changes to them are accepted and applied after the freeze.

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ClusterId, OrgId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::wake::Lane;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::door::{Accepted, Refusal, RequestContext};
use crate::service::{ServiceRow, find};
use crate::work::wake::{Request, request};
use crate::{App, Error, Worker, event};

/// A request to freeze or unfreeze.
#[derive(Debug, Clone, Copy)]
pub struct FreezeRequest<'a> {
    /// The reason to freeze; `None` unfreezes.
    pub reason: Option<&'a str>,
}

impl App {
    /// Freezes or unfreezes a service. Takes effect when its wake is processed.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn freeze_service(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        wanted: FreezeRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        let none = || Refusal::NotFound("service");
        let found = find(&mut tx, project, service).await?.ok_or_else(none)?.service;
        let frozen: Option<(Option<String>,)> = sqlx::query_as(
            "select frozen_why from services where id = $1 and deleted_at is null for update",
        )
        .bind(found.id.uuid())
        .fetch_optional(&mut *tx)
        .await?;
        let (before,) = frozen.ok_or_else(none)?;
        let changed = before.as_deref() != wanted.reason;
        if changed {
            set_service(&mut tx, found.id, wanted.reason, context, now).await?;
            let principal = context.principal.name.clone();
            let fact = match wanted.reason {
                Some(why) => Fact::ServiceFrozen { reason: why.to_owned(), principal },
                None => Fact::ServiceUnfrozen { principal },
            };
            let event = NewEvent {
                id: new_id(now),
                org,
                source: Source::User,
                unit: Unit::Service(found.id),
                generation: found.generation,
                at: now,
                fact,
                trace: context.trace.clone(),
                cause: None,
            };
            event::record(&mut tx, &[event]).await?;
            let unit = Unit::Service(found.id);
            let wake = Request::by(context, unit, org, found.cluster, Lane::UserChange);
            request(&mut tx, &wake, now).await?;
        }
        let row = find(&mut tx, project, &found.id.to_string()).await?.ok_or_else(none)?;
        self.end(tx).await?;
        Ok(Accepted { row, changed })
    }

    /// Freezes or unfreezes a cluster, by name or id, or the whole platform.
    ///
    /// Returns the freeze now in effect, and whether it changed.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn freeze_platform(
        &self,
        cluster: Option<&str>,
        wanted: FreezeRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<Option<Freeze>>, Refusal> {
        let mut tx = self.begin(PLATFORM).await?;
        let (before, name) = match cluster {
            Some(cluster) => lock_cluster(&mut tx, cluster).await?,
            None => (lock_platform(&mut tx).await?, None),
        };
        let changed = before.as_deref() != wanted.reason;
        if changed {
            set_platform(&mut tx, name.as_deref(), wanted.reason, context, now).await?;
            let principal = context.principal.name.clone();
            let cluster = name.clone();
            let fact = match wanted.reason {
                Some(why) => Fact::PlatformFrozen { cluster, reason: why.to_owned(), principal },
                None => Fact::PlatformUnfrozen { cluster, principal },
            };
            event::record_of_org(&mut tx, PLATFORM, fact, context, now).await?;
        }
        let row = match &name {
            Some(name) => cluster_freeze(&mut tx, name).await?,
            None => platform_freeze(&mut tx).await?,
        };
        self.end(tx).await?;
        Ok(Accepted { row, changed })
    }

    /// The freeze of the whole platform, if there is one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_platform_freeze(&self) -> Result<Option<Freeze>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        platform_freeze(&mut tx).await
    }
}

impl Worker {
    /// The freeze that applies to a cluster: the platform's, or its own.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_freeze(&self, cluster: ClusterId) -> Result<Option<Freeze>, Error> {
        let row = sqlx::query(
            "select o.frozen_at as platform_frozen_at, o.frozen_by as platform_frozen_by,
                    o.frozen_why as platform_frozen_why, c.frozen_at as cluster_frozen_at,
                    c.frozen_by as cluster_frozen_by, c.frozen_why as cluster_frozen_why
             from platform o left join clusters c on c.id = $1",
        )
        .bind(cluster.uuid())
        .fetch_one(self.pool())
        .await?;
        let platform = freeze(&row, FreezeScope::Platform)?;
        Ok(platform.or(freeze(&row, FreezeScope::Cluster)?))
    }
}

/// Reads the freeze of this scope from a row with its columns.
pub(crate) fn freeze(row: &PgRow, scope: FreezeScope) -> Result<Option<Freeze>, Error> {
    let prefix = match scope {
        FreezeScope::Platform => "platform_",
        FreezeScope::Cluster => "cluster_",
        FreezeScope::Service => "",
    };
    let column = |name: &str| format!("{prefix}frozen_{name}");
    let since: Option<jiff_sqlx::Timestamp> = row.try_get(column("at").as_str())?;
    let by: Option<String> = row.try_get(column("by").as_str())?;
    let why: Option<String> = row.try_get(column("why").as_str())?;
    Ok(match (since, by, why) {
        (Some(since), Some(by), Some(why)) => {
            Some(Freeze { scope, by, why, since: since.to_jiff() })
        }
        (_, _, _) => None,
    })
}

async fn set_service(
    tx: &mut Tx,
    service: ServiceId,
    reason: Option<&str>,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "update services set frozen_at = $2, frozen_by = $3, frozen_why = $4 where id = $1",
    )
    .bind(service.uuid())
    .bind(reason.map(|_| sql(now)))
    .bind(reason.map(|_| context.principal.name.as_str()))
    .bind(reason)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn set_platform(
    tx: &mut Tx,
    cluster: Option<&str>,
    reason: Option<&str>,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let statement = match cluster {
        Some(_) => {
            "update clusters set frozen_at = $2, frozen_by = $3, frozen_why = $4 where name = $1"
        }
        None => {
            "update platform set frozen_at = $2, frozen_by = $3, frozen_why = $4
             where $1::text is null"
        }
    };
    sqlx::query(statement)
        .bind(cluster)
        .bind(reason.map(|_| sql(now)))
        .bind(reason.map(|_| context.principal.name.as_str()))
        .bind(reason)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Locks a cluster; returns the reason of its current freeze, and its name.
async fn lock_cluster(
    tx: &mut Tx,
    wanted: &str,
) -> Result<(Option<String>, Option<String>), Refusal> {
    let id = wanted.parse::<ClusterId>().ok().map(ClusterId::uuid);
    let name = wanted.parse::<Name>().ok();
    let found: Option<(Option<String>, String)> = sqlx::query_as(
        "select frozen_why, name from clusters where name = $1 or id = $2 for no key update",
    )
    .bind(name.as_ref().map(Name::as_str))
    .bind(id)
    .fetch_optional(&mut **tx)
    .await?;
    let (why, name) = found.ok_or(Refusal::NotFound("cluster"))?;
    Ok((why, Some(name)))
}

async fn lock_platform(tx: &mut Tx) -> Result<Option<String>, Error> {
    let (why,): (Option<String>,) =
        sqlx::query_as("select frozen_why from platform for no key update")
            .fetch_one(&mut **tx)
            .await?;
    Ok(why)
}

async fn platform_freeze(tx: &mut Tx) -> Result<Option<Freeze>, Error> {
    let row = sqlx::query(
        "select frozen_at as platform_frozen_at, frozen_by as platform_frozen_by,
                frozen_why as platform_frozen_why from platform",
    )
    .fetch_one(&mut **tx)
    .await?;
    freeze(&row, FreezeScope::Platform)
}

async fn cluster_freeze(tx: &mut Tx, name: &str) -> Result<Option<Freeze>, Error> {
    let row = sqlx::query(
        "select frozen_at as cluster_frozen_at, frozen_by as cluster_frozen_by,
                frozen_why as cluster_frozen_why from clusters where name = $1",
    )
    .bind(name)
    .fetch_one(&mut **tx)
    .await?;
    freeze(&row, FreezeScope::Cluster)
}
