//! The lives of pods on simulated nodes: an image below `localhost/simulate` says how it goes. Everything
//! beside the node is real, so this is what people are shown of the day on which it goes like that.

use std::sync::Arc;

use futures::future::join_all;
use http::Request;
use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::ClusterId;
use trueup_model::observation::{Cause, Ended, Observation};
use trueup_model::order::Order;
use trueup_model::report::Report;
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_model::status::{Health, Inputs, Phase, Reason, Status};
use trueup_rules::status::project;

use crate::causes::real;
use crate::rig::{Rig, converged, run, spec, with_receipt};

/// A service as people see it: each report of its executor, projected as the settle loop does it.
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

    /// Asks for this and answers its order.
    pub(crate) async fn ask(&mut self, generation: i64, spec: Spec) -> Order {
        let order = self.rig.service(generation, spec);
        self.order(&order).await;
        order
    }

    /// What people are shown, one after the other, up to what is wanted.
    pub(crate) async fn until(
        &mut self,
        order: &Order,
        wanted: impl Fn(&Status) -> bool,
    ) -> Vec<Status> {
        let mut shown = Vec::new();
        while shown.last().is_none_or(|status| !wanted(status)) {
            let report = self.rig.until(order.unit, |_| true).await;
            self.settle(order, report);
            shown.push(self.status.clone());
        }
        shown
    }

    fn settle(&mut self, order: &Order, report: Report) {
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

    /// A good image makes it well, whatever the last one did; then it goes, and that is proved.
    pub(crate) async fn mend_and_end(mut self, generation: i64) {
        let order = self.ask(generation, web("example:1")).await;
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

/// The cause that is shown, with its sentence.
pub(crate) fn cause(status: &Status) -> Option<(Cause, &str)> {
    status.conditions.iter().find_map(|it| Some((it.cause.as_ref()?.cause, it.message.as_str())))
}

pub(crate) fn names(status: &Status, wanted: Cause) -> bool {
    cause(status).is_some_and(|(cause, _)| cause == wanted)
}

/// Says what to do, in words that end with the advice for the cause.
fn helps(status: &Status, detail: &str) {
    let (cause, message) = cause(status).expect("a cause should be named");
    assert!(message.contains(detail) && message.ends_with(cause.advice()), "{message}");
}

#[tokio::test]
async fn what_does_not_start_is_named_and_a_good_image_mends_it() {
    let (cluster, _) = real().await;
    let lives = [
        ("image-missing:1", Cause::ImageMissing, "not found"),
        ("image-forbidden:1", Cause::ImageForbidden, "denied"),
        ("image-unreachable:1", Cause::ImagePull, "timeout"),
        ("config-missing:1", Cause::ContainerConfig, "configmap"),
        (
            "crash-loop:1",
            Cause::CrashLoop,
            "it ended with exit code 1 and was started again 1 times",
        ),
        ("out-of-memory:1", Cause::OutOfMemory, "it was stopped for taking too much memory"),
    ];
    join_all(lives.map(|(image, cause, detail)| {
        let cluster = Arc::clone(&cluster);
        async move {
            let mut shown = Shown::start(&cluster).await;
            let order = shown.ask(1, web(&format!("localhost/simulate/{image}"))).await;
            shown.until(&order, |status| names(status, cause)).await;
            assert_eq!((shown.status.phase, shown.status.health), (Phase::Creating, Health::Error));
            helps(&shown.status, detail);
            let evidence = shown.status.evidence.as_ref().expect("there should be evidence");
            assert!(
                evidence.simulated,
                "its node says by its label that nothing really runs there"
            );
            shown.mend_and_end(2).await;
        }
    }))
    .await;
}

#[tokio::test]
async fn a_slow_start_is_on_its_way_and_not_broken() {
    let (cluster, _) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.ask(1, web("localhost/simulate/slow-start:4s")).await;
    let life = shown.until(&order, is_well).await;
    assert!(life.iter().any(|status| names(status, Cause::Readiness)), "{life:#?}");
    for status in &life[..life.len() - 1] {
        assert!(matches!(status.phase, Phase::Accepted | Phase::Creating), "{status:#?}");
        assert!(matches!(status.health, Health::Unknown | Health::Progressing), "{status:#?}");
    }
    shown.end(2).await;
}

#[tokio::test]
async fn what_is_never_ready_says_what_to_check() {
    let (cluster, _) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.ask(1, web("localhost/simulate/never-ready:1")).await;
    shown.until(&order, |status| names(status, Cause::Readiness)).await;
    assert_eq!((shown.status.phase, shown.status.health), (Phase::Creating, Health::Progressing));
    helps(&shown.status, "it does not pass its readiness check");
    shown.mend_and_end(2).await;
}

#[tokio::test]
async fn an_evicted_pod_is_replaced_and_is_no_failure() {
    let (cluster, _) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.ask(1, web("localhost/simulate/evicted:2s")).await;
    shown.until(&order, is_well).await;
    loop {
        shown.until(&order, |_| true).await;
        assert!(matches!(shown.status.health, Health::Healthy | Health::Progressing));
        let seen = shown.seen.as_ref().expect("it should be seen");
        let evicted = seen.pods.iter().any(|pod| {
            pod.ended == Some(Ended::Badly)
                && pod.problem.as_ref().is_some_and(|problem| problem.cause == Cause::Evicted)
        });
        if evicted && is_well(&shown.status) && seen.pods.iter().any(|pod| pod.ready) {
            break;
        }
    }
    shown.mend_and_end(2).await;
}

/// A drain, by the real eviction API; the pod takes a while to stop.
#[tokio::test]
async fn a_drained_node_is_named_while_its_pod_goes() {
    let (cluster, client) = real().await;
    let mut shown = Shown::start(&cluster).await;
    let order = shown.ask(1, web("localhost/simulate/slow-stop:3s")).await;
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
async fn a_run_that_fails_says_how() {
    let (cluster, _) = real().await;
    let ended = (Phase::Completed, Health::Error);
    let lives = [
        ("crash-loop:1", json!({}), Some(Cause::Exited), ended, "exit code 1"),
        ("out-of-memory:1", json!({}), Some(Cause::OutOfMemory), ended, "exit code 137"),
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
                json!({ "workload": "job", "image": format!("localhost/simulate/{image}") });
            job.as_object_mut()
                .expect("an object")
                .extend(own.as_object().cloned().unwrap_or_default());
            let mut shown = Shown::start(&cluster).await;
            let order = shown.ask(1, run(&job)).await;
            let names = |status: &Status| cause(status).map(|(cause, _)| cause) == wanted;
            shown
                .until(&order, |status| (status.phase, status.health) == end && names(status))
                .await;
            let told = shown.status.conditions.iter().find(|condition| {
                matches!(condition.reason, Reason::RunFailed | Reason::PodsNotReady)
            });
            let message = &told.expect("a condition should say it").message;
            assert!(message.contains(detail), "{message}");
            let gone = shown.rig.gone(2, run(&job));
            shown.rig.order_until(gone, with_receipt).await;
        }
    }))
    .await;
}
