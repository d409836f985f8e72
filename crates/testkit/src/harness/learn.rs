//! Learning: the workload with nothing going wrong, twice. The two must agree; what they did says where a
//! fault can be put.

use std::sync::Arc;

use tokio::runtime::Builder;
use trueup_model::Clock;

use super::executor_world::ExecutorWorld;
use super::layer::Layer;
use super::plan::{Fault, FaultPlan};
use super::run::{Story, run};
use super::stage::{Stage, compare, without_identity};
use super::workload::Workload;
use crate::fake_cluster::FakeCluster;
use crate::virtual_clock::VirtualClock;

/// What a workload does when nothing goes wrong.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The workload.
    pub workload: Workload,
    /// What came of it.
    pub story: Story,
    /// What two runs did not agree on.
    pub unstable: Vec<String>,
}

impl Reference {
    /// Two runs as one reference.
    #[must_use]
    pub fn of(workload: Workload, first: Story, second: &Story) -> Self {
        let stages = first.stages.iter().zip(&second.stages);
        let unstable = stages.flat_map(|(one, other)| {
            let normal = |stage: &Stage| match workload.has_neighbours() {
                true => without_identity(stage),
                false => stage.clone(),
            };
            compare(&normal(one), &normal(other))
        });
        let unstable = unstable.collect();
        Self { workload, story: first, unstable }
    }
}

/// Runs a workload on an executor alone, in virtual time, with these faults.
///
/// # Panics
/// The runtime cannot be made.
#[must_use]
pub fn run_alone(workload: &Workload, faults: &[Fault]) -> Story {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime should be made");
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let fake = FakeCluster::new();
        let layer = Layer::new(&fake, Arc::clone(&clock), faults);
        let mut world = ExecutorWorld::new(&layer, &fake, clock, workload.controllers).await;
        run(workload, &layer, &fake, &mut world).await
    })
}

/// Learns what a workload does on an executor alone.
#[must_use]
pub fn learn_alone(workload: Workload) -> Reference {
    let first = run_alone(&workload, &[]);
    let second = run_alone(&workload, &[]);
    Reference::of(workload, first, &second)
}

/// The stage with a project and no service, and that of a cluster which nobody has used.
///
/// # Panics
/// A project alone does not come to rest.
#[must_use]
pub fn learn_bare() -> (Stage, Stage) {
    let mut story = run_alone(&Workload::bare(), &[]);
    assert!(story.wrong.is_empty(), "{:#?}", story.wrong);
    let project = story.stages.pop().expect("a project alone should come to rest");
    (project, FakeCluster::new().snapshot())
}

/// Runs a plan on an executor alone.
#[must_use]
pub fn run_plan_alone(reference: &Reference, plan: &FaultPlan) -> Story {
    run_alone(&reference.workload, &plan.faults)
}
