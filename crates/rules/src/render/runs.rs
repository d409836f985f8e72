//! Workloads that end: the CronJob, which runs on a schedule, and the Job, which runs once.
//!
//! The pod template of a Job is immutable, so another run is another Job. Its name contains a
//! digest of the declared spec: the same spec never runs twice, and neither a pause, nor a variable
//! that is set outside of the manifest, nor a new version of Trueup restarts a finished run.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::json;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, ServiceBody};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;

use super::{Rendered, child_metadata, digest, finish, stated, workload};
use crate::render::names;
use crate::render::proof::ProofKey;

/// How many finished runs are kept, per result.
const HISTORY: i32 = 1;

/// How late a run may start before it counts as missed. Without a limit, Kubernetes stops
/// scheduling after too many missed runs.
const MAY_START_LATE_S: i64 = 300;

/// Length of the digest in a Job's name: enough to avoid collisions within a service.
const DIGEST: usize = 10;

pub(super) fn cron(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Rendered {
    let key = ResourceKey::new(Kind::CronJob, &order.namespace, &body.object_name);
    let cron = CronJob {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: CronJobSpec {
            schedule: body.spec.schedule.clone().unwrap_or_default(),
            time_zone: Some("Etc/UTC".to_owned()),
            concurrency_policy: Some("Forbid".to_owned()),
            starting_deadline_seconds: Some(MAY_START_LATE_S),
            successful_jobs_history_limit: Some(HISTORY),
            failed_jobs_history_limit: Some(HISTORY),
            suspend: Some(is_suspended(order)),
            job_template: JobTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(workload::pod_labels(body)),
                    ..ObjectMeta::default()
                }),
                spec: Some(run(body)),
            },
        },
        ..CronJob::default()
    };
    finish(key, &cron)
}

pub(super) fn job(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Rendered {
    let key = ResourceKey::new(Kind::Job, &order.namespace, &job_name(order, body));
    let job = Job {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: Some(JobSpec { suspend: Some(is_suspended(order)), ..run(body) }),
        ..Job::default()
    };
    finish(key, &job)
}

/// The name of the Job for the declared spec.
///
/// Variables of the project or the service are not part of it, like secrets: one command changes
/// them for many services, and must not run a finished job again. The next run reads them.
///
/// Earlier versions of Trueup did count them. A Job that is recorded under such a name keeps it.
pub(super) fn job_name(order: &Order, body: &ServiceBody) -> String {
    let name = |variables: &BTreeMap<String, String>| {
        names::job(&body.object_name, &run_digest(&body.spec, variables)[..DIGEST])
    };
    let is_recorded = |name: &str| {
        order.recorded.contains_key(&ResourceKey::new(Kind::Job, &order.namespace, name))
    };
    let (declared, former) = (name(&body.declared_variables), name(&body.spec.variables));
    if is_recorded(&former) && !is_recorded(&declared) { former } else { declared }
}

/// A digest of what a run does, with these variables. Replicas, schedule, nodes and the name of
/// the plan are not part of it.
fn run_digest(spec: &Spec, variables: &BTreeMap<String, String>) -> String {
    let mut content = serde_json::to_value(spec).expect("a spec should serialize");
    if let Some(content) = content.as_object_mut() {
        content.insert("variables".to_owned(), json!(variables));
        for name in ["replicas", "schedule", "plan", "nodes"] {
            content.remove(name);
        }
    }
    digest(&content)
}

fn is_suspended(order: &Order) -> bool {
    match order.desired {
        DesiredState::Active => false,
        DesiredState::Paused | DesiredState::Deleted => true,
    }
}

fn run(body: &ServiceBody) -> JobSpec {
    JobSpec {
        backoff_limit: Some(i32::try_from(body.spec.retries).unwrap_or(i32::MAX)),
        active_deadline_seconds: body.spec.time_limit_s.map(i64::from),
        template: pod(body),
        ..stated::run()
    }
}

/// The pod of a run: never restarted, and with its claim as a volume.
///
/// Variables are read when a run starts, so it has no config digest.
fn pod(body: &ServiceBody) -> PodTemplateSpec {
    let pod = workload::pod_with(body, workload::restart(body));
    let mut spec = pod.spec.unwrap_or_default();
    let scratch = spec.volumes.take().unwrap_or_default();
    let volumes: Vec<Volume> = body.spec.volume.iter().map(|_| disk(body)).chain(scratch).collect();
    PodTemplateSpec {
        spec: Some(PodSpec {
            restart_policy: Some("Never".to_owned()),
            volumes: (!volumes.is_empty()).then_some(volumes),
            ..spec
        }),
        ..pod
    }
}

fn disk(body: &ServiceBody) -> Volume {
    Volume {
        name: names::VOLUME.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: names::claim(&body.object_name, 0),
            ..PersistentVolumeClaimVolumeSource::default()
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of a base spec with this change.
    fn digest_with(change: &serde_json::Value) -> String {
        let spec = spec(change);
        run_digest(&spec, &spec.variables)
    }

    fn spec(change: &serde_json::Value) -> Spec {
        let mut spec = json!({
            "workload": "job", "image": "train:1", "replicas": 1,
            "resources": {"cpu_millis": 100, "memory_mib": 64},
        });
        for (name, value) in change.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        serde_json::from_value(spec).expect("a spec")
    }

    #[test]
    fn a_run_is_identified_by_what_it_does() {
        let base = digest_with(&json!({}));
        for same in [
            json!({"plan": "large", "nodes": "fast"}),
            json!({"replicas": 2}),
            json!({"variables": {}}),
        ] {
            assert_eq!(digest_with(&same), base, "{same}");
        }
        for other in [
            json!({"image": "train:2"}),
            json!({"args": ["--epochs=2"]}),
            json!({"restart": 1}),
            json!({"variables": {"SEED": "1"}}),
            json!({"resources": {"cpu_millis": 100, "memory_mib": 64, "gpus": 1}}),
        ] {
            assert_ne!(digest_with(&other), base, "{other}");
        }
    }

    /// A finished run would start again if a new version of Trueup gave it another name.
    #[test]
    fn the_name_of_a_run_never_changes() {
        assert_eq!(digest_with(&json!({}))[..DIGEST], *"d3a72e37dc");
    }
}
