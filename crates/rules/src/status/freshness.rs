//! Which watches a status depends on. Freshness is per kind: events of one watch say nothing about
//! the others.

use trueup_model::key::Kind;
use trueup_model::spec::{Spec, Workload};

/// The kinds that a service's health depends on.
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

/// The kinds that show whether a release is fully applied. Secrets are not watched.
#[must_use]
pub fn objects(spec: &Spec) -> Vec<Kind> {
    let mut kinds = evidence(spec);
    kinds.push(Kind::ConfigMap);
    if !spec.ports.is_empty() {
        kinds.push(Kind::Service);
    }
    kinds
}

/// The kinds of a project's objects.
pub const PROJECT: [Kind; 5] = [
    Kind::Namespace,
    Kind::ResourceQuota,
    Kind::LimitRange,
    Kind::NetworkPolicy,
    Kind::ServiceAccount,
];
