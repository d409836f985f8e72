//! Behaviour that only a real node shows: pods serve, log, crash, run out of memory and get lost.
//!
//! The last part runs alone, because it stops the node that the others are on.

use std::sync::Arc;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use trueup_cluster::Cluster;
use trueup_cluster::kube::Kube;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::{Cause, Ended, PodSeen};
use trueup_model::report::Report;
use trueup_model::spec::Spec;
use trueup_testkit::left_out::left_out;
use trueup_testkit::real_kube::{self, NoNode, Paused};

use crate::rig::{LONG, Rig, converged, healthy, run, spec, with_receipt};

/// The image that every real node has.
const SAMPLE: &str = "trueup.dev/local/sample:1";

/// A service of the sample on the real node.
fn sample(own: &Value) -> Spec {
    let mut whole = json!({
        "workload": "deployment", "replicas": 1, "image": SAMPLE, "nodes": "real",
        "generated_secrets": [], "probe": {"http": {"path": "/"}},
    });
    for (name, value) in own.as_object().into_iter().flatten() {
        whole[name] = value.clone();
    }
    spec(&whole)
}

fn pods(report: &Report) -> &[PodSeen] {
    report.observation.as_ref().map_or(&[], |seen| &seen.pods)
}

fn troubled(report: &Report, causes: &[Cause]) -> bool {
    pods(report)
        .iter()
        .any(|pod| pod.problem.as_ref().is_some_and(|problem| causes.contains(&problem.cause)))
}

pub(crate) async fn pods_on_a_real_node() {
    let kubeconfig = real_kube::shared().await;
    let kube = Arc::new(Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig"));
    let cluster: Arc<dyn Cluster> = Arc::<Kube>::clone(&kube);
    let rig = || Rig::start(Arc::clone(&cluster));
    match real_kube::real_node().await {
        Ok(()) => {}
        Err(NoNode::Failed(why)) => unreachable!("the real node should have started: {why}"),
        Err(why @ (NoNode::Unasked | NoNode::Missing(_))) => {
            left_out(&format!("pods on a real node: {why}"));
            return waits_for_a_node(rig()).await;
        }
    }
    let checks = [
        serves_and_logs(rig(), &kube).boxed(),
        crashes(rig()).boxed(),
        starves(rig()).boxed(),
        is_unwell(rig()).boxed(),
        lacks_its_image(rig()).boxed(),
        does_its_work(rig()).boxed(),
    ];
    join_all(checks).await;
    loses_its_node(rig()).await;
}

/// Deletes the service until there is a receipt: crashing pods would go on crashing.
async fn end(mut rig: Rig) {
    let order = rig.gone(9, sample(&json!({})));
    rig.order_until(order, with_receipt).await;
}

async fn waits_for_a_node(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, sample(&json!({})));
    let causes = [Cause::NoSuchNode, Cause::Tainted, Cause::Unschedulable];
    let wanted = move |report: &Report| troubled(report, &causes);
    let (unit, _passed) = (order.unit, rig.executor.order(order).await);
    rig.until(unit, wanted).await;
    end(rig).await;
}

async fn serves_and_logs(mut rig: Rig, kube: &Kube) {
    let report = rig.running(sample(&json!({"variables": {"GREETING": "welcome"}}))).await;
    let pod = &pods(&report)[0];
    assert!(!pod.simulated, "a pod on a real node should not be marked as simulated");

    let namespace = rig.project().namespace;
    let key = ResourceKey::new(Kind::Pod, &namespace, &pod.name);
    let found = rig.get(&key).await.expect("the pod should be there");
    let address = found["status"]["podIP"].as_str().expect("a ready pod should have an address");
    let answer = timeout(LONG, get(address, "/here")).await.expect("the pod should answer");
    assert!(answer.ends_with(&format!("welcome from {}\n", pod.name)), "{answer}");

    let log = kube.log(&namespace, &pod.name, 10, false).await.expect("its log should be there");
    let lines = timeout(LONG, log.map(|line| line.expect("a line")).collect::<Vec<String>>());
    let lines = lines.await.expect("its log should end");
    assert_eq!(lines, ["serving on port 8080", "GET \"/here\""]);
    end(rig).await;
}

/// What the sample answers.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect((address, 8080)).await.expect("the pod should listen");
    let request = format!("GET {path} HTTP/1.0\r\nHost: sample\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the pod should read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the pod should answer");
    answer
}

async fn crashes(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, sample(&json!({"args": ["crash"]})));
    rig.order_until(order, |report| troubled(report, &[Cause::CrashLoop])).await;
    // A good generation recovers from there.
    let recovered = rig.service(2, sample(&json!({})));
    rig.order_until(recovered, healthy).await;
    end(rig).await;
}

async fn starves(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, sample(&json!({"args": ["eat"]})));
    let namespace = order.namespace.clone();
    let report = rig.order_until(order, |report| troubled(report, &[Cause::OutOfMemory])).await;
    let killed = real_pod(&rig, &namespace, &pods(&report)[0].name).await;
    let last = &killed["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"];
    assert_eq!(last, "OOMKilled", "the memory limit should be enforced");
    end(rig).await;
}

async fn real_pod(rig: &Rig, namespace: &str, name: &str) -> Value {
    let key = ResourceKey::new(Kind::Pod, namespace, name);
    rig.get(&key).await.expect("the pod should be there")
}

async fn is_unwell(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, sample(&json!({"variables": {"UNWELL": "yes"}})));
    let started = |report: &Report| converged(report) && !pods(report).is_empty();
    let report = rig.order_until(order, started).await;
    let name = pods(&report)[0].name.clone();
    let namespace = rig.project().namespace;
    let key = ResourceKey::new(Kind::Pod, &namespace, &name);
    rig.get_until(&key, |pod| pod.is_some_and(|pod| pod["status"]["phase"] == "Running")).await;
    assert!(!pods(&report)[0].ready, "a pod that fails its check should not count as ready");
    end(rig).await;
}

async fn lacks_its_image(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let order = rig.service(1, sample(&json!({"image": "registry.invalid/nothing:1"})));
    rig.order_until(order, |report| troubled(report, &[Cause::ImagePull, Cause::ImageMissing]))
        .await;
    end(rig).await;
}

async fn does_its_work(mut rig: Rig) {
    rig.order_until(rig.project(), converged).await;
    let job = json!({"workload": "job", "image": SAMPLE, "nodes": "real", "args": ["work"]});
    let order = rig.service(1, run(&job));
    let done = |report: &Report| pods(report).iter().any(|pod| pod.ended == Some(Ended::Well));
    rig.order_until(order, done).await;
}

/// The kubelet stops: the cluster reports it after a while, and the service recovers with it.
async fn loses_its_node(mut rig: Rig) {
    let report = rig.running(sample(&json!({}))).await;
    let unit = report.unit;
    let paused: Paused = real_kube::pause_kubelet();
    let unready = |report: &Report| pods(report).iter().any(|pod| !pod.ready);
    rig.until(unit, unready).await;
    drop(paused);
    rig.until(unit, healthy).await;
    end(rig).await;
}
