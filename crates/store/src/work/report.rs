//! Records reports: the only writer of observed and projected rows, and of events about them.
//!
//! One transaction per batch, fenced by the lease's epoch. A report without news writes nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::crash;
use trueup_model::event::NewEvent;
use trueup_model::id::{EventId, OrgId, ServiceId};
use trueup_model::key::Kind;
use trueup_model::observation::Observation;
use trueup_model::order::Unit;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::status::Inputs;
use trueup_rules::event::draft::{Cause, EventDraft, facts};
use trueup_rules::render::names;
use trueup_rules::status::project;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{read, unit, unit_uuid};
use crate::status::NewStatus;
use crate::work::drift::{self, Drift};
use crate::work::lease::{Lease, fence};
use crate::work::wake;
use crate::{Error, Worker, domain, endpoint, event, project, quota, receipt, status, variable};

impl Worker {
    /// Records a numbered batch of reports, at most one per unit; returns how many had news.
    ///
    /// Numbers count up within an epoch. If the answer is lost, the batch can be sent again and nothing
    /// is written twice.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn record_reports_once(
        &self,
        lease: Lease,
        batch: i64,
        reports: &[Report],
        now: Timestamp,
    ) -> Result<usize, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let by_unit: BTreeMap<Unit, &Report> =
            reports.iter().map(|report| (report.unit, report)).collect();
        let units: Vec<(Unit, OrgId)> =
            by_unit.values().map(|report| (report.unit, report.org)).collect();
        // Lock the statuses first, so that what is read after that cannot change concurrently.
        let stored = status::load(&mut tx, &units).await?;
        let desired_states = desired_states(&mut tx, &units).await?;

        let (mut statuses, mut drafts) = (Vec::new(), Vec::new());
        let (mut recorded, mut drifting) = (Vec::new(), Vec::new());
        for (unit, previous, last) in stored {
            let (Some(report), Some((desired, generation))) =
                (by_unit.get(&unit).copied(), desired_states.get(&unit).copied())
            else {
                continue;
            };
            if is_unchanged(report, last.as_ref(), desired, generation) {
                continue;
            }
            let inputs = Inputs {
                desired,
                generation,
                cluster: lease.scope,
                previous: previous.clone(),
                observation: latest_observation(report, last.as_ref()),
                outcome: report.outcome.clone(),
                absent: desired == DesiredState::Deleted
                    && report.generation == generation
                    && report.receipt.is_some(),
            };
            let status = project(&inputs, now);
            drafts.push((report, facts(report, &previous, last.as_ref(), &status)));
            drifting.push(drift::concerns(report, last.as_ref(), &inputs, &status));
            recorded.push((report, desired, inputs.absent));
            statuses.push(NewStatus { unit, status, inputs, as_of: now });
        }
        if recorded.is_empty() || !mark_batch(&mut tx, lease, batch).await? {
            return Ok(0);
        }
        status::store(&mut tx, &statuses).await?;
        forget_removed(&mut tx, lease, &recorded).await?;
        record_seen(&mut tx, lease, &recorded).await?;
        let drifts: Vec<Drift<'_>> = recorded
            .iter()
            .zip(&statuses)
            .zip(drifting)
            .filter(|(_, drifting)| *drifting)
            .map(|(((report, ..), new), _)| Drift { report, new })
            .collect();
        drift::record(&mut tx, lease, &drifts, &mut drafts, now).await?;
        wake_for_next_anchors(&mut tx, lease, &recorded, now).await?;
        record_absences(&mut tx, &recorded, now).await?;
        record_surveys(&mut tx, &recorded, now).await?;
        endpoint::release(&mut tx, &converged(&recorded), now).await?;
        let events = events(&mut tx, drafts, now).await?;
        event::record(&mut tx, &events).await?;
        wake_broken(&mut tx, lease, &recorded, now).await?;
        crash::point("report.recording").await;
        tx.commit().await?;
        Ok(recorded.len())
    }
}

