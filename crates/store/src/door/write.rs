//! The frame of every write: one transaction with its org, its request and its time.
//!
//! Postgres aborts one of two transactions that lose a race for the same rows, and nothing of it is
//! committed. A retry of the whole write sees what the other one did. The number of retries is
//! bounded; after that the caller gets the error.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent};
use trueup_model::id::{ClusterId, OrgId, ServiceId};
use trueup_model::order::Unit;
use trueup_model::principal::PrincipalId;
use trueup_model::subject::Subject;
use trueup_model::wake::Lane;
use uuid::Uuid;

use super::{Refusal, RequestContext, idempotency};
use crate::db::pool::{Tx, enter};
use crate::work::wake;
use crate::{App, Error, event};

/// More than normal contention needs.
const RETRIES: u32 = 10;

/// One attempt of a write. Dropped without [`Write::finish`], it changes nothing.
pub(super) struct Write<'a> {
    /// The transaction, for statements. It sees the rows of one org.
    pub(super) tx: Tx,
    /// The request that writes.
    pub(super) context: &'a RequestContext<'a>,
    /// The time of the request.
    pub(super) now: Timestamp,
    org: OrgId,
    app: &'a App,
}

impl App {
    /// Runs a write, again as long as it loses a race for the same rows.
    pub(super) async fn write<'a, T, Attempt>(
        &'a self,
        org: OrgId,
        context: &'a RequestContext<'a>,
        now: Timestamp,
        mut attempt: impl FnMut(Write<'a>) -> Attempt,
    ) -> Result<T, Refusal>
    where
        Attempt: Future<Output = Result<T, Refusal>>,
    {
        let mut left = RETRIES;
        loop {
            let tx = self.begin_at(org, now).await?;
            match attempt(Write { tx, context, now, org, app: self }).await {
                Err(Refusal::Store(error)) if error.is_race() && left > 0 => {
                    left = left.saturating_sub(1);
                }
                result => return result,
            }
        }
    }
}

impl<'a> Write<'a> {
    /// The org whose rows the write sees.
    pub(super) const fn org(&self) -> OrgId {
        self.org
    }

    /// The principal's id, for events. They are hashed and kept for ever, so they contain no name. A
    /// loop of Trueup has no id, and goes by its name.
    pub(super) fn principal(&self) -> String {
        let principal = self.context.principal;
        match principal.id {
            PrincipalId::System => principal.name.clone(),
            id @ (PrincipalId::Token(_) | PrincipalId::User(_)) => id.to_string(),
        }
    }

    /// The principal's name, for columns.
    pub(super) fn principal_name(&self) -> &'a str {
        &self.context.principal.name
    }

    /// Continues in another org.
    pub(super) async fn enter(&mut self, org: OrgId) -> Result<(), Error> {
        enter(&mut self.tx, org).await?;
        self.org = org;
        Ok(())
    }

    /// The subject recorded by an earlier request with the same idempotency key, if there is one.
    pub(super) async fn earlier(&mut self) -> Result<Option<String>, Refusal> {
        idempotency::find(&mut self.tx, self.context, self.now).await
    }

    /// Records the subject of this request under its idempotency key.
    pub(super) async fn remember(&mut self, subject: &str) -> Result<(), Error> {
        idempotency::record(&mut self.tx, self.context, subject, self.now).await
    }

    /// Records an event about the org.
    pub(super) async fn record(&mut self, fact: Fact) -> Result<(), Error> {
        self.record_about(Subject::Org(self.org), 0, fact).await
    }

    /// Records an event about a subject of the org.
    pub(super) async fn record_about(
        &mut self,
        subject: impl Into<Subject>,
        generation: i64,
        fact: Fact,
    ) -> Result<(), Error> {
        let source = self.context.source;
        let event = event::about(self.org, subject.into(), generation, fact, source, self.now);
        let event = NewEvent { trace: self.context.trace.clone(), ..event };
        event::record(&mut self.tx, &[event]).await
    }

    /// Wakes a unit of the org. Last, because wakes are locked after services and quotas.
    pub(super) async fn wake(
        &mut self,
        unit: Unit,
        cluster: ClusterId,
        lane: Lane,
    ) -> Result<(), Error> {
        let wanted = self.wake_request(unit, cluster, lane);
        wake::request(&mut self.tx, &wanted, self.now).await
    }

    /// Wakes services of the org because something that they share changed: in the lane of repairs, so
    /// that the changes of users come first.
    pub(super) async fn wake_services(
        &mut self,
        services: &[(Uuid,)],
        cluster: ClusterId,
    ) -> Result<(), Error> {
        let unit = |(id,): &(Uuid,)| Unit::Service(ServiceId::from_uuid(*id));
        let units: Vec<Unit> = services.iter().map(unit).collect();
        let Some(first) = units.first() else { return Ok(()) };
        let wanted = self.wake_request(*first, cluster, Lane::Repair);
        wake::request_each(&mut self.tx, &units, &wanted, self.now).await
    }

    /// Wakes a unit of the org, to be read from the cluster instead of the cache.
    pub(super) async fn wake_fresh(
        &mut self,
        unit: Unit,
        cluster: ClusterId,
        lane: Lane,
    ) -> Result<(), Error> {
        let wanted = self.wake_request(unit, cluster, lane);
        wake::request(&mut self.tx, &wake::Request { fresh: true, ..wanted }, self.now).await
    }

    fn wake_request(&self, unit: Unit, cluster: ClusterId, lane: Lane) -> wake::Request {
        let trace = self.context.trace.clone();
        wake::Request { unit, org: self.org, cluster, lane, trace, fresh: false }
    }

    /// Ends the write: commits it, or reads its result and rolls it back in a dry run.
    pub(super) async fn finish<T>(self, value: T) -> Result<T, Refusal> {
        self.app.end(self.tx).await?;
        Ok(value)
    }

    /// Like [`Self::finish`], after recording the subject under the idempotency key.
    pub(super) async fn finish_as<T>(mut self, subject: &str, value: T) -> Result<T, Refusal> {
        self.remember(subject).await?;
        self.finish(value).await
    }
}
