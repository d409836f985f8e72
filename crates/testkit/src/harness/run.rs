//! Running a plan: each step is asked and waited for, and a process that dies is started again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use trueup_model::crash::{self, Fate};
use trueup_model::key::ResourceKey;

use super::layer::{Layer, NOTE};
use super::notes::Notes;
use super::panics;
use super::stage::Stage;
use super::workload::{Workload, WorkloadStep};
use crate::fake_cluster::{Count, FakeCluster};

/// The longest that a step may take in virtual time, with a fault on the way.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long a hasty step is waited for.
const HASTE: Duration = Duration::from_secs(2);
/// How long everything rests between two steps.
const REST: Duration = Duration::from_secs(45);
/// How often everything is listed anew at the end, with a rest after each.
const RESYNCS: usize = 2;

/// A process and what it works on, as a run needs it.
pub trait World {
    /// Asks for a step, or does it from outside. May be dropped at any point and asked again.
    fn begin(&mut self, step: &WorkloadStep) -> impl Future<Output = ()>;
    /// Whether what a step asks for is there.
    fn reached(&mut self, step: &WorkloadStep) -> impl Future<Output = bool>;
    /// Lets up to this much time pass, and hears what is said meanwhile.
    fn pass(&mut self, time: Duration) -> impl Future<Output = ()>;
    /// The process died: ends it and starts another.
    fn restart(&mut self) -> impl Future<Output = ()>;
    /// Ends it for good; answers with what is wrong about how it ended.
    fn end(&mut self) -> impl Future<Output = Vec<String>>;
    /// What is wrong at rest: orphans, work that is left, things that went back.
    fn faults_at_rest(&mut self) -> impl Future<Output = Vec<String>>;
    /// How things stand, for somebody who asks why it takes so long.
    fn standing(&self) -> String;
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The cluster after each step.
    pub stages: Vec<Stage>,
    /// How often each key came and went.
    pub counts: BTreeMap<ResourceKey, Count>,
    /// What the layer noted.
    pub notes: Notes,
    /// Which faults happened.
    pub fired: Vec<bool>,
    /// What was wrong without comparing it with anything.
    pub wrong: Vec<String>,
    /// Writes that were sent after everything was at rest.
    pub late_writes: Vec<String>,
    /// How often the process was started again.
    pub restarts: usize,
}

/// Runs a workload through a world behind this layer.
pub async fn run<W: World>(
    workload: &Workload,
    layer: &Layer,
    fake: &FakeCluster,
    world: &mut W,
) -> Story {
    panics::watch();
    let points = layer.clone();
    crash::script(move |point| if points.reach(point) { Fate::Stop } else { Fate::GoOn });
    let mut running = Running { layer, fake, world, story: Story::default() };
    running.go(workload).await;
    let mut story = running.story;
    crash::end_script();
    story.wrong.extend(world.end().await);
    story.wrong.extend(panics::take().into_iter().map(|panic| format!("O10: panicked: {panic}")));
    story.notes = layer.notes();
    story.wrong.append(&mut story.notes.wrong);
    story.fired = layer.fired();
    story.counts = fake.counts();
    story
}

struct Running<'a, W> {
    layer: &'a Layer,
    fake: &'a FakeCluster,
    world: &'a mut W,
    story: Story,
}

impl<W: World> Running<'_, W> {
    async fn go(&mut self, workload: &Workload) {
        for (number, step) in workload.steps.iter().enumerate() {
            self.layer.step(number);
            if matches!(step, WorkloadStep::Hasty(_)) {
                self.hurry(step).await;
                self.story.stages.push(Stage::new());
                continue;
            }
            if !self.perform(step).await {
                let standing = self.world.standing();
                self.story
                    .wrong
                    .push(format!("O7: step {number}, {step:?}, was not reached: {standing}"));
                return;
            }
            self.story.wrong.extend(self.world.faults_at_rest().await);
            self.story.wrong.extend(self.lost_notes());
            self.story.stages.push(self.stage());
        }
        self.stay_quiet().await;
    }

    /// Asks, and goes on before it can be there.
    async fn hurry(&mut self, step: &WorkloadStep) {
        self.ask(step).await;
        tokio::select! {
            biased;
            () = self.layer.crashed() => self.restart().await,
            () = self.world.pass(HASTE) => {}
        }
    }

    async fn ask(&mut self, step: &WorkloadStep) {
        let asked = Rc::new(RefCell::new(false));
        while !*asked.borrow() {
            tokio::select! {
                biased;
                () = self.layer.crashed() => {}
                () = self.world.begin(step) => {
                    *asked.borrow_mut() = true;
                    continue;
                }
            }
            self.restart().await;
        }
    }

    /// Asks, waits until it is there, and rests; says whether it came.
    async fn perform(&mut self, step: &WorkloadStep) -> bool {
        self.ask(step).await;
        let mut waited = Duration::ZERO;
        let mut rested = Duration::ZERO;
        let tick = Duration::from_secs(1);
        while waited < PATIENCE {
            let reached = tokio::select! {
                biased;
                () = self.layer.crashed() => None,
                reached = async {
                    self.world.pass(tick).await;
                    self.world.reached(step).await
                } => Some(reached),
            };
            waited += tick;
            match reached {
                Some(true) if !self.layer.is_broken() => rested += tick,
                Some(true | false) => rested = Duration::ZERO,
                None => {
                    rested = Duration::ZERO;
                    self.restart().await;
                }
            }
            if rested >= REST {
                return true;
            }
        }
        false
    }

    /// Even a start can be cut short.
    async fn restart(&mut self) {
        loop {
            self.story.restarts += 1;
            self.layer.revive();
            tokio::select! {
                biased;
                () = self.layer.crashed() => {}
                () = self.world.restart() => return,
            }
        }
    }

    /// Lists everything anew, again and again: nothing may be written any more.
    async fn stay_quiet(&mut self) {
        let before = self.layer.notes().calls.len();
        for _resync in 0..RESYNCS {
            self.fake.compact();
            self.world.pass(REST).await;
        }
        let calls = self.layer.notes().calls;
        self.story.late_writes = calls[before..].iter().map(super::journal::Call::title).collect();
    }

    /// The cluster as it is, without what the plan itself wrote there.
    fn stage(&self) -> Stage {
        let mut stage = self.fake.snapshot();
        for object in stage.values_mut() {
            if let Some(annotations) =
                object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(NOTE);
            }
        }
        stage
    }

    /// What somebody else wrote and we have no business with must still be there.
    fn lost_notes(&self) -> Vec<String> {
        let foreign = self.layer.notes().foreign;
        let lost = foreign.into_iter().filter(|(key, uid)| {
            self.fake.find(key).is_some_and(|object| {
                object["metadata"]["uid"] == **uid
                    && object["metadata"]["annotations"][NOTE].is_null()
            })
        });
        lost.map(|(key, _)| format!("O1: what somebody else wrote on {key} is lost")).collect()
    }
}
