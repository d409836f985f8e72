//! Usage: computed from transitions, written once, and growing without writes.

use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_model::billing::BillingSettings;
use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::transition::ObjectUpdate;
use trueup_model::usage::{GapPolicy, Meter, Source};
use trueup_store::{CostInputs, Error, Metered, Observer, ServiceRow};

use crate::stage::{Stage, at};
use crate::transition::{pod, present};

/// The meter, its observer and the settings of a test.
pub(crate) struct MeterRig {
    pub(crate) stage: Stage,
    pub(crate) observer: Observer,
    pub(crate) settings: BillingSettings,
    row: ServiceRow,
}

/// A pod whose container runs since a second, or ran until another one.
fn running(row: &ServiceRow, uid: &str, version: u32, from: i64, until: Option<i64>) -> Value {
    let mut object = pod(row, uid, version, Some("n1"));
    let time = |second: i64| at(second).to_string();
    let state = match until {
        None => json!({"running": {"startedAt": time(from)}}),
        Some(until) => json!({"terminated": {
            "exitCode": 0, "startedAt": time(from), "finishedAt": time(until)}}),
    };
    let phase = if until.is_some() { "Succeeded" } else { "Running" };
    object["status"] = json!({"phase": phase, "containerStatuses": [{
        "name": "main", "restartCount": 0, "ready": true, "image": "nginx:1", "imageID": "i",
        "state": state}]});
    object
}

impl MeterRig {
    pub(crate) async fn new() -> Self {
        let stage = Stage::new().await;
        let row = stage.declare("web", "nginx:1").await.row;
        let lease = stage.lease().await;
        let name = "executor/one".to_owned();
        let observer = Observer { lease, name, before: Freshness::default() };
        let rig = Self { stage, observer, settings: BillingSettings::default(), row };
        let node = json!({"metadata": {"uid": "n", "name": "n1", "resourceVersion": "4"},
                          "status": {"capacity": {"cpu": "4", "memory": "8Gi"},
                                     "conditions": [{"type": "Ready", "status": "True"}]}});
        rig.observe(&[present(Kind::Node, &node, at(1))], 1).await;
        rig
    }

    async fn observe(&self, updates: &[ObjectUpdate], second: i64) {
        let worker = &self.stage.db.worker;
        worker.note_transitions(&self.observer, updates, at(second)).await.unwrap();
    }

    /// A pod of the service runs from a second on, or from one to another.
    pub(crate) async fn run(&self, uid: &str, from: i64, until: Option<i64>) {
        let seen = until.unwrap_or(from);
        let version = if until.is_some() { 9 } else { 8 };
        let object = running(&self.row, uid, version, from, until);
        self.observe(&[present(Kind::Pod, &object, at(seen))], seen).await;
    }

    /// As [`Self::run`], for a pod that requests what the plan of the template has.
    pub(crate) async fn run_sized(&self, uid: &str, from: i64, until: Option<i64>) {
        let seen = until.unwrap_or(from);
        let version = if until.is_some() { 9 } else { 8 };
        let mut object = running(&self.row, uid, version, from, until);
        let size = json!({"cpu": "250m", "memory": "256Mi"});
        object["spec"]["containers"] =
            json!([{"name": "main", "resources": {"requests": size, "limits": size}}]);
        self.observe(&[present(Kind::Pod, &object, at(seen))], seen).await;
    }

    /// A list shows at a second that there is no pod any more; the one before was at `since`.
    pub(crate) async fn vanish(&self, since: i64, second: i64) {
        let vanished = ObjectUpdate::Listed {
            kind: Kind::Pod,
            uids: std::collections::BTreeSet::new(),
            resource_version: "99".to_owned(),
            since: Some(at(since)),
            seen_at: at(second),
        };
        self.observe(&[vanished], second).await;
    }

    /// Every watch was heard at a second, and everything before is recorded.
    pub(crate) async fn hear(&self, second: i64) {
        let kinds = [Kind::Pod, Kind::Node, Kind::PersistentVolumeClaim];
        let heard = kinds.into_iter().map(|kind| (kind, at(second))).collect();
        let worker = &self.stage.db.worker;
        worker.record_watermarks(&self.observer, &Freshness { heard }).await.unwrap();
    }

    pub(crate) async fn meter(&self, second: i64) -> Metered {
        let worker = &self.stage.db.worker;
        worker.meter(self.observer.lease, 100, GapPolicy::Free, at(second)).await.unwrap()
    }

    /// What the costs are computed from.
    pub(crate) async fn inputs(&self) -> CostInputs {
        let db = &self.stage.db;
        db.app.cost_inputs(db.org, at(0), &self.settings).await.unwrap()
    }

    /// The seconds of each pod, in order of their beginning.
    async fn pod_seconds(&self) -> Vec<(i64, i64)> {
        let second = |time: Timestamp| time.as_second() - at(0).as_second();
        let intervals = self.inputs().await.usage.intervals;
        let pods = intervals.iter().filter(|one| one.meter == Meter::PodSeconds);
        let mut spans: Vec<_> =
            pods.map(|one| (second(one.span.from), second(one.span.until))).collect();
        spans.sort_unstable();
        spans
    }

