//! `make soak`: two replicas under load while one thing after the other is killed, paused or restarted, for
//! minutes. Every few faults the load rests, and everything is judged.
//!
//! `SOAK_SECONDS` says for how long, `SOAK_SEED` in which order; both are printed.

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

/// How many faults there are between two judgements.
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

/// What was proved.
#[derive(Debug, Default)]
struct Proof {
    faults: BTreeMap<Fault, u32>,
    judged: u32,
    deleted: usize,
    events: usize,
}

struct Soak {
    pair: Pair,
    kube: Kube,
    proof: Proof,
    dice: u64,
    /// Services that were asked to go, by id.
    going: Vec<String>,
    /// What was acknowledged of services that live briefly.
    brief: Acknowledged,
}

#[tokio::test]
#[ignore = "it takes minutes: `make soak` runs it"]
async fn soak() {
    let time = Duration::from_secs(number("SOAK_SECONDS").unwrap_or(300));
    let seed = number("SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("soaking for {time:?}; again in this order: SOAK_SEED={seed} make soak");
    let install = shared().await;
    let tally = Tally::start(install.kube()).await;
    let pair = Pair::start(&install.kubeconfig()).await;
    let (kube, dice) = (install.kube(), seed.wrapping_mul(2).wrapping_add(1));
    let (proof, brief) = (Proof::default(), Acknowledged::default());
    let mut soak = Soak { pair, kube, proof, dice, going: Vec::new(), brief };
    let (began, mut acknowledged) = (Instant::now(), Acknowledged::default());
    while began.elapsed() < time {
        let load = Load::start(&soak.pair, acknowledged);
        load.goes_on(SERVICES).await;
        for _ in 0..ROUND {
            soak.delete_something().await;
            let fault = soak.roll();
            println!("{:>4} s  {fault:?}", began.elapsed().as_secs());
            soak.suffer(fault).await;
            *soak.proof.faults.entry(fault).or_default() += 1;
            load.goes_on(SERVICES).await;
        }
        acknowledged = load.stop().await;
        soak.judge(&acknowledged).await;
    }
    let namespace = soak.pair.settled().await[0].namespace.clone();
    let counts = tally.counts(&namespace, str::to_owned).await;
    let doubled: Vec<_> = counts.iter().filter(|(_, (created, _))| *created > 1).collect();
    assert!(doubled.is_empty(), "made twice: {doubled:#?}");
    let changes = acknowledged.count();
    println!(
        "\nproved in {} s, {} times over:\n  faults    {:?}\n  accepted  {changes} changes, each stored \
         with its content and converged\n  deleted   {} services, each with its receipt\n  events    {}, without a gap or a double, the \
         chain verified on both replicas\n  objects   {}, none made twice, none written once all was quiet",
        began.elapsed().as_secs(),
        soak.proof.judged,
        soak.proof.faults,
        soak.proof.deleted,
        soak.proof.events,
        counts.len(),
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} should be a number: {text}")))
}

impl Soak {
    /// The next fault: the same ones in the same order for the same seed.
    fn roll(&mut self) -> Fault {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let all = Fault::ALL;
        all[usize::try_from(self.dice % 5).unwrap()]
    }

    /// Makes it happen, and everything is back when this returns.
    async fn suffer(&self, fault: Fault) {
        let pair = &self.pair;
        let holder = pair.holder().await;
        let other = 1 - holder;
        match fault {
            Fault::KillTheHolder => {
                pair.kill(holder).await;
                pair.taken_over_by(other).await;
                pair.up(holder).await.well();
            }
            Fault::KillTheStandby => {
                pair.kill(other).await;
                pair.up(other).await.well();
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
                assert!(process.gone_within(SOON).await, "it should stop when told to");
                pair.taken_over_by(other).await;
                pair.up(holder).await.well();
            }
            Fault::CrashPostgres => pair.crash_postgres().await,
        }
    }

    /// Declares a service and asks for its end: the next fault meets that, too.
    async fn delete_something(&mut self) {
        let client = self.pair.client(self.pair.holder().await);
        let name = format!("brief-{}", self.proof.deleted + self.going.len());
        let manifest = web(&json!({ "image": "web:1" }));
        let declared = eventually("a service to be declared", SOON, || async {
            client.service_put(PROJECT, &name, &manifest, &Terms::PLAIN).await.ok()
        })
        .await;
        self.brief.put(&manifest, &declared);
        let id = declared.service.id;
        let deleted = eventually("its end to be asked for", SOON, || async {
            client.service_delete(PROJECT, &id, &Terms::PLAIN).await.ok()
        })
        .await;
        self.brief.deleted(&deleted);
        self.going.push(id);
    }

    /// All of it: what was accepted is true and told once, what was deleted is proved to be gone, and
    /// nothing is written any more.
    async fn judge(&mut self, acknowledged: &Acknowledged) {
        let client = self.pair.client(0);
        for id in std::mem::take(&mut self.going) {
            eventually("a receipt", SOON, || async {
                client.service_get(PROJECT, &id).await.ok()?.receipt
            })
            .await;
            self.proof.deleted += 1;
        }
        self.brief.judge(&client, PROJECT).await;
        let services = self.pair.settled().await;
        assert_eq!(services.len(), SERVICES);
        self.proof.events = self.pair.judge_events(acknowledged, &services).await;
        self.pair.judge_quiet(&self.kube, &services).await;
        self.proof.judged += 1;
        println!("        judged: {} events", self.proof.events);
    }
}
