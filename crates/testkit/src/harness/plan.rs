//! Plans: what goes wrong, and when. A plan is a small file that shows the same failure each time.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use trueup_model::key::Kind;

/// One run of a workload with something going wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// The workload, by name.
    pub workload: String,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What it is about, for a reader.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Why it is known to fail today. A plan that has this and does not fail, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// When.
    pub at: Trigger,
    /// What.
    pub then: FaultAction,
}

/// When a fault happens. Counts begin at 1 and run through the whole workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// At the n-th write that is sent.
    Write(usize),
    /// At the n-th fresh read of one object.
    Get(usize),
    /// At the n-th list of this kind.
    List(Kind, usize),
    /// At the n-th event that a watch of this kind hears.
    Event(Kind, usize),
    /// At the n-th time that a crash point is reached.
    Point(String, usize),
}

/// On which side of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Nothing is done.
    Before,
    /// It is done, and nobody hears of it.
    After,
}

/// How a call is answered that was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nobody is there.
    Unreachable,
    /// No answer.
    Unanswered,
    /// A 500.
    Server,
    /// A 409.
    Conflict,
    /// A 429 that asks for five seconds.
    Throttled,
    /// A 422, or a webhook that says no.
    Refused,
    /// A 403 for lack of rights.
    Forbidden,
}

/// How a watch that says nothing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// It says everything that it held back.
    Late,
    /// With a 410: what was held back is seen merged, in a new list.
    Expired,
    /// With a broken connection.
    Broken,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// The process ends there and starts again.
    Crash(Side),
    /// The call and those right after it, so many in all, are answered like this.
    Fail(Failure, usize),
    /// The call is carried out and answered like this.
    Lose(Failure),
    /// No answer comes until the deadline of the call.
    Hang(Side),
    /// Somebody else changes the object right before: at this write, or at the first later one whose object
    /// stands there.
    ForeignEdit,
    /// Somebody else deletes the object right before, found in the same way.
    ForeignDelete,
    /// The lease ends at this moment and is renewed so many seconds later: meanwhile nothing may be written.
    LeaseEnds(u64),
    /// The cluster is away for so many seconds.
    Away(u64),
    /// The cluster comes and goes every two seconds, so many times.
    Flap(u64),
    /// Every write of this kind is refused for so many seconds.
    Refuse(Kind, u64),
    /// Watches of this kind say nothing for so many seconds.
    Silence(u64, Ends),
    /// All watches stand still, and lists show what was there before, for so many seconds.
    Stale(u64),
    /// The event is heard twice.
    Twice,
    /// The event is never heard; the watch ends with a 410 so many seconds later, before a server would
    /// end it in good order. No server loses an event and says nothing.
    Drop(u64),
}

impl FaultAction {
    /// What it is called where faults are counted.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Crash(Side::Before) => "crash before the write",
            Self::Crash(Side::After) => "crash before the answer is seen",
            Self::Fail(Failure::Unreachable, _) => "error: unreachable",
            Self::Fail(Failure::Unanswered, _) => "error: unanswered",
            Self::Fail(Failure::Server, _) => "error: 500",
            Self::Fail(Failure::Conflict, _) => "error: conflict storm",
            Self::Fail(Failure::Throttled, _) => "error: throttled",
            Self::Fail(Failure::Refused, _) => "error: refused",
            Self::Fail(Failure::Forbidden, _) => "error: forbidden",
            Self::Lose(_) => "answer lost",
            Self::Hang(Side::Before) => "call hangs, not carried out",
            Self::Hang(Side::After) => "call hangs, carried out",
            Self::ForeignEdit => "foreign edit before the write",
            Self::ForeignDelete => "foreign delete before the write",
            Self::LeaseEnds(_) => "lease over for a while",
            Self::Away(_) => "cluster away",
            Self::Flap(_) => "cluster flaps",
            Self::Refuse(..) => "kind refused for a while",
            Self::Silence(_, Ends::Late) => "watch late",
            Self::Silence(_, Ends::Expired) => "events merged by a new list",
            Self::Silence(_, Ends::Broken) => "watch hangs",
            Self::Stale(_) => "stale view",
            Self::Twice => "event twice",
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

    /// The same plan with one more fault.
    #[must_use]
    pub fn and(mut self, at: Trigger, then: FaultAction) -> Self {
        self.faults.push(Fault { at, then });
        self
    }

    /// Its name, the same in every run: the workload, then when and what for each fault.
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
    /// The file is not there, or is not a plan.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Ok(serde_saphyr::from_str(&text)?)
    }

    /// The file of this plan.
    #[must_use]
    pub fn text(&self) -> String {
        serde_saphyr::to_string(self).expect("a plan should become text")
    }
}

/// The debug form as a word of a name: `Write(13)` is `write-13`.
fn slug(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}").to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_back_from_its_file() {
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
