//! Settling reports: the one writer of observed and projected rows and of events about them.
//!
//! One transaction per batch, fenced by the lease's epoch. A report that says nothing new writes
//! nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::ServiceId;
use trueup_model::observation::Observation;
use trueup_model::order::Unit;
use trueup_model::report::{Change, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::{Inputs, Phase, Status};
use trueup_rules::status::project;
use uuid::Uuid;

use crate::clock::sql;
use crate::lease::{Lease, fence};
use crate::mint::mint;
use crate::pool::Tx;
use crate::row::{json, read, unit, unit_uuid};
use crate::status::NewStatus;
use crate::{Error, Worker, endpoint, event, quota, status, variable};

impl Worker {
    /// Writes down what reports say, at most one per unit; answers how many said something new.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease is over.
    pub async fn settle(
        &self,
        lease: Lease,
        reports: &[Report],
        now: Timestamp,
    ) -> Result<usize, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let units: Vec<Unit> = reports.iter().map(|report| report.unit).collect();
        // The locks of the statuses come first: what is read after them is not overtaken.
        let stored = status::load(&mut tx, &units).await?;
        let promised = promised(&mut tx, &units).await?;

        let mut statuses = Vec::new();
        let mut events = Vec::new();
        let mut settled = Vec::new();
        for (unit, previous, last) in stored {
            let Some(report) = reports.iter().find(|report| report.unit == unit) else {
                continue;
            };
            let Some((desired, generation)) = promised.get(&unit).copied() else {
                continue;
            };
            if is_old_news(report, last.as_ref(), desired, generation) {
                continue;
            }
            let inputs = Inputs {
                desired,
                generation,
                cluster: lease.cluster,
                previous: previous.clone(),
                observation: evidence(report, last.as_ref()),
                outcome: report.outcome.clone(),
                absent: desired == DesiredState::Deleted
                    && report.generation == generation
                    && report.receipt.is_some(),
            };
            let status = project(&inputs, now);
            events.extend(facts(report, &previous, last.as_ref(), &status).into_iter().map(
                |(source, fact)| NewEvent {
                    id: mint(now),
                    org: report.org,
                    source,
                    unit,
                    generation: report.generation,
                    at: now,
                    fact,
                    trace: None,
                },
            ));
            settled.push((report, inputs.absent));
            statuses.push(NewStatus { unit, status, inputs, as_of: now });
        }
        if settled.is_empty() {
            return Ok(0);
        }
        status::store(&mut tx, &statuses).await?;
        record_sightings(&mut tx, lease, &settled, now).await?;
        record_absences(&mut tx, &settled).await?;
        endpoint::release(&mut tx, &carried(&settled), now).await?;
        event::record(&mut tx, &events).await?;
        tx.commit().await?;
        Ok(settled.len())
    }
}

/// Whether a report repeats what is stored, for a promise that did not change either.
fn is_old_news(
    report: &Report,
    last: Option<&Inputs>,
    desired: DesiredState,
    generation: i64,
) -> bool {
    report.changes.is_empty()
        && report.receipt.is_none()
        && last.is_some_and(|last| {
            last.outcome == report.outcome
                && report.observation.as_ref().is_none_or(|seen| last.observation.same_as(seen))
                && (last.desired, last.generation) == (desired, generation)
        })
}

/// What a report saw, or what was seen last when it could see nothing.
fn evidence(report: &Report, last: Option<&Inputs>) -> Observation {
    let seen = report.observation.clone().or_else(|| last.map(|last| last.observation.clone()));
    seen.unwrap_or(Observation {
        generation: 0,
        applied: false,
        objects: Vec::new(),
        workload: None,
        pods: Vec::new(),
        as_of: Timestamp::UNIX_EPOCH,
    })
}

/// What is promised about each unit now; it may be newer than what a report was made for.
///
/// Nothing is promised about a service that is verified to be gone: that was the last word on it,
/// and a report that comes late or twice cannot take it back.
async fn promised(
    tx: &mut Tx,
    units: &[Unit],
) -> Result<BTreeMap<Unit, (DesiredState, i64)>, Error> {
    let ids: Vec<Uuid> = units.iter().map(|unit| unit_uuid(*unit)).collect();
    let rows: Vec<(String, Uuid, String, i64)> = sqlx::query_as(
        "select 'service', id, desired, generation from services
         where id = any($1) and deleted_at is null
         union all select 'project', id, 'active', generation from projects where id = any($1)",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(kind, id, desired, generation)| {
            Ok((unit(&kind, id), (read("desired state", desired)?, generation)))
        })
        .collect()
}

