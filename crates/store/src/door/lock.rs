//! Row locks that several writes take, and what they check under them.
//!
//! Locks are taken in one order everywhere: org, project, service, quota, wake.

use trueup_model::id::{ProjectId, ServiceId};
use trueup_model::service::{DesiredState, Service};
use trueup_rules::admit::Refused;

use super::Refusal;
use super::write::Write;
use crate::Error;
use crate::db::row::read;
use crate::service::{ServiceRow, find, service};

impl Write<'_> {
    /// The service with this name or id; an id also finds a deleted one.
    pub(super) async fn find_service(
        &mut self,
        project: &str,
        wanted: &str,
    ) -> Result<ServiceRow, Refusal> {
        find(&mut self.tx, project, wanted).await?.ok_or(Refusal::NotFound("service"))
    }

    /// Locks a service; returns it as it is now.
    pub(super) async fn lock_service(&mut self, id: ServiceId) -> Result<Service, Error> {
        let row = sqlx::query("select * from services where id = $1 for update")
            .bind(id.uuid())
            .fetch_one(&mut *self.tx)
            .await?;
        service(&row)
    }

    /// Locks a service for a change: it must have this generation, and must not be being deleted.
    pub(super) async fn lock_for_change(
        &mut self,
        id: ServiceId,
        if_generation: Option<i64>,
    ) -> Result<Service, Refusal> {
        let current = self.lock_service(id).await?;
        check_generation(Some(&current), if_generation)?;
        check_not_deleting(current.desired)?;
        Ok(current)
    }

    /// Locks a project, so that no service is declared in it; returns its generation and desired
    /// state.
    pub(super) async fn lock_project(
        &mut self,
        id: ProjectId,
    ) -> Result<(i64, DesiredState), Error> {
        let (generation, desired): (i64, String) =
            sqlx::query_as("select generation, desired from projects where id = $1 for update")
                .bind(id.uuid())
                .fetch_one(&mut *self.tx)
                .await?;
        Ok((generation, read("desired state", desired)?))
    }
}

/// Checks the caller's precondition on a service's generation; one that does not exist has none.
pub(super) fn check_generation(
    current: Option<&Service>,
    wanted: Option<i64>,
) -> Result<(), Refusal> {
    let current = current.map_or(0, |service| service.generation);
    match wanted {
        Some(wanted) if wanted != current => Err(Refusal::Changed { current }),
        Some(_) | None => Ok(()),
    }
}

/// Refuses changes to a project or service that is being deleted.
pub(super) fn check_not_deleting(desired: DesiredState) -> Result<(), Refusal> {
    match desired {
        DesiredState::Active | DesiredState::Paused => Ok(()),
        DesiredState::Deleted => Err(Refusal::Refused(Refused::BeingDeleted)),
    }
}
