//! Drift as its owner sees it: what other writers change in the cluster, what is decided about it
//! through the API, and what it costs. Tests are named after the pains of other platforms; the other
//! pains are in `cluster/tests/it/pains.rs`.

use rustix::process::Signal;
use serde_json::{Value, json};
use trueup_api::Client;
use trueup_api::client::Terms;
use trueup_api::conflict::{Conflict, ConflictSettleBody};
use trueup_api::drift::{Divergence, DivergenceAdoptBody, DivergenceQuery};
use trueup_api::service::Service;
use trueup_model::drift::DivergenceState;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::status::{Health, Reason, Reconciliation};

use crate::install::{Install, SOON, shared};
use crate::meddler::{MEDDLER, Meddler};
use crate::wait::eventually;

const PROJECT: &str = "drifting";
const REPLICAS: &str = "spec.replicas";

/// A service of two pods, and a writer outside of Trueup.
struct Drifting<'a> {
    install: &'a Install,
    client: Client,
    meddler: Meddler,
    name: &'static str,
    policy: Value,
    deployment: ResourceKey,
}

impl<'a> Drifting<'a> {
    /// Declares the service with this drift policy, and waits until it runs.
    async fn declare(install: &'a Install, name: &'static str, policy: Value) -> Self {
        let client = install.client().expect("Trueup should be up");
        client.project_put(PROJECT, &serde_json::from_value(json!({})).unwrap()).await.unwrap();
        let deployment = ResourceKey::new(Kind::Deployment, "", "");
        let meddler = Meddler::new(install);
        let mut drifting = Self { install, client, meddler, name, policy, deployment };
        drifting.put("drift:1").await;
        drifting.settled().await;
        let service = drifting.service().await;
        let (namespace, object_name) = (&service.namespace, &service.object_name);
        drifting.deployment = ResourceKey::new(Kind::Deployment, namespace, object_name);
        drifting
    }

    async fn put(&self, image: &str) {
        let manifest = json!({ "template": "web@1", "drift": self.policy,
                               "parameters": { "image": image, "replicas": 2 } });
        let manifest = serde_json::from_value(manifest).unwrap();
        self.client.service_put(PROJECT, self.name, &manifest, &Terms::PLAIN).await.unwrap();
    }

    async fn service(&self) -> Service {
        self.client.service_get(PROJECT, self.name).await.unwrap()
    }

    async fn replicas(&self) -> Option<u64> {
        self.meddler.replicas(&self.deployment).await
    }

    /// Waits until nothing is left to do and nothing differs.
    async fn settled(&self) {
        eventually("the service to be settled", SOON, || async {
            let service = self.client.service_get(PROJECT, self.name).await.ok()?;
            let is_settled = service.reconciliation == Reconciliation::Settled
                && service.status.health == Health::Healthy
                && service.divergences.is_empty();
            is_settled.then_some(())
        })
        .await;
    }

    async fn replicas_become(&self, wanted: u64) {
        let what = format!("{wanted} pods to be asked for");
        eventually(&what, SOON, || async { (self.replicas().await == Some(wanted)).then_some(()) })
            .await;
    }

    /// The newest divergence of its number of pods.
    async fn newest(&self) -> Option<Divergence> {
        let wanted = DivergenceQuery {
            project: Some(PROJECT.to_owned()),
            service: Some(self.name.to_owned()),
            ended: true,
            ..DivergenceQuery::default()
        };
        let all = self.client.divergence_list(&wanted).await.ok()?.items;
        all.into_iter().rfind(|one| one.difference.field == REPLICAS)
    }

    /// The newest divergence of its number of pods, once it has this state.
    async fn divergence(&self, state: DivergenceState) -> Divergence {
        eventually(&format!("a divergence that is {state}"), SOON, || async {
            self.newest().await.filter(|one| one.difference.state == state)
        })
        .await
    }

    /// The open conflict about its Deployment.
    async fn conflict(&self) -> Option<Conflict> {
        let open = self.client.conflict_list(false, None).await.unwrap().items;
        open.into_iter().find(|one| one.object == self.deployment.to_string())
    }

    /// Scales it to five pods whenever it has two, until that is a conflict.
    async fn fight(&self) -> Conflict {
        eventually("a conflict", SOON, || async {
            let found = self.conflict().await;
            if found.is_none() && self.replicas().await == Some(2) {
                self.meddler.scale(&self.deployment, 5).await;
            }
            found
        })
        .await
    }

