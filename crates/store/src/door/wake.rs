//! Wakes that users, operators and reads request.

use jiff::Timestamp;
use trueup_model::event::{Fact, ReconcileRequested, WakeRequeued};
use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::service::DesiredState;
use trueup_model::status::Phase;
use trueup_model::wake::{Lane, Wake, WakeState};

use super::write::Write;
use super::{Refusal, RequestContext};
use crate::service::ServiceRow;
use crate::work::wake::{Request, find, generation, request};
use crate::{App, Error};

impl App {
    /// Requeues a dead wake; returns it and whether that changed anything.
    ///
    /// The platform's org finds the wakes of every org.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn requeue_wake(
        &self,
        org: OrgId,
        of: Unit,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Wake, bool), Refusal> {
        self.write(org, context, now, |write| requeue(write, of)).await
    }

    /// Requests a reconciliation of a service with fresh reads from the cluster.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn reconcile_service(
        &self,
        org: OrgId,
        of: (&str, &str),
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<ServiceRow, Refusal> {
        self.write(org, context, now, |write| reconcile(write, of)).await
    }

    /// Requests a reconciliation with low priority, because a read found the service diverged.
    ///
    /// Outside of the frame: no request asks for it, and it has no event.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn repair_service(&self, row: &ServiceRow, now: Timestamp) -> Result<(), Error> {
        let found = &row.service;
        let mut tx = self.begin(found.org).await?;
        let repair = Request::repair(Unit::Service(found.id), found.org, found.cluster);
        request(&mut tx, &Request { fresh: true, ..repair }, now).await?;
        tx.commit().await?;
        Ok(())
    }
}

async fn requeue(mut write: Write<'_>, of: Unit) -> Result<(Wake, bool), Refusal> {
    let found = find(&mut write.tx, of).await?.ok_or(Refusal::NotFound("wake"))?;
    // From here on in the wake's org, like every change.
    write.enter(found.org).await?;
    if found.state != WakeState::Dead {
        return Ok((found, false));
    }
    let generation = generation(&mut write.tx, of, found.org).await?.unwrap_or(0);
    let fact = Fact::WakeRequeued(WakeRequeued { principal: write.principal() });
    write.record_about(of, generation, fact).await?;
    write.wake_fresh(of, found.cluster, Lane::UserChange).await?;
    let found = find(&mut write.tx, of).await?.ok_or(Refusal::NotFound("wake"))?;
    write.finish((found, true)).await
}

async fn reconcile(
    mut write: Write<'_>,
    (project, service): (&str, &str),
) -> Result<ServiceRow, Refusal> {
    let row = write.find_service(project, service).await?;
    // A deleted service has no objects left that could differ.
    if row.status.phase == Phase::Deleted {
        return Ok(row);
    }
    let found = &row.service;
    let unit = Unit::Service(found.id);
    let fact = Fact::ReconcileRequested(ReconcileRequested { principal: write.principal() });
    write.record_about(unit, found.generation, fact).await?;
    let lane = match found.desired {
        DesiredState::Active | DesiredState::Paused => Lane::UserChange,
        DesiredState::Deleted => Lane::Delete,
    };
    write.wake_fresh(unit, found.cluster, lane).await?;
    write.finish(row).await
}
