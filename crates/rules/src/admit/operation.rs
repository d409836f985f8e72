//! Actions on a service that exists: each becomes the next promise, or says why it cannot.

use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::release::Release;
use trueup_model::service::{DesiredState, Service};
use trueup_model::template::{Parameter, Template};

use crate::admit::{
    AdmissionContext, AdmissionRequest, Admitted, Refused, ReleaseSpec, admit, forbidden_changes,
    must_live,
};

/// What somebody wants done with a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceOperation {
    /// Stop its pods and keep everything else.
    Pause,
    /// Let its pods run again.
    Resume,
    /// Replace every pod.
    Restart,
    /// Have so many pods.
    Scale {
        /// How many.
        replicas: u32,
    },
    /// Have as many pods as the load asks for, within bounds.
    Autoscale {
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
        /// How much of its CPU a pod shall use on average; without it, as before.
        cpu_percent: Option<u32>,
    },
    /// Have pods of another size.
    Resize {
        /// Which size.
        plan: Name,
    },
    /// Rolls back to an earlier generation.
    Rollback {
        /// Which generation; without one, the last that promised something else.
        to: Option<i64>,
    },
    /// Be gone.
    Delete,
    /// End a deletion that cannot be proved.
    ForceDelete {
        /// Why, for the receipt.
        reason: String,
    },
}

impl ServiceOperation {
    /// The word for it in releases and events.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Scale { .. } => "scale",
            Self::Autoscale { .. } => "autoscale",
            Self::Resize { .. } => "resize",
            Self::Rollback { .. } => "rollback",
            Self::Delete => "delete",
            Self::ForceDelete { .. } => "force-delete",
        }
    }
}

/// What an action is decided from.
#[derive(Debug, Clone, Copy)]
pub struct OperationContext<'a> {
    /// The service as it is promised now.
    pub current: &'a Service,
    /// The template version that the next promise is resolved from, if there is one.
    pub template: Option<&'a Template>,
    /// The plan that the next promise has, if there is one.
    pub plan: Option<&'a Plan>,
    /// The release that a rollback goes to, if there is one.
    pub release: Option<&'a Release>,
}

/// What an action has to be asked as, where it changes parameters or plan.
///
/// # Errors
/// The template leaves no such choice.
pub fn ask(
    action: &ServiceOperation,
    template: &Template,
    current: &Service,
) -> Result<AdmissionRequest, Refused> {
    let mut ask = AdmissionRequest::again(current);
    match action {
        ServiceOperation::Scale { replicas } => {
            let (name, _) = parameter(template, "/replicas").ok_or_else(|| {
                let message = format!("`{}` always has the same number of pods", current.template);
                Refused::at("replicas", message)
            })?;
            ask.parameters.insert(name.clone(), (*replicas).into());
            // A fixed number is the end of following the load.
            if let (Some((name, _)), Some(_)) =
                (parameter(template, "/autoscale/max"), &current.spec.autoscale)
            {
                ask.parameters.insert(name.clone(), 0.into());
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
                    let message = format!("`{}` cannot follow its load", current.template);
                    Refused::at("max", message)
                })?;
                ask.parameters.insert(name.clone(), value.into());
            }
        }
        ServiceOperation::Resize { plan } => ask.plan = Some(plan.clone()),
        ServiceOperation::Pause
        | ServiceOperation::Resume
        | ServiceOperation::Restart
        | ServiceOperation::Rollback { .. }
        | ServiceOperation::Delete
        | ServiceOperation::ForceDelete { .. } => {}
    }
    Ok(ask)
}

/// The parameter that sets this place of the spec.
fn parameter<'a>(template: &'a Template, place: &str) -> Option<(&'a String, &'a Parameter)> {
    template.parameters.iter().find(|(_, parameter)| parameter.sets == place)
}