    /// Millionths of the price of one pod per hour.
    async fn pod_price(&self) -> i64 {
        let plan = self.service().await.plan.expect("a service should have a plan");
        let plans = self.client.plan_list().await.unwrap().items;
        plans.iter().find(|one| one.name == plan).expect("it should be listed").hourly.micros
    }

    /// Kills Trueup, and starts it again.
    async fn kill_and_start(&self) {
        let process = self.install.process("trueup.pid.json").expect("Trueup should run");
        assert!(process.signal(Signal::KILL).unwrap(), "Trueup should run");
        assert!(process.gone_within(SOON).await, "SIGKILL should end the process");
        self.install.up(&["--no-demo"]).await.succeeded();
        self.install.reachable().await;
    }

    async fn end(&self) {
        let name = format!("{PROJECT}/{}", self.name);
        self.install.trueup(&["delete", &name, "--yes"]).await.succeeded();
    }
}

#[tokio::test]
async fn p01_status_and_cost_tell_of_a_change_while_it_stands() {
    let drifting = Drifting::declare(shared().await, "told", Value::Null).await;
    let name = format!("{PROJECT}/told");
    let freeze = ["freeze", &name, "--reason", "a change that stands"];
    drifting.install.trueup(&freeze).await.succeeded();
    // The executor learns of the freeze a moment later: a change before that is reverted.
    let open = eventually("a divergence that is open", SOON, || async {
        if drifting.replicas().await == Some(2) {
            drifting.meddler.scale(&drifting.deployment, 5).await;
        }
        drifting.newest().await.filter(|one| one.difference.state == DivergenceState::Open)
    })
    .await;
    assert_eq!((&open.difference.wanted, &open.difference.live), (&json!(2), &json!(5)));
    assert_eq!(open.difference.by.as_deref(), Some(MEDDLER));
    let hourly = open.hourly.expect("pods should have a price");
    assert_eq!(hourly.micros, 3 * drifting.pod_price().await, "three pods too many");

    let service = drifting.service().await;
    assert_eq!(service.reconciliation, Reconciliation::Diverged);
    let reasons: Vec<Reason> = service.status.conditions.iter().map(|one| one.reason).collect();
    assert!(reasons.contains(&Reason::ExternallyModified), "{reasons:?}");
    let listed = drifting.install.trueup(&["drift", &name]).await.succeeded();
    assert!(listed.out.contains(REPLICAS) && listed.out.contains(MEDDLER), "{listed:#?}");

    drifting.install.trueup(&["unfreeze", &name]).await.succeeded();
    drifting.replicas_become(2).await;
    drifting.settled().await;
    let ended = drifting.divergence(DivergenceState::Reverted).await;
    assert_eq!(ended.id, open.id, "it is the same divergence");
    assert!(ended.ended_at.is_some() && ended.cost_so_far.is_some(), "{ended:#?}");
    drifting.end().await;
}