    async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.stage.owner).await.unwrap()
    }
}

#[tokio::test]
async fn a_running_pod_grows_with_contact_alone_and_without_writes() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(20).await;
    assert_eq!(rig.meter(20).await.written, 1);
    assert_eq!(rig.meter(21).await, Metered::default(), "nothing is left to meter");
    assert_eq!(rig.pod_seconds().await, [(10, 20)]);
    let written = "select count(*) from usage_intervals where recorded_at > '2027-01-15 08:00:20Z'";
    rig.hear(60).await;
    assert_eq!(rig.meter(60).await, Metered::default());
    assert_eq!(rig.pod_seconds().await, [(10, 60)]);
    assert_eq!(rig.count(written).await, 0);

    // Its end becomes known late, and moves the end back.
    rig.run("a", 10, Some(40)).await;
    rig.hear(80).await;
    assert_eq!(rig.meter(80).await.written, 1);
    assert_eq!(rig.pod_seconds().await, [(10, 40)]);
}

#[tokio::test]
async fn what_is_heard_and_not_recorded_is_no_evidence() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(20).await;
    rig.meter(20).await;
    let worker = &rig.stage.db.worker;
    let watermarks = worker.watermarks(rig.stage.db.cluster).await.unwrap();
    assert_eq!(watermarks[&Source::Pods].seen_at, at(20));
    // An older contact, reported late, does not take anything back.
    rig.hear(15).await;
    assert_eq!(rig.pod_seconds().await, [(10, 20)]);
    // Another holder has the lease now.
    let next = worker.acquire_lease(rig.stage.db.cluster, "one", None, at(30)).await.unwrap();
    assert!(next.ours().is_some());
    let heard = [(Kind::Pod, at(40))].into_iter().collect();
    let late = worker.record_watermarks(&rig.observer, &Freshness { heard }).await;
    assert!(matches!(late, Err(Error::Fenced)));
    let late = worker.meter(rig.observer.lease, 100, GapPolicy::Free, at(40)).await;
    assert!(matches!(late, Ok(Metered { marks: 0, .. }) | Err(Error::Fenced)));
}

#[tokio::test]
async fn a_mark_that_is_set_during_a_pass_stays() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(20).await;
    // A writer has set the mark again and has not committed yet.
    let mut other = rig.stage.owner.acquire().await.unwrap();
    sqlx::query("begin").execute(&mut *other).await.unwrap();
    let set = sqlx::query("update usage_marks set seq = seq + 1 where key = 'a'");
    set.execute(&mut *other).await.unwrap();
    let committed = async {
        let waits = "select count(*) from pg_locks where not granted";
        let waiting = async {
            while rig.count(waits).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, waiting).await.expect("the meter should wait for the mark");
        sqlx::query("commit").execute(&mut *other).await.unwrap();
    };
    let (metered, ()) = tokio::join!(rig.meter(20), committed);
    assert_eq!(metered.written, 1);
    assert_eq!(rig.count("select count(*) from usage_marks where key = 'a'").await, 1);
    assert_eq!(rig.meter(21).await.written, 0);
    assert_eq!(rig.count("select count(*) from usage_marks").await, 0);
}

#[tokio::test]
async fn a_release_marks_its_service_and_changes_no_closed_interval() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, Some(40)).await;
    rig.run("b", 10, None).await;
    rig.hear(50).await;
    rig.meter(50).await;
    rig.stage.declare("web", "nginx:2").await;
    let marks = "select count(*) from usage_marks where kind = 'service'";
    assert_eq!(rig.count(marks).await, 1);
    assert_eq!(rig.meter(60).await.written, 0, "the plan is the same");
    assert_eq!(rig.pod_seconds().await, [(10, 40), (10, 50)]);
}

#[tokio::test]
async fn an_unobserved_end_is_a_gap_with_a_row() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(20).await;
    rig.meter(20).await;
    rig.vanish(20, 50).await;
    rig.hear(50).await;
    rig.meter(50).await;
    assert_eq!(rig.pod_seconds().await, [(10, 20)]);
    let gaps = rig.inputs().await.usage.gaps;
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].span.from, gaps[0].span.until), (at(20), at(50)));
}

#[tokio::test]
async fn closed_intervals_cannot_be_changed_and_never_overlap() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, Some(40)).await;
    rig.hear(50).await;
    rig.meter(50).await;
    for statement in [
        "update usage_intervals set ends_at = ends_at + interval '1 hour'",
        "update usage_intervals set simulated = not simulated",
        "delete from usage_intervals",
        "insert into usage_intervals select (u).* from (
           select jsonb_populate_record(u, '{\"id\": \"00000000-0000-0000-0000-000000000001\"}') as u
           from usage_intervals u) copy",
    ] {
        let changed = sqlx::query(statement).execute(&rig.stage.owner).await;
        assert!(changed.is_err(), "{statement}");
    }
    assert_eq!(rig.pod_seconds().await, [(10, 40)]);
}
