//! Two replicas under load: one killed, one paused past its lease, and Postgres restarted under both.
//! Nothing is lost, nothing doubled, and in the end nothing is written any more.

use rustix::process::Signal;
use serde_json::json;
use trueup_cluster::kube::Kube;

use crate::acknowledged::Acknowledged;
use crate::install::{SOON, shared};
use crate::load::{Load, SERVICES, put, web};
use crate::pair::{Pair, versions};
use crate::tally::Tally;
use crate::wait::eventually;

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
    let load = Load::start(&pair, Acknowledged::default());
    load.goes_on(SOME).await;
    let killed = pair.holder().await;
    pair.stands_by(1 - killed).await;
    pair.kill(killed).await;
    pair.taken_over_by(1 - killed).await;
    load.goes_on(SOME).await;
    let acknowledged = load.stop().await;
    pair.up(killed).await.well();
    pair.settled().await;

    // The one that works now is paused for longer than its lease lasts, and the world changes meanwhile.
    let acknowledged = outlive_a_pause(&pair, acknowledged, &kube).await;

    // Postgres dies under both.
    let load = Load::start(&pair, acknowledged);
    load.goes_on(SOME).await;
    pair.crash_postgres().await;
    load.goes_on(SOME).await;
    let acknowledged = load.stop().await;

    let services = pair.settled().await;
    assert_eq!(services.len(), SERVICES);
    pair.judge_events(&acknowledged, &services).await;
    pair.judge_quiet(&kube, &services).await;
    let counts = tally.counts(&services[0].namespace, str::to_owned).await;
    let doubled: Vec<_> = counts.iter().filter(|(_, (created, _))| *created > 1).collect();
    assert!(counts.len() > SERVICES && doubled.is_empty(), "made twice: {doubled:#?}");
}

/// What a paused holder knows is old when it goes on: it would put everything back, if it could.
async fn outlive_a_pause(pair: &Pair, mut acknowledged: Acknowledged, kube: &Kube) -> Acknowledged {
    let paused = pair.holder().await;
    let sent = pair.writes(paused).await;
    pair.signal(paused, Signal::STOP);
    let other = 1 - paused;
    pair.taken_over_by(other).await;
    let (client, manifest) = (pair.client(other), web(&json!({ "image": "web:1", "replicas": 4 })));
    for number in 0..SERVICES {
        let name = format!("web-{number}");
        let answer = eventually("a change to be acknowledged by the other one", SOON, || {
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
    assert_eq!(pair.writes(paused).await, sent, "what was paused sends nothing");
    assert_eq!(versions(kube, &namespace).await, before, "and nothing is put back");
    acknowledged
}
