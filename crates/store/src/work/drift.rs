//! Records divergences and conflicts, in the transaction of the report that shows them.
//!
//! The inputs of a status and the divergences of its unit are written together, so they agree after
//! a crash as well. Only a report that concerns divergences costs a statement: see [`concerns`].

mod entry;
mod ledger;
mod rows;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, Verdict};
use trueup_model::event::{ConflictRaised, Fact, Source};
use trueup_model::id::{ConflictId, OrgId, ServiceId};
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::status::{Health, Inputs, Phase, Status};
use trueup_rules::drift::regression::{Regression, regression};
use trueup_rules::event::draft::{Cause, EventDraft};

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::sold::{self, Sold};
use crate::status::NewStatus;
use crate::work::lease::Lease;
use crate::work::report::desired_states;
use crate::{Error, Worker};
use entry::{Change, Entry};
use ledger::Ledger;
use rows::{Fight, Owner};

/// A report that concerns divergences of its unit, and the status that was projected from it.
pub(super) struct Drift<'a> {
    pub(super) report: &'a Report,
    pub(super) new: &'a NewStatus,
}

/// How long a divergence is kept after it ended: as long as one looks back at what drift cost.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The most divergences that are deleted at once: locks are held briefly.
const PURGED: i64 = 10_000;

impl Worker {
    /// Deletes divergences that ended long ago, some at a time; returns how many. Their events stay.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn purge_divergences(&self, now: Timestamp) -> Result<u64, Error> {
        let gone = sqlx::query(
            "delete from divergences where id in (
                 select id from divergences where ended_at <= $1 and gone_at <= $1
                 order by ended_at limit $2 for update skip locked)",
        )
        .bind(sql(now.checked_sub(KEPT).unwrap_or(Timestamp::MIN)))
        .bind(PURGED)
        .execute(self.pool())
        .await?;
        Ok(gone.rows_affected())
    }
}

/// Whether a report may change divergences of its unit, as far as it and the status can say that.
///
/// A difference stands, was reverted, or stood before. A pass that does not converge may compare
/// only some objects, so the first one that converges ends what the others left open. A regression
/// may stand as long as the service did not become healthy again. And nothing is left of a unit
/// that was deleted.
pub(super) fn concerns(
    report: &Report,
    last: Option<&Inputs>,
    inputs: &Inputs,
    status: &Status,
) -> bool {
    let stood = last.is_some_and(|last| !last.observation.divergences.is_empty());
    let converges = report.outcome == Outcome::Converged
        && last.is_some_and(|last| last.outcome != Outcome::Converged);
    has_external_changes(report)
        || stands(report)
        || stood
        || converges
        || inputs.absent
        || regression(inputs, status, may_have_regressed(&inputs.previous)).is_some()
}

/// Whether a regression may stand. It begins when a service that ran gets worse, and ends when it is
/// healthy.
fn may_have_regressed(previous: &Status) -> bool {
    previous.health != Health::Healthy
        && !matches!(previous.phase, Phase::Accepted | Phase::Creating)
}

