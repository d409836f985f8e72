//! Admission: whether a request becomes a new release of a service, and with which spec.

pub mod domain;
pub mod image;
pub mod operation;
pub mod schedule;
pub mod spec;
pub mod template;
pub mod variable;
mod volume;

use serde_json::{Map, Value};
use trueup_model::active_hours::ActiveHours;
use trueup_model::drift::DriftPolicy;
use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::{Spec, Workload};
use trueup_model::template::{Template, TemplateRef};

use crate::active_hours;
use crate::admit::template::{refuses_new, resolve};
use crate::drift;

/// A declaration of a service, as requested.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionRequest {
    /// Template and version.
    pub template: TemplateRef,
    /// The requested plan; without one, the template's own.
    pub plan: Option<Name>,
    /// Values for the template's parameters.
    pub parameters: Map<String, Value>,
    /// Its drift policy; empty for none of its own.
    pub drift: DriftPolicy,
    /// When it runs; none for always.
    pub active: Option<ActiveHours>,
}

impl AdmissionRequest {
    /// The request that declares a service as it is now.
    #[must_use]
    pub fn again(current: &Service) -> Self {
        Self {
            template: current.template.clone(),
            plan: current.spec.plan.clone(),
            parameters: current.parameters.clone(),
            drift: current.drift.clone(),
            active: current.active.clone(),
        }
    }
}

/// What the decision is made from, besides the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmissionContext<'a> {
    /// The requested template, if it exists.
    pub template: Option<&'a Template>,
    /// The plan that [`wanted_plan`] names, if it exists.
    pub plan: Option<&'a Plan>,
    /// The service as last accepted, if it exists.
    pub current: Option<&'a Service>,
}

/// One rule that a request breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where, as a path in the manifest.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// An error at this field.
    pub fn at(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The content of a new release: the accepted spec and desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseSpec {
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as they were given.
    pub parameters: Map<String, Value>,
    /// The drift policy. It is no part of the spec: a rollback keeps the current one.
    pub drift: DriftPolicy,
    /// When it runs. No part of the spec either.
    pub active: Option<ActiveHours>,
    /// The resolved spec.
    pub spec: Spec,
    /// Whether the service runs, is paused or is deleted.
    pub desired: DesiredState,
    /// Whether its active hours paused it.
    pub scheduled_off: bool,
}

impl ReleaseSpec {
    /// The current release of a service.
    #[must_use]
    pub fn of(current: &Service) -> Self {
        Self {
            template: current.template.clone(),
            parameters: current.parameters.clone(),
            drift: current.drift.clone(),
            active: current.active.clone(),
            spec: current.spec.clone(),
            desired: current.desired,
            scheduled_off: current.scheduled_off,
        }
    }
}

/// What is recorded for an admitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// Nothing: the request matches the current release.
    Unchanged,
    /// A new generation with this content.
    Changed(Box<ReleaseSpec>),
}

impl Admitted {
    /// `Changed`, unless the release equals the current one.
    pub(crate) fn unless_same(release: ReleaseSpec, current: Option<&Service>) -> Self {
        if current.is_some_and(|current| ReleaseSpec::of(current) == release) {
            Self::Unchanged
        } else {
            Self::Changed(Box::new(release))
        }
    }
}

/// Why a request is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The request breaks rules.
    Invalid(Vec<FieldError>),
    /// The service is being deleted.
    BeingDeleted,
}

impl Refused {
    /// Refused for one field.
    pub(crate) fn at(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::at(field, message)])
    }
}

/// The plan of a request: the one it names, or the template's own.
#[must_use]
pub fn wanted_plan<'a>(
    request: &'a AdmissionRequest,
    template: Option<&'a Template>,
) -> Option<&'a Name> {
    request.plan.as_ref().or_else(|| template?.plan.as_ref())
}

