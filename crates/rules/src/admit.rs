//! The door's decision: whether an ask becomes a promise, and what exactly is promised.

use serde_json::{Map, Value};
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Spec;
use trueup_model::template::{Template, TemplateRef};

use crate::template::resolve;

/// What somebody asks for a service to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Template and version.
    pub template: TemplateRef,
    /// Values for its parameters.
    pub parameters: Map<String, Value>,
}

/// One rule that an ask breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Where, as a path in the manifest.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// What the door records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted {
    /// Nothing: the ask says what is promised already.
    Unchanged,
    /// A new generation with this spec.
    Changed(Box<Spec>),
}

/// Why an ask is not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The ask breaks rules.
    Invalid(Vec<Breach>),
    /// The service is being deleted.
    BeingDeleted,
}

/// Decides about a service's ask, given what is promised now.
///
/// # Errors
/// [`Refused`] says why, completely: every breach at once.
pub fn admit(
    ask: &Ask,
    template: Option<&Template>,
    current: Option<&Service>,
) -> Result<Admitted, Refused> {
    if current.is_some_and(|service| service.desired == DesiredState::Deleted) {
        return Err(Refused::BeingDeleted);
    }
    let template = template.ok_or_else(|| unknown_template(&ask.template))?;
    let mut breaches =
        current.map(|current| forbidden_changes(ask, template, current)).unwrap_or_default();
    let spec = match resolve(template, &ask.parameters) {
        Ok(spec) if breaches.is_empty() => spec,
        Ok(_) => return Err(Refused::Invalid(breaches)),
        Err(more) => {
            breaches.extend(more);
            return Err(Refused::Invalid(breaches));
        }
    };
    let same =
        current.is_some_and(|current| current.spec == spec && current.parameters == ask.parameters);
    Ok(if same { Admitted::Unchanged } else { Admitted::Changed(Box::new(spec)) })
}

fn unknown_template(template: &TemplateRef) -> Refused {
    Refused::Invalid(vec![Breach {
        field: "template".to_owned(),
        message: format!("there is no template `{template}`; `trueup get templates` lists them"),
    }])
}

fn forbidden_changes(ask: &Ask, template: &Template, current: &Service) -> Vec<Breach> {
    if ask.template != current.template {
        return vec![Breach {
            field: "template".to_owned(),
            message: format!("cannot change from `{}`; declare a new service", current.template),
        }];
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
        .map(|(name, _)| Breach {
            field: format!("parameters.{name}"),
            message: "cannot change once the service exists; declare a new service".to_owned(),
        })
        .collect()
}
