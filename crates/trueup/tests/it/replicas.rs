//! Two replicas under load: one is killed, one paused past its lease, and Postgres restarted. No
//! change is lost or duplicated, and in the end nothing is written.

use rustix::process::Signal;
use serde_json::json;
use trueup_cluster::kube::Kube;

use crate::acknowledged::Acknowledged;
use crate::install::{SOON, shared};
use crate::load::{Load, SERVICES, put, web};
use crate::pair::{Pair, versions};
use crate::tally::Tally;
use crate::wait::eventually;

/// How many changes to wait for before and after a fault.
const SOME: usize = SERVICES * 2;

#[tokio::test]
async fn two_replicas_under_faults_lose_and_duplicate_nothing() {
    let install = shared().await;
    let kube = install.kube();
    let tally = Tally::start(install.kube()).await;
    let pair = Pair::start(&install.kubeconfig()).await;
    pair.verify_streams().await;

    // The lease holder is killed under load.
    let load = Load::start(&pair, Acknowledged::default());
    load.wait_for(SOME).await;
    let killed = pair.holder().await;
    pair.stands_by(1 - killed).await;
    pair.kill(killed).await;
    pair.taken_over_by(1 - killed).await;
    load.wait_for(SOME).await;
    let acknowledged = load.stop().await;
    pair.up(killed).await.succeeded();
    pair.settled().await;

    // The new lease holder is paused past its lease while services change.
    let acknowledged = outlive_a_pause(&pair, acknowledged, &kube).await;

    // Postgres is killed under both.
    let load = Load::start(&pair, acknowledged);
    load.wait_for(SOME).await;
    pair.crash_postgres().await;
    load.wait_for(SOME).await;
    let acknowledged = load.stop().await;

    let services = pair.settled().await;
    assert_eq!(services.len(), SERVICES);
    pair.verify_events(&acknowledged, &services).await;
    pair.verify_quiet(&kube, &services).await;
    let counts = tally.counts(&services[0].namespace, str::to_owned).await;
    let duplicated: Vec<_> = counts.iter().filter(|(_, (created, _))| *created > 1).collect();
    assert!(counts.len() > SERVICES && duplicated.is_empty(), "created twice: {duplicated:#?}");
}

/// Pauses the lease holder past its lease: its stale orders must not be written when it resumes.
async fn outlive_a_pause(pair: &Pair, mut acknowledged: Acknowledged, kube: &Kube) -> Acknowledged {
    let paused = pair.holder().await;
    let sent = pair.writes(paused).await;
    pair.signal(paused, Signal::STOP);
    let other = 1 - paused;
    pair.taken_over_by(other).await;
    let (client, manifest) = (pair.client(other), web(&json!({ "image": "web:1", "replicas": 4 })));
    for number in 0..SERVICES {
        let name = format!("web-{number}");
        let answer = eventually("a change to be acknowledged by the other replica", SOON, || {
            put(&client, &name, &manifest)
        })
        .await;
        acknowledged.put(&manifest, &answer);
    }
    let namespace = pair.settled_at(other).await[0].namespace.clone();
    let before = versions(kube, &namespace).await;
    pair.signal(paused, Signal::CONT);
    pair.stands_by(paused).await;
    pair.settled().await;
    assert_eq!(pair.writes(paused).await, sent, "the paused replica should send no write");
    assert_eq!(versions(kube, &namespace).await, before, "no object should be reverted");
    acknowledged
}