/// Decides about a service's declaration.
///
/// A declaration holds the whole spec, but not whether the service is paused: a paused service
/// stays paused, and the restart counter is kept.
///
/// # Errors
/// [`Refused`] lists every broken rule at once.
pub fn admit(
    request: &AdmissionRequest,
    context: AdmissionContext<'_>,
) -> Result<Admitted, Refused> {
    let AdmissionContext { template, plan, current } = context;
    must_live(current)?;
    let template = template.ok_or_else(|| unknown_template(&request.template))?;
    let mut errors =
        current.map(|current| forbidden_changes(request, template, current)).unwrap_or_default();
    errors.extend(plan_error(request, template, plan, current));
    // A policy that was accepted once does not block other changes.
    if current.is_none_or(|current| current.drift != request.drift) {
        errors.extend(drift::admit::admit(&request.drift, "drift"));
    }
    if current.is_none_or(|current| current.template != request.template) {
        errors.extend(refuses_new(template));
    }
    let resolved = resolve(template, &request.parameters).map_err(|more| errors.extend(more));
    if let (Ok(spec), Some(current)) = (&resolved, current)
        && let Some(shrinks) = volume::error(template, spec, current)
        && errors.iter().all(|other| other.field != shrinks.field)
    {
        errors.push(shrinks);
    }
    // An image that runs already does not block other changes.
    if let Ok(spec) = &resolved
        && current.is_none_or(|current| current.spec.image != spec.image)
    {
        errors.extend(image::internal_registry(template, spec));
    }
    // Hours that were accepted once do not block other changes.
    if current.is_none_or(|current| current.active != request.active) {
        errors.extend(hours_errors(request, resolved.as_ref().ok()));
    }
    let (Ok(mut spec), true) = (resolved, errors.is_empty()) else {
        return Err(Refused::Invalid(errors));
    };
    if let Some(plan) = plan {
        spec.resources = plan.resources.clone();
        spec.plan = Some(plan.name.clone());
    }
    // Only the plan chooses the nodes, whatever the template says.
    spec.nodes = plan.and_then(|plan| plan.nodes.clone());
    spec.restart = current.map_or(0, |current| current.spec.restart);
    let release = ReleaseSpec {
        template: request.template.clone(),
        parameters: request.parameters.clone(),
        drift: request.drift.clone(),
        active: request.active.clone(),
        spec,
        desired: current.map_or(DesiredState::Active, |current| current.desired),
        scheduled_off: current.is_some_and(|current| current.scheduled_off),
    };
    Ok(Admitted::unless_same(release, current))
}

/// The rules that the active hours of a request break. What ends by itself has none.
fn hours_errors(request: &AdmissionRequest, spec: Option<&Spec>) -> Vec<FieldError> {
    let Some(hours) = &request.active else { return Vec::new() };
    match spec.map(|spec| spec.workload) {
        Some(Workload::Job | Workload::CronJob) => vec![FieldError::at(
            "active",
            "is for services that keep running; a cron has its own `schedule`, and a job ends by itself",
        )],
        Some(Workload::Deployment | Workload::StatefulSet) | None => {
            active_hours::errors(hours, "active")
        }
    }
}

/// Refuses changes to a service that is being deleted.
pub(crate) fn must_live(current: Option<&Service>) -> Result<(), Refused> {
    if current.is_some_and(|service| service.desired == DesiredState::Deleted) {
        return Err(Refused::BeingDeleted);
    }
    Ok(())
}

fn unknown_template(template: &TemplateRef) -> Refused {
    Refused::at(
        "template",
        format!("there is no template `{template}`; `trueup get templates` lists them"),
    )
}

fn plan_error(
    request: &AdmissionRequest,
    template: &Template,
    plan: Option<&Plan>,
    current: Option<&Service>,
) -> Option<FieldError> {
    let wanted = wanted_plan(request, Some(template))?;
    let has_it = current.is_some_and(|current| current.spec.plan.as_ref() == Some(wanted));
    match plan {
        None => Some(format!("there is no plan `{wanted}`; `trueup get plans` lists them")),
        Some(plan) if plan.retired && !has_it => Some(format!(
            "plan `{wanted}` is retired; `trueup get plans` lists the available plans"
        )),
        Some(_) => None,
    }
    .map(|message| FieldError::at("plan", message))
}

pub(crate) fn forbidden_changes(
    request: &AdmissionRequest,
    template: &Template,
    current: &Service,
) -> Vec<FieldError> {
    if request.template.name != current.template.name {
        let message = format!("cannot change from `{}`; declare a new service", current.template);
        return vec![FieldError::at("template", message)];
    }
    template
        .parameters
        .iter()
        .filter(|(name, parameter)| {
            let effective = |given: &Map<String, Value>| {
                given.get(*name).or(parameter.default.as_ref()).cloned()
            };
            !parameter.mutable && effective(&request.parameters) != effective(&current.parameters)
        })
        .map(|(name, _)| {
            let message = "cannot change once the service exists; declare a new service";
            FieldError::at(format!("parameters.{name}"), message)
        })
        .collect()
}
