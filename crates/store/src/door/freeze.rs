//! Freezes and unfreezes services, clusters and the platform.

use jiff::Timestamp;
use trueup_model::event::{Fact, PlatformFrozen, PlatformUnfrozen, ServiceFrozen, ServiceUnfrozen};
use trueup_model::freeze::Freeze;
use trueup_model::id::{ClusterId, OrgId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::wake::Lane;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::freeze::{cluster_freeze, platform_freeze};
use crate::service::ServiceRow;
use crate::{App, Error};

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
        of: (&str, &str),
        wanted: FreezeRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        self.write(org, context, now, |write| freeze_service(write, of, wanted)).await
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
        self.write(PLATFORM, context, now, |write| freeze_platform(write, cluster, wanted)).await
    }
}

async fn freeze_service(
    mut write: Write<'_>,
    (project, service): (&str, &str),
    wanted: FreezeRequest<'_>,
) -> Result<Accepted<ServiceRow>, Refusal> {
    let found = write.find_service(project, service).await?.service;
    let frozen: Option<(Option<String>,)> = sqlx::query_as(
        "select frozen_why from services where id = $1 and deleted_at is null for update",
    )
    .bind(found.id.uuid())
    .fetch_optional(&mut *write.tx)
    .await?;
    let (before,) = frozen.ok_or(Refusal::NotFound("service"))?;
    let changed = before.as_deref() != wanted.reason;
    if changed {
        set_service(&mut write, found.id, wanted.reason).await?;
        let principal = write.principal();
        let fact = match wanted.reason {
            Some(why) => Fact::ServiceFrozen(ServiceFrozen { reason: why.to_owned(), principal }),
            None => Fact::ServiceUnfrozen(ServiceUnfrozen { principal }),
        };
        let unit = Unit::Service(found.id);
        write.record_about(unit, found.generation, fact).await?;
        write.wake(unit, found.cluster, Lane::UserChange).await?;
    }
    let row = write.find_service(project, &found.id.to_string()).await?;
    write.finish(Accepted { row, changed }).await
}

async fn freeze_platform(
    mut write: Write<'_>,
    cluster: Option<&str>,
    wanted: FreezeRequest<'_>,
) -> Result<Accepted<Option<Freeze>>, Refusal> {
    let (before, name) = match cluster {
        Some(cluster) => lock_cluster(&mut write.tx, cluster).await?,
        None => (lock_platform(&mut write.tx).await?, None),
    };
    let changed = before.as_deref() != wanted.reason;
    if changed {
        set_platform(&mut write, name.as_deref(), wanted.reason).await?;
        let (cluster, principal) = (name.clone(), write.principal());
        let fact = match wanted.reason {
            Some(why) => {
                Fact::PlatformFrozen(PlatformFrozen { cluster, reason: why.to_owned(), principal })
            }
            None => Fact::PlatformUnfrozen(PlatformUnfrozen { cluster, principal }),
        };
        write.record(fact).await?;
    }
    let row = match &name {
        Some(name) => cluster_freeze(&mut write.tx, name).await?,
        None => platform_freeze(&mut write.tx).await?,
    };
    write.finish(Accepted { row, changed }).await
}

async fn set_service(
    write: &mut Write<'_>,
    service: ServiceId,
    reason: Option<&str>,
) -> Result<(), Error> {
    sqlx::query(
        "update services set frozen_at = $2, frozen_by = $3, frozen_why = $4 where id = $1",
    )
    .bind(service.uuid())
    .bind(reason.map(|_| sql(write.now)))
    .bind(reason.map(|_| write.principal_name()))
    .bind(reason)
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}

async fn set_platform(
    write: &mut Write<'_>,
    cluster: Option<&str>,
    reason: Option<&str>,
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
        .bind(reason.map(|_| sql(write.now)))
        .bind(reason.map(|_| write.principal_name()))
        .bind(reason)
        .execute(&mut *write.tx)
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
