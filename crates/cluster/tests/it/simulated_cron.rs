//! Runs that a real cron controller starts every minute, and that fail on simulated nodes.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use http::Request;
use jiff::Timestamp;
use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::Kind;
use trueup_model::observation::{Cause, Run};
use trueup_model::order::Order;
use trueup_model::spec::Spec;
use trueup_model::status::{Health, Phase, Reason};

use crate::causes::{limit, real};
use crate::rig::{key, run, with_receipt};
use crate::simulated::{Shown, cause, names};

fn cron(image: &str, own: &Value) -> Spec {
    let mut spec = json!({ "workload": "cron_job", "schedule": "* * * * *", "image": image });
    let own = own.as_object().cloned().unwrap_or_default();
    spec.as_object_mut().expect("the test should be set up right").extend(own);
    run(&spec)
}

/// Makes the cron controller think it missed a run, so that it starts one at once.
async fn run_soon(shown: &Shown, client: &kube::Client, order: &Order) {
    let cron = key(order, Kind::CronJob, str::to_owned);
    shown.rig.get_until(&cron, |found| found.is_some()).await;
    let earlier = Timestamp::from_second(shown.rig.clock.now().as_second() - 120);
    let earlier = earlier.expect("should be a time").to_string();
    let patch = json!({ "status": { "lastScheduleTime": earlier } });
    let path =
        format!("/apis/batch/v1/namespaces/{}/cronjobs/{}/status", cron.namespace, cron.name);
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).expect("should be a request");
    let _patched: Value = client.request(request).await.expect("it should be patched");
}

/// Waits until the status names this cause, and returns the reason of the condition.
async fn reason_for(shown: &mut Shown, order: &Order, wanted: Cause, detail: &str) -> Reason {
    shown.until(order, |status| names(status, wanted)).await;
    let status = &shown.status;
    assert_eq!((status.phase, status.health), (Phase::Running, Health::Degraded), "{status:#?}");
    let (cause, message) = cause(status).expect("a cause should be named");
    assert!(message.contains(detail) && message.ends_with(cause.advice()), "{message}");
    let condition = status.conditions.iter().find(|it| it.cause.is_some());
    condition.expect("a condition should name it").reason
}

async fn end(mut shown: Shown) {
    let gone = shown.rig.gone(9, cron("example:1", &json!({})));
    shown.rig.order_until(gone, with_receipt).await;
}

/// The failed pods stay and show the cause. The next run has a good image and succeeds.
async fn fails_and_recovers(cluster: &Arc<dyn Cluster>, client: &kube::Client) {
    let mut shown = Shown::start(cluster).await;
    let order = shown.order_new(1, cron("trueup.dev/simulate/crash-loop:1", &json!({}))).await;
    run_soon(&shown, client, &order).await;
    let reason = reason_for(&mut shown, &order, Cause::Exited, "exited with code 1").await;
    assert_eq!(reason, Reason::RunFailed);
    let order = shown.order_new(2, cron("example:1", &json!({}))).await;
    shown.until(&order, |status| status.conditions.is_empty()).await;
    shown.until_seen(&order, recovered).await;
    end(shown).await;
}

fn recovered(shown: &Shown) -> bool {
    let workload = shown.seen.as_ref().and_then(|seen| seen.workload.as_ref());
    let runs = workload.and_then(|workload| workload.runs.as_ref());
    shown.status.health == Health::Healthy && runs.is_some_and(|runs| runs.last == Run::Succeeded)
}

async fn lacks_its_image(cluster: &Arc<dyn Cluster>, client: &kube::Client) {
    let mut shown = Shown::start(cluster).await;
    let order = shown.order_new(1, cron("trueup.dev/simulate/image-missing:1", &json!({}))).await;
    run_soon(&shown, client, &order).await;
    let reason = reason_for(&mut shown, &order, Cause::ImageMissing, "not found").await;
    assert_eq!(reason, Reason::PodsNotReady, "the run is still in progress");
    end(shown).await;
}

/// The run of a missing image never starts. Its corrected successor does not wait for it.
async fn is_replaced_once_corrected(cluster: &Arc<dyn Cluster>, client: &kube::Client) {
    let mut shown = Shown::start(cluster).await;
    let order = shown.order_new(1, cron("trueup.dev/simulate/image-missing:1", &json!({}))).await;
    run_soon(&shown, client, &order).await;
    reason_for(&mut shown, &order, Cause::ImageMissing, "not found").await;
    let order = shown.order_new(2, cron("example:1", &json!({}))).await;
    shown.until_seen(&order, recovered).await;
    // From then on, runs do not overlap again.
    let cron = key(&order, Kind::CronJob, str::to_owned);
    let is_exclusive =
        |found: Option<&Value>| found.is_some_and(|it| it["spec"]["concurrencyPolicy"] == "Forbid");
    shown.rig.get_until(&cron, is_exclusive).await;
    end(shown).await;
}

/// Only the Job is left of a run that exceeded its time limit.
async fn takes_too_long(cluster: &Arc<dyn Cluster>, client: &kube::Client) {
    let mut shown = Shown::start(cluster).await;
    let own = json!({ "time_limit_s": 2 });
    let order = shown.order_new(1, cron("trueup.dev/simulate/never-ready:1", &own)).await;
    run_soon(&shown, client, &order).await;
    let reason =
        reason_for(&mut shown, &order, Cause::TimeLimit, "longer than specified deadline").await;
    assert_eq!(reason, Reason::RunFailed);
    end(shown).await;
}

/// The Job gets no pod; only its events give the cause.
async fn is_refused(cluster: &Arc<dyn Cluster>, client: &kube::Client) {
    let mut shown = Shown::start(cluster).await;
    let order = shown.rig.service(1, cron("example:1", &json!({})));
    limit(client, &order.namespace, "pods", "0").await;
    shown.order(&order).await;
    run_soon(&shown, client, &order).await;
    let reason =
        reason_for(&mut shown, &order, Cause::QuotaExceeded, "exceeded quota: tight").await;
    assert_eq!(reason, Reason::PodsNotReady, "the run is still in progress");
    end(shown).await;
}

pub(crate) async fn failed_runs_report_their_cause() {
    let (cluster, client) = real().await;
    join_all([
        fails_and_recovers(&cluster, &client).boxed(),
        lacks_its_image(&cluster, &client).boxed(),
        is_replaced_once_corrected(&cluster, &client).boxed(),
        takes_too_long(&cluster, &client).boxed(),
        is_refused(&cluster, &client).boxed(),
    ])
    .await;
}
