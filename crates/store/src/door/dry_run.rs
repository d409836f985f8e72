//! Rehearsals: a write that is decided like any other and then undone, so that it can be looked at.
//!
//! The write knows nothing of it. It is the same function, called on an [`App`] whose transactions
//! end otherwise ([`App::end`]): what they would leave behind is looked at, and everything since
//! their beginning is rolled back. A new generation is always told by an event, so the events of the
//! transaction say which services and projects to look at.

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

/// What a write would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRunResult {
    /// The services and projects that would have a new generation, in name order.
    pub units: Vec<DryRunUnit>,
    /// The org's quota, with the write counted; none where it has no such units.
    pub quota: Option<Quota>,
}

/// A service or project before and after a write.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRunUnit {
    /// `shop`, or `shop/web`.
    pub name: String,
    /// What is ordered now; none for a new one.
    pub before: Option<Order>,
    /// What would be ordered.
    pub after: Order,
    /// The plan before and after.
    pub plans: [Option<Plan>; 2],
}

/// Where an [`App`] that rehearses leaves what it saw.
pub(crate) type Seen = Arc<Mutex<DryRunResult>>;

/// One write that is only rehearsed.
#[derive(Debug, Clone)]
pub struct DryRunTx {
    app: App,
    seen: Seen,
}

impl DryRunTx {
    /// The same door, of which nothing stays.
    #[must_use]
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// What the write would have done.
    #[must_use]
    pub fn seen(&self) -> DryRunResult {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl App {
    /// Begins to rehearse: writes on [`DryRunTx::app`] are decided as they would be now and undone.
    #[must_use]
    pub fn dry_run(&self) -> DryRunTx {
        let seen = Seen::default();
        DryRunTx { app: self.in_dry_run(Arc::clone(&seen)), seen }
    }
}

/// From here on the transaction can be undone without being ended.
pub(crate) async fn begin(tx: &mut Tx) -> Result<(), Error> {
    sqlx::query("savepoint rehearsal").execute(&mut **tx).await?;
    Ok(())
}

/// Looks at what the transaction would leave behind, and undoes it.
pub(crate) async fn end(mut tx: Tx, seen: &Seen) -> Result<(), Error> {
    let generations = new_generations(&mut tx).await?;
    let after = picture(&mut tx, &generations).await?;
    let quota = if after.is_empty() { None } else { Some(quota::load(&mut tx).await?) };
    sqlx::query("rollback to savepoint rehearsal").execute(&mut *tx).await?;
    let mut before = picture(&mut tx, &generations).await?;
    tx.rollback().await?;
    let mut units = Vec::new();
    for (unit, (name, order, plan)) in after {
        let (former, former_plan) =
            before.remove(&unit).map(|(_, order, plan)| (order, plan)).unzip();
        // Its lock went with what was undone: somebody may have been quicker than this look.
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

/// What this transaction gave a new generation.
async fn new_generations(tx: &mut Tx) -> Result<Vec<Unit>, Error> {
    let rows: Vec<(String, Uuid)> = sqlx::query_as(
        "select distinct e.unit_kind, e.unit_id from event_queue q join events e on e.id = q.event_id
         where q.xid = pg_current_xact_id() and e.type in
               ('ServiceQueued', 'ProjectQueued', 'ProjectDeleteQueued', 'ProjectForceQueued')",
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows.into_iter().map(|(kind, id)| unit(&kind, id)).collect())
}

type Picture = BTreeMap<Unit, (String, Order, Option<Plan>)>;

/// How these are called, ordered and priced as the transaction sees them.
async fn picture(tx: &mut Tx, units: &[Unit]) -> Result<Picture, Error> {
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
    let mut picture = Picture::new();
    for (unit, order) in order::load(tx, &ids).await? {
        let name = names.get(&unit_uuid(unit)).cloned().unwrap_or_default();
        let plan = match &order.body {
            Body::Service(body) => plan::find(tx, body.spec.plan.as_ref()).await?,
            Body::Project => None,
        };
        picture.insert(unit, (name, order, plan));
    }
    Ok(picture)
}