async fn record_sightings(
    tx: &mut Tx,
    lease: Lease,
    settled: &[(&Report, bool)],
    now: Timestamp,
) -> Result<(), Error> {
    let seen: Vec<_> = settled
        .iter()
        .filter_map(|(report, _)| report.observation.as_ref())
        .flat_map(|seen| &seen.objects)
        .collect();
    if seen.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update resources r set uid = s.uid, seen_at = $6
         from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as s (kind, namespace, name, uid)
         where r.cluster_id = $1 and r.kind = s.kind and r.namespace = s.namespace and r.name = s.name
           and r.uid is distinct from s.uid",
    )
    .bind(lease.cluster.uuid())
    .bind(seen.iter().map(|seen| seen.key.kind.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|seen| seen.key.namespace.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|seen| seen.key.name.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|seen| seen.uid.as_str()).collect::<Vec<_>>())
    .bind(sql(now))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Which generation each service was seen to carry, with nothing left to write or to take away.
fn carried(settled: &[(&Report, bool)]) -> Vec<(ServiceId, i64)> {
    settled
        .iter()
        .filter(|(report, _)| report.outcome == Outcome::Converged && report.observation.is_some())
        .filter_map(|(report, _)| match report.unit {
            Unit::Service(service) => Some((service, report.generation)),
            Unit::Project(_) => None,
        })
        .collect()
}

/// Stores receipts and frees the names of services that are verified to be gone.
async fn record_absences(tx: &mut Tx, settled: &[(&Report, bool)]) -> Result<(), Error> {
    for (report, absent) in settled {
        let (true, Some(receipt), Unit::Service(service)) = (absent, &report.receipt, report.unit)
        else {
            continue;
        };
        sqlx::query(
            "insert into receipts (service_id, org_id, receipt, verified_at) values ($1, $2, $3, $4)
             on conflict (service_id) do nothing",
        )
        .bind(service.uuid())
        .bind(report.org.uuid())
        .bind(json(receipt))
        .bind(sql(receipt.verified_at))
        .execute(&mut **tx)
        .await?;
        variable::shred(tx, service).await?;
        endpoint::release_all(tx, service, receipt.verified_at).await?;
        sqlx::query("update services set deleted_at = $2 where id = $1 and deleted_at is null")
            .bind(service.uuid())
            .bind(sql(receipt.verified_at))
            .execute(&mut **tx)
            .await?;
        quota::release(tx, service).await?;
    }
    Ok(())
}

/// What a report adds to the event log.
fn facts(
    report: &Report,
    previous: &Status,
    last: Option<&Inputs>,
    status: &Status,
) -> Vec<(Source, Fact)> {
    let mut facts: Vec<(Source, Fact)> = report.changes.iter().cloned().map(change_fact).collect();
    let outcome_changed = last.is_none_or(|last| last.outcome != report.outcome);
    let newly_applied = status.applied_generation != previous.applied_generation;
    match &report.outcome {
        Outcome::Converged if newly_applied => {
            facts.push((Source::Reconciler, Fact::ReconcileSucceeded {}));
        }
        Outcome::Failed { why } if outcome_changed => {
            facts.push((Source::Reconciler, Fact::ReconcileFailed { why: why.clone() }));
        }
        Outcome::Deferred { why } | Outcome::Locked { why } if outcome_changed => {
            facts.push((Source::Reconciler, Fact::ReconcileDeferred { why: why.clone() }));
        }
        Outcome::Converged
        | Outcome::Waiting { .. }
        | Outcome::Failed { .. }
        | Outcome::Deferred { .. }
        | Outcome::Locked { .. }
        | Outcome::Blocked { .. } => {}
    }
    if (status.phase, status.health) != (previous.phase, previous.health) {
        let message = status.conditions.first().map(|condition| condition.message.clone());
        let (phase, health) = (status.phase, status.health);
        facts.push((Source::K8sWatch, Fact::ServicePhaseChanged { phase, health, message }));
    }
    if let (Phase::Deleted, Some(receipt)) = (status.phase, &report.receipt) {
        facts.push((Source::Reconciler, Fact::AbsenceVerified { keys: receipt.absent.len() }));
    }
    facts
}

fn change_fact(change: Change) -> (Source, Fact) {
    match change {
        Change::Created { key } => (Source::Reconciler, Fact::ResourceCreated { key }),
        Change::Updated { key } => (Source::Reconciler, Fact::ResourceUpdated { key }),
        Change::Removed { key } => (Source::Reconciler, Fact::ResourceRemoved { key }),
        Change::DeletedExternally { key } => {
            (Source::K8sWatch, Fact::ResourceDeletedExternally { key })
        }
        Change::ModifiedExternally { key, field } => {
            (Source::K8sWatch, Fact::DriftReverted { key, field })
        }
    }
}
