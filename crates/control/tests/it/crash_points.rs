//! A crash at every crash point, on a real Postgres: the final state, the accepted changes in the
//! event log and the number of creates and deletes are the same as without a crash.
//!
//! One lifecycle without a crash is the reference; it must reach every point, because a point that
//! is never reached tests nothing. Each other lifecycle has one crash, with its own database and
//! cluster. They run concurrently: most of the time each waits until the calls of a dead process
//! cannot arrive any more.
//!
//! How often a point is reached depends on how work is batched, and so on how busy the machine is.
//! A crash is therefore planned from a step of the client on that cannot complete without reaching
//! that point, and every planned crash must happen.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use serde_json::{Map, json};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use trueup_model::crash::{self, Fate, POINTS};
use trueup_model::drift::DriftPolicy;
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::EventQuery;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_testkit::test_db::name;

use crate::rig::{LONG, POLL, Rig, deleted, running};

/// How many lifecycles run at once. Each has about fifteen connections to the database.
const AT_ONCE: usize = 4;

/// Events that are written in the transaction they describe: their number must be exact.
const EXACT_EVENTS: [&str; 4] =
    ["ProjectQueued", "ServiceQueued", "ProjectDeleteQueued", "AbsenceVerified"];
/// Events about writes. A write right before a crash may have no event, and no event is recorded
/// twice.
const WRITE_EVENTS: [&str; 5] = [
    "ResourceCreated",
    "ResourceRemoved",
    "ResourceModifiedExternally",
    "DriftDetected",
    "DriftReverted",
];

/// Steps of the client that crashes are planned from.
const PROJECT: usize = 0;
const SERVICE: usize = 1;
const DELETE_SERVICE: usize = 6;
const DELETE_PROJECT: usize = 8;
/// The last step: all work is done, and all events are sealed.
const AT_REST: usize = 10;

/// Where a process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    point: &'static str,
    /// The step of the client from which hits are counted.
    step: usize,
    /// The hit at which it crashes.
    hit: usize,
}

/// The places to crash at for a point: its first hit, and hits that a later request certainly
/// causes.
///
/// Most points have their first hit while the project is created. Only the start of a process
/// reaches `lease_holder.leased`; only the foreign container is pruned; only the service has an
/// anchor to release.
fn places(point: &'static str) -> Vec<Place> {
    let later: &[(usize, usize)] = match point {
        "door.recorded" | "door.accepted" => &[(DELETE_SERVICE, 1)],
        // The second of the service's objects, of which there are many more.
        "executor.applying" | "executor.applied" => &[(SERVICE, 2)],
        "executor.deleting" | "executor.deleted" | "executor.verified" => &[(DELETE_PROJECT, 1)],
        point if point.starts_with("driver.") => &[(SERVICE, 1), (DELETE_SERVICE, 1)],
        point if point.starts_with("report.") => &[(DELETE_SERVICE, 1)],
        point if point.starts_with("sealer.") => &[(DELETE_SERVICE, 1)],
        _ => &[],
    };
    let places = [(PROJECT, 1)].into_iter().chain(later.iter().copied());
    places.map(|(step, hit)| Place { point, step, hit }).collect()
}

/// The final state of a lifecycle.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// How many objects of each kind were created and deleted.
    counts: BTreeMap<Kind, (u32, u32)>,
    /// The number of events of each type in `EXACT_EVENTS`.
    exact_events: BTreeMap<&'static str, usize>,
    /// Queued and running wakes.
    wakes: (i64, i64),
}

/// A lifecycle, and what was observed during it.
struct Lifecycle {
    end: End,
    /// The number of events of each type in `WRITE_EVENTS`.
    writes: BTreeMap<&'static str, usize>,
    /// The points that were reached.
    reached: BTreeSet<&'static str>,
}

