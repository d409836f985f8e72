//! Sets the quotas of orgs.

use jiff::Timestamp;
use trueup_model::event::{Fact, QuotaChanged};
use trueup_model::id::OrgId;
use trueup_model::quota::{Amounts, Quota};

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::App;
use crate::quota::load;

impl App {
    /// Sets an org's limit; returns whether it changed. Existing reservations stay.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn put_quota(
        &self,
        org: OrgId,
        limit: Amounts,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Quota, bool), Refusal> {
        self.write(org, context, now, |write| put(write, limit)).await
    }
}

async fn put(mut write: Write<'_>, limit: Amounts) -> Result<(Quota, bool), Refusal> {
    // Locked: of two operators, the second compares with what the first has set.
    sqlx::query("select from quotas where org_id = trueup_org() for update")
        .execute(&mut *write.tx)
        .await?;
    let quota = load(&mut write.tx).await?;
    if quota.limit == limit {
        return write.finish((quota, false)).await;
    }
    let fact = Fact::QuotaChanged(QuotaChanged { limit, principal: write.principal() });
    write.record(fact).await?;
    sqlx::query(
        "update quotas set services_limit = $1, cpu_millis_limit = $2, memory_mib_limit = $3,
                storage_gib_limit = $4, gpus_limit = $5, projects_limit = $6,
                endpoints_limit = $7, limits_from = 'operator' where org_id = trueup_org()",
    )
    .bind(limit.services)
    .bind(limit.cpu_millis)
    .bind(limit.memory_mib)
    .bind(limit.storage_gib)
    .bind(limit.gpus)
    .bind(limit.projects)
    .bind(limit.endpoints)
    .execute(&mut *write.tx)
    .await?;
    let quota = load(&mut write.tx).await?;
    write.finish((quota, true)).await
}
