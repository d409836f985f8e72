//! What a person may wait for, and whether it is true of a service.
//!
//! A condition is judged on a service that was just read, and for its current generation: yesterday's
//! health says nothing about the change that was made a second ago.

use std::fmt;
use std::str::FromStr;

use trueup_api::service::Service;

const PHASES: [&str; 9] = [
    "accepted",
    "creating",
    "running",
    "updating",
    "completed",
    "paused",
    "deleting",
    "blocked",
    "deleted",
];

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Until {
    /// The current generation runs, and every pod that was promised is ready; or its one run ended
    /// well.
    Healthy,
    /// Nothing is left to do for the current generation.
    Settled,
    /// It is verified to be gone.
    Deleted,
    /// It is in this phase.
    Phase(String),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "healthy" => Ok(Self::Healthy),
            "settled" => Ok(Self::Settled),
            "deleted" => Ok(Self::Deleted),
            phase if PHASES.contains(&phase) => Ok(Self::Phase(phase.to_owned())),
            _ => Err(format!("write healthy, settled or a phase: {}", PHASES.join(", "))),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Settled => "settled",
            Self::Deleted => "deleted",
            Self::Phase(phase) => phase,
        })
    }
}

/// How a condition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// It is true.
    True,
    /// Not yet.
    NotYet,
    /// It will not become true, for this reason.
    Never(String),
}

impl Until {
    /// How the condition stands for this service.
    pub(crate) fn judge(&self, service: &Service) -> WaitResult {
        if self.holds(service) {
            return WaitResult::True;
        }
        let ends_otherwise = service.desired == "deleted"
            && match self {
                Self::Healthy => true,
                Self::Settled | Self::Deleted => false,
                Self::Phase(phase) => !matches!(phase.as_str(), "deleting" | "deleted" | "blocked"),
            };
        if ends_otherwise {
            return WaitResult::Never(format!(
                "{}/{} is to be deleted and will not become {self}",
                service.project, service.name
            ));
        }
        let failed = service.status.applied_generation == Some(service.generation)
            && (service.status.phase.as_str(), service.status.health.as_str())
                == ("completed", "error");
        if failed && *self == Self::Healthy {
            let why = service.status.conditions.first().map(|condition| condition.message.as_str());
            return WaitResult::Never(format!(
                "the run of {}/{} failed: {}",
                service.project,
                service.name,
                why.unwrap_or("no detail given")
            ));
        }
        WaitResult::NotYet
    }

    fn holds(&self, service: &Service) -> bool {
        let status = &service.status;
        let current = status.applied_generation == Some(service.generation);
        let gone = service.desired == "deleted" && status.phase == "deleted";
        match self {
            Self::Healthy => {
                current
                    && matches!(status.phase.as_str(), "running" | "completed")
                    && status.health == "healthy"
            }
            Self::Settled => service.reconciliation == "settled" && (current || gone),
            Self::Deleted => gone,
            Self::Phase(phase) => match phase.as_str() {
                "running" | "completed" | "paused" => current && status.phase == *phase,
                _ => status.phase == *phase,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn service(phase: &str, health: &str, applied: Option<i64>) -> Service {
        let desired = if phase.starts_with("delet") { "deleted" } else { "active" };
        serde_json::from_value(json!({
            "id": "svc_1", "name": "web", "project": "shop", "template": "web@1",
            "parameters": { "replicas": 2 }, "desired": desired, "generation": 3,
            "accepted_at": "2026-01-01T00:00:00Z", "created_at": "2026-01-01T00:00:00Z",
            "replicas": 2, "cluster": "local", "namespace": "shop-1",
            "object_name": "web-1", "reconciliation": "pending", "watch": "/w",
            "replicas": 2, "created_at": "2026-01-01T00:00:00Z",
            "status": {
                "phase": phase, "since": "2026-01-01T00:00:10Z", "health": health,
                "applied_generation": applied, "conditions": [], "simulated": false,
            },
        }))
        .unwrap()
    }

    #[test]
    fn conditions_are_about_the_current_generation() {
        let until = |text: &str| text.parse::<Until>().unwrap();
        for (condition, phase, health, applied, expected) in [
            ("healthy", "running", "healthy", Some(3), true),
            ("healthy", "running", "healthy", Some(2), false),
            ("healthy", "running", "healthy", None, false),
            ("healthy", "running", "degraded", Some(3), false),
            ("healthy", "updating", "healthy", Some(3), false),
            ("healthy", "running", "unknown", Some(3), false),
            ("running", "running", "degraded", Some(3), true),
            ("running", "running", "degraded", Some(2), false),
            ("creating", "creating", "progressing", None, true),
            ("healthy", "completed", "healthy", Some(3), true),
            ("healthy", "completed", "error", Some(3), false),
            ("completed", "completed", "error", Some(3), true),
            ("completed", "completed", "healthy", Some(2), false),
            ("blocked", "blocked", "unknown", None, true),
            ("deleted", "deleted", "unknown", Some(2), true),
            ("deleted", "deleting", "unknown", Some(2), false),
        ] {
            let holds =
                until(condition).judge(&service(phase, health, applied)) == WaitResult::True;
            assert_eq!(holds, expected, "{condition} {phase} {health} {applied:?}");
        }
    }

    #[test]
    fn settled_needs_the_word_and_the_generation() {
        let mut one = service("running", "healthy", Some(3));
        assert_eq!(Until::Settled.judge(&one), WaitResult::NotYet);
        one.reconciliation = "settled".to_owned();
        assert_eq!(Until::Settled.judge(&one), WaitResult::True);
        one.generation = 4;
        assert_eq!(Until::Settled.judge(&one), WaitResult::NotYet);
        let mut gone = service("deleted", "unknown", Some(2));
        gone.reconciliation = "settled".to_owned();
        assert_eq!(Until::Settled.judge(&gone), WaitResult::True);
    }

    #[test]
    fn what_is_being_deleted_will_not_be_healthy() {
        let one = service("deleting", "unknown", Some(2));
        assert!(matches!(Until::Healthy.judge(&one), WaitResult::Never(_)));
        assert_eq!(Until::Deleted.judge(&one), WaitResult::NotYet);
        let active = service("running", "healthy", Some(3));
        assert_eq!(Until::Deleted.judge(&active), WaitResult::NotYet);
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        assert!("green".parse::<Until>().unwrap_err().contains("running"));
        assert_eq!("deleted".parse(), Ok(Until::Deleted));
        assert_eq!("running".parse(), Ok(Until::Phase("running".to_owned())));
    }
}
