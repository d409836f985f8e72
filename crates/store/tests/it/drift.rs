//! Divergences: each is one row from when it was first seen until it ended, written with the report
//! that shows it.

use serde_json::json;
use trueup_model::drift::{
    Divergence, DivergenceClass, DivergenceState, PROPOSAL_LIFETIME, Verdict,
};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::money::Money;
use trueup_model::observation::{Cause, Observation, PodProblem, PodSeen};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_store::{DivergenceFilter, DivergenceRow, DriftSum, ServiceRow};
use trueup_testkit::report_batch::{RecordReports as _, next_batch};

use crate::stage::{Stage, at, converged, gone, seen};
use crate::tenant::two_orgs;

/// The Deployment of a service.
pub(crate) fn workload(row: &ServiceRow) -> ResourceKey {
    ResourceKey::new(Kind::Deployment, &row.namespace, &row.service.object_name)
}

/// Another number of pods than the one that is desired.
pub(crate) fn replicas(
    key: &ResourceKey,
    live: u32,
    verdict: Verdict,
    state: DivergenceState,
) -> Divergence {
    Divergence {
        key: key.clone(),
        field: "spec.replicas".to_owned(),
        class: DivergenceClass::Edited,
        wanted: json!(1),
        live: json!(live),
        by: Some("kubectl-edit".to_owned()),
        verdict,
        state,
    }
}

/// The report of a pass at whose end the number of pods differs.
pub(crate) fn standing(row: &ServiceRow, live: u32, state: DivergenceState) -> Report {
    let verdict = match state {
        DivergenceState::Proposed => Verdict::Adopt,
        DivergenceState::Ignored => Verdict::Ignore,
        _ => Verdict::Enforce,
    };
    let generation = row.service.generation;
    let divergences = vec![replicas(&workload(row), live, verdict, state)];
    let observation = Observation { divergences, ..seen(row, generation, 1) };
    Report { observation: Some(observation), ..converged(row, generation) }
}

/// The report of a pass that reverted the number of pods.
pub(crate) fn reverted(row: &ServiceRow, live: u32, verdict: Verdict) -> Report {
    let key = workload(row);
    let fields = vec![replicas(&key, live, verdict, DivergenceState::Reverted)];
    let changes = vec![ObjectChange::ModifiedExternally { key, fields }];
    Report { changes, ..converged(row, row.service.generation) }
}

/// The price of so many pods of the plan `small` per hour.
pub(crate) fn pods(count: i64) -> Money {
    Money { micros: 6000 * count, currency: "EUR".parse().unwrap() }
}

impl Stage {
    /// Records the report of a pass.
    pub(crate) async fn pass(&self, report: Report, seconds: i64) {
        let lease = self.lease().await;
        let recorded = self.db.worker.record_reports(lease, &[report], at(seconds)).await.unwrap();
        assert_eq!(recorded, 1, "the report should have news");
    }

    /// Every divergence of the org, in the order in which they were first seen.
    pub(crate) async fn divergences(&self) -> Vec<DivergenceRow> {
        let all = DivergenceFilter { ended: true, ..DivergenceFilter::default() };
        let mut rows = self.db.app.list_divergences(self.db.org, &all, None, 100).await.unwrap();
        rows.sort_by_key(|row| (row.record.first_seen_at, row.record.ended_at.is_none()));
        rows
    }

    /// The only divergence of the org.
    pub(crate) async fn divergence(&self) -> DivergenceRow {
        let mut rows = self.divergences().await;
        assert_eq!(rows.len(), 1, "{rows:#?}");
        rows.remove(0)
    }

    /// How many events of this type there are.
    pub(crate) async fn count_events(&self, kind: &str) -> i64 {
        self.one(&format!("select count(*) from events where type = '{kind}'")).await
    }
}

fn states(rows: &[DivergenceRow]) -> Vec<DivergenceState> {
    rows.iter().map(|row| row.record.divergence.state).collect()
}

