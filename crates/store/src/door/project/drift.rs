//! The drift policy of a project, which applies to its services that have none of their own.

use trueup_model::drift::DriftPolicy;
use trueup_rules::admit::Refused;
use trueup_rules::drift::admit::admit;
use uuid::Uuid;

use crate::Error;
use crate::db::row::json;
use crate::door::lock::check_not_deleting;
use crate::door::write::Write;
use crate::door::{Accepted, Refusal};
use crate::project::{ProjectRow, find};

/// Refuses a policy that breaks a rule.
pub(super) fn check(policy: &DriftPolicy) -> Result<(), Refusal> {
    let errors = admit(policy, "drift");
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Refused(Refused::Invalid(errors))) }
}

/// Sets the policy of an existing project, as its next generation.
pub(super) async fn set(
    write: &mut Write<'_>,
    row: ProjectRow,
    policy: Option<&DriftPolicy>,
) -> Result<Accepted<ProjectRow>, Refusal> {
    let Some(policy) = policy.filter(|policy| **policy != row.project.drift) else {
        return Ok(Accepted { row, changed: false });
    };
    check(policy)?;
    let (_, desired) = write.lock_project(row.project.id).await?;
    check_not_deleting(desired)?;
    let changed = sqlx::query(
        "update projects set drift = $2, generation = generation + 1
         where id = $1 and drift is distinct from $2",
    )
    .bind(row.project.id.uuid())
    .bind(json(policy))
    .execute(&mut *write.tx)
    .await?;
    let id = row.project.id.to_string();
    let row = find(&mut write.tx, &id).await?.ok_or(Refusal::NotFound("project"))?;
    Ok(Accepted { row, changed: changed.rows_affected() == 1 })
}

/// Wakes the services of a project whose policy changed: their orders carry it. They keep their
/// generation.
pub(super) async fn wake_services(write: &mut Write<'_>, of: &ProjectRow) -> Result<(), Error> {
    let services: Vec<(Uuid,)> = sqlx::query_as(
        "select id from services
         where project_id = $1 and deleted_at is null and desired <> 'deleted'",
    )
    .bind(of.project.id.uuid())
    .fetch_all(&mut *write.tx)
    .await?;
    write.wake_services(&services, of.project.cluster).await
}
