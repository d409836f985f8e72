//! The door's decision: whether an ask becomes a promise, and what exactly is promised.

pub mod domain;
pub mod image;
pub mod operation;
pub mod schedule;
pub mod spec;
pub mod template;
pub mod variable;
use serde_json::{Map, Value};
use trueup_model::name::Name;
use trueup_model::plan::Plan;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Spec;
use trueup_model::template::{Template, TemplateRef};

use crate::admit::template::{refuses_new, resolve};

/// What somebody asks for a service to be.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionRequest {
    /// Template and version.
    pub template: TemplateRef,
    /// The size that is wanted; without one, the template's own.
    pub plan: Option<Name>,
    /// Values for its parameters.
    pub parameters: Map<String, Value>,
}

impl AdmissionRequest {
    /// What a service is now, asked for again.
    #[must_use]
    pub fn again(current: &Service) -> Self {
        Self {
            template: current.template.clone(),
            plan: current.spec.plan.clone(),
            parameters: current.parameters.clone(),
        }
    }
}

/// What the decision is made from, besides the ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmissionContext<'a> {
    /// The template that is asked for, if there is one.
    pub template: Option<&'a Template>,
    /// The plan that [`wanted_plan`] names, if there is one.
    pub plan: Option<&'a Plan>,
    /// The service as it is promised now, if it is.
    pub current: Option<&'a Service>,
}

/// One rule that an ask breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Where, as a path in the manifest.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// A field_error at this field.
    pub fn at(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// What a new generation promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseSpec {
    /// The template version it was resolved from.
    pub template: TemplateRef,
    /// The parameters as they were given.
    pub parameters: Map<String, Value>,
    /// The resolved spec.
    pub spec: Spec,
    /// Whether it shall run, rest or be gone.
    pub desired: DesiredState,
}

impl ReleaseSpec {
    /// What is promised about a service now.
    #[must_use]
    pub fn of(current: &Service) -> Self {
        Self {
            template: current.template.clone(),
            parameters: current.parameters.clone(),
            spec: current.spec.clone(),
            desired: current.desired,
        }
    }
}

/// What the door records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// Nothing: the ask says what is promised already.
    Unchanged,
    /// A new generation with this promise.
    Changed(Box<ReleaseSpec>),
}

impl Admitted {
    /// This promise, if it is another one than the current.
    pub(crate) fn unless_same(promise: ReleaseSpec, current: Option<&Service>) -> Self {
        if current.is_some_and(|current| ReleaseSpec::of(current) == promise) {
            Self::Unchanged
        } else {
            Self::Changed(Box::new(promise))
        }
    }
}

/// Why an ask is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The ask breaks rules.
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

/// The plan that an ask means: the one it names, or the template's own.
#[must_use]
pub fn wanted_plan<'a>(
    ask: &'a AdmissionRequest,
    template: Option<&'a Template>,
) -> Option<&'a Name> {
    ask.plan.as_ref().or_else(|| template?.plan.as_ref())
}

/// Decides about a service's declaration, given what is known.
///
/// A declaration says all that a service shall be, but not whether it rests: a paused service stays
/// paused, and a restart that was asked for stays done.
///
/// # Errors
/// [`Refused`] says why, completely: every field_error at once.
pub fn admit(ask: &AdmissionRequest, known: AdmissionContext<'_>) -> Result<Admitted, Refused> {
    let AdmissionContext { template, plan, current } = known;
    must_live(current)?;
    let template = template.ok_or_else(|| unknown_template(&ask.template))?;
    let mut errors =
        current.map(|current| forbidden_changes(ask, template, current)).unwrap_or_default();
    errors.extend(plan_error(ask, template, plan, current));
    if current.is_none_or(|current| current.template != ask.template) {
        errors.extend(refuses_new(template));
    }
    let resolved = resolve(template, &ask.parameters).map_err(|more| errors.extend(more));
    let (Ok(mut spec), true) = (resolved, errors.is_empty()) else {
        return Err(Refused::Invalid(errors));
    };
    if let Some(plan) = plan {
        spec.resources = plan.resources.clone();
        spec.plan = Some(plan.name.clone());
    }
    // Where pods run is sold, never asked for: whatever a template says, the plan decides.
    spec.nodes = plan.and_then(|plan| plan.nodes.clone());
    spec.restart = current.map_or(0, |current| current.spec.restart);
    let promise = ReleaseSpec {
        template: ask.template.clone(),
        parameters: ask.parameters.clone(),
        spec,
        desired: current.map_or(DesiredState::Active, |current| current.desired),
    };
    Ok(Admitted::unless_same(promise, current))
}

/// A service that is being deleted takes no more changes.
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
    ask: &AdmissionRequest,
    template: &Template,
    plan: Option<&Plan>,
    current: Option<&Service>,
) -> Option<FieldError> {
    let wanted = wanted_plan(ask, Some(template))?;
    let has_it = current.is_some_and(|current| current.spec.plan.as_ref() == Some(wanted));
    match plan {
        None => Some(format!("there is no plan `{wanted}`; `trueup get plans` lists them")),
        Some(plan) if plan.retired && !has_it => {
            Some(format!("`{wanted}` is no longer sold; `trueup get plans` lists what is"))
        }
        Some(_) => None,
    }
    .map(|message| FieldError::at("plan", message))
}

pub(crate) fn forbidden_changes(
    ask: &AdmissionRequest,
    template: &Template,
    current: &Service,
) -> Vec<FieldError> {
    if ask.template.name != current.template.name {
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
            !parameter.mutable && effective(&ask.parameters) != effective(&current.parameters)
        })
        .map(|(name, _)| {
            let message = "cannot change once the service exists; declare a new service";
            FieldError::at(format!("parameters.{name}"), message)
        })
        .collect()
}