#[tokio::test]
async fn a_difference_is_opened_extended_and_ended_in_one_row() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let frozen = |live| Report {
        outcome: Outcome::Frozen { why: "an audit".to_owned() },
        ..standing(&row, live, DivergenceState::Open)
    };
    stage.pass(frozen(5), 10).await;
    let opened = stage.divergence().await;
    assert_eq!((opened.record.first_seen_at, opened.record.last_seen_at), (at(10), at(10)));
    assert_eq!((opened.record.ended_at, opened.gone_at), (None, None));
    assert_eq!(opened.record.hourly, Some(pods(4)), "four pods more than are sold");
    assert_eq!(opened.service_name.as_deref(), Some("web"));

    stage.pass(frozen(7), 20).await;
    let extended = stage.divergence().await;
    assert_eq!(extended.record.id, opened.record.id);
    assert_eq!((extended.record.first_seen_at, extended.record.last_seen_at), (at(10), at(20)));
    assert_eq!(extended.record.divergence.live, json!(7));
    assert_eq!(extended.record.hourly, Some(pods(6)));

    stage.pass(reverted(&row, 7, Verdict::Enforce), 30).await;
    let ended = stage.divergence().await;
    assert_eq!(ended.record.divergence.state, DivergenceState::Reverted);
    assert_eq!((ended.record.ended_at, ended.gone_at), (Some(at(30)), Some(at(30))));
    let open = DivergenceFilter::default();
    assert_eq!(stage.db.app.list_divergences(stage.db.org, &open, None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn what_is_reverted_at_once_is_a_row_that_ended() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let lease = stage.lease().await;
    let edited = reverted(&row, 5, Verdict::Enforce);
    let deleted = ObjectChange::DeletedExternally { key: workload(&row) };
    let changes = [edited.changes, vec![deleted]].concat();
    let batch = [Report { changes, ..converged(&row, 1) }];
    let (worker, number) = (&stage.db.worker, next_batch());
    assert_eq!(worker.record_reports_once(lease, number, &batch, at(10)).await.unwrap(), 1);
    let rows = stage.divergences().await;
    assert_eq!(states(&rows), [DivergenceState::Reverted; 2]);
    let deleted = rows.iter().find(|row| row.record.divergence.field.is_empty()).unwrap();
    assert_eq!(deleted.record.divergence.class, DivergenceClass::Deleted);
    assert_eq!(deleted.record.hourly, Some(pods(1)), "all pods of the workload");
    for row in &rows {
        assert_eq!((row.record.first_seen_at, row.record.ended_at), (at(10), Some(at(10))));
    }
    // The answer was lost, and the batch is sent again.
    assert_eq!(worker.record_reports_once(lease, number, &batch, at(11)).await.unwrap(), 0);
    assert_eq!(stage.divergences().await, rows);
}

#[tokio::test]
async fn a_value_that_another_writer_restores_ends_the_divergence_once_the_unit_has_converged() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Ignored), 10).await;
    // A pass that did not converge may have compared only some objects.
    let waiting = Outcome::Waiting { on: "its pods".to_owned() };
    stage.pass(Report { outcome: waiting, ..converged(&row, 1) }, 20).await;
    assert_eq!(stage.divergence().await.record.ended_at, None);
    stage.pass(converged(&row, 1), 30).await;
    let ended = stage.divergence().await;
    assert_eq!(ended.record.divergence.state, DivergenceState::Restored);
    assert_eq!((ended.record.ended_at, ended.gone_at), (Some(at(30)), Some(at(30))));
    assert_eq!(stage.count_events("DriftEnded").await, 1);

    // The next generation wants another value.
    stage.pass(standing(&row, 5, DivergenceState::Ignored), 40).await;
    let next = stage.declare("web", "nginx:2").await.row;
    stage.pass(converged(&next, 2), 50).await;
    let rows = stage.divergences().await;
    assert_eq!(states(&rows), [DivergenceState::Restored, DivergenceState::Superseded]);
}

#[tokio::test]
async fn the_divergences_of_a_deleted_service_end_with_it() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 10).await;
    stage.delete("web").await.unwrap();
    stage.pass(gone(&row, 2), 20).await;
    let ended = stage.divergence().await;
    assert_eq!(ended.record.divergence.state, DivergenceState::Superseded);
    assert_eq!((ended.record.ended_at, ended.gone_at), (Some(at(20)), Some(at(20))));
}

#[tokio::test]
async fn a_service_that_gets_worse_by_itself_has_regressed_until_it_is_healthy() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(converged(&row, 1), 10).await;
    let problem = PodProblem { cause: Cause::ImagePull, detail: "no such image".to_owned() };
    let pod = PodSeen {
        name: "web-1".to_owned(),
        uid: "pod-1".to_owned(),
        ready: false,
        ended: None,
        problem: Some(problem),
        simulated: false,
    };
    let worse = Observation { pods: vec![pod], ..seen(&row, 1, 0) };
    stage.pass(Report { observation: Some(worse), ..converged(&row, 1) }, 20).await;
    let regressed = stage.divergence().await.record;
    assert_eq!(regressed.divergence.class, DivergenceClass::Regressed);
    assert_eq!(regressed.divergence.field, "status");
    assert_eq!((regressed.hourly, regressed.ended_at), (Some(pods(1)), None));
    stage.pass(converged(&row, 1), 30).await;
    let ended = stage.divergence().await.record;
    assert_eq!(ended.divergence.state, DivergenceState::Restored);
    assert_eq!(ended.ended_at, Some(at(30)));
}

