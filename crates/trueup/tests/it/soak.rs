//! `make soak`: two replicas under load and a random sequence of faults, for minutes.
//!
//! Every few faults the load stops and everything is verified. `SOAK_SECONDS` sets the duration and
//! `SOAK_SEED` the order of faults; both are printed.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;
use trueup_api::client::Terms;
use trueup_cluster::kube::Kube;

use crate::acknowledged::Acknowledged;
use crate::install::{SOON, shared};
use crate::load::{Load, SERVICES, web};
use crate::pair::{PROJECT, Pair};
use crate::tally::Tally;
use crate::wait::eventually;

/// How many faults happen between two verifications.
const ROUND: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillTheHolder,
    KillTheStandby,
    PauseTheHolder,
    StopTheHolder,
    CrashPostgres,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::KillTheHolder,
        Self::KillTheStandby,
        Self::PauseTheHolder,
        Self::StopTheHolder,
        Self::CrashPostgres,
    ];
}

/// The counters of the final report.
#[derive(Debug, Default)]
struct Report {
    faults: BTreeMap<Fault, u32>,
    verified: u32,
    deleted: usize,
    events: usize,
}

struct Soak {
    pair: Pair,
    kube: Kube,
    report: Report,
    /// The state of the random number generator.
    random: u64,
    /// Ids of services that are being deleted.
    deleting: Vec<String>,
    /// Acknowledged changes of the short-lived services.
    brief: Acknowledged,
}

#[tokio::test]
#[ignore = "takes minutes; run by `make soak`"]
async fn soak() {
    let time = Duration::from_secs(number("SOAK_SECONDS").unwrap_or(300));
    let seed = number("SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("soaking for {time:?}; repeat this order with SOAK_SEED={seed} make soak");
    let install = shared().await;
    let tally = Tally::start(install.kube()).await;
    let pair = Pair::start(&install.kubeconfig()).await;
    let (kube, random) = (install.kube(), seed.wrapping_mul(2).wrapping_add(1));
    let (report, brief) = (Report::default(), Acknowledged::default());
    let mut soak = Soak { pair, kube, report, random, deleting: Vec::new(), brief };
    let (began, mut acknowledged) = (Instant::now(), Acknowledged::default());
    while began.elapsed() < time {
        let load = Load::start(&soak.pair, acknowledged);
        load.wait_for(SERVICES).await;
        for _ in 0..ROUND {
            soak.delete_something().await;
            let fault = soak.next_fault();
            println!("{:>4} s  {fault:?}", began.elapsed().as_secs());
            soak.inject(fault).await;
            *soak.report.faults.entry(fault).or_default() += 1;
            load.wait_for(SERVICES).await;
        }
        acknowledged = load.stop().await;
        soak.verify(&acknowledged).await;
    }
    let namespace = soak.pair.settled().await[0].namespace.clone();
    let counts = tally.counts(&namespace, str::to_owned).await;
    let duplicated: Vec<_> = counts.iter().filter(|(_, (created, _))| *created > 1).collect();
    assert!(duplicated.is_empty(), "created twice: {duplicated:#?}");
    let changes = acknowledged.count();
    println!(
        "\nverified {} times in {} s:\n  faults    {:?}\n  accepted  {changes} changes, each stored with \
         its content and converged\n  deleted   {} services, each with its receipt\n  events    {}, \
         without gaps or duplicates, the chain verified on both replicas\n  objects   {}, none created \
         twice, none written after convergence",
        soak.report.verified,
        began.elapsed().as_secs(),
        soak.report.faults,
        soak.report.deleted,
        soak.report.events,
        counts.len(),
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} should be a number: {text}")))
}

impl Soak {
    /// The next fault; the same seed gives the same sequence.
    fn next_fault(&mut self) -> Fault {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let all = Fault::ALL;
        all[usize::try_from(self.random % 5).unwrap()]
    }

    /// Injects a fault and waits until both replicas are up again.
    async fn inject(&self, fault: Fault) {
        let pair = &self.pair;
        let holder = pair.holder().await;
        let other = 1 - holder;
        match fault {
            Fault::KillTheHolder => {
                pair.kill(holder).await;
                pair.taken_over_by(other).await;
                pair.up(holder).await.succeeded();
            }
            Fault::KillTheStandby => {
                pair.kill(other).await;
                pair.up(other).await.succeeded();
            }
            Fault::PauseTheHolder => {
                pair.signal(holder, Signal::STOP);
                pair.taken_over_by(other).await;
                pair.signal(holder, Signal::CONT);
                pair.stands_by(holder).await;
            }
            Fault::StopTheHolder => {
                let process = pair.process(holder);
                pair.signal(holder, Signal::TERM);
                assert!(process.gone_within(SOON).await, "the replica should stop on SIGTERM");
                pair.taken_over_by(other).await;
                pair.up(holder).await.succeeded();
            }
            Fault::CrashPostgres => pair.crash_postgres().await,
        }
    }

    /// Declares a service and requests its deletion, so that the next fault hits a deletion.
    async fn delete_something(&mut self) {
        let client = self.pair.client(self.pair.holder().await);
        let name = format!("brief-{}", self.report.deleted + self.deleting.len());
        let manifest = web(&json!({ "image": "web:1" }));
        let declared = eventually("a service to be declared", SOON, || async {
            client.service_put(PROJECT, &name, &manifest, &Terms::PLAIN).await.ok()
        })
        .await;
        self.brief.put(&manifest, &declared);
        let id = declared.service.id;
        let deleted = eventually("its deletion to be accepted", SOON, || async {
            client.service_delete(PROJECT, &id, &Terms::PLAIN).await.ok()
        })
        .await;
        self.brief.deleted(&deleted);
        self.deleting.push(id);
    }

    /// Verifies that every accepted change converged and has its events once, that every deletion
    /// has a receipt, and that nothing is written any more.
    async fn verify(&mut self, acknowledged: &Acknowledged) {
        let client = self.pair.client(0);
        for id in std::mem::take(&mut self.deleting) {
            eventually("a receipt", SOON, || async {
                client.service_get(PROJECT, &id).await.ok()?.receipt
            })
            .await;
            self.report.deleted += 1;
        }
        self.brief.verify(&client, PROJECT).await;
        let services = self.pair.settled().await;
        assert_eq!(services.len(), SERVICES);
        self.report.events = self.pair.verify_events(acknowledged, &services).await;
        self.pair.verify_quiet(&self.kube, &services).await;
        self.report.verified += 1;
        println!("        verified: {} events", self.report.events);
    }
}
