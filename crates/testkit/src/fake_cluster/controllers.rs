//! The built-in controllers of a cluster, as one loop over the changes.

use trueup_model::key::{Kind, ResourceKey};

use super::state::{State, StoredChange};
use super::{collect, jobs, pods, volumes, workloads};

/// Far more changes than any test makes: reaching this means that controllers loop.
const MAX_CHANGES: usize = 1_000_000;

/// Processes changes until there are none left.
pub(super) fn run_until_idle(state: &mut State) {
    for _ in 0..MAX_CHANGES {
        let Some(change) = state.unseen.pop_front() else {
            return;
        };
        process(state, &change);
    }
    state.unseen.clear();
}

fn process(state: &mut State, change: &StoredChange) {
    collect::children(state, change);
    collect::namespace(state, change);
    let key = &change.key;
    match key.kind {
        Kind::Deployment | Kind::StatefulSet => workloads::reconcile(state, key),
        Kind::Job => jobs::reconcile(state, key),
        Kind::PersistentVolumeClaim if change.gone => volumes::release(state, &change.object),
        Kind::PersistentVolumeClaim => volumes::reconcile(state, key),
        Kind::Pod => {
            for owner in pods::workloads_of(key, &change.object) {
                match owner.kind {
                    Kind::Job => jobs::reconcile(state, &owner),
                    _ => workloads::reconcile(state, &owner),
                }
            }
            for claim in pods::claims_of(&change.object) {
                volumes::reconcile(
                    state,
                    &ResourceKey::new(Kind::PersistentVolumeClaim, &key.namespace, claim),
                );
            }
        }
        Kind::Namespace
        | Kind::ResourceQuota
        | Kind::LimitRange
        | Kind::NetworkPolicy
        | Kind::ServiceAccount
        | Kind::RoleBinding
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::CronJob
        | Kind::Service
        | Kind::PodDisruptionBudget
        | Kind::HorizontalPodAutoscaler
        | Kind::Ingress
        | Kind::HttpRoute
        | Kind::Certificate
        | Kind::ServiceMonitor
        | Kind::PersistentVolume
        | Kind::Node => {}
    }
}
