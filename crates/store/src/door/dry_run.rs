//! Dry runs: a write that is decided like any other and then rolled back.
//!
//! The write itself is the same function, called on an [`App`] whose transactions end differently
//! ([`App::end`]): the result is read, then everything is rolled back to a savepoint. Every new
//! generation has an event, so the transaction's events name the affected services and projects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use trueup_model::order::{Body, Order, Unit};
use trueup_model::plan::Plan;
use trueup_model::quota::Quota;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::{unit, unit_uuid};
use crate::work::order;
use crate::{App, Error, plan, quota};

/// The result of a dry run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRunResult {
    /// The services and projects that would get a new generation, in name order.
    pub units: Vec<DryRunUnit>,
    /// The org's quota including the write; `None` if no unit would change.
    pub quota: Option<Quota>,
}

/// A service or project before and after a write.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRunUnit {
    /// `shop`, or `shop/web`.
    pub name: String,
    /// The current order; `None` for a new unit.
    pub before: Option<Order>,
    /// The order after the write.
    pub after: Order,
    /// The plan before and after.
    pub plans: [Option<Plan>; 2],
}

/// Where an [`App`] in a dry run stores the result.
pub(crate) type Seen = Arc<Mutex<DryRunResult>>;

/// One write that is rolled back at its end.
#[derive(Debug, Clone)]
pub struct DryRunTx {
    app: App,
    seen: Seen,
}

impl DryRunTx {
    /// The app whose writes are rolled back.
    #[must_use]
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// The result of the write.
    #[must_use]
    pub fn seen(&self) -> DryRunResult {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl App {
    /// Starts a dry run: writes on [`DryRunTx::app`] are decided as usual and rolled back.
    #[must_use]
    pub fn dry_run(&self) -> DryRunTx {
        let seen = Seen::default();
        DryRunTx { app: self.in_dry_run(Arc::clone(&seen)), seen }
    }
}

/// Sets the savepoint that [`end`] rolls back to.
pub(crate) async fn begin(tx: &mut Tx) -> Result<(), Error> {
    sqlx::query("savepoint rehearsal").execute(&mut **tx).await?;
    Ok(())
}

/// Reads what the transaction would commit, and rolls it back.
pub(crate) async fn end(mut tx: Tx, seen: &Seen) -> Result<(), Error> {
    let generations = new_generations(&mut tx).await?;
    let after = snapshot(&mut tx, &generations).await?;
    let quota = if after.is_empty() { None } else { Some(quota::load(&mut tx).await?) };
    sqlx::query("rollback to savepoint rehearsal").execute(&mut *tx).await?;
    let mut before = snapshot(&mut tx, &generations).await?;
    tx.rollback().await?;
    let mut units = Vec::new();
    for (unit, (name, order, plan)) in after {
        let (former, former_plan) =
            before.remove(&unit).map(|(_, order, plan)| (order, plan)).unzip();
        // The rollback released the lock: another transaction may have changed the unit since.
        let expected = order.generation.saturating_sub(1);
        if former.as_ref().map_or(0, |former| former.generation) != expected {
            return Err(Error::Overtaken);
        }
        let plans = [former_plan.flatten(), plan];
        units.push(DryRunUnit { name, before: former, after: order, plans });
    }
    units.sort_by(|one, other| one.name.cmp(&other.name));
    *seen.lock().unwrap_or_else(PoisonError::into_inner) = DryRunResult { units, quota };
    Ok(())
}

/// The units to which this transaction gave a new generation.
async fn new_generations(tx: &mut Tx) -> Result<Vec<Unit>, Error> {
    let rows: Vec<(String, Uuid)> = sqlx::query_as(
        "select distinct e.subject_kind, e.subject_id from event_queue q join events e on e.id = q.event_id
         where q.xid = pg_current_xact_id() and e.type in
               ('ServiceQueued', 'ProjectQueued', 'ProjectDeleteQueued', 'ProjectForceQueued')",
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter().map(|(kind, id)| unit(&kind, id)).collect()
}

type Snapshot = BTreeMap<Unit, (String, Order, Option<Plan>)>;

/// Name, order and plan of these units as the transaction sees them.
async fn snapshot(tx: &mut Tx, units: &[Unit]) -> Result<Snapshot, Error> {
    let ids: Vec<Uuid> = units.iter().map(|unit| unit_uuid(*unit)).collect();
    let names: Vec<(Uuid, String)> = sqlx::query_as(
        "select id, name from projects where id = any($1)
         union all
         select s.id, p.name || '/' || s.name from services s join projects p on p.id = s.project_id
         where s.id = any($1)",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    let names: BTreeMap<Uuid, String> = names.into_iter().collect();
    let mut snapshot = Snapshot::new();
    for (unit, order) in order::load(tx, &ids).await? {
        let name = names.get(&unit_uuid(unit)).cloned().unwrap_or_default();
        let plan = match &order.body {
            Body::Service(body) => plan::find(tx, body.spec.plan.as_ref()).await?,
            Body::Project => None,
        };
        snapshot.insert(unit, (name, order, plan));
    }
    Ok(snapshot)
}