/// Marks a batch as recorded; returns false if it was recorded before.
async fn mark_batch(tx: &mut Tx, lease: Lease, batch: i64) -> Result<bool, Error> {
    let marked = sqlx::query(
        "insert into settle_marks as m (cluster_id, epoch, batch) values ($1, $2, $3)
         on conflict (cluster_id) do update set epoch = $2, batch = $3
         where (m.epoch, m.batch) < ($2, $3)",
    )
    .bind(lease.scope.uuid())
    .bind(lease.epoch)
    .bind(batch)
    .execute(&mut **tx)
    .await?;
    Ok(marked.rows_affected() == 1)
}

/// Whether a report repeats what is stored, for a desired state that did not change either.
fn is_unchanged(
    report: &Report,
    last: Option<&Inputs>,
    desired: DesiredState,
    generation: i64,
) -> bool {
    report.changes.is_empty()
        && report.receipt.is_none()
        && report.survey.is_none()
        && last.is_some_and(|last| {
            last.outcome == report.outcome
                && report.observation.as_ref().is_none_or(|seen| last.observation.same_as(seen))
                && (last.desired, last.generation) == (desired, generation)
        })
}

/// The report's observation, or the last one if the report has none.
fn latest_observation(report: &Report, last: Option<&Inputs>) -> Observation {
    let seen = report.observation.clone().or_else(|| last.map(|last| last.observation.clone()));
    seen.unwrap_or(Observation {
        generation: 0,
        applied: false,
        objects: Vec::new(),
        workload: None,
        pods: Vec::new(),
        missing: Vec::new(),
        divergences: Vec::new(),
        as_of: Timestamp::UNIX_EPOCH,
    })
}

/// Desired state and generation of each unit; they may be newer than those of a report.
///
/// Deleted units are left out: a verified absence is final, and a late or repeated report cannot
/// revert it.
pub(super) async fn desired_states(
    tx: &mut Tx,
    units: &[(Unit, OrgId)],
) -> Result<BTreeMap<Unit, (DesiredState, i64)>, Error> {
    let ids: Vec<Uuid> = units.iter().map(|(unit, _)| unit_uuid(*unit)).collect();
    let rows: Vec<(String, Uuid, String, i64)> = sqlx::query_as(
        "select 'service', id, desired, generation from services
         where id = any($1) and deleted_at is null
         union all
         select 'project', id, desired, generation from projects
         where id = any($1) and deleted_at is null",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(kind, id, desired, generation)| {
            Ok((unit(&kind, id)?, (read("desired state", desired)?, generation)))
        })
        .collect()
}

