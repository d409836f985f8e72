//! The observed state of one unit: the compact evidence that a status is projected from.

mod cause;
mod route;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::drift::Divergence;
use crate::key::{Kind, ResourceKey};

pub use cause::Cause;
pub use route::{Admission, CertificateSeen, ReportedProblem, RouteSeen};

/// The observed state of one unit at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The generation of the order that was compared with the cluster.
    pub generation: i64,
    /// Whether the cluster has all of that generation: nothing is left to write.
    pub applied: bool,
    /// Owned objects, in key order.
    pub objects: Vec<Sighting>,
    /// The status of the workload.
    pub workload: Option<WorkloadSeen>,
    /// Pods, in name order.
    pub pods: Vec<PodSeen>,
    /// Optional kinds that the cluster does not accept now, in kind order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Differences that stand: to be reverted, proposed, ignored or in conflict. In field order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divergences: Vec<Divergence>,
    /// When this was observed.
    pub as_of: Timestamp,
}

impl Observation {
    /// Whether two observations are equal apart from their time.
    ///
    /// A new resourceVersion alone is no difference: a relevant change shows in another field.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        let same_objects = self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(|(a, b)| a.same_as(b));
        same_objects
            && (self.generation, self.applied) == (other.generation, other.applied)
            && self.workload == other.workload
            && self.pods == other.pods
            && self.missing == other.missing
            && self.divergences == other.divergences
    }
}

/// A kind that a service needs objects of and that the cluster does not accept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The kind.
    pub kind: Kind,
    /// Why.
    pub why: Absent,
}

/// Why a cluster accepts no objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Absent {
    /// The cluster does not serve the kind.
    Unserved,
    /// The cluster denies access to the kind.
    Forbidden,
    /// The server behind the kind fails: an APIService without a backend, or a broken conversion
    /// webhook.
    Unavailable,
}

impl Missing {
    /// What is missing, and what an operator can do about it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let kind = self.kind;
        match (self.why, kind.comes_with()) {
            (Absent::Unserved, Some(what)) => format!(
                "the cluster does not serve {kind} objects; ask the operator to install {what}"
            ),
            (Absent::Unserved, None) => {
                format!(
                    "the cluster does not serve {kind} objects; ask the operator for an upgrade"
                )
            }
            (Absent::Unavailable, _) => {
                let (plural, group) = (kind.plural(), kind.group());
                format!(
                    "the cluster fails to serve {kind} objects; ask the operator to repair or remove \
                     the APIService or conversion webhook behind {plural}.{group}"
                )
            }
            (Absent::Forbidden, _) => {
                let (plural, group) = (kind.plural(), kind.group());
                format!(
                    "the cluster denies access to {kind} objects; ask the operator to grant Trueup \
                     access to {plural}.{group}"
                )
            }
        }
    }
}

/// One owned object, as observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Its key.
    pub key: ResourceKey,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    /// For a claim, whether it is bound to a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<bool>,
    /// For an Ingress or HTTPRoute, what its controller reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteSeen>,
    /// For a Certificate, what cert-manager reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateSeen>,
}

impl Sighting {
    /// Whether two sightings are equal apart from the resourceVersion.
    fn same_as(&self, other: &Self) -> bool {
        (&self.key, &self.uid, self.terminating, self.bound)
            == (&other.key, &other.uid, other.terminating, other.bound)
            && (&self.route, &self.certificate) == (&other.route, &other.certificate)
    }
}

/// The status of a workload: its pods or its runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSeen {
    /// Desired pods.
    pub wanted: u32,
    /// Existing pods of any revision: more than `updated` means that old ones still serve.
    #[serde(default)]
    pub existing: u32,
    /// Pods of the newest revision.
    pub updated: u32,
    /// Ready pods.
    pub ready: u32,
    /// Whether its controller has observed the newest spec; if not, the counts are of an older one.
    pub current: bool,
    /// The state of its runs, for a cron or a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Runs>,
    /// Why it cannot create its pods or makes no progress, if it reports that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<PodProblem>,
}

/// The state of the runs of a cron or a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// Whether more runs follow on a schedule.
    pub repeats: bool,
    /// The state of the last run.
    pub last: Run,
    /// The name of the last run's Job, if a cron created it; the Job has more detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The state of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Run {
    /// There was none yet, or it is suspended.
    Waiting,
    /// It is running.
    Active,
    /// It succeeded.
    Succeeded,
    /// It failed and is not retried.
    Failed {
        /// The message from Kubernetes.
        why: String,
    },
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is ready.
    pub ready: bool,
    /// How it ended, if it did and will not be restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why it does not run, if known.
    pub problem: Option<PodProblem>,
    /// Whether its node is simulated: no process runs there.
    pub simulated: bool,
}

/// How a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Ended {
    /// Its program exited with success.
    Well,
    /// Its program failed, or the pod was evicted.
    Badly,
}

/// A cause outside Trueup that keeps pods from running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodProblem {
    /// The cause.
    pub cause: Cause,
    /// The message from Kubernetes.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed() -> Observation {
        Observation {
            generation: 1,
            applied: true,
            objects: vec![Sighting {
                key: ResourceKey::new(Kind::Service, "shop", "web"),
                uid: "1".to_owned(),
                resource_version: "7".to_owned(),
                terminating: false,
                bound: None,
                route: None,
                certificate: None,
            }],
            workload: None,
            pods: Vec::new(),
            missing: Vec::new(),
            divergences: Vec::new(),
            as_of: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn new_resource_version_or_time_alone_is_no_difference() {
        let mut later = observed();
        later.objects[0].resource_version = "8".to_owned();
        later.as_of = Timestamp::from_second(60).unwrap();
        assert!(later.same_as(&observed()));
    }

    #[test]
    fn every_relevant_field_is_a_difference() {
        let twists: [fn(&mut Observation); 9] = [
            |o| o.generation = 2,
            |o| o.applied = false,
            |o| o.objects[0].uid = "2".to_owned(),
            |o| o.objects[0].terminating = true,
            |o| o.objects[0].bound = Some(true),
            |o| {
                let (host, admission) = ("www.example.org".to_owned(), Admission::Pending);
                o.objects[0].route = Some(RouteSeen { host, admission });
            },
            |o| {
                let (issuer, not_after) = ("ca".to_owned(), Some(Timestamp::UNIX_EPOCH));
                o.objects[0].certificate =
                    Some(CertificateSeen { ready: true, issuer, not_after, problem: None });
            },
            |o| o.objects.clear(),
            |o| o.missing.push(Missing { kind: Kind::HttpRoute, why: Absent::Unserved }),
        ];
        for (number, twist) in twists.into_iter().enumerate() {
            let mut other = observed();
            twist(&mut other);
            assert!(!other.same_as(&observed()), "twist {number}");
        }
    }

    #[test]
    fn evidence_stored_without_a_newer_field_still_parses() {
        let old = r#"{"wanted": 2, "updated": 2, "ready": 2, "current": true}"#;
        let seen: WorkloadSeen = serde_json::from_str(old).unwrap();
        assert_eq!(seen.existing, 0);
    }
}
