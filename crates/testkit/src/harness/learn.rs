//! Learning: the workload with nothing going wrong, twice. What differs between the two is nobody's
//! fault and is left out of every comparison; the rest says where a fault can be put.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::runtime::Builder;
use trueup_model::Clock;

use super::executor_world::ExecutorWorld;
use super::layer::Layer;
use super::plan::{Fault, Plan};
use super::run::{Story, run};
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
    /// Objects and fields of theirs that two runs did not agree on.
    pub mask: BTreeSet<(String, String)>,
}

impl Reference {
    /// Two runs as one reference.
    #[must_use]
    pub fn of(workload: Workload, first: Story, second: &Story) -> Self {
        let mut mask = BTreeSet::new();
        for (one, other) in first.stages.iter().zip(&second.stages) {
            for (key, object) in one {
                let other = other.get(key).unwrap_or(&Value::Null);
                let fields = differences(object, other, String::new());
                mask.extend(fields.into_iter().map(|field| (key.clone(), field)));
            }
        }
        Self { workload, story: first, mask }
    }

    /// A stage without what is masked.
    #[must_use]
    pub fn masked(&self, stage: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        let mut stage = stage.clone();
        for (key, field) in &self.mask {
            let parent = field.rsplit_once('/').map_or("", |(parent, _)| parent);
            let name = field.rsplit('/').next().unwrap_or_default();
            let found = stage.get_mut(key).and_then(|object| object.pointer_mut(parent));
            if let Some(fields) = found.and_then(Value::as_object_mut) {
                fields.remove(name);
            }
        }
        stage
    }
}

/// The fields that two objects do not agree on, as JSON pointers.
#[must_use]
pub fn differences(one: &Value, other: &Value, at: String) -> Vec<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names
                .into_iter()
                .flat_map(|name| {
                    let below = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                    let read = |fields: &serde_json::Map<String, Value>| {
                        fields.get(name).cloned().unwrap_or(Value::Null)
                    };
                    differences(&read(one), &read(other), below)
                })
                .collect()
        }
        (one, other) if one == other => Vec::new(),
        _ => vec![at],
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
        let mut world = ExecutorWorld::new(&layer, &fake, clock).await;
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

/// Runs a plan on an executor alone.
#[must_use]
pub fn run_plan_alone(reference: &Reference, plan: &Plan) -> Story {
    run_alone(&reference.workload, &plan.faults)
}
