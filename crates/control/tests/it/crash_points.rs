//! A crash at every crash point, on a real Postgres: the end is the same, and so are the promises that
//! are told and the number of creates and deletes.
//!
//! One life without a crash is the reference; it must reach every point there is, because one that no
//! work passes tests nothing. Each other life has one crash, on a database and a cluster of its own. They
//! run side by side: most of the time each waits until what a dead process sent cannot arrive any more.
//!
//! How often a point is reached depends on how work is batched, and so on how busy the machine is. A crash
//! is therefore planned from a step of the client on, which cannot end without that point being reached,
//! and every planned crash must happen.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use serde_json::{Map, json};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use trueup_model::crash::{self, Fate, POINTS};
use trueup_model::key::{Kind, ResourceKey};
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::EventQuery;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_testkit::test_db::name;

use crate::rig::{LONG, LOOK, Rig, deleted, running};

/// How many lives there are at once. Each has about fifteen connections to the database.
const AT_ONCE: usize = 4;

/// Events that are written with what they tell, each of which a life must have.
const PROMISES: [&str; 4] =
    ["ProjectQueued", "ServiceQueued", "ProjectDeleteQueued", "AbsenceVerified"];
/// Events about writes. What a process did right before it died it tells nobody, and what it told is
/// never told again.
const WRITES: [&str; 5] = [
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
/// The last step: everything is done, and everything is told.
const AT_REST: usize = 10;

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    point: &'static str,
    /// From this step of the client on.
    step: usize,
    /// At which hit since then.
    hit: usize,
}

/// The places of a point: its first hit of all, which is while the project is made for most of them, and
/// hits that a later request cannot do without. Nothing but the start of a process reaches
/// `lease_holder.leased`; nothing but the foreign container is pruned, and nothing but the service has an anchor
/// that is released.
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

/// What is left of a life.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// How many of each kind were made, and how many of them went.
    counts: BTreeMap<Kind, (u32, u32)>,
    /// How many promises of each type were told.
    promises: BTreeMap<&'static str, usize>,
    /// Wakes that wait, and that are worked on.
    wakes: (i64, i64),
}

/// A life, and what was seen of it on the way.
struct Life {
    end: End,
    /// How many events about writes of each type were told.
    writes: BTreeMap<&'static str, usize>,
    /// The points that were reached.
    reached: BTreeSet<&'static str>,
}

#[test]
fn a_crash_at_every_point_changes_neither_the_end_nor_what_is_told() {
    let Life { end: expected, writes, reached } = in_its_own_world(None);
    let missed: Vec<&str> = POINTS.into_iter().filter(|point| !reached.contains(point)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");

    let places: Vec<Place> = POINTS.into_iter().flat_map(places).collect();
    let (planned, waiting) = (places.len(), Mutex::new(places));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let next = || waiting.lock().expect("no thread should panic here").pop();
                while let Some(place) = next() {
                    let life = in_its_own_world(Some(place));
                    assert_eq!(life.end, expected, "after a crash at {place:?}");
                    let twice = WRITES.iter().find(|kind| life.writes[*kind] > writes[*kind]);
                    assert_eq!(twice, None, "told twice after a crash at {place:?}");
                }
            });
        }
    });
    println!("{planned} crashes at {} points, each of which happened", POINTS.len());
}

/// Points are scripted by thread, and so is the time of what runs on it.
fn in_its_own_world(crash_at: Option<Place>) -> Life {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime should be made").block_on(live(crash_at))
}

/// Where a process dies, and what was reached.
#[derive(Default)]
struct Script {
    crash_at: Option<Place>,
    /// The step that the client is at.
    step: Cell<usize>,
    /// How often the place was passed since its step.
    hits: Cell<usize>,
    reached: RefCell<BTreeSet<&'static str>>,
    /// The process is dead: nothing of it goes on anywhere.
    dead: Cell<bool>,
    died: Cell<bool>,
    tell: Notify,
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
        self.tell.notify_one();
        Fate::Stop
    }

    /// Waits for a crash that is still to come. The client has seen everything that was committed; a loop
    /// may not have come to the point that follows yet.
    async fn comes(&self) {
        let came = tokio::time::timeout(LONG, self.tell.notified()).await;
        assert!(came.is_ok(), "{:?} was never reached", self.crash_at);
    }
}

