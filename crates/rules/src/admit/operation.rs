//! Operations on an existing service: each becomes the next release or is refused.

mod rollback;

use trueup_model::active_hours::ActiveHours;
use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::release::Release;
use trueup_model::service::{DesiredState, Service};
use trueup_model::template::{Parameter, Template};

use crate::admit::{
    AdmissionContext, AdmissionRequest, Admitted, Refused, ReleaseSpec, admit, must_live,
};

pub use rollback::{PastRelease, target, undoes};

/// An operation on a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceOperation {
    /// Stop its pods and keep everything else.
    Pause,
    /// Start its pods again.
    Resume,
    /// Replace every pod.
    Restart,
    /// Set a fixed number of pods.
    Scale {
        /// How many.
        replicas: u32,
    },
    /// Let the number of pods follow the load, within bounds.
    Autoscale {
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
        /// Target average CPU use of a pod, in percent; unchanged if absent.
        cpu_percent: Option<u32>,
    },
    /// Change the plan, and with it the size of its pods.
    Resize {
        /// The new plan.
        plan: Name,
    },
    /// Change its active hours.
    Hours {
        /// When it runs; none for always.
        active: Option<ActiveHours>,
    },
    /// Roll back to an earlier generation.
    Rollback {
        /// Which generation; without one, the last with a different spec.
        to: Option<i64>,
    },
    /// Delete it.
    Delete,
    /// Force-complete a deletion whose absence cannot be verified.
    ForceDelete {
        /// Why, for the receipt.
        reason: String,
    },
}

impl ServiceOperation {
    /// The name of the operation in releases and events.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale { .. } => "scale",
            Self::Autoscale { .. } => "autoscale",
            Self::Resize { .. } => "resize",
            Self::Hours { .. } => "hours",
            Self::Rollback { .. } => "rollback",
            Self::Delete => "delete",
            Self::ForceDelete { .. } => "force-delete",
        }
    }
}

/// What an operation is decided from.
#[derive(Debug, Clone, Copy)]
pub struct OperationContext<'a> {
    /// The service as last accepted.
    pub current: &'a Service,
    /// The template version that the next release is resolved from, if it exists.
    pub template: Option<&'a Template>,
    /// The plan of the next release, if it exists.
    pub plan: Option<&'a Plan>,
    /// The release that a rollback restores, if it exists; template and plan are then of it.
    pub release: Option<&'a Release>,
}

/// The declaration that an operation stands for, where it changes parameters or plan.
///
/// # Errors
/// The template does not support the operation.
pub fn ask(
    action: &ServiceOperation,
    template: &Template,
    current: &Service,
) -> Result<AdmissionRequest, Refused> {
    let mut request = AdmissionRequest::again(current);
    match action {
        ServiceOperation::Scale { replicas } => {
            let (name, _) = parameter(template, "/replicas").ok_or_else(|| {
                let message = format!("template `{}` has a fixed number of pods", current.template);
                Refused::at("replicas", message)
            })?;
            request.parameters.insert(name.clone(), (*replicas).into());
            // A fixed number switches autoscaling off.
            if let (Some((name, _)), Some(_)) =
                (parameter(template, "/autoscale/max"), &current.spec.autoscale)
            {
                request.parameters.insert(name.clone(), 0.into());
            }
        }
        ServiceOperation::Autoscale { min, max, cpu_percent } => {
            let wanted = [
                ("/autoscale/min", Some(*min)),
                ("/autoscale/max", Some(*max)),
                ("/autoscale/cpu_percent", *cpu_percent),
            ];
            for (place, value) in wanted {
                let Some(value) = value else { continue };
                let (name, _) = parameter(template, place).ok_or_else(|| {
                    let message =
                        format!("template `{}` does not support autoscaling", current.template);
                    Refused::at("max", message)
                })?;
                request.parameters.insert(name.clone(), value.into());
            }
        }
        ServiceOperation::Resize { plan } => request.plan = Some(plan.clone()),
        ServiceOperation::Hours { active } => request.active.clone_from(active),
        ServiceOperation::Pause
        | ServiceOperation::Resume
        | ServiceOperation::Restart
        | ServiceOperation::Rollback { .. }
        | ServiceOperation::Delete
        | ServiceOperation::ForceDelete { .. } => {}
    }
    Ok(request)
}

