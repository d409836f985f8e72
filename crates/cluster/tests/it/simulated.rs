//! Pods on simulated nodes: an image below `trueup.dev/simulate` selects how the pod behaves.
//! Everything but the node is real, so the status is what users see in that case.

use std::sync::Arc;

use futures::future::join_all;
use http::Request;
use serde_json::{Value, json};
use tokio::time::timeout;
use trueup_cluster::Cluster;
use trueup_model::ClusterId;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, Ended, Observation};
use trueup_model::order::Order;
use trueup_model::report::{Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_model::status::{Health, Inputs, Phase, Reason, Status};
use trueup_rules::status::project;

use crate::causes::real;
use crate::rig::{LONG, Rig, converged, key, run, spec, with_receipt};

/// A service as users see it: each report of its executor, projected as the report writer does.
pub(crate) struct Shown {
    pub(crate) rig: Rig,
    pub(crate) status: Status,
    pub(crate) seen: Option<Observation>,
}

impl Shown {
    pub(crate) async fn start(cluster: &Arc<dyn Cluster>) -> Self {
        let mut rig = Rig::start(Arc::clone(cluster));
        rig.order_until(rig.project(), converged).await;
        let status = Status::accepted(rig.clock.now());
        Self { rig, status, seen: None }
    }

    pub(crate) async fn order(&mut self, order: &Order) {
        let _passed = self.rig.executor.order(order.clone()).await;
    }

    /// Orders this spec and returns the order.
    pub(crate) async fn order_new(&mut self, generation: i64, spec: Spec) -> Order {
        let order = self.rig.service(generation, spec);
        self.order(&order).await;
        order
    }

    /// All statuses up to the wanted one.
    pub(crate) async fn until(
        &mut self,
        order: &Order,
        wanted: impl Fn(&Status) -> bool,
    ) -> Vec<Status> {
        self.until_seen(order, |shown| wanted(&shown.status)).await
    }

    /// All statuses up to the first that is as wanted, together with what was observed.
    pub(crate) async fn until_seen(
        &mut self,
        order: &Order,
        wanted: impl Fn(&Self) -> bool,
    ) -> Vec<Status> {
        let mut statuses: Vec<Status> = Vec::new();
        // Reports may go on for ever, for instance with every run of a cron job.
        let reached = timeout(LONG, async {
            while statuses.is_empty() || !wanted(self) {
                let report = self.rig.until(order.unit, |_| true).await;
                self.project(order, report);
                statuses.push(self.status.clone());
            }
        });
        let reached = reached.await;
        assert!(reached.is_ok(), "not as wanted: {:#?}\n{statuses:#?}", self.seen);
        statuses
    }

    fn project(&mut self, order: &Order, report: Report) {
        let Some(observation) = report.observation.or_else(|| self.seen.clone()) else { return };
        self.seen = Some(observation.clone());
        let inputs = Inputs {
            desired: DesiredState::Active,
            generation: order.generation,
            cluster: ClusterId::from_uuid(uuid::Uuid::from_u128(7)),
            previous: self.status.clone(),
            observation,
            outcome: report.outcome,
            absent: false,
        };
        self.status = project(&inputs, self.rig.clock.now());
    }

    /// Recovers with a good image, then deletes the service until there is a receipt.
    pub(crate) async fn recover_and_end(mut self, generation: i64) {
        let order = self.order_new(generation, web("example:1")).await;
        self.until(&order, is_well).await;
        self.end(generation + 1).await;
    }

    pub(crate) async fn end(mut self, generation: i64) {
        let order = self.rig.gone(generation, web("example:1"));
        self.rig.order_until(order, with_receipt).await;
    }
}

/// A service of one pod with a readiness check.
pub(crate) fn web(image: &str) -> Spec {
    spec(&json!({
        "workload": "deployment", "replicas": 1, "image": image, "probe": {"http": {"path": "/"}},
    }))
}

pub(crate) fn is_well(status: &Status) -> bool {
    (status.phase, status.health) == (Phase::Running, Health::Healthy)
}

/// The cause in the status, with its message.
pub(crate) fn cause(status: &Status) -> Option<(Cause, &str)> {
    status.conditions.iter().find_map(|it| Some((it.cause.as_ref()?.cause, it.message.as_str())))
}

pub(crate) fn names(status: &Status, wanted: Cause) -> bool {
    cause(status).is_some_and(|(cause, _)| cause == wanted)
}

/// Asserts that the message has this detail and ends with the advice for the cause.
fn helps(status: &Status, detail: &str) {
    let (cause, message) = cause(status).expect("a cause should be named");
    assert!(message.contains(detail) && message.ends_with(cause.advice()), "{message}");
}

#[tokio::test]
async fn start_failure_names_its_cause_and_a_good_image_recovers() {
    let (cluster, _) = real().await;
    let lives = [
        ("image-missing:1", Cause::ImageMissing, "not found"),
        ("image-forbidden:1", Cause::ImageForbidden, "denied"),
        ("image-unreachable:1", Cause::ImagePull, "cannot get the image from its registry"),
        ("config-missing:1", Cause::ContainerConfig, "configmap"),
        ("crash-loop:1", Cause::CrashLoop, "exited with code 1 and restarted 1 times"),
        ("out-of-memory:1", Cause::OutOfMemory, "killed for using too much memory"),
    ];
    join_all(lives.map(|(image, cause, detail)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let mut shown = Shown::start(&cluster).await;
            let order = shown.order_new(1, web(&format!("trueup.dev/simulate/{image}"))).await;
            shown.until(&order, |status| names(status, cause)).await;
            assert_eq!((shown.status.phase, shown.status.health), (Phase::Creating, Health::Error));
            helps(&shown.status, detail);
            let evidence = shown.status.evidence.as_ref().expect("there should be evidence");
            assert!(evidence.simulated, "the node's label says that it is simulated");
            shown.recover_and_end(2).await;
        }
    }))
    .await;
}

