//! Fault plans: which faults happen when. A plan is a small file that reproduces a failure.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trueup_model::key::Kind;

/// A workload and the faults to inject into its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// The workload, by name.
    pub workload: String,
    /// The faults.
    pub faults: Vec<Fault>,
    /// A description for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Why the plan is known to fail. A plan with this that passes is reported as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When it happens.
    pub at: Trigger,
    /// What happens.
    pub then: FaultAction,
}

/// When a fault happens. Counts begin at 1 and span the whole workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// At the n-th write that is sent.
    Write(usize),
    /// At the n-th live read of one object.
    Get(usize),
    /// At the n-th list of this kind.
    List(Kind, usize),
    /// At the n-th watch event of this kind.
    Event(Kind, usize),
    /// At the n-th time that a crash point is reached.
    Point(String, usize),
}

/// Whether a fault happens before or after the call takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The call has no effect.
    Before,
    /// The call takes effect, and its response is lost.
    After,
}

/// The error of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The server is unreachable.
    Unreachable,
    /// No response.
    Unanswered,
    /// A 500.
    Server,
    /// A 409.
    Conflict,
    /// A 429 with a `Retry-After` of five seconds.
    Throttled,
    /// A 422, or a refusal by a webhook.
    Refused,
    /// A 403 from RBAC.
    Forbidden,
}

/// How a silent watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// It delivers the delayed events.
    Late,
    /// With a 410: a new list shows the result of the missed events.
    Expired,
    /// With a broken connection.
    Broken,
}

/// What happens at a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// The process crashes and restarts.
    Crash(Side),
    /// This many calls in a row fail with this error.
    Fail(Failure, usize),
    /// The call takes effect and fails with this error: its response is lost.
    Lose(Failure),
    /// The call gets no response until its deadline.
    Hang(Side),
    /// A foreign writer edits the object right before this write, or before the first later write
    /// whose object exists.
    ForeignEdit,
    /// A foreign writer deletes the object right before, chosen in the same way.
    ForeignDelete,
    /// A foreign writer removes Trueup's labels from the object right before, chosen in the same
    /// way.
    ForeignRelabel,
    /// Another field manager takes over a field of the object, right before the write or right
    /// after it, before its response is seen. Chosen in the same way.
    ForeignTakeOver(Side),
    /// The lease ends now and is renewed this many seconds later; no writes are allowed meanwhile.
    LeaseEnds(u64),
    /// The cluster is unreachable for this many seconds.
    Away(u64),
    /// The cluster is unreachable for two seconds, then reachable for two, this many times.
    Flap(u64),
    /// Every write of this kind is refused for this many seconds.
    Refuse(Kind, u64),
    /// The watch is silent for this many seconds.
    Silence(u64, Ends),
    /// All watches are silent and lists are stale for this many seconds.
    Stale(u64),
    /// The event is delivered twice.
    Twice,
    /// The event is lost, and the watch ends with a 410 this many seconds later. A real server
    /// never loses an event silently.
    Drop(u64),
}

impl FaultAction {
    /// Its name in statistics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Crash(Side::Before) => "crash before the write",
            Self::Crash(Side::After) => "crash before the response is seen",
            Self::Fail(Failure::Unreachable, _) => "error: unreachable",
            Self::Fail(Failure::Unanswered, _) => "error: unanswered",
            Self::Fail(Failure::Server, _) => "error: 500",
            Self::Fail(Failure::Conflict, _) => "error: conflict storm",
            Self::Fail(Failure::Throttled, _) => "error: throttled",
            Self::Fail(Failure::Refused, _) => "error: refused",
            Self::Fail(Failure::Forbidden, _) => "error: forbidden",
            Self::Lose(_) => "response lost",
            Self::Hang(Side::Before) => "call hangs, not carried out",
            Self::Hang(Side::After) => "call hangs, carried out",
            Self::ForeignEdit => "foreign edit before the write",
            Self::ForeignDelete => "foreign delete before the write",
            Self::ForeignRelabel => "labels removed before the write",
            Self::ForeignTakeOver(Side::Before) => "field taken over before the write",
            Self::ForeignTakeOver(Side::After) => "field taken over before the response is seen",
            Self::LeaseEnds(_) => "lease lost for a while",
            Self::Away(_) => "cluster unreachable",
            Self::Flap(_) => "cluster flaps",
            Self::Refuse(..) => "kind refused for a while",
            Self::Silence(_, Ends::Late) => "watch delayed",
            Self::Silence(_, Ends::Expired) => "events merged by a new list",
            Self::Silence(_, Ends::Broken) => "watch hangs",
            Self::Stale(_) => "stale view",
            Self::Twice => "event duplicated",
            Self::Drop(0) => "410 in the middle of a watch",
            Self::Drop(_) => "event dropped",
        }
    }
}

impl FaultPlan {
    /// A plan with one fault.
    #[must_use]
    pub fn one(workload: &str, at: Trigger, then: FaultAction, about: String) -> Self {
        Self { workload: workload.to_owned(), faults: vec![Fault { at, then }], about, known: None }
    }

    /// Adds a fault.
    #[must_use]
    pub fn and(mut self, at: Trigger, then: FaultAction) -> Self {
        self.faults.push(Fault { at, then });
        self
    }

    /// Its stable name: the workload, then trigger and action of each fault.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.workload.clone();
        for fault in &self.faults {
            name.push_str(&format!("/{}/{}", slug(&fault.at), slug(&fault.then)));
        }
        name
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a plan.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Ok(serde_saphyr::from_str(&text)?)
    }

    /// The plan as YAML.
    #[must_use]
    pub fn text(&self) -> String {
        serde_saphyr::to_string(self).expect("a plan should serialise")
    }
}

/// The debug form as part of a name: `Write(13)` becomes `write-13`.
fn slug(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}").to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_survives_a_round_trip_through_yaml() {
        let plan = FaultPlan::one(
            "web",
            Trigger::Write(3),
            FaultAction::Lose(Failure::Unanswered),
            "apply ConfigMap/web".to_owned(),
        )
        .and(Trigger::Event(Kind::Pod, 2), FaultAction::Silence(30, Ends::Expired))
        .and(Trigger::Point("report.recorded".to_owned(), 1), FaultAction::Crash(Side::After));
        let read: FaultPlan = serde_saphyr::from_str(&plan.text()).unwrap();
        assert_eq!(read, plan, "{}", plan.text());
    }

    #[test]
    fn plan_name_has_workload_triggers_and_actions() {
        let plan = FaultPlan::one(
            "web",
            Trigger::Write(3),
            FaultAction::Lose(Failure::Unanswered),
            String::new(),
        )
        .and(Trigger::Point("report.recorded".to_owned(), 1), FaultAction::Crash(Side::After));
        assert_eq!(plan.name(), "web/write-3/lose-unanswered/point-report.recorded-1/crash-after");
    }
}
