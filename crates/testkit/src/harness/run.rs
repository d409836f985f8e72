//! Runs a plan: performs each step, waits until it converges, and restarts a crashed process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use trueup_model::crash::{self, Fate};
use trueup_model::key::ResourceKey;

use super::layer::{Layer, NOTE};
use super::notes::Notes;
use super::outside;
use super::panics;
use super::stage::Stage;
use super::workload::{Workload, WorkloadStep};
use crate::fake_cluster::{Count, FakeCluster};

/// The most virtual time that a step may take, faults included.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How long to wait after a hasty step.
const HASTY_WAIT: Duration = Duration::from_secs(2);
/// How long a step must stay converged before the next one begins.
const REST: Duration = Duration::from_secs(45);
/// How many full resyncs follow at the end, with a rest after each.
const RESYNCS: usize = 2;

/// A process and its environment, as a run drives it.
pub trait World {
    /// Requests a step or makes its foreign change. May be cancelled at any point and retried.
    fn begin(&mut self, step: &WorkloadStep) -> impl Future<Output = ()>;
    /// Whether a step has converged.
    fn reached(&mut self, step: &WorkloadStep) -> impl Future<Output = bool>;
    /// Lets up to this much time pass and handles reports meanwhile.
    fn advance(&mut self, time: Duration) -> impl Future<Output = ()>;
    /// Stops the crashed process and starts another.
    fn restart(&mut self) -> impl Future<Output = ()>;
    /// Stops the process; returns violations such as leaked tasks.
    fn end(&mut self) -> impl Future<Output = Vec<String>>;
    /// Violations after a step has converged, such as orphans and unfinished work.
    fn violations_at_rest(&mut self) -> impl Future<Output = Vec<String>>;
    /// The last reports, to explain a timeout.
    fn progress(&self) -> String;
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The cluster after each step.
    pub stages: Vec<Stage>,
    /// How often each key was created and deleted.
    pub counts: BTreeMap<ResourceKey, Count>,
    /// What the layer recorded.
    pub notes: Notes,
    /// For each fault, whether it had an effect.
    pub fired: Vec<bool>,
    /// Violations that need no comparison with the reference.
    pub wrong: Vec<String>,
    /// Writes after everything had converged.
    pub late_writes: Vec<String>,
    /// How often the process was restarted.
    pub restarts: usize,
}

/// Runs a workload in a world behind this layer.
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
    running.run_steps(workload).await;
    let mut story = running.story;
    crash::end_script();
    story.wrong.extend(world.end().await);
    story.wrong.extend(panics::take().into_iter().map(|panic| format!("O10: panic: {panic}")));
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
    async fn run_steps(&mut self, workload: &Workload) {
        for (number, step) in workload.steps.iter().enumerate() {
            self.layer.step(number);
            if matches!(step, WorkloadStep::Hasty(_)) {
                self.perform_hastily(step).await;
                self.story.stages.push(Stage::new());
                continue;
            }
            if !self.perform(step).await {
                let progress = self.world.progress();
                self.story
                    .wrong
                    .push(format!("O7: step {number}, {step:?}, timed out: {progress}"));
                return;
            }
            self.story.wrong.extend(self.world.violations_at_rest().await);
            self.story.wrong.extend(self.lost_foreign_edits());
            if workload.keeps_foreign_values() {
                self.story.wrong.extend(outside::overwritten(&self.layer.notes(), self.fake));
            }
            self.story.stages.push(self.stage());
        }
        self.record_late_writes().await;
    }

    /// Begins a step and does not wait until it converges.
    async fn perform_hastily(&mut self, step: &WorkloadStep) {
        self.begin(step).await;
        tokio::select! {
            biased;
            () = self.layer.crashed() => self.restart().await,
            () = self.world.advance(HASTY_WAIT) => {}
        }
    }

    /// Begins a step, again after every crash.
    async fn begin(&mut self, step: &WorkloadStep) {
        let begun = Rc::new(RefCell::new(false));
        while !*begun.borrow() {
            tokio::select! {
                biased;
                () = self.layer.crashed() => {}
                () = self.world.begin(step) => {
                    *begun.borrow_mut() = true;
                    continue;
                }
            }
            self.restart().await;
        }
    }

    /// Begins a step, waits until it stays converged, and returns whether it did in time.
    async fn perform(&mut self, step: &WorkloadStep) -> bool {
        self.begin(step).await;
        let mut waited = Duration::ZERO;
        let mut rested = Duration::ZERO;
        let tick = Duration::from_secs(1);
        while waited < TIMEOUT {
            let reached = tokio::select! {
                biased;
                () = self.layer.crashed() => None,
                reached = async {
                    self.world.advance(tick).await;
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

    /// Restarts the process, again if it crashes while starting.
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

    /// Makes the process list everything again, and records its writes: there should be none.
    async fn record_late_writes(&mut self) {
        let before = self.layer.notes().calls.len();
        for _resync in 0..RESYNCS {
            self.fake.compact();
            self.world.advance(REST).await;
        }
        let calls = self.layer.notes().calls;
        self.story.late_writes = calls[before..].iter().map(super::journal::Call::title).collect();
    }

    /// The current cluster without the annotations of the plan's foreign edits.
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

    /// Foreign annotations that are lost although the object still exists.
    fn lost_foreign_edits(&self) -> Vec<String> {
        let foreign = self.layer.notes().foreign;
        let lost = foreign.into_iter().filter(|(key, uid)| {
            self.fake.find(key).is_some_and(|object| {
                object["metadata"]["uid"] == **uid
                    && object["metadata"]["annotations"][NOTE].is_null()
            })
        });
        lost.map(|(key, _)| format!("O1: the foreign annotation on {key} is lost")).collect()
    }
}
