//! A simulated node stops reporting: its lease expires, and the real controllers react.

use std::path::Path;
use std::sync::Arc;

use http::Request;
use serde_json::{Value, json};
use trueup_cluster::Cluster;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Cause;
use trueup_model::order::Order;
use trueup_model::spec::Spec;
use trueup_model::status::{Health, Phase, Status};

use crate::causes::real;
use crate::rig::spec;
use crate::simulated::{Shown, is_well, names};

/// More than any other node has, so that pods that request them are scheduled on our nodes.
const GPUS: u32 = 12;

/// Nodes for this test's pods only, one pod each: two that are lost, and one that takes over.
struct Frail {
    client: kube::Client,
    names: [String; 3],
}

impl Frail {
    async fn make(client: &kube::Client) -> Self {
        remove_left(client).await;
        let names = [1, 2, 3].map(|number| format!("frail-{number}-{}", std::process::id()));
        for name in &names {
            let has = json!({ "cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "16" });
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "labels": { "trueup.dev/node-class": "simulated" } },
                "spec": { "taints": [
                    { "key": "trueup.dev/node-class", "value": "simulated", "effect": "NoSchedule" }] },
                "status": { "capacity": has, "allocatable": has },
            });
            let made = Request::post("/api/v1/nodes").header("content-type", "application/json");
            send(client, made, &node).await;
        }
        Self { client: client.clone(), names }
    }

    /// Stops or restarts the heartbeats of a node.
    async fn set_lost(&self, name: &str, lost: bool) {
        let value = if lost { json!("yes") } else { Value::Null };
        self.patch(
            name,
            &json!({ "metadata": { "labels": { "simulate.trueup.dev/lost": value } } }),
        )
        .await;
    }

    /// Marks a node as out of service, as an operator does for one that does not return.
    async fn give_up(&self, name: &str) {
        let taint = json!({ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" });
        self.patch(name, &json!({ "spec": { "taints": [taint] } })).await;
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let request = Request::patch(format!("/api/v1/nodes/{name}"))
            .header("content-type", "application/strategic-merge-patch+json");
        send(&self.client, request, patch).await;
    }

    async fn remove(self) {
        for name in &self.names {
            let request = Request::delete(format!("/api/v1/nodes/{name}"));
            send(&self.client, request, &json!({})).await;
        }
    }
}

/// Removes nodes of earlier test processes that failed: our pods could be scheduled on them.
async fn remove_left(client: &kube::Client) {
    let request = Request::get("/api/v1/nodes").body(Vec::new()).expect("should be a request");
    let nodes: Value = client.request(request).await.expect("nodes should be listed");
    for node in nodes["items"].as_array().into_iter().flatten() {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let maker = name.strip_prefix("frail-").and_then(|rest| rest.split_once('-'));
        let is_left = |pid: &str| !Path::new("/proc").join(pid).exists();
        if maker.is_some_and(|(_, pid)| is_left(pid)) {
            let request = Request::delete(format!("/api/v1/nodes/{name}")).body(Vec::new());
            // Another process may remove it at the same time.
            let _gone = client.request::<Value>(request.expect("should be a request")).await;
        }
    }
}

async fn send(client: &kube::Client, request: http::request::Builder, body: &Value) {
    let request = request.body(body.to_string().into_bytes()).expect("should be a request");
    let _answer: Value = client.request(request).await.expect("the cluster should accept it");
}

fn demanding() -> Spec {
    spec(&json!({
        "workload": "deployment", "replicas": 1, "nodes": "simulated",
        "resources": { "cpu_millis": 100, "memory_mib": 64, "gpus": GPUS },
    }))
}

fn ready_pod(shown: &Shown) -> Option<String> {
    let mut pods = shown.seen.iter().flat_map(|seen| &seen.pods);
    pods.find(|pod| pod.ready).map(|pod| pod.name.clone())
}

/// The node of the ready pod.
async fn node_of(shown: &mut Shown, order: &Order) -> String {
    // Workloads and pods come from two watches, so either may be ahead of the other.
    if ready_pod(shown).is_none() {
        shown.until_seen(order, |shown| ready_pod(shown).is_some()).await;
    }
    let name = ready_pod(shown).expect("a pod should be ready");
    let pod = shown.rig.get(&ResourceKey::new(Kind::Pod, &order.namespace, &name)).await;
    let pod = pod.expect("its pod should be there");
    pod["spec"]["nodeName"].as_str().expect("its pod should have a node").to_owned()
}

/// A service on one of these nodes after the node is lost; returns the node's name, too.
async fn on_a_lost_node(nodes: &Frail, cluster: &Arc<dyn Cluster>) -> (Shown, Order, String) {
    let mut shown = Shown::start(cluster).await;
    let order = shown.order_new(1, demanding()).await;
    shown.until(&order, is_well).await;
    let node = node_of(&mut shown, &order).await;
    assert!(nodes.names.contains(&node), "{node}");

    nodes.set_lost(&node, true).await;
    let is_lost =
        |status: &Status| names(status, Cause::NodeLost) && status.health == Health::Error;
    shown.until(&order, is_lost).await;
    assert_eq!(
        shown.status.phase,
        Phase::Running,
        "a running service that lost its pods stays Running"
    );
    let condition = shown.status.conditions.iter().find(|it| it.cause.is_some());
    let message = &condition.expect("a condition should name the cause").message;
    assert!(message.contains(&format!("its node {node} is not ready since")), "{message}");
    (shown, order, node)
}

async fn comes_back(nodes: &Frail, cluster: &Arc<dyn Cluster>) {
    let (mut shown, order, lost) = on_a_lost_node(nodes, cluster).await;
    nodes.set_lost(&lost, false).await;
    shown.until(&order, is_well).await;
    assert_eq!(node_of(&mut shown, &order).await, lost, "the pod never left");
    shown.end(2).await;
}

async fn is_given_up(nodes: &Frail, cluster: &Arc<dyn Cluster>) {
    let (mut shown, order, lost) = on_a_lost_node(nodes, cluster).await;
    nodes.give_up(&lost).await;
    shown.until(&order, is_well).await;
    assert_ne!(node_of(&mut shown, &order).await, lost, "another pod took its place");
    shown.end(2).await;
}

pub(crate) async fn lost_nodes_are_named_until_they_return_or_are_given_up() {
    let (cluster, client) = real().await;
    let nodes = Frail::make(&client).await;
    tokio::join!(comes_back(&nodes, &cluster), is_given_up(&nodes, &cluster));
    nodes.remove().await;
}
