//! Runs a workload twice without faults. The runs must agree; their calls show where faults can be
//! injected.

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

/// A run of a workload without faults.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The workload.
    pub workload: Workload,
    /// The result of the run.
    pub story: Story,
    /// The differences between two runs.
    pub unstable: Vec<String>,
}

impl Reference {
    /// Compares two runs and keeps the first.
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

/// Runs a workload with these faults in an [`ExecutorWorld`], in virtual time.
///
/// # Panics
/// The runtime cannot be built.
#[must_use]
pub fn run_alone(workload: &Workload, faults: &[Fault]) -> Story {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime should be built");
    runtime.block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let fake = FakeCluster::new();
        let layer = Layer::new(&fake, Arc::clone(&clock), faults);
        let mut world = ExecutorWorld::new(&layer, &fake, clock, workload).await;
        run(workload, &layer, &fake, &mut world).await
    })
}

/// The reference run of a workload in an [`ExecutorWorld`].
#[must_use]
pub fn learn_alone(workload: Workload) -> Reference {
    let first = run_alone(&workload, &[]);
    let second = run_alone(&workload, &[]);
    Reference::of(workload, first, &second)
}

/// The stage with a project and no service, and the stage of an unused cluster.
///
/// # Panics
/// A project without services does not converge.
#[must_use]
pub fn learn_bare() -> (Stage, Stage) {
    let mut story = run_alone(&Workload::bare(), &[]);
    assert!(story.wrong.is_empty(), "{:#?}", story.wrong);
    let project = story.stages.pop().expect("a project without services should converge");
    (project, FakeCluster::new().snapshot())
}

/// Runs a plan in an [`ExecutorWorld`].
#[must_use]
pub fn run_plan_alone(reference: &Reference, plan: &FaultPlan) -> Story {
    run_alone(&reference.workload, &plan.faults)
}
