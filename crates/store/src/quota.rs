//! Quotas: how much an org may reserve, enforced by conditional updates.

use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::quota::{Amounts, Quota};

use crate::db::pool::Tx;
use crate::db::row::read;
use crate::door::Refusal;
use crate::{App, Error};

impl App {
    /// The org's limit and usage.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_quota(&self, org: OrgId) -> Result<Quota, Error> {
        let mut tx = self.begin(org).await?;
        load(&mut tx).await
    }
}

/// The limit and usage of the transaction's org.
pub(crate) async fn load(tx: &mut Tx) -> Result<Quota, Error> {
    let row = sqlx::query("select * from quotas where org_id = trueup_org()")
        .fetch_one(&mut **tx)
        .await?;
    let source = read("limits_from", row.try_get("limits_from")?)?;
    Ok(Quota { limit: whole(&row, "_limit")?, used: whole(&row, "_used")?, source })
}

/// Counts one more project of the transaction's org.
pub(crate) async fn take_project(tx: &mut Tx) -> Result<(), Refusal> {
    const TAKE: &str = "update quotas set projects_used = projects_used + 1
         where org_id = trueup_org() and projects_used < projects_limit";
    take(tx, TAKE, Amounts { projects: 1, ..Amounts::default() }).await
}

/// Counts one more endpoint of the transaction's org.
pub(crate) async fn take_endpoint(tx: &mut Tx) -> Result<(), Refusal> {
    const TAKE: &str = "update quotas set endpoints_used = endpoints_used + 1
         where org_id = trueup_org() and endpoints_used < endpoints_limit";
    take(tx, TAKE, Amounts { endpoints: 1, ..Amounts::default() }).await
}

/// One conditional update decides, as for services.
async fn take(tx: &mut Tx, statement: &'static str, more: Amounts) -> Result<(), Refusal> {
    if sqlx::query(statement).execute(&mut **tx).await?.rows_affected() == 1 {
        return Ok(());
    }
    Err(Refusal::OverQuota { more, quota: Box::new(load(tx).await?), project: None })
}

/// Reserves this much for a service; returns false if that would exceed the org's limit, or if the
/// limit is out of date: a change of the subscription has begun, and is to be applied.
///
/// One conditional update decides, so two concurrent callers cannot both take the last capacity.
/// Reducing a reservation always works, also for an org above its limit.
pub(crate) async fn reserve(
    tx: &mut Tx,
    service: ServiceId,
    wanted: Amounts,
) -> Result<bool, Error> {
    let held = held(tx, service).await?;
    if held == Some(wanted) {
        return Ok(true);
    }
    let more = wanted.less(held.unwrap_or_default());
    let reserved = sqlx::query(
        "with room as (
         update quotas set services_used = services_used + $1, cpu_millis_used = cpu_millis_used + $2,
                memory_mib_used = memory_mib_used + $3, storage_gib_used = storage_gib_used + $4,
                gpus_used = gpus_used + $5
         where org_id = trueup_org()
           and (limits_until is null or limits_until > trueup_now())
           and ($1 <= 0 or services_used + $1 <= services_limit)
           and ($2 <= 0 or cpu_millis_used + $2 <= cpu_millis_limit)
           and ($3 <= 0 or memory_mib_used + $3 <= memory_mib_limit)
           and ($4 <= 0 or storage_gib_used + $4 <= storage_gib_limit)
           and ($5 <= 0 or gpus_used + $5 <= gpus_limit)
         returning org_id)
         insert into reservations (service_id, org_id, services, cpu_millis, memory_mib, storage_gib, gpus)
         select $6, org_id, $7, $8, $9, $10, $11 from room
         on conflict (service_id) do update set services = $7, cpu_millis = $8, memory_mib = $9,
                                                storage_gib = $10, gpus = $11",
    )
    .bind(more.services)
    .bind(more.cpu_millis)
    .bind(more.memory_mib)
    .bind(more.storage_gib)
    .bind(more.gpus)
    .bind(service.uuid())
    .bind(wanted.services)
    .bind(wanted.cpu_millis)
    .bind(wanted.memory_mib)
    .bind(wanted.storage_gib)
    .bind(wanted.gpus)
    .execute(&mut **tx)
    .await?;
    Ok(reserved.rows_affected() == 1)
}

/// The reservation of a service.
pub(crate) async fn held(tx: &mut Tx, service: ServiceId) -> Result<Option<Amounts>, Error> {
    let row = sqlx::query(
        "select services, cpu_millis, memory_mib, storage_gib, gpus from reservations
         where service_id = $1",
    )
    .bind(service.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    row.as_ref().map(|row| amounts(row, "")).transpose()
}

/// Releases the reservation of a service whose absence is verified.
pub(crate) async fn release(tx: &mut Tx, service: ServiceId) -> Result<(), Error> {
    sqlx::query(
        "with gone as (delete from reservations where service_id = $1 returning *)
         update quotas q set services_used = q.services_used - g.services,
                cpu_millis_used = q.cpu_millis_used - g.cpu_millis,
                memory_mib_used = q.memory_mib_used - g.memory_mib,
                storage_gib_used = q.storage_gib_used - g.storage_gib,
                gpus_used = q.gpus_used - g.gpus
         from gone g where q.org_id = g.org_id",
    )
    .bind(service.uuid())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The amounts of an org: of its services, and what belongs to none.
fn whole(row: &PgRow, suffix: &str) -> Result<Amounts, Error> {
    let get = |name: &str| row.try_get::<i64, _>(format!("{name}{suffix}").as_str());
    let (projects, endpoints) = (get("projects")?, get("endpoints")?);
    Ok(Amounts { projects, endpoints, ..amounts(row, suffix)? })
}

/// The amounts that services reserve, in the columns of a row with this suffix.
pub(crate) fn amounts(row: &PgRow, suffix: &str) -> Result<Amounts, Error> {
    let get = |name: &str| row.try_get::<i64, _>(format!("{name}{suffix}").as_str());
    Ok(Amounts {
        services: get("services")?,
        cpu_millis: get("cpu_millis")?,
        memory_mib: get("memory_mib")?,
        storage_gib: get("storage_gib")?,
        gpus: get("gpus")?,
        ..Amounts::default()
    })
}
