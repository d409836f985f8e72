//! Requests the removal of findings.

use jiff::{SignedDuration, Timestamp};
use trueup_model::event::{Fact, FindingRemovalRequested};
use trueup_model::finding::{Finding, FindingClass};
use trueup_model::id::FindingId;
use trueup_model::org::PLATFORM;
use trueup_rules::plan::finding::{kept, may_remove};

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::finding::{COLUMNS, finding};
use crate::{App, Error};

/// The period of the removal limit.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

impl App {
    /// Requests the removal of a finding; returns it and whether the request is new.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn remove_finding(
        &self,
        id: FindingId,
        confirmed: Option<u64>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Finding, bool), Refusal> {
        self.write(PLATFORM, context, now, |write| remove(write, id, confirmed)).await
    }
}

async fn remove(
    mut write: Write<'_>,
    id: FindingId,
    confirmed: Option<u64>,
) -> Result<(Finding, bool), Refusal> {
    let found = lock(&mut write.tx, id).await?.ok_or(Refusal::NotFound("finding"))?;
    if found.closed.is_some() || found.remove_by.is_some() {
        return Ok((found, false));
    }
    if let Some(why) = kept(found.key.kind, found.class == FindingClass::Orphan) {
        return Err(Refusal::Kept(why));
    }
    let (lately, among) = removals(&mut write, &found).await?;
    if let Err(number) = may_remove(lately, among, confirmed) {
        return Err(Refusal::OverBudget { number });
    }
    let name = write.principal_name().to_owned();
    sqlx::query(
        "update findings set remove_at = $2, remove_by = $3, kept_why = null where id = $1",
    )
    .bind(id.uuid())
    .bind(sql(write.now))
    .bind(&name)
    .execute(&mut *write.tx)
    .await?;
    let principal = write.principal();
    let fact = Fact::FindingRemovalRequested(FindingRemovalRequested {
        key: found.key.clone(),
        principal,
    });
    write.record(fact).await?;
    let requested = Finding { remove_by: Some(name), kept_why: None, ..found };
    write.finish((requested, true)).await
}

async fn lock(tx: &mut Tx, id: FindingId) -> Result<Option<Finding>, Error> {
    let statement = format!("select {COLUMNS} from findings where id = $1 for no key update");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(finding).transpose()
}

/// The removals requested in the finding's cluster in the last hour, and the objects recorded
/// there.
async fn removals(write: &mut Write<'_>, found: &Finding) -> Result<(u64, u64), Error> {
    // Serializes concurrent requests: they would count the same removals.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('findings/' || $1::text, 0))")
        .bind(found.cluster.uuid())
        .execute(&mut *write.tx)
        .await?;
    let (lately, among): (i64, i64) = sqlx::query_as(
        "select (select count(*) from findings where cluster_id = $1 and remove_at > $2),
                (select among from findings where id = $3)",
    )
    .bind(found.cluster.uuid())
    .bind(sql(write.now - HOUR))
    .bind(found.id.uuid())
    .fetch_one(&mut *write.tx)
    .await?;
    Ok((u64::try_from(lately).unwrap_or(0), u64::try_from(among).unwrap_or(0)))
}
