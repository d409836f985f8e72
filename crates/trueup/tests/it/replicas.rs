//! Two replicas under load: one killed, one paused past its lease, and Postgres restarted under both.
//! Nothing is lost, nothing doubled, and in the end nobody writes any more.

use rustix::process::Signal;
use serde_json::json;
use trueup_api::client::Terms;

use crate::install::shared;
use crate::load::{Accepted, Load, SERVICES};
use crate::pair::{PROJECT, Pair, versions};
use crate::tally::Tally;

/// How many changes are waited for, so that a fault has something to meet.
const SOME: usize = SERVICES * 2;

#[tokio::test]
async fn two_replicas_lose_and_double_nothing_whatever_happens_to_one_of_them() {
    let install = shared().await;
    let kube = install.kube();
    let tally = Tally::start(install.kube()).await;
    let pair = Pair::start(&install.kubeconfig()).await;
    pair.judge_streams().await;

    // The one that works is killed while both are asked for changes.
    let load = Load::start(&pair, Accepted::new());
    load.goes_on(SOME).await;
    let killed = pair.holder().await;
    assert_eq!(pair.works(1 - killed).await, Some(false), "a cluster belongs to one of them");
    pair.kill(killed).await;
    pair.taken_over_by(1 - killed).await;
    load.goes_on(SOME).await;
    let accepted = load.stop().await;
    pair.up(killed).await.well();
    pair.settled().await;

    // The other one is paused for longer than its lease lasts, and the world changes meanwhile.
    let accepted = outlive_a_pause(&pair, 1 - killed, accepted, &kube).await;

    // Postgres dies under both.
    let load = Load::start(&pair, accepted);
    load.goes_on(SOME).await;
    pair.crash_postgres().await;
    load.goes_on(SOME).await;
    let accepted = load.stop().await;

    let services = pair.settled().await;
    assert_eq!(services.len(), SERVICES);
    pair.judge_events(&accepted, &services).await;
    pair.judge_quiet(&kube, &services).await;
    let counts = tally.counts(&services[0].namespace, str::to_owned).await;
    let doubled: Vec<_> = counts.iter().filter(|(_, (created, _))| *created > 1).collect();
    assert!(counts.len() > SERVICES && doubled.is_empty(), "made twice: {doubled:#?}");
}

/// What a paused holder knows is old when it goes on: it would put everything back, if it could.
async fn outlive_a_pause(
    pair: &Pair,
    paused: usize,
    mut accepted: Accepted,
    kube: &trueup_cluster::kube::Kube,
) -> Accepted {
    assert_eq!(pair.holder().await, paused, "it should still be the one that works");
    let sent = pair.writes(paused).await;
    pair.signal(paused, Signal::STOP);
    let other = 1 - paused;
    pair.taken_over_by(other).await;
    let client = pair.client(other);
    for (name, generations) in &mut accepted {
        let parameters = json!({ "image": "web:1", "replicas": 4 });
        let manifest = json!({ "template": "web@1", "parameters": parameters });
        let manifest = serde_json::from_value(manifest).unwrap();
        let put = client.service_put(PROJECT, name, &manifest, &Terms::PLAIN).await.unwrap();
        assert!(put.changed, "{name}");
        generations.insert(put.service.generation);
    }
    let namespace = pair.settled_at(other).await[0].namespace.clone();
    let before = versions(kube, &namespace).await;
    pair.signal(paused, Signal::CONT);
    pair.stands_by(paused).await;
    pair.settled().await;
    assert_eq!(pair.writes(paused).await, sent, "what was paused sends nothing");
    assert_eq!(versions(kube, &namespace).await, before, "and nothing is put back");
    accepted
}
