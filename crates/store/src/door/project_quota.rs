//! Sets and removes the quotas of projects.

use jiff::Timestamp;
use trueup_model::OrgId;
use trueup_model::event::{Fact, QuotaChanged};
use trueup_model::order::Unit;
use trueup_model::quota::{Amounts, Quota, Resource};
use trueup_rules::admit::{FieldError, Refused};

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::db::clock::sql;
use crate::project_quota::{of, own};
use crate::{App, project, quota};

impl App {
    /// Sets the quota of a project, or removes it; returns whether it changed. Existing reservations stay.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn put_project_quota(
        &self,
        org: OrgId,
        wanted: &str,
        limit: Option<Amounts>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Quota, bool), Refusal> {
        self.write(org, context, now, |write| put(write, wanted, limit)).await
    }
}

async fn put(
    mut write: Write<'_>,
    wanted: &str,
    limit: Option<Amounts>,
) -> Result<(Quota, bool), Refusal> {
    // As every change of services: nothing is accepted meanwhile.
    sqlx::query("select from quotas where org_id = trueup_org() for update")
        .execute(&mut *write.tx)
        .await?;
    let found = project::find(&mut write.tx, wanted).await?;
    let id = found.ok_or(Refusal::NotFound("project"))?.project.id;
    let org = quota::load(&mut write.tx).await?;
    let before = own(&mut write.tx, id).await?;
    if before.map(|before| before.limit) == limit {
        let row = of(&mut write.tx, id).await?;
        return write.finish((row, false)).await;
    }
    match limit {
        None => {
            sqlx::query(
                "update project_quotas set holds = false, changed_at = $2 where project_id = $1",
            )
            .bind(id.uuid())
            .bind(sql(write.now))
            .execute(&mut *write.tx)
            .await?;
        }
        Some(limit) => {
            check(limit, org.limit)?;
            sqlx::query(
                "insert into project_quotas (project_id, org_id, services_limit, cpu_millis_limit,
                     memory_mib_limit, storage_gib_limit, gpus_limit, holds, changed_at)
                 values ($1, trueup_org(), $2, $3, $4, $5, $6, true, $7)
                 on conflict (project_id) do update set services_limit = $2, cpu_millis_limit = $3,
                     memory_mib_limit = $4, storage_gib_limit = $5, gpus_limit = $6, holds = true,
                     changed_at = $7",
            )
            .bind(id.uuid())
            .bind(limit.services)
            .bind(limit.cpu_millis)
            .bind(limit.memory_mib)
            .bind(limit.storage_gib)
            .bind(limit.gpus)
            .bind(sql(write.now))
            .execute(&mut *write.tx)
            .await?;
        }
    }
    let row = of(&mut write.tx, id).await?;
    let fact = Fact::QuotaChanged(QuotaChanged { limit: row.limit, principal: write.principal() });
    write.record_about(Unit::Project(id), 0, fact).await?;
    write.finish((row, true)).await
}

/// A project's limits are within those of its org.
fn check(limit: Amounts, org: Amounts) -> Result<(), Refusal> {
    let errors: Vec<FieldError> = Resource::ALL
        .into_iter()
        .filter(|resource| !(0..=org.get(*resource)).contains(&limit.get(*resource)))
        .map(|resource| {
            let most = org.get(resource);
            let message = format!("must be from 0 to {most}, the limit of the org");
            FieldError::at(resource.into_str(), message)
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}