/// Records the uids of observed objects, and when they were seen.
///
/// Only reports with news come here, so an idle object costs no write. Readers know from its kind's
/// watch until when it was there.
async fn record_seen(
    tx: &mut Tx,
    lease: Lease,
    recorded: &[(&Report, DesiredState, bool)],
) -> Result<(), Error> {
    let seen: Vec<_> = recorded
        .iter()
        .filter_map(|(report, ..)| Some((report.org, report.observation.as_ref()?)))
        .flat_map(|(org, seen)| seen.objects.iter().map(move |object| (org, object, seen.as_of)))
        .collect();
    if seen.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update resources r set uid = s.uid, seen_at = greatest(r.seen_at, s.seen_at)
         from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::uuid[])
              as s (kind, namespace, name, uid, seen_at, org_id)
         where r.cluster_id = $1 and r.kind = s.kind and r.namespace = s.namespace and r.name = s.name
           and r.org_id = s.org_id
           and (r.uid is distinct from s.uid or r.seen_at is null or r.seen_at < s.seen_at)",
    )
    .bind(lease.scope.uuid())
    .bind(seen.iter().map(|(_, seen, _)| seen.key.kind.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|(_, seen, _)| seen.key.namespace.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|(_, seen, _)| seen.key.name.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|(_, seen, _)| seen.uid.as_str()).collect::<Vec<_>>())
    .bind(seen.iter().map(|(.., as_of)| sql(*as_of)).collect::<Vec<_>>())
    .bind(seen.iter().map(|(org, ..)| org.uuid()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Wakes services that use the last anchor their order names, so that the next one is recorded.
///
/// Without that, a second external deletion of the anchor could not be repaired.
async fn wake_for_next_anchors(
    tx: &mut Tx,
    lease: Lease,
    recorded: &[(&Report, DesiredState, bool)],
    now: Timestamp,
) -> Result<(), Error> {
    let mut wanted: BTreeMap<(String, String), (Unit, OrgId)> = BTreeMap::new();
    for (report, ..) in recorded.iter().filter(|(_, desired, _)| *desired != DesiredState::Deleted)
    {
        let seen = report.observation.iter().flat_map(|seen| &seen.objects);
        for key in seen.map(|seen| &seen.key).filter(|key| key.kind == Kind::ConfigMap) {
            if let Some(next) = names::next_anchor(&key.name) {
                wanted.insert((key.namespace.clone(), next), (report.unit, report.org));
            }
        }
    }
    // Every order of a new service names two, so most reports need no wake.
    wanted.retain(|(_, name), _| !name.ends_with("-anchor-2"));
    if wanted.is_empty() {
        return Ok(());
    }
    let (namespaces, next): (Vec<&str>, Vec<&str>) =
        wanted.keys().map(|(namespace, name)| (namespace.as_str(), name.as_str())).unzip();
    let unknown: Vec<(String, String)> = sqlx::query_as(
        "select w.namespace, w.name from unnest($2::text[], $3::text[]) as w (namespace, name)
         where not exists (select from resources r where r.cluster_id = $1 and r.kind = 'ConfigMap'
                             and r.namespace = w.namespace and r.name = w.name)",
    )
    .bind(lease.scope.uuid())
    .bind(namespaces)
    .bind(next)
    .fetch_all(&mut **tx)
    .await?;
    for (unit, org) in unknown.iter().filter_map(|key| wanted.get(key)) {
        let again = wake::Request::repair(*unit, *org, lease.scope);
        wake::request(tx, &again, now).await?;
    }
    Ok(())
}

/// Wakes units whose pass ended with a defect, so that attempts are counted and operators see it.
async fn wake_broken(
    tx: &mut Tx,
    lease: Lease,
    recorded: &[(&Report, DesiredState, bool)],
    now: Timestamp,
) -> Result<(), Error> {
    let broken = |report: &&Report| matches!(report.outcome, Outcome::Broken { .. });
    for report in recorded.iter().map(|(report, ..)| *report).filter(broken) {
        let again = wake::Request::repair(report.unit, report.org, lease.scope);
        wake::request(tx, &again, now).await?;
    }
    Ok(())
}

/// The generation that each converged service was observed with.
fn converged(recorded: &[(&Report, DesiredState, bool)]) -> Vec<(ServiceId, i64)> {
    recorded
        .iter()
        .filter(|(report, ..)| report.outcome == Outcome::Converged && report.observation.is_some())
        .filter_map(|(report, ..)| match report.unit {
            Unit::Service(service) => Some((service, report.generation)),
            Unit::Project(_) => None,
        })
        .collect()
}

/// Events from drafts, each with its cause and, if a request caused it, with the request's trace.
async fn events(
    tx: &mut Tx,
    drafts: Vec<(&Report, Vec<EventDraft>)>,
    now: Timestamp,
) -> Result<Vec<NewEvent>, Error> {
    let drafts: Vec<_> = drafts.into_iter().filter(|(_, drafts)| !drafts.is_empty()).collect();
    let generations: Vec<(Unit, i64)> =
        drafts.iter().map(|(report, _)| (report.unit, report.generation)).collect();
    let requests = event::requests(tx, &generations).await?;
    let mut events = Vec::new();
    for (report, drafts) in drafts {
        let Report { unit, org, generation, .. } = *report;
        let ids: Vec<EventId> = drafts.iter().map(|_| new_id(now)).collect();
        for (id, EventDraft { source, fact, cause }) in ids.iter().copied().zip(drafts) {
            let (cause, trace) = match cause {
                Cause::Asked => requests.get(&(unit, generation)).cloned().unzip(),
                Cause::Draft(index) => (ids.get(index).copied(), None),
                Cause::Outside => (None, None),
            };
            let trace = trace.flatten();
            events.push(NewEvent {
                id,
                org,
                source,
                subject: unit.into(),
                generation,
                at: now,
                fact,
                trace,
                cause,
            });
        }
    }
    Ok(events)
}

/// Clears the uids of objects that Trueup itself removed from a service that is not being deleted.
///
/// Otherwise their later creation would be reported as an external change. A deletion keeps the
/// uids for its receipt.
async fn forget_removed(
    tx: &mut Tx,
    lease: Lease,
    recorded: &[(&Report, DesiredState, bool)],
) -> Result<(), Error> {
    let removed: Vec<_> = recorded
        .iter()
        .filter(|(_, desired, _)| *desired != DesiredState::Deleted)
        .flat_map(|(report, ..)| report.changes.iter().map(|change| (report.org, change)))
        .filter_map(|(org, change)| match change {
            ObjectChange::Removed { key } => Some((org, key)),
            ObjectChange::Created { .. }
            | ObjectChange::Updated { .. }
            | ObjectChange::DeletedExternally { .. }
            | ObjectChange::ModifiedExternally { .. } => None,
        })
        .collect();
    if removed.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "update resources r set uid = null
         from unnest($2::text[], $3::text[], $4::text[], $5::uuid[]) as g (kind, namespace, name, org_id)
         where r.cluster_id = $1 and r.kind = g.kind and r.namespace = g.namespace and r.name = g.name
           and r.org_id = g.org_id",
    )
    .bind(lease.scope.uuid())
    .bind(removed.iter().map(|(_, key)| key.kind.as_str()).collect::<Vec<_>>())
    .bind(removed.iter().map(|(_, key)| key.namespace.as_str()).collect::<Vec<_>>())
    .bind(removed.iter().map(|(_, key)| key.name.as_str()).collect::<Vec<_>>())
    .bind(removed.iter().map(|(org, _)| org.uuid()).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Stores receipts and frees the names of units whose absence is verified.
async fn record_absences(
    tx: &mut Tx,
    recorded: &[(&Report, DesiredState, bool)],
    now: Timestamp,
) -> Result<(), Error> {
    for (report, _, absent) in recorded {
        let (true, Some(receipt)) = (absent, &report.receipt) else { continue };
        let service = match report.unit {
            Unit::Service(service) => service,
            Unit::Project(project) => {
                project::complete_deletion(tx, project, report.org, receipt).await?;
                continue;
            }
        };
        receipt::insert(tx, report.unit.into(), report.org, receipt).await?;
        variable::shred(tx, service).await?;
        // A port that an unverified Service may still use is not released.
        if !receipt.unproven.iter().any(|left| left.key.kind == Kind::Service) {
            endpoint::release_all(tx, service, receipt.verified_at).await?;
        }
        // Hosts are released; another service must verify them again.
        domain::release_all(tx, service, receipt.verified_at).await?;
        sqlx::query("update services set deleted_at = $2 where id = $1 and deleted_at is null")
            .bind(service.uuid())
            .bind(sql(receipt.verified_at))
            .execute(&mut **tx)
            .await?;
        quota::release(tx, service).await?;
        project::wake_deleting(tx, service, now).await?;
    }
    Ok(())
}

/// Records or clears the namespace surveys of projects.
async fn record_surveys(
    tx: &mut Tx,
    recorded: &[(&Report, DesiredState, bool)],
    now: Timestamp,
) -> Result<(), Error> {
    for (report, ..) in recorded {
        if let (Unit::Project(project), Some(survey)) = (report.unit, &report.survey) {
            project::record_survey(tx, project, survey, now).await?;
        }
    }
    Ok(())
}