/// Records the divergences of these reports, and adds their events to the drafts of their unit.
pub(super) async fn record(
    tx: &mut Tx,
    lease: Lease,
    drifts: &[Drift<'_>],
    drafts: &mut [(&Report, Vec<EventDraft>)],
    now: Timestamp,
) -> Result<(), Error> {
    if drifts.is_empty() {
        return Ok(());
    }
    let units: Vec<Unit> = drifts.iter().map(|drift| drift.report.unit).collect();
    let mut stored = rows::load(tx, lease, &units).await?;
    let has_work =
        |drift: &&Drift<'_>| drift.may_insert() || stored.contains_key(&drift.report.unit);
    let drifts: Vec<&Drift<'_>> = drifts.iter().filter(has_work).collect();
    if drifts.is_empty() {
        return Ok(());
    }
    // Read after the rows were locked: a decision that ended one of them accepted a generation before
    // that, and a report of an older generation must not open it again.
    let units: Vec<(Unit, OrgId)> =
        drifts.iter().map(|drift| (drift.report.unit, drift.report.org)).collect();
    let accepted = desired_states(tx, &units).await?;
    let services: Vec<ServiceId> =
        drifts.iter().filter_map(|drift| service(drift.report.unit)).collect();
    let sold = sold::load(tx, &services).await?;

    let (mut entries, mut fights) = (Vec::new(), Vec::new());
    let mut facts: BTreeMap<Unit, Vec<Fact>> = BTreeMap::new();
    for drift in drifts {
        let unit = drift.report.unit;
        let sold = service(unit).and_then(|service| sold.get(&service));
        let Some(owner) = owner(drift.report, sold) else { continue };
        let known = stored.remove(&unit).unwrap_or_default();
        let accepted = accepted.get(&unit).map(|(_, generation)| *generation);
        let ledger = drift.enter(known, sold, accepted, now);
        facts.insert(unit, ledger.facts);
        let fight = |(at, by)| Fight { owner, at, by };
        fights.extend(ledger.fights.into_iter().map(fight));
        let changed = |entry: &Entry| entry.change != Change::Nothing;
        entries.extend(ledger.entries.into_iter().filter(changed).map(|entry| (owner, entry)));
    }
    rows::store(tx, lease, &entries).await?;
    if !fights.is_empty() {
        for (conflict, fight) in rows::raise(tx, lease, &fights, now).await? {
            facts.entry(fight.owner.unit).or_default().push(raised(conflict, fight));
        }
    }
    for (report, drafts) in drafts {
        for fact in facts.remove(&report.unit).unwrap_or_default() {
            let cause = cause(drafts, &fact);
            drafts.push(EventDraft { source: Source::Reconciler, fact, cause });
        }
    }
    Ok(())
}

impl Drift<'_> {
    /// Whether it may add a divergence to those that are stored.
    fn may_insert(&self) -> bool {
        let NewStatus { inputs, status, .. } = self.new;
        stands(self.report)
            || has_external_changes(self.report)
            || matches!(regression(inputs, status, false), Some(Regression::Stands(_)))
    }

    /// What the report changes about the divergences of its unit.
    fn enter<'s>(
        &self,
        entries: Vec<Entry>,
        sold: Option<&'s Sold>,
        accepted: Option<i64>,
        now: Timestamp,
    ) -> Ledger<'s> {
        let Self { report, new: NewStatus { inputs, status, .. } } = self;
        let mut ledger = Ledger {
            entries,
            facts: Vec::new(),
            fights: Vec::new(),
            sold,
            generation: report.generation,
            outdated: report.generation < accepted.unwrap_or(inputs.generation),
            now,
        };
        if inputs.absent {
            ledger.end_all();
            return ledger;
        }
        for seen in reverted(report) {
            ledger.revert(&seen);
        }
        if let Some(observation) = &report.observation {
            for seen in &observation.divergences {
                ledger.stand(seen);
            }
            if report.outcome == Outcome::Converged {
                ledger.end_missing(&observation.divergences);
            }
        }
        match regression(inputs, status, ledger.has_regression()) {
            Some(Regression::Stands(seen)) => ledger.stand(&seen),
            Some(Regression::Ended(state)) => ledger.end_regression(state),
            None => {}
        }
        ledger
    }
}

/// Whether a difference stands at the end of the pass.
fn stands(report: &Report) -> bool {
    report.observation.as_ref().is_some_and(|seen| !seen.divergences.is_empty())
}

fn has_external_changes(report: &Report) -> bool {
    report.changes.iter().any(|change| match change {
        ObjectChange::DeletedExternally { .. } | ObjectChange::ModifiedExternally { .. } => true,
        ObjectChange::Created { .. }
        | ObjectChange::Updated { .. }
        | ObjectChange::Removed { .. } => false,
    })
}

const fn service(unit: Unit) -> Option<ServiceId> {
    match unit {
        Unit::Service(service) => Some(service),
        Unit::Project(_) => None,
    }
}

/// The unit of a report and its project. A service without a row has nothing to record.
fn owner(report: &Report, sold: Option<&Sold>) -> Option<Owner> {
    let Report { unit, org, .. } = *report;
    let project = match unit {
        Unit::Project(project) => project,
        Unit::Service(_) => sold?.project,
    };
    Some(Owner { unit, org, project })
}

/// What was reverted in the pass, in the order in which it was reverted.
fn reverted(report: &Report) -> Vec<Divergence> {
    report
        .changes
        .iter()
        .flat_map(|change| match change {
            ObjectChange::ModifiedExternally { fields, .. } => fields.clone(),
            ObjectChange::DeletedExternally { key } => vec![deleted(key)],
            ObjectChange::Created { .. }
            | ObjectChange::Updated { .. }
            | ObjectChange::Removed { .. } => Vec::new(),
        })
        .collect()
}

/// The divergence of an object that was deleted and created again.
fn deleted(key: &ResourceKey) -> Divergence {
    Divergence {
        key: key.clone(),
        field: String::new(),
        class: DivergenceClass::Deleted,
        wanted: Value::Null,
        live: Value::Null,
        by: None,
        verdict: Verdict::Enforce,
        state: DivergenceState::Reverted,
    }
}

fn raised(conflict: ConflictId, fight: &Fight) -> Fact {
    Fact::ConflictRaised(ConflictRaised {
        conflict,
        key: fight.at.key.clone(),
        field: fight.at.field.clone(),
        by: fight.by.clone(),
    })
}

/// What caused a fact: the draft that says that the field differs, or something outside of Trueup.
fn cause(drafts: &[EventDraft], fact: &Fact) -> Cause {
    let at = match fact {
        Fact::DriftProposed(of) => Some((&of.key, &of.field)),
        Fact::ConflictRaised(of) => Some((&of.key, &of.field)),
        _ => None,
    };
    let detected = |draft: &EventDraft| match &draft.fact {
        Fact::DriftDetected(of) => at == Some((&of.key, &of.field)),
        _ => false,
    };
    drafts.iter().position(detected).map_or(Cause::Outside, Cause::Draft)
}
