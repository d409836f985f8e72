//! A thousand writers in several orgs, two sealers, and readers that are interrupted again and
//! again: nothing is lost, duplicated or reordered, and each org's chain verifies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use trueup_model::OrgId;
use trueup_store::door::{Refusal, ServiceRequest};
use trueup_store::{Error, EventQuery, SealedEvent};
use trueup_testkit::test_db::name;

use crate::chain::verified;
use crate::stage::{PROJECT, Stage, at, web};

const ORGS: usize = 8;
const WRITERS: usize = 1000;
/// Longer than the test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Retries a query until the pool has a free connection.
async fn patient<T, F>(mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(Error::Unavailable(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Declares one service; retries if the pool was too busy, which is idempotent.
async fn write(stage: &Stage, org: OrgId, number: usize) {
    let (service, request) = (name(&format!("web-{number}")), web("nginx:1"));
    let wanted = ServiceRequest::declare(PROJECT, &service, &request);
    loop {
        match stage.db.app.accept_service(org, &wanted, &stage.context(), at(1)).await {
            Ok(_) => return,
            Err(Refusal::Store(Error::Unavailable(_) | Error::CommitUnknown(_))) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Reads an org's events in small pages, each time knowing only the last position.
async fn read(stage: &Stage, org: OrgId, wanted: usize) -> Vec<SealedEvent> {
    let mut seen: Vec<SealedEvent> = Vec::new();
    for turn in 0.. {
        if seen.len() >= wanted {
            break;
        }
        let after = Some(seen.last().map_or(0, |event| event.position));
        let query = EventQuery { after, limit: turn % 13 + 1, ..EventQuery::default() };
        let reading = patient(|| stage.db.app.list_events(org, &query));
        if turn % 3 == 2 {
            // The reader is cancelled, and what it had read is lost.
            let died = tokio::time::timeout(Duration::from_micros(300), reading).await;
            drop(died);
        } else {
            seen.extend(reading.await);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_writers_and_interrupted_readers_lose_and_duplicate_nothing() {
    let stage = Arc::new(Stage::new().await);
    let mut orgs = vec![stage.db.org];
    for number in 1..ORGS {
        let org = stage.db.setup.ensure_org(&format!("org-{number}"), at(0)).await.unwrap();
        stage.project(org).await;
        orgs.push(org);
    }
    let mut work = JoinSet::new();
    for number in 0..WRITERS {
        let (stage, org) = (Arc::clone(&stage), orgs[number % ORGS]);
        work.spawn(async move { write(&stage, org, number).await });
    }
    let mut sealers = JoinSet::new();
    for _ in 0..2 {
        let stage = Arc::clone(&stage);
        sealers.spawn(async move {
            loop {
                patient(|| stage.db.worker.seal_events(at(2))).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let mut readers = JoinSet::new();
    for org in orgs.clone() {
        let stage = Arc::clone(&stage);
        readers.spawn(async move { (org, read(&stage, org, WRITERS / ORGS + 1).await) });
    }
    let read = tokio::time::timeout(PATIENCE, readers.join_all()).await;
    let read: BTreeMap<OrgId, Vec<SealedEvent>> =
        read.expect("every event should be sealed and read").into_iter().collect();
    work.join_all().await;
    sealers.shutdown().await;

    assert_eq!(stage.db.unsealed().await, 0);
    let mut distinct = BTreeSet::new();
    for (org, seen) in &read {
        let positions: Vec<i64> = seen.iter().map(|event| event.position).collect();
        let expected: Vec<i64> = (1..).take(WRITERS / ORGS + 1).collect();
        assert_eq!(positions, expected, "{org}");
        assert_eq!(stage.sealed(*org).await, *seen, "what was read is what is stored");
        verified(seen);
        distinct.extend(seen.iter().map(|event| event.id));
    }
    assert_eq!(distinct.len(), WRITERS + ORGS);
}
