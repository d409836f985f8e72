//! The conditions of `--until`, and their evaluation.
//!
//! A condition is evaluated on a service that was just read and for its current generation: the
//! health of an earlier generation says nothing about the latest change.

use std::fmt;
use std::str::FromStr;

use strum::VariantNames;
use trueup_api::service::Service;
use trueup_model::observation::Cause;
use trueup_model::service::DesiredState;
use trueup_model::status::{Health, Phase, Reconciliation};

use crate::output::hours::next;

/// A condition to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Until {
    /// The current generation runs with every pod ready, or its single run succeeded.
    Healthy,
    /// The current generation is settled.
    Settled,
    /// The service is verified absent.
    Deleted,
    /// The service is in this phase.
    Phase(Phase),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "healthy" => Ok(Self::Healthy),
            "settled" => Ok(Self::Settled),
            "deleted" => Ok(Self::Deleted),
            other => other.parse().map(Self::Phase).map_err(|_| {
                format!("expected healthy, settled or a phase: {}", Phase::VARIANTS.join(", "))
            }),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Settled => "settled",
            Self::Deleted => "deleted",
            Self::Phase(phase) => phase.into_str(),
        })
    }
}

/// The result of evaluating a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// The condition holds.
    True,
    /// It does not hold yet.
    NotYet,
    /// It can no longer hold.
    Never {
        /// Why not.
        why: String,
        /// What to do instead.
        hint: String,
    },
    /// It does not hold, for a reason that does not end without a change: this one.
    Stuck(String),
}

impl Until {
    /// Evaluates the condition for this service.
    pub(crate) fn evaluate(&self, service: &Service) -> WaitResult {
        if self.holds(service) {
            return WaitResult::True;
        }
        let name = format!("{}/{}", service.project, service.name);
        let ends_otherwise = service.desired == DesiredState::Deleted
            && match self {
                Self::Healthy => true,
                Self::Settled | Self::Deleted => false,
                Self::Phase(phase) => {
                    !matches!(phase, Phase::Deleting | Phase::Deleted | Phase::Blocked)
                }
            };
        if ends_otherwise {
            let why = format!("{name} is being deleted and will not become {self}");
            let hint = "wait with `--until deleted`, then apply it again".to_owned();
            return WaitResult::Never { why, hint };
        }
        if service.desired == DesiredState::Paused && *self == Self::Healthy {
            let hours = service.schedule.as_ref().filter(|schedule| schedule.off).and_then(next);
            let why = match hours {
                Some(next) => format!("{name} is paused by its active hours: it {next}"),
                None => format!("{name} is paused: it has no pods that could be healthy"),
            };
            let hint = format!("start them with `trueup resume {name}`");
            return WaitResult::Never { why, hint };
        }
        let failed = service.status.applied_generation == Some(service.generation)
            && (service.status.phase, service.status.health) == (Phase::Completed, Health::Error);
        if failed && *self == Self::Healthy {
            let why = service.status.conditions.first().map(|condition| condition.message.as_str());
            let why = format!("the run of {name} failed: {}", why.unwrap_or("no detail given"));
            let hint = format!("`trueup logs {name}` shows what it printed");
            return WaitResult::Never { why, hint };
        }
        let is_current = service.status.applied_generation == Some(service.generation);
        let lasting = service.status.conditions.iter().find(|one| one.cause.is_some_and(lasts));
        match lasting {
            Some(condition) if is_current && *self == Self::Healthy => {
                WaitResult::Stuck(format!("{name}: {}", condition.message))
            }
            Some(_) | None => WaitResult::NotYet,
        }
    }

