//! Which plan was in force for an object.
//!
//! Pods carry neither plan nor generation, because either would restart every pod when it changes.
//! So releases are joined by time. A pod keeps the size and the node class that it was created
//! with: of the releases that were accepted by a moment, the newest one that renders such a pod is
//! in force for it. A plan of another size holds for new pods only, and one that changes nothing
//! but the price holds at once.

use jiff::Timestamp;
use trueup_model::name::Name;
use trueup_model::release::Release;
use trueup_model::spec::Resources;
use trueup_model::transition::Size;

use super::MIB;

/// The plan of an accepted release, and the pods it renders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedPlan {
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The generation.
    pub generation: i64,
    /// The plan; none for a service without one.
    pub plan: Option<Name>,
    /// The resources of each pod.
    pub resources: Resources,
    /// The node class of its pods; none for any node.
    pub nodes: Option<Name>,
}

impl From<&Release> for AcceptedPlan {
    fn from(release: &Release) -> Self {
        Self {
            accepted_at: release.accepted_at,
            generation: release.generation,
            plan: release.spec.plan.clone(),
            resources: release.spec.resources.clone(),
            nodes: release.spec.nodes.clone(),
        }
    }
}

/// What is observed of an object and tells plans apart.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held<'a> {
    /// The size of a pod; none for a disk, which every plan may have.
    pub pod: Option<Size>,
    /// The class of its node, empty if that has none; `None` if the node is not known.
    pub class: Option<&'a str>,
}

impl Held<'_> {
    fn fits(&self, accepted: &AcceptedPlan) -> bool {
        let Resources { cpu_millis, memory_mib, gpus, ephemeral_mib: _ } = accepted.resources;
        let size = Size {
            cpu_millis: u64::from(cpu_millis),
            memory_bytes: u64::from(memory_mib).saturating_mul(MIB),
            gpus: u64::from(gpus),
            disk_bytes: 0,
        };
        let fits_node = match (self.class, &accepted.nodes) {
            (Some(class), Some(wanted)) => wanted.as_str() == class,
            (None, _) | (_, None) => true,
        };
        self.pod.is_none_or(|pod| pod == size) && fits_node
    }
}

/// The plan in force for an object at a moment.
///
/// Timestamps of Kubernetes are cut to whole seconds, so a pod may seem older than its release: if
/// no fitting release was accepted yet, the first one that will be is in force. If none ever fits,
/// because something else set the size of the pod, only time decides.
#[must_use]
pub fn plan_at<'a>(plans: &[&'a AcceptedPlan], held: &Held<'_>, at: Timestamp) -> Option<&'a Name> {
    let fitting: Vec<&AcceptedPlan> = plans.iter().copied().filter(|one| held.fits(one)).collect();
    in_force(&fitting, at).or_else(|| in_force(plans, at))?.plan.as_ref()
}

/// The newest release that was accepted by a moment, or else the first one.
fn in_force<'a>(plans: &[&'a AcceptedPlan], at: Timestamp) -> Option<&'a AcceptedPlan> {
    let order = |one: &&AcceptedPlan| (one.accepted_at, one.generation);
    let accepted = plans.iter().copied().filter(|one| one.accepted_at <= at);
    accepted.max_by_key(order).or_else(|| plans.iter().copied().min_by_key(order))
}