/// A whole life, with a crash on the way.
async fn live(crash_at: Option<Place>) -> Life {
    let mut rig = Rig::new().await;
    let script = Rc::new(Script { crash_at, ..Script::default() });
    let decides = Rc::clone(&script);
    crash::script(move |point| decides.at(point));
    let client = Client::default();
    rig.start("one");
    loop {
        tokio::select! {
            biased;
            () = script.tell.notified() => {}
            () = client.ask_for_everything(&rig, &script.step) => {
                if crash_at.is_none() || script.died.get() {
                    break;
                }
                script.comes().await;
                script.step.set(AT_REST);
            }
        }
        rig.crash().await;
        script.dead.set(false);
        rig.start("one");
    }
    crash::end_script();
    let (end, writes) = end(&rig).await;
    Life { end, writes, reached: script.reached.take() }
}

async fn end(rig: &Rig) -> (End, BTreeMap<&'static str, usize>) {
    let mut counts: BTreeMap<Kind, (u32, u32)> = BTreeMap::new();
    for (key, count) in rig.fake.counts() {
        let (made, gone) = counts.entry(key.kind).or_default();
        *made += count.creates;
        *gone += count.deletes;
    }
    let query = EventQuery { limit: 1000, ..EventQuery::default() };
    let told = rig.db.app.list_events(rig.db.org, &query).await;
    let told = told.expect("events should be listed");
    let positions: Vec<i64> = told.iter().map(|event| event.position).collect();
    let expected: Vec<i64> = (1..).take(positions.len()).collect();
    assert_eq!(positions, expected, "no place is empty, and none is taken twice");
    let count = |kinds: &[&'static str]| -> BTreeMap<&'static str, usize> {
        let of = |kind: &str| told.iter().filter(|event| event.kind == kind).count();
        kinds.iter().map(|kind| (*kind, of(kind))).collect()
    };
    let wakes = rig.db.worker.count_wakes().await.expect("wakes should be counted");
    (End { counts, promises: count(&PROMISES), wakes }, count(&WRITES))
}

/// Somebody who asks again for whatever was not answered. It outlives the processes that it talks to.
#[derive(Default)]
struct Client {
    project: RefCell<String>,
    service: RefCell<String>,
}

impl Client {
    async fn ask_for_everything(&self, rig: &Rig, step: &Cell<usize>) {
        while self.take(rig, step.get()).await {
            step.set(step.get() + 1);
        }
    }

    /// Takes a step; answers whether there was one.
    async fn take(&self, rig: &Rig, step: usize) -> bool {
        let (app, org, now) = (&rig.db.app, rig.db.org, rig.clock.now());
        let owner = rig.db.owner();
        let context = RequestContext::new(&owner, None);
        let (project, service) = (self.project.borrow().clone(), self.service.borrow().clone());
        match step {
            PROJECT => {
                let accepted = app.accept_project(org, &name("shop"), &context, now).await;
                *self.project.borrow_mut() =
                    accepted.expect("it should be accepted").row.project.id.to_string();
            }
            SERVICE => {
                let parameters = Map::from_iter([("image".to_owned(), json!("web:1"))]);
                let ask = AdmissionRequest {
                    template: "web@1".parse().expect("a template"),
                    plan: None,
                    parameters,
                };
                let name = name("web");
                let wanted = ServiceRequest::declare("shop", &name, &ask);
                let accepted = app.accept_service(org, &wanted, &context, now).await;
                *self.service.borrow_mut() =
                    accepted.expect("it should be accepted").row.service.id.to_string();
            }
            2 => drop(rig.until(&service, running).await),
            3 => meddle(rig),
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

/// Somebody else adds a container, where nothing of others may stand.
fn meddle(rig: &Rig) {
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

/// How many containers each Deployment has.
fn containers(rig: &Rig) -> Vec<usize> {
    let count = |object: &serde_json::Value| {
        object["spec"]["template"]["spec"]["containers"].as_array().map_or(0, Vec::len)
    };
    rig.fake.objects(Kind::Deployment).iter().map(count).collect()
}

async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let reached = tokio::time::timeout(LONG, async {
        while !holds().await {
            tokio::time::sleep(LOOK).await;
        }
    });
    assert!(reached.await.is_ok(), "it should get there in time");
}