#[tokio::test]
async fn slow_start_is_progressing_not_an_error() {
    let (cluster, _) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.order_new(1, web("trueup.dev/simulate/slow-start:5s")).await;
    let life = shown.until(&order, is_well).await;
    assert!(life.iter().any(|status| names(status, Cause::Readiness)), "{life:#?}");
    for status in &life[..life.len() - 1] {
        assert!(matches!(status.phase, Phase::Accepted | Phase::Creating), "{status:#?}");
        assert!(matches!(status.health, Health::Unknown | Health::Progressing), "{status:#?}");
    }
    shown.end(2).await;
}

/// Makes the Deployment of an order exceed its progress deadline now.
///
/// A shorter deadline is drift and would be reverted, so the service is frozen meanwhile. The
/// Deployment stays timed out until it makes progress.
async fn time_out(shown: &mut Shown, client: &kube::Client, order: &Order) {
    let (by, why) = ("a test".to_owned(), "a shorter deadline".to_owned());
    let since = shown.rig.clock.now();
    let freeze = Freeze { scope: FreezeScope::Service, by, why, since };
    let frozen = Order { freeze: Some(freeze), ..order.clone() };
    assert_eq!(shown.rig.executor.order(frozen).await.await, Ok(Outcome::Converged));
    let deployment = key(order, Kind::Deployment, str::to_owned);
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments/{}",
        deployment.namespace, deployment.name
    );
    let sooner = json!({ "spec": { "progressDeadlineSeconds": 2 } }).to_string().into_bytes();
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(sooner).expect("should be a request");
    let _patched: Value = client.request(request).await.expect("it should be patched");
    let is_late = |report: &Report| {
        let workload = report.observation.as_ref().and_then(|seen| seen.workload.as_ref());
        let stuck = workload.and_then(|workload| workload.stuck.as_ref());
        stuck.is_some_and(|problem| problem.cause == Cause::SlowStart)
    };
    shown.rig.until(order.unit, is_late).await;
    shown.order(order).await;
    let is_attended = |report: &Report| report.outcome == Outcome::Converged && is_late(report);
    let report = shown.rig.until(order.unit, is_attended).await;
    shown.project(order, report);
}