#[tokio::test]
async fn p11_conflict_and_its_settlement_survive_a_killed_process() {
    let cluster = shared().await.kubeconfig();
    let install = Install::new(Some(&cluster));
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
    let drifting = Drifting::declare(&install, "fought", Value::Null).await;
    let conflict = drifting.fight().await;
    assert_eq!((conflict.field.as_str(), conflict.by.as_deref()), (REPLICAS, Some(MEDDLER)));
    let service = drifting.service().await;
    assert_eq!(service.reconciliation, Reconciliation::Diverged);
    let told = service.status.conditions.iter().find(|one| one.reason == Reason::InConflict);
    let told = &told.expect("the status should name the conflict").message;
    assert!(told.contains(MEDDLER) && told.contains(REPLICAS), "{told}");

    // The next process leaves the field alone, and does everything else.
    drifting.kill_and_start().await;
    drifting.put("drift:2").await;
    eventually("the change to be applied", SOON, || async {
        (drifting.service().await.status.applied_generation == Some(2)).then_some(())
    })
    .await;
    let live = drifting.meddler.get(&drifting.deployment).await.expect("it should be there");
    let image = &live["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!((image, &live["spec"]["replicas"]), (&json!("drift:2"), &json!(5)));
    assert_eq!(drifting.conflict().await.map(|one| one.id), Some(conflict.id.clone()));

    let ours =
        ConflictSettleBody { decision: "ours".to_owned(), for_hours: None, instead_of: None };
    drifting.client.conflict_settle(&conflict.id, &ours).await.unwrap();
    drifting.replicas_become(2).await;
    drifting.settled().await;
    let again = drifting.client.conflict_settle(&conflict.id, &ours).await;
    assert!(again.is_err(), "it is settled already: {again:?}");

    // A settled field is enforced, however often, also by the next process.
    drifting.kill_and_start().await;
    for _round in 0..4 {
        drifting.meddler.scale(&drifting.deployment, 5).await;
        drifting.replicas_become(2).await;
    }
    assert_eq!(drifting.conflict().await, None);
}

#[tokio::test]
async fn p14_adopted_value_is_rolled_back_with_one_command() {
    let rules = json!([{ "kind": "Deployment", "path": REPLICAS, "verdict": "adopt" }]);
    let policy = json!({ "adopt": "keep", "rules": rules });
    let drifting = Drifting::declare(shared().await, "adopted", policy).await;
    let before = drifting.service().await;
    drifting.meddler.scale(&drifting.deployment, 3).await;
    let proposed = drifting.divergence(DivergenceState::Proposed).await;
    assert!(proposed.expires_at.is_some(), "a proposal ends: {proposed:#?}");
    assert_eq!(drifting.replicas().await, Some(3), "it stays while it is proposed");

    drifting.client.divergence_adopt(&proposed.id, &DivergenceAdoptBody::default()).await.unwrap();
    drifting.settled().await;
    let service = drifting.service().await;
    assert_eq!(service.generation, before.generation + 1);
    assert_eq!(service.parameters.get("replicas"), Some(&json!(3)));
    assert_eq!(drifting.replicas().await, Some(3));
    let adopted = drifting.divergence(DivergenceState::Adopted).await;
    assert!(adopted.decided_by.is_some(), "{adopted:#?}");

    let name = format!("{PROJECT}/adopted");
    drifting.install.trueup(&["rollback", &name]).await.succeeded();
    drifting.replicas_become(2).await;
    drifting.settled().await;
    let service = drifting.service().await;
    assert_eq!(service.parameters.get("replicas"), before.parameters.get("replicas"));
    assert_eq!(service.drift, before.drift, "the policy is as before");
    drifting.end().await;
}

/// An object as it was declared, without what a server adds, as a backup has it.
fn backup(mut object: Value) -> Value {
    let kept = ["name", "namespace", "labels", "annotations"];
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|name, _| kept.contains(&name.as_str()));
    object.as_object_mut().unwrap().remove("status");
    object
}

/// A backup restores the workload of a service that was deleted meanwhile.
#[tokio::test]
async fn p10_restored_workload_of_a_deleted_service_is_a_finding_with_a_price() {
    let cluster = shared().await.kubeconfig();
    let install = Install::new(Some(&cluster));
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
    let drifting = Drifting::declare(&install, "gone", Value::Null).await;
    let price = drifting.pod_price().await;
    let live = drifting.meddler.get(&drifting.deployment).await.expect("it should be there");
    let name = format!("{PROJECT}/gone");
    install.trueup(&["delete", &name, "--yes", "--wait"]).await.succeeded();
    assert_eq!(drifting.meddler.get(&drifting.deployment).await, None);
    let restored = drifting.meddler.create(&drifting.deployment, &backup(live)).await;

    let token = std::fs::read_to_string(install.dir().join("operator.token")).unwrap();
    let findings = ["--token", token.trim(), "findings", "-o", "json"];
    let found = eventually("a sweep to find the workload", SOON, || async {
        let list = install.trueup(&findings).await.succeeded().json().remove(0);
        let all = list["items"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["uid"] == restored["metadata"]["uid"])
    })
    .await;
    assert_eq!(found["object"], drifting.deployment.to_string());
    assert_eq!(found["hourly"]["micros"], 2 * price, "two pods run and are not sold: {found}");
    let kept = drifting.meddler.get(&drifting.deployment).await.expect("a finding is kept");
    assert_eq!(kept["metadata"]["uid"], restored["metadata"]["uid"]);
}
