//! Follows active hours: pauses and resumes services at the edges of their windows.
//!
//! Each is an accepted change of the service like any other, with a generation, an event and a wake. It
//! is decided under the lock of the service by the hours that it has then, so that a request that changes
//! them at the same time is not undone.

use jiff::Timestamp;
use trueup_model::active_hours::Turn;
use trueup_model::event::{Fact, ServiceScheduleRefused, ServiceScheduledOff, ServiceScheduledOn};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::order::Unit;
use trueup_model::service::{DesiredState, Service};
use trueup_rules::active_hours::{follow, next_edge};

use super::generation::next;
use super::write::Write;
use super::{Refusal, RequestContext, system_principal};
use crate::db::clock::sql;
use crate::{App, Error};

/// The loop that follows active hours.
const FOLLOWER: &str = "active-hours";

impl App {
    /// Pauses or resumes a service whose next edge is due; returns what was done.
    ///
    /// # Errors
    /// [`Refusal`] says why not: the budget may have no room for a service that would be resumed.
    pub async fn follow_hours(
        &self,
        org: OrgId,
        service: ServiceId,
        now: Timestamp,
    ) -> Result<Option<Turn>, Refusal> {
        let principal = system_principal(org, FOLLOWER);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| turn(write, service)).await
    }

    /// Records that a service was not resumed at its edge, and why; it is tried again at the next one.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn refuse_hours(
        &self,
        org: OrgId,
        service: ServiceId,
        why: &str,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let principal = system_principal(org, FOLLOWER);
        let context = RequestContext::system(&principal);
        self.write(org, &context, now, |write| refuse(write, service, why)).await
    }
}

async fn turn(mut write: Write<'_>, service: ServiceId) -> Result<Option<Turn>, Refusal> {
    let current = write.lock_service(service).await?;
    if !advance(&mut write, &current).await? {
        return Ok(None);
    }
    let hours = current.active.as_ref();
    let turned = follow(hours, (current.desired, current.scheduled_off), write.now);
    let Some((desired, scheduled_off)) = turned else { return write.finish(None).await };
    let after = Service { desired, scheduled_off, ..next(current, write.now) };
    write.record_generation(&after, "schedule").await?;
    let turn = if scheduled_off { Turn::Off } else { Turn::On };
    record_turn(&mut write, &after, turn).await?;
    write.reserve_and_wake(&after).await?;
    write.finish(Some(turn)).await
}

async fn refuse(mut write: Write<'_>, service: ServiceId, why: &str) -> Result<(), Refusal> {
    let current = write.lock_service(service).await?;
    if !advance(&mut write, &current).await? {
        return Ok(());
    }
    let fact = ServiceScheduleRefused { why: why.to_owned() };
    let fact = Fact::ServiceScheduleRefused(fact);
    write.record_about(Unit::Service(service), current.generation, fact).await?;
    write.finish(()).await
}

/// Sets the next edge of a service; false if none is due any more.
async fn advance(write: &mut Write<'_>, current: &Service) -> Result<bool, Error> {
    let hours = current.active.as_ref().filter(|_| current.desired != DesiredState::Deleted);
    let next = hours.and_then(|hours| next_edge(hours, write.now)).map(|edge| edge.at);
    let done =
        sqlx::query("update services set schedule_at = $2 where id = $1 and schedule_at <= $3")
            .bind(current.id.uuid())
            .bind(next.map(sql))
            .bind(sql(write.now))
            .execute(&mut *write.tx)
            .await?;
    Ok(done.rows_affected() > 0)
}

/// Records the event of a service that its hours paused or resumed.
pub(super) async fn record_turn(
    write: &mut Write<'_>,
    after: &Service,
    turn: Turn,
) -> Result<(), Error> {
    let hours = after.active.as_ref();
    let until = hours.and_then(|hours| next_edge(hours, write.now)).map(|edge| edge.at);
    let fact = match turn {
        Turn::Off => Fact::ServiceScheduledOff(ServiceScheduledOff { until }),
        Turn::On => Fact::ServiceScheduledOn(ServiceScheduledOn { until }),
    };
    write.record_about(Unit::Service(after.id), after.generation, fact).await
}