    fn holds(&self, service: &Service) -> bool {
        let status = &service.status;
        let current = status.applied_generation == Some(service.generation);
        let gone = service.desired == DesiredState::Deleted && status.phase == Phase::Deleted;
        match self {
            Self::Healthy => {
                current
                    && matches!(status.phase, Phase::Running | Phase::Completed)
                    && status.health == Health::Healthy
            }
            Self::Settled => service.reconciliation == Reconciliation::Settled && (current || gone),
            Self::Deleted => gone,
            Self::Phase(phase) => match phase {
                Phase::Running | Phase::Completed | Phase::Paused => {
                    current && status.phase == *phase
                }
                Phase::Accepted
                | Phase::Creating
                | Phase::Updating
                | Phase::Deleting
                | Phase::Blocked
                | Phase::Deleted => status.phase == *phase,
            },
        }
    }
}

/// Whether a cause stays until a person changes the service: a retry finds the same image.
const fn lasts(cause: Cause) -> bool {
    matches!(cause, Cause::ImageName | Cause::ImageMissing | Cause::ImageForbidden)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use trueup_api::service::ServiceCondition;
    use trueup_model::status::Reason;

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
    fn conditions_apply_to_the_current_generation() {
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
                until(condition).evaluate(&service(phase, health, applied)) == WaitResult::True;
            assert_eq!(holds, expected, "{condition} {phase} {health} {applied:?}");
        }
    }

    #[test]
    fn settled_requires_the_state_and_the_current_generation() {
        let mut one = service("running", "healthy", Some(3));
        assert_eq!(Until::Settled.evaluate(&one), WaitResult::NotYet);
        one.reconciliation = Reconciliation::Settled;
        assert_eq!(Until::Settled.evaluate(&one), WaitResult::True);
        one.generation = 4;
        assert_eq!(Until::Settled.evaluate(&one), WaitResult::NotYet);
        let mut gone = service("deleted", "unknown", Some(2));
        gone.reconciliation = Reconciliation::Settled;
        assert_eq!(Until::Settled.evaluate(&gone), WaitResult::True);
    }

    #[test]
    fn deleting_service_never_becomes_healthy() {
        let one = service("deleting", "unknown", Some(2));
        assert!(matches!(Until::Healthy.evaluate(&one), WaitResult::Never { .. }));
        assert_eq!(Until::Deleted.evaluate(&one), WaitResult::NotYet);
        let active = service("running", "healthy", Some(3));
        assert_eq!(Until::Deleted.evaluate(&active), WaitResult::NotYet);
    }

    #[test]
    fn paused_service_says_how_to_resume_it() {
        let mut one = service("paused", "healthy", Some(3));
        one.desired = DesiredState::Paused;
        let WaitResult::Never { why, hint } = Until::Healthy.evaluate(&one) else {
            panic!("a paused service has no pods")
        };
        assert_eq!(why, "shop/web is paused: it has no pods that could be healthy");
        assert_eq!(hint, "start them with `trueup resume shop/web`");
        assert_eq!(Until::Phase(Phase::Paused).evaluate(&one), WaitResult::True);
    }

    #[test]
    fn missing_image_of_the_current_generation_stays_missing() {
        let mut one = service("updating", "progressing", Some(3));
        one.status.conditions.push(ServiceCondition {
            reason: Reason::PodsNotReady,
            message: "the image does not exist".to_owned(),
            cause: Some(Cause::ImageMissing),
            object: None,
            uid: None,
        });
        let stuck = WaitResult::Stuck("shop/web: the image does not exist".to_owned());
        assert_eq!(Until::Healthy.evaluate(&one), stuck);
        assert_eq!(Until::Phase(Phase::Running).evaluate(&one), WaitResult::NotYet);
        one.generation = 4;
        assert_eq!(Until::Healthy.evaluate(&one), WaitResult::NotYet, "of an earlier generation");
        one.generation = 3;
        one.status.conditions[0].cause = Some(Cause::CrashLoop);
        assert_eq!(
            Until::Healthy.evaluate(&one),
            WaitResult::NotYet,
            "it may start at the next try"
        );
    }

    #[test]
    fn unknown_conditions_are_refused() {
        assert!("green".parse::<Until>().unwrap_err().contains("running"));
        assert_eq!("deleted".parse(), Ok(Until::Deleted));
        assert_eq!("running".parse(), Ok(Until::Phase(Phase::Running)));
    }
}