#[test]
fn crash_at_every_point_changes_neither_final_state_nor_events() {
    let Lifecycle { end: expected, writes, reached } = run_isolated(None);
    let missed: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");

    let places: Vec<Place> = POINTS.into_iter().flat_map(places).collect();
    let (planned, waiting) = (places.len(), Mutex::new(places));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let next = || waiting.lock().expect("no thread should panic here").pop();
                while let Some(place) = next() {
                    let lifecycle = run_isolated(Some(place));
                    assert_eq!(lifecycle.end, expected, "after a crash at {place:?}");
                    let twice =
                        WRITE_EVENTS.iter().find(|kind| lifecycle.writes[*kind] > writes[*kind]);
                    assert_eq!(twice, None, "recorded twice after a crash at {place:?}");
                }
            });
        }
    });
    println!("{planned} crashes at {} points, each of which happened", POINTS.len());
}

/// Runs a lifecycle on this thread: crash points are scripted by thread.
fn run_isolated(crash_at: Option<Place>) -> Lifecycle {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime should be made").block_on(run_lifecycle(crash_at))
}

/// Decides where a process crashes, and records which points were reached.
#[derive(Default)]
struct Script {
    crash_at: Option<Place>,
    /// The current step of the client.
    step: Cell<usize>,
    /// How often the point was hit since its step.
    hits: Cell<usize>,
    reached: RefCell<BTreeSet<&'static str>>,
    /// The process is dead: all its tasks stop at their next point.
    dead: Cell<bool>,
    died: Cell<bool>,
    notify: Notify,
}

impl Script {
    fn at(&self, point: &'static str) -> Fate {
        if self.dead.get() {
            return Fate::Stop;
        }
        self.reached.borrow_mut().insert(point);
        let Some(place) = self.crash_at.filter(|_| !self.died.get()) else { return Fate::GoOn };
        if place.point != point || self.step.get() < place.step {
            return Fate::GoOn;
        }
        self.hits.set(self.hits.get() + 1);
        if self.hits.get() < place.hit {
            return Fate::GoOn;
        }
        self.dead.set(true);
        self.died.set(true);
        self.notify.notify_one();
        Fate::Stop
    }

    /// Waits for a crash that has not happened yet: the client has observed the commit, and a loop
    /// may not have reached the point after it.
    async fn until_crashed(&self) {
        let crashed = tokio::time::timeout(LONG, self.notify.notified()).await;
        assert!(crashed.is_ok(), "{:?} was never reached", self.crash_at);
    }
}

/// A whole lifecycle, with at most one crash.
async fn run_lifecycle(crash_at: Option<Place>) -> Lifecycle {
    let mut rig = Rig::new().await;
    let script = Rc::new(Script { crash_at, ..Script::default() });
    let decides = Rc::clone(&script);
    crash::script(move |point| decides.at(point));
    let client = Client::default();
    rig.start("one");
    loop {
        tokio::select! {
            biased;
            () = script.notify.notified() => {}
            () = client.run_steps(&rig, &script.step) => {
                if crash_at.is_none() || script.died.get() {
                    break;
                }
                script.until_crashed().await;
                script.step.set(AT_REST);
            }
        }
        rig.crash().await;
        script.dead.set(false);
        rig.start("one");
    }
    crash::end_script();
    let (end, writes) = end(&rig).await;
    Lifecycle { end, writes, reached: script.reached.take() }
}

