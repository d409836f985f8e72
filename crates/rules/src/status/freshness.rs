//! Which watches a status leans on. Freshness belongs to the watch of a kind: pods that nobody hears
//! of are not made fresh by anything else that is.

use trueup_model::key::Kind;
use trueup_model::spec::{Spec, Workload};

/// The kinds that say how well a service does.
#[must_use]
pub fn evidence(spec: &Spec) -> Vec<Kind> {
    let workload = match spec.workload {
        Workload::Deployment => Kind::Deployment,
        Workload::StatefulSet => Kind::StatefulSet,
        Workload::CronJob => Kind::CronJob,
        Workload::Job => Kind::Job,
    };
    let disk = spec.volume.as_ref().map(|_| Kind::PersistentVolumeClaim);
    [workload, Kind::Pod].into_iter().chain(disk).collect()
}

/// The kinds that say whether reality carries a service's promise whole. Secrets are read and never
/// watched, so there is no watch of them to be silent.
#[must_use]
pub fn objects(spec: &Spec) -> Vec<Kind> {
    let mut kinds = evidence(spec);
    kinds.push(Kind::ConfigMap);
    if !spec.ports.is_empty() {
        kinds.push(Kind::Service);
    }
    kinds
}

/// The kinds that a project is made of.
pub const PROJECT: [Kind; 5] = [
    Kind::Namespace,
    Kind::ResourceQuota,
    Kind::LimitRange,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
];