/// Progressing at first; an error when the Deployment exceeds its progress deadline.
#[tokio::test]
async fn never_ready_pod_becomes_an_error_with_advice() {
    let (cluster, client) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.order_new(1, web("trueup.dev/simulate/never-ready:1")).await;
    shown.until(&order, |status| names(status, Cause::Readiness)).await;
    assert_eq!((shown.status.phase, shown.status.health), (Phase::Creating, Health::Progressing));
    helps(&shown.status, "fails its readiness probe");

    time_out(&mut shown, &client, &order).await;
    assert_eq!((shown.status.phase, shown.status.health), (Phase::Creating, Health::Error));
    helps(&shown.status, "has timed out progressing");
    shown.recover_and_end(2).await;
}

/// Whether an evicted pod is still there, and another is ready.
fn replaced(shown: &Shown) -> bool {
    let pods = || shown.seen.iter().flat_map(|seen| &seen.pods);
    let evicted = pods().any(|pod| {
        pod.ended == Some(Ended::Badly)
            && pod.problem.as_ref().is_some_and(|problem| problem.cause == Cause::Evicted)
    });
    evicted && is_well(&shown.status) && pods().any(|pod| pod.ready)
}

#[tokio::test]
async fn evicted_pod_is_replaced_without_an_error() {
    let (cluster, _) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.order_new(1, web("trueup.dev/simulate/evicted:2s")).await;
    shown.until(&order, is_well).await;
    let statuses = shown.until_seen(&order, replaced).await;
    let healths = [Health::Healthy, Health::Progressing];
    assert!(statuses.iter().all(|status| healths.contains(&status.health)), "{statuses:#?}");
    shown.recover_and_end(2).await;
}

/// A drain, by the real eviction API; the pod takes a while to stop.
#[tokio::test]
async fn drained_node_is_named_while_its_pod_terminates() {
    let (cluster, client) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.order_new(1, web("trueup.dev/simulate/slow-stop:5s")).await;
    shown.until(&order, is_well).await;
    let pod = shown.seen.as_ref().expect("it should be seen").pods[0].name.clone();
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", order.namespace);
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(eviction.to_string().into_bytes()).expect("should be a request");
    let _evicted: Value = client.request(request).await.expect("it should be evicted");
    shown.until(&order, |status| names(status, Cause::Evicted)).await;
    helps(&shown.status, "its node is being drained");
    assert_eq!(shown.status.phase, Phase::Running);
    assert_ne!(shown.status.health, Health::Error);
    shown.until(&order, |status| is_well(status) && status.conditions.is_empty()).await;
    shown.end(2).await;
}

#[tokio::test]
async fn failed_run_names_its_cause() {
    let (cluster, _) = real().await;
    let ended = (Phase::Completed, Health::Error);
    let lives = [
        ("crash-loop:1", json!({}), Some(Cause::Exited), ended, "exited with code 1"),
        ("out-of-memory:1", json!({}), Some(Cause::OutOfMemory), ended, "exited with code 137"),
        (
            "image-missing:1",
            json!({}),
            Some(Cause::ImageMissing),
            (Phase::Running, Health::Error),
            "not found",
        ),
        (
            "never-ready:1",
            json!({ "time_limit_s": 3 }),
            Some(Cause::TimeLimit),
            ended,
            "active longer than specified deadline",
        ),
    ];
    join_all(lives.map(|(image, own, wanted, end, detail)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let mut job =
                json!({ "workload": "job", "image": format!("trueup.dev/simulate/{image}") });
            job.as_object_mut()
                .expect("an object")
                .extend(own.as_object().cloned().unwrap_or_default());
            let mut shown = Shown::start(&cluster).await;
            let order = shown.order_new(1, run(&job)).await;
            let names = |status: &Status| cause(status).map(|(cause, _)| cause) == wanted;
            shown
                .until(&order, |status| (status.phase, status.health) == end && names(status))
                .await;
            let condition = shown.status.conditions.iter().find(|condition| {
                matches!(condition.reason, Reason::RunFailed | Reason::PodsNotReady)
            });
            let message = &condition.expect("a condition should name the failure").message;
            assert!(message.contains(detail), "{message}");
            let gone = shown.rig.gone(2, run(&job));
            shown.rig.order_until(gone, with_receipt).await;
        }
    }))
    .await;
}