/// The parameter that sets this place of the spec.
fn parameter<'a>(template: &'a Template, place: &str) -> Option<(&'a String, &'a Parameter)> {
    template.parameters.iter().find(|(_, parameter)| parameter.sets == place)
}

/// Decides about an operation.
///
/// # Errors
/// [`Refused`] says why.
pub fn act(action: &ServiceOperation, context: OperationContext<'_>) -> Result<Admitted, Refused> {
    let OperationContext { current, template, plan, .. } = context;
    let mut next = ReleaseSpec::of(current);
    match action {
        ServiceOperation::Delete => {
            next.desired = DesiredState::Deleted;
            return Ok(Admitted::unless_same(next, Some(current)));
        }
        ServiceOperation::ForceDelete { reason } => {
            check_force("service", reason, current.desired)?;
            // The content stays the same, but the force is a generation of its own.
            return Ok(Admitted::Changed(Box::new(next)));
        }
        // What a person asks for is no longer due to the active hours.
        ServiceOperation::Pause => {
            (next.desired, next.scheduled_off) = (DesiredState::Paused, false);
        }
        ServiceOperation::Resume => {
            (next.desired, next.scheduled_off) = (DesiredState::Active, false);
        }
        ServiceOperation::Restart if current.desired == DesiredState::Paused => {
            return Err(Refused::at("service", "is paused and has no pods; resume it instead"));
        }
        ServiceOperation::Restart => next.spec.restart = next.spec.restart.saturating_add(1),
        ServiceOperation::Scale { .. }
        | ServiceOperation::Autoscale { .. }
        | ServiceOperation::Resize { .. }
        | ServiceOperation::Hours { .. } => {
            must_live(Some(current))?;
            let template = template.ok_or_else(|| {
                Refused::at("template", format!("`{}` is no longer published", current.template))
            })?;
            let request = ask(action, template, current)?;
            let context =
                AdmissionContext { template: Some(template), plan, current: Some(current) };
            return admit(&request, context).map_err(|refused| at_operation(refused, action));
        }
        ServiceOperation::Rollback { to } => next = rollback::rolled_back(*to, context)?,
    }
    must_live(Some(current))?;
    Ok(Admitted::unless_same(next, Some(current)))
}

/// How many services an error names; the rest is counted.
const NAMED: usize = 5;

/// Whether the deletion of a project with these remaining services may be force-completed.
///
/// Each service has to be deleted or forced first: then a receipt for each names what was left
/// behind.
///
/// # Errors
/// [`Refused`] says why.
pub fn force_project(
    reason: &str,
    desired: DesiredState,
    services: &[String],
) -> Result<(), Refused> {
    check_force("project", reason, desired)?;
    if services.is_empty() {
        return Ok(());
    }
    let names = services.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = services.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message = format!(
        "still has services: {names}{more}; wait until they are deleted, and force-delete those \
         that are stuck before the project"
    );
    Err(Refused::at("project", message))
}

/// Only a deletion can be forced, and only with a reason for the receipt.
fn check_force(what: &str, reason: &str, desired: DesiredState) -> Result<(), Refused> {
    if desired != DesiredState::Deleted {
        return Err(Refused::at(what, "is not being deleted; delete it first"));
    }
    let length = reason.trim().chars().count();
    if !(3..=500).contains(&length) || reason.chars().any(char::is_control) {
        let message = "must be 3 to 500 characters on one line";
        return Err(Refused::at("reason", message));
    }
    Ok(())
}

/// Reports an error of the replicas parameter at the field of the scale request.
fn at_operation(refused: Refused, action: &ServiceOperation) -> Refused {
    match (refused, action) {
        (Refused::Invalid(mut errors), ServiceOperation::Scale { .. }) => {
            for field_error in &mut errors {
                if field_error.field.starts_with("parameters.") {
                    "replicas".clone_into(&mut field_error.field);
                }
            }
            Refused::Invalid(errors)
        }
        (refused, _) => refused,
    }
}