/// Decides about an action.
///
/// # Errors
/// [`Refused`] says why not.
pub fn act(action: &ServiceOperation, knowing: OperationContext<'_>) -> Result<Admitted, Refused> {
    let OperationContext { current, template, plan, release } = knowing;
    let mut next = ReleaseSpec::of(current);
    match action {
        ServiceOperation::Delete => {
            next.desired = DesiredState::Deleted;
            return Ok(Admitted::unless_same(next, Some(current)));
        }
        ServiceOperation::ForceDelete { reason } => {
            check_force("service", reason, current.desired)?;
            // Nothing else is promised; that it ends is a generation of its own.
            return Ok(Admitted::Changed(Box::new(next)));
        }
        ServiceOperation::Pause => next.desired = DesiredState::Paused,
        ServiceOperation::Resume => next.desired = DesiredState::Active,
        ServiceOperation::Restart if current.desired == DesiredState::Paused => {
            return Err(Refused::at("service", "is paused and has no pods; resume it instead"));
        }
        ServiceOperation::Restart => next.spec.restart = next.spec.restart.saturating_add(1),
        ServiceOperation::Scale { .. }
        | ServiceOperation::Autoscale { .. }
        | ServiceOperation::Resize { .. } => {
            must_live(Some(current))?;
            let template = template.ok_or_else(|| {
                Refused::at("template", format!("`{}` is not published any more", current.template))
            })?;
            let ask = ask(action, template, current)?;
            let known = AdmissionContext { template: Some(template), plan, current: Some(current) };
            return admit(&ask, known).map_err(|refused| about_the_action(refused, action));
        }
        ServiceOperation::Rollback { to } => next = rolled_back(*to, release, template, current)?,
    }
    must_live(Some(current))?;
    Ok(Admitted::unless_same(next, Some(current)))
}

/// More than so many services are only counted.
const NAMED: usize = 5;

/// Whether the deletion of a project may be ended without proof, where these services are still in it.
///
/// Each of them is ended by itself first, by proof or by force: then there is a receipt for each that names
/// what was left of it, and nothing is given up that nobody looked at.
///
/// # Errors
/// [`Refused`] says why not.
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
        "still has services that are not gone: {names}{more}; wait for them, and end those that are \
         stuck by force, one by one, before the project"
    );
    Err(Refused::at("project", message))
}

/// Only a deletion can be ended, and only with a reason that somebody can read later.
fn check_force(what: &str, reason: &str, desired: DesiredState) -> Result<(), Refused> {
    if desired != DesiredState::Deleted {
        return Err(Refused::at(what, "is not being deleted; delete it first"));
    }
    let length = reason.trim().chars().count();
    if !(3..=500).contains(&length) || reason.chars().any(char::is_control) {
        let message = "must say why in 3 to 500 characters on one line";
        return Err(Refused::at("reason", message));
    }
    Ok(())
}

/// What is kept beside the spec, and changed by these actions: no release holds it.
const BESIDE: [&str; 2] = ["configure", "endpoint"];

/// Whether a rollback that names no generation undoes the last change: it goes to the last spec that
/// differs, and must not reach behind a change that no spec holds.
///
/// # Errors
/// The last change was of variables, secrets or endpoints.
pub fn undoes(last: Option<&str>) -> Result<(), Refused> {
    if last.is_none_or(|action| !BESIDE.contains(&action)) {
        return Ok(());
    }
    let message = "is needed: the last change was of variables, secrets or endpoints, which a rollback \
                   leaves alone. Set them back, or name the generation whose spec is meant; `trueup get \
                   releases` lists them";
    Err(Refused::at("to", message))
}

/// The former promise as it was resolved then; whether it rests and was restarted stays as it is.
fn rolled_back(
    to: Option<i64>,
    release: Option<&Release>,
    template: Option<&Template>,
    current: &Service,
) -> Result<ReleaseSpec, Refused> {
    let release = release.ok_or_else(|| {
        let message = match to {
            Some(generation) => format!("there is no generation {generation} to go back to"),
            None => "there is no former generation that promised something else".to_owned(),
        };
        Refused::at("to", format!("{message}; `trueup get releases` lists them"))
    })?;
    let ask = AdmissionRequest {
        template: release.template.clone(),
        plan: release.spec.plan.clone(),
        parameters: release.parameters.clone(),
    };
    let errors = template.map(|template| forbidden_changes(&ask, template, current));
    match errors {
        Some(errors) if !errors.is_empty() => return Err(Refused::Invalid(errors)),
        Some(_) | None => {}
    }
    let mut spec = release.spec.clone();
    spec.restart = current.spec.restart;
    Ok(ReleaseSpec {
        template: ask.template,
        parameters: ask.parameters,
        spec,
        desired: current.desired,
    })
}

/// A field_error of the parameter behind an action is told under the action's own word.
fn about_the_action(refused: Refused, action: &ServiceOperation) -> Refused {
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