async fn end(rig: &Rig) -> (End, BTreeMap<&'static str, usize>) {
    let mut counts: BTreeMap<Kind, (u32, u32)> = BTreeMap::new();
    for (key, count) in rig.fake.counts() {
        let (made, gone) = counts.entry(key.kind).or_default();
        *made += count.creates;
        *gone += count.deletes;
    }
    let query = EventQuery { limit: 1000, ..EventQuery::default() };
    let events = rig.db.app.list_events(rig.db.org, &query).await;
    let events = events.expect("events should be listed");
    let positions: Vec<i64> = events.iter().map(|event| event.position).collect();
    let expected: Vec<i64> = (1..).take(positions.len()).collect();
    assert_eq!(positions, expected, "positions have no gaps and no duplicates");
    let count = |kinds: &[&'static str]| -> BTreeMap<&'static str, usize> {
        let of = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
        kinds.iter().map(|kind| (*kind, of(kind))).collect()
    };
    let wakes = rig.db.count_wakes().await;
    (End { counts, exact_events: count(&EXACT_EVENTS), wakes }, count(&WRITE_EVENTS))
}

/// A client that retries unanswered requests. It outlives the processes that it talks to.
#[derive(Default)]
struct Client {
    project: RefCell<String>,
    service: RefCell<String>,
}

impl Client {
    async fn run_steps(&self, rig: &Rig, step: &Cell<usize>) {
        while self.take(rig, step.get()).await {
            step.set(step.get() + 1);
        }
    }

    /// Takes a step; returns whether there was one.
    async fn take(&self, rig: &Rig, step: usize) -> bool {
        let (app, org, now) = (&rig.db.app, rig.db.org, rig.clock.now());
        let owner = rig.db.owner();
        let context = RequestContext::new(&owner, None);
        let (project, service) = (self.project.borrow().clone(), self.service.borrow().clone());
        match step {
            PROJECT => {
                let accepted = app
                    .accept_project(org, &name("shop"), &DriftPolicy::default(), &context, now)
                    .await;
                *self.project.borrow_mut() =
                    accepted.expect("it should be accepted").row.project.id.to_string();
            }
            SERVICE => {
                let parameters = Map::from_iter([("image".to_owned(), json!("web:1"))]);
                let request = AdmissionRequest {
                    template: "web@1".parse().expect("a template"),
                    plan: None,
                    parameters,
                    drift: DriftPolicy::default(),
                    active: None,
                };
                let name = name("web");
                let wanted = ServiceRequest::declare("shop", &name, &request);
                let accepted = app.accept_service(org, &wanted, &context, now).await;
                *self.service.borrow_mut() =
                    accepted.expect("it should be accepted").row.service.id.to_string();
            }
            2 => drop(rig.until(&service, running).await),
            3 => add_foreign_container(rig),
            4 => until(|| async { containers(rig).iter().all(|count| *count == 1) }).await,
            5 => drop(rig.until(&service, running).await),
            DELETE_SERVICE => {
                let wanted = ServiceRequest::act("shop", &service, &ServiceOperation::Delete);
                let accepted = app.accept_service(org, &wanted, &context, now).await;
                drop(accepted.expect("it should be accepted"));
            }
            7 => drop(rig.until(&service, deleted).await),
            DELETE_PROJECT => {
                let accepted = app.delete_project(org, &project, &context, now).await;
                drop(accepted.expect("it should be accepted"));
            }
            9 => {
                until(|| async {
                    let found = app.find_project(org, &project).await;
                    found.is_ok_and(|found| found.is_some_and(|row| row.receipt.is_some()))
                })
                .await;
            }
            AT_REST => {
                rig.until_wakes(0).await;
                until(|| async {
                    rig.db.worker.unsealed_events().await.is_ok_and(|left| left.count == 0)
                })
                .await;
            }
            _ => return false,
        }
        rig.signals.wake();
        rig.signals.event();
        true
    }
}

/// Adds a foreign container to a closed path.
fn add_foreign_container(rig: &Rig) {
    for deployment in rig.fake.objects(Kind::Deployment) {
        let text = |field: &str| deployment["metadata"][field].as_str().unwrap_or_default();
        let key = ResourceKey::new(Kind::Deployment, text("namespace"), text("name"));
        rig.fake.edit(&key, |object| {
            let containers = &mut object["spec"]["template"]["spec"]["containers"];
            let foreign = json!({ "name": "foreign", "image": "foreign:1" });
            containers.as_array_mut().expect("it should have containers").push(foreign);
        });
    }
}

/// The number of containers of each Deployment.
fn containers(rig: &Rig) -> Vec<usize> {
    let count = |object: &serde_json::Value| {
        object["spec"]["template"]["spec"]["containers"].as_array().map_or(0, Vec::len)
    };
    rig.fake.objects(Kind::Deployment).iter().map(count).collect()
}

async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let reached = tokio::time::timeout(LONG, async {
        while !holds().await {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(reached.await.is_ok(), "the condition should hold in time");
}
