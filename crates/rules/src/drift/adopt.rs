//! Adopting a live value: which parameter has to change, and whether it may.
//!
//! There is no table from fields to parameters. A parameter sets a field if the live value, given
//! to the parameter, is rendered at that field: the code that renders what is applied decides.

mod candidate;
mod refusal;
mod trial;

use serde_json::{Map, Value};
use trueup_model::drift::{Divergence, DivergenceClass};
use trueup_model::key::Kind;
use trueup_model::plan::Plan;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::{MAX_PODS, Spec};
use trueup_model::template::{Parameter, Template};

use crate::admit::variable::Entries;
use crate::admit::{
    AdmissionContext, AdmissionRequest, Admitted, FieldError, Refused, ReleaseSpec, admit,
};
use crate::drift::admit::is_protected;

pub use refusal::AdoptRefusal;

/// A longer text that ends with "…" is the start of a value that was too long to be recorded.
const LONGEST: usize = 4000;

/// What an adoption is decided from, besides the divergence.
#[derive(Debug, Clone, Copy)]
pub struct AdoptContext<'a> {
    /// The service as last accepted.
    pub current: &'a Service,
    /// Its template version, if it still exists.
    pub template: Option<&'a Template>,
    /// Its plan, as [`wanted_plan`](crate::admit::wanted_plan) names it, if it exists.
    pub plan: Option<&'a Plan>,
    /// The variables and secrets of its project.
    pub project_entries: &'a Entries,
    /// Its own variables and secrets.
    pub service_entries: &'a Entries,
}

/// What an adoption changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Adoption {
    /// The parameter that gets the live value.
    pub parameter: String,
    /// Its new value.
    pub value: Value,
    /// All parameters of the next generation.
    pub parameters: Map<String, Value>,
    /// The spec of the next generation.
    pub spec: Spec,
}

/// Decides whether the live value of a divergence becomes the desired one.
///
/// Besides the field itself, only what follows from it may change: the pull policy of an image, the
/// claim template of a disk, and objects that exist because of the number of pods. An adoption never
/// deletes a disk.
///
/// # Errors
/// [`AdoptRefusal`] says why not, and what to do instead.
pub fn adopt(divergence: &Divergence, context: AdoptContext<'_>) -> Result<Adoption, AdoptRefusal> {
    let current = context.current;
    check_value(divergence, current)?;
    let template = context
        .template
        .ok_or_else(|| AdoptRefusal::TemplateGone { template: current.template.clone() })?;
    if trial::is_desired(divergence, context) {
        return Err(AdoptRefusal::Unchanged { field: divergence.field.clone() });
    }
    let mut refusal = None;
    for (name, parameter) in &template.parameters {
        let now = current.parameters.get(name).or(parameter.default.as_ref());
        let Some(value) = candidate::value(parameter, now, divergence) else { continue };
        let mut parameters = current.parameters.clone();
        parameters.insert(name.clone(), value.clone());
        if !trial::sets(divergence, template, &parameters, context) {
            continue;
        }
        match release(divergence, (name.as_str(), parameter), &parameters, template, context) {
            Ok(_) if !trial::is_current(divergence, context) => {
                return Err(AdoptRefusal::Outdated { field: divergence.field.clone() });
            }
            Ok(release) => {
                let ReleaseSpec { parameters, spec, .. } = release;
                return Ok(Adoption { parameter: name.clone(), value, parameters, spec });
            }
            Err(found) if refusal.is_none() => refusal = Some(found),
            Err(_) => {}
        }
    }
    Err(refusal.unwrap_or_else(|| no_parameter(divergence, context)))
}

/// Refuses what is not a value that a parameter could have.
fn check_value(divergence: &Divergence, current: &Service) -> Result<(), AdoptRefusal> {
    let Divergence { key, field, class, live, .. } = divergence;
    if current.desired == DesiredState::Deleted {
        return Err(AdoptRefusal::BeingDeleted);
    }
    match class {
        DivergenceClass::Edited | DivergenceClass::ForeignWriter => {}
        DivergenceClass::Deleted
        | DivergenceClass::Extra
        | DivergenceClass::BrokenProof
        | DivergenceClass::Regressed => return Err(AdoptRefusal::NoValue { class: *class }),
    }
    if let Some(why) = is_protected(key.kind, field) {
        return Err(AdoptRefusal::Protected { field: field.clone(), why });
    }
    if key.kind == Kind::Job {
        return Err(AdoptRefusal::Run);
    }
    let is_cut = live.as_str().is_some_and(|text| text.len() > LONGEST && text.ends_with('…'));
    if is_cut || live.to_string().contains('\u{fffd}') {
        return Err(AdoptRefusal::TooLong { field: field.clone() });
    }
    Ok(())
}

/// The release with these parameters, if it is admitted and changes nothing else.
fn release(
    divergence: &Divergence,
    (name, parameter): (&str, &Parameter),
    parameters: &Map<String, Value>,
    template: &Template,
    context: AdoptContext<'_>,
) -> Result<ReleaseSpec, AdoptRefusal> {
    let AdoptContext { current, plan, .. } = context;
    let field = || divergence.field.clone();
    if !parameter.mutable {
        return Err(AdoptRefusal::Immutable { field: field(), parameter: name.to_owned() });
    }
    let request =
        AdmissionRequest { parameters: parameters.clone(), ..AdmissionRequest::again(current) };
    let known = AdmissionContext { template: Some(template), plan, current: Some(current) };
    let release = match admit(&request, known) {
        Ok(Admitted::Changed(release)) => *release,
        Ok(Admitted::Unchanged) => return Err(AdoptRefusal::Unchanged { field: field() }),
        Err(Refused::Invalid(errors)) => return Err(AdoptRefusal::OutOfBounds { errors }),
        Err(Refused::BeingDeleted) => return Err(AdoptRefusal::BeingDeleted),
    };
    if release.spec.most_replicas() > MAX_PODS {
        let message = format!("must be at most {MAX_PODS} pods");
        let errors = vec![FieldError::at(format!("parameters.{name}"), message)];
        return Err(AdoptRefusal::OutOfBounds { errors });
    }
    let others = trial::other_changes(divergence, &release.spec, context);
    if others.is_empty() {
        Ok(release)
    } else {
        Err(AdoptRefusal::More { field: field(), parameter: name.to_owned(), others })
    }
}

/// Why no parameter sets the field.
fn no_parameter(divergence: &Divergence, context: AdoptContext<'_>) -> AdoptRefusal {
    let Divergence { key, field, live, .. } = divergence;
    let variable = field.strip_prefix("data.").filter(|_| key.kind == Kind::ConfigMap);
    let has =
        |entries: &Entries| entries.variables.keys().any(|name| variable == Some(name.as_str()));
    if has(context.service_entries) || has(context.project_entries) {
        return AdoptRefusal::Variable { name: variable.unwrap_or_default().to_owned() };
    }
    if context.current.desired == DesiredState::Paused && field == "spec.replicas" {
        return AdoptRefusal::Paused;
    }
    if live.is_null() {
        return AdoptRefusal::Removed { field: field.clone() };
    }
    let template = context.current.template.clone();
    AdoptRefusal::NoParameter { field: field.clone(), template }
}