#[tokio::test]
async fn a_reverted_value_is_proposed_once_and_each_revert_counts() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(reverted(&row, 5, Verdict::Adopt), 10).await;
    let proposed = stage.divergence().await;
    assert_eq!(proposed.record.divergence.state, DivergenceState::Proposed);
    assert_eq!(proposed.record.expires_at, Some(at(10) + PROPOSAL_LIFETIME));
    assert_eq!((proposed.record.ended_at, proposed.gone_at), (None, Some(at(10))));

    stage.pass(reverted(&row, 6, Verdict::Adopt), 20).await;
    let rows = stage.divergences().await;
    assert_eq!(states(&rows), [DivergenceState::Proposed, DivergenceState::Reverted]);
    assert_eq!(rows[0].record.id, proposed.record.id);
    assert_eq!(rows[0].record.divergence.live, json!(6), "the newest value is proposed");
    assert_eq!(stage.count_events("DriftProposed").await, 1);
    // It waits for its decision although the cluster has the desired value.
    let blind =
        Report { outcome: Outcome::Waiting { on: "pods".to_owned() }, ..converged(&row, 1) };
    stage.pass(blind, 30).await;
    stage.pass(converged(&row, 1), 40).await;
    assert_eq!(states(&stage.divergences().await), states(&rows));
}

#[tokio::test]
async fn drift_is_summed_for_as_long_as_it_stood() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Ignored), 0).await;
    let deleted = ObjectChange::DeletedExternally {
        key: ResourceKey::new(Kind::Service, &row.namespace, "web"),
    };
    let standing = standing(&row, 5, DivergenceState::Ignored);
    stage.pass(Report { changes: vec![deleted], ..standing }, 600).await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let sum = |class, manager: Option<&str>, seconds, cost| DriftSum {
        project_name: "shop".to_owned(),
        class,
        manager: manager.map(str::to_owned),
        count: 1,
        seconds,
        cost: Some(cost),
    };
    let edited = |seconds, cost| sum(DivergenceClass::Edited, Some("kubectl-edit"), seconds, cost);
    let all = app.sum_drift(org, at(0), at(3600)).await.unwrap();
    assert_eq!(all, [sum(DivergenceClass::Deleted, None, 0, pods(0)), edited(3600, pods(4))]);
    let half = app.sum_drift(org, at(1800), at(3600)).await.unwrap();
    assert_eq!(half, [edited(1800, pods(2))], "only from then on");
    stage.pass(converged(&row, 1), 7200).await;
    let ended = app.sum_drift(org, at(0), at(90_000)).await.unwrap();
    assert_eq!(ended[1], edited(7200, pods(8)), "not after it ended");
    assert_eq!(app.sum_drift(org, at(7300), at(90_000)).await.unwrap(), []);
}

#[tokio::test]
async fn another_org_sees_and_decides_nothing() {
    let (stage, ours, theirs) = two_orgs().await;
    let app = &stage.db.app;
    let filter = DivergenceFilter::default();
    let mine = app.list_divergences(ours, &filter, None, 9).await.unwrap();
    let id = mine[0].record.id;
    assert!(app.find_divergence(ours, id).await.unwrap().is_some());
    assert_eq!(app.find_divergence(theirs, id).await.unwrap(), None);
    let yours = app.list_divergences(theirs, &filter, None, 9).await.unwrap();
    assert!(yours.iter().all(|row| row.record.org == theirs && row.record.id != id));
    let conflict = app.list_conflicts(ours, false, None, 9).await.unwrap()[0].conflict.id;
    assert_eq!(app.find_conflict(theirs, conflict).await.unwrap(), None);
    let sums = app.sum_drift(theirs, at(0), at(3600)).await.unwrap();
    assert_eq!(sums.iter().map(|sum| sum.count).sum::<i64>(), 1, "{sums:?}");
    let adopted = app.adopt_divergence(theirs, id, None, None, &stage.context(), at(9)).await;
    assert!(matches!(adopted, Err(trueup_store::door::Refusal::NotFound("divergence"))));
}

#[tokio::test]
async fn a_divergence_is_deleted_ninety_days_after_it_ended_and_never_while_it_stands() {
    let day = 24 * 3600;
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(reverted(&row, 5, Verdict::Enforce), 10).await;
    stage.pass(standing(&row, 6, DivergenceState::InConflict), 20).await;
    assert_eq!(stage.divergences().await.len(), 2);
    assert_eq!(stage.db.worker.purge_divergences(at(90 * day + 9)).await.unwrap(), 0);
    assert_eq!(stage.db.worker.purge_divergences(at(90 * day + 10)).await.unwrap(), 1);
    assert_eq!(stage.db.worker.purge_divergences(at(900 * day)).await.unwrap(), 0);
    assert_eq!(states(&stage.divergences().await), [DivergenceState::InConflict]);
}
