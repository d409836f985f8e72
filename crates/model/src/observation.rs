//! What reality reported about one unit: the compact evidence that a projection is computed from.

mod cause;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::{Kind, ResourceKey};

pub use cause::Cause;

/// Everything seen of one unit at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The generation of the order that was compared with reality.
    pub generation: i64,
    /// Whether reality carries all of that generation: nothing is left to write.
    pub applied: bool,
    /// Owned objects, in key order.
    pub objects: Vec<Sighting>,
    /// The workload's own account of its pods.
    pub workload: Option<WorkloadSeen>,
    /// Pods, in name order.
    pub pods: Vec<PodSeen>,
    /// Parts that the cluster cannot have now, in kind order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// When this was seen.
    pub as_of: Timestamp,
}

impl Observation {
    /// Whether two observations say the same, whenever they were made.
    ///
    /// A new resourceVersion alone says nothing: what it changed, if it matters, is in the rest.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        let same_objects = self.objects.len() == other.objects.len()
            && self.objects.iter().zip(&other.objects).all(|(a, b)| {
                (&a.key, &a.uid, a.terminating, a.bound) == (&b.key, &b.uid, b.terminating, b.bound)
            });
        same_objects
            && (self.generation, self.applied) == (other.generation, other.applied)
            && self.workload == other.workload
            && self.pods == other.pods
            && self.missing == other.missing
    }
}

/// A kind of objects that a service should have and that the cluster does not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which.
    pub kind: Kind,
    /// Why.
    pub why: Absent,
}

/// Why a cluster takes no objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// It does not know the kind.
    Unserved,
    /// It does not let us near it.
    Forbidden,
    /// The server behind the kind fails: an APIService without a service, or a broken conversion webhook.
    Unavailable,
}

impl Missing {
    /// What it means, and what an operator can do about it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let kind = self.kind;
        match (self.why, kind.comes_with()) {
            (Absent::Unserved, Some(what)) => format!(
                "the cluster does not know {kind} objects; ask the operator to install {what}"
            ),
            (Absent::Unserved, None) => {
                format!(
                    "the cluster does not know {kind} objects; ask the operator for a newer one"
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
                    "the cluster forbids {kind} objects; ask the operator to let Trueup use \
                     {plural}.{group}"
                )
            }
        }
    }
}

/// One owned object that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Where.
    pub key: ResourceKey,
    /// Which incarnation.
    pub uid: String,
    /// Its resourceVersion when it was last written by anybody.
    pub resource_version: String,
    /// Whether Kubernetes is taking it down.
    pub terminating: bool,
    /// For a claim, whether it has its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<bool>,
}

/// What a workload says of its pods, or of its runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSeen {
    /// Pods it was asked for.
    pub wanted: u32,
    /// Pods there are, of any revision: more than `updated` means that old ones still serve.
    #[serde(default)]
    pub existing: u32,
    /// Pods of the newest revision.
    pub updated: u32,
    /// Pods that pass their readiness check.
    pub ready: u32,
    /// Whether its controller has seen the newest spec: until then its counts speak of an older one.
    pub current: bool,
    /// How its runs stand, where it is a cron or a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Runs>,
    /// Why it cannot make its pods, or takes too long, when it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<PodProblem>,
}

/// How the runs of a cron or a job stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// Whether there will be more by the clock.
    pub idempotency_keys: bool,
    /// How the last one stands.
    pub last: Run,
    /// The name of the last one's Job, where a cron made it: that knows more about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// How one run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Run {
    /// There was none yet, or it is held back.
    Waiting,
    /// It is under way.
    Active,
    /// It ended well.
    Succeeded,
    /// It ended otherwise, for good.
    Failed {
        /// What Kubernetes says about it.
        why: String,
    },
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSeen {
    /// Its name.
    pub name: String,
    /// Which incarnation.
    pub uid: String,
    /// Whether it passes its readiness check.
    pub ready: bool,
    /// How its program ended, if it did and will not be started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Why it does not run, when it says so.
    pub problem: Option<PodProblem>,
    /// Whether its node is a simulated one: nothing really runs there.
    pub simulated: bool,
}

/// How a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its program did what it had to do.
    Well,
    /// Its program failed, or it was taken off its node.
    Badly,
}

/// A cause outside of Trueup that keeps pods from running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodProblem {
    /// Which.
    pub cause: Cause,
    /// What Kubernetes says about it.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Observation {
        Observation {
            generation: 1,
            applied: true,
            objects: vec![Sighting {
                key: ResourceKey::new(Kind::Service, "shop", "web"),
                uid: "1".to_owned(),
                resource_version: "7".to_owned(),
                terminating: false,
                bound: None,
            }],
            workload: None,
            pods: Vec::new(),
            missing: Vec::new(),
            as_of: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_new_version_or_time_alone_is_no_news() {
        let mut later = seen();
        later.objects[0].resource_version = "8".to_owned();
        later.as_of = Timestamp::from_second(60).unwrap();
        assert!(later.same_as(&seen()));
    }

    #[test]
    fn anything_that_matters_is_news() {
        let twists: [fn(&mut Observation); 7] = [
            |o| o.generation = 2,
            |o| o.applied = false,
            |o| o.objects[0].uid = "2".to_owned(),
            |o| o.objects[0].terminating = true,
            |o| o.objects[0].bound = Some(true),
            |o| o.objects.clear(),
            |o| o.missing.push(Missing { kind: Kind::HttpRoute, why: Absent::Unserved }),
        ];
        for (number, twist) in twists.into_iter().enumerate() {
            let mut other = seen();
            twist(&mut other);
            assert!(!other.same_as(&seen()), "twist {number}");
        }
    }

    #[test]
    fn evidence_stored_before_a_field_was_known_still_reads() {
        let old = r#"{"wanted": 2, "updated": 2, "ready": 2, "current": true}"#;
        let seen: WorkloadSeen = serde_json::from_str(old).unwrap();
        assert_eq!(seen.existing, 0);
    }
}
