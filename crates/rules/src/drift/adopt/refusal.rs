//! Why a live value is not adopted, and what to do instead.

use trueup_model::drift::DivergenceClass;
use trueup_model::template::TemplateRef;

use crate::admit::{FieldError, Refused};

/// Why a live value does not become the desired one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdoptRefusal {
    /// The service is being deleted.
    #[error("the service is being deleted")]
    BeingDeleted,
    /// The template version does not exist any more.
    #[error(
        "template `{template}` is no longer published; declare the service with another version"
    )]
    TemplateGone {
        /// The version.
        template: TemplateRef,
    },
    /// The divergence is not about the value of a field.
    #[error("a divergence of class `{class}` has no value to adopt; the desired state is restored")]
    NoValue {
        /// Its class.
        class: DivergenceClass,
    },
    /// The field carries ownership, isolation or security.
    #[error("`{field}` cannot be adopted: {why}")]
    Protected {
        /// The field.
        field: String,
        /// Why it is always enforced.
        why: &'static str,
    },
    /// The object is a run, which never changes.
    #[error(
        "a run of a job cannot change; declare the service with other values to start a new run"
    )]
    Run,
    /// The desired value is another one since the difference was recorded.
    #[error(
        "the desired value of `{field}` has changed since; `trueup drift` shows what differs now"
    )]
    Outdated {
        /// The field.
        field: String,
    },
    /// The recorded value is not complete.
    #[error(
        "the value of `{field}` is too long to be adopted, or not text; set it in the manifest and \
         apply it"
    )]
    TooLong {
        /// The field.
        field: String,
    },
    /// The field has no live value, but a parameter always has one.
    #[error("`{field}` was removed, and no parameter can remove it; reject the change instead")]
    Removed {
        /// The field.
        field: String,
    },
    /// A variable that is set outside of the manifest.
    #[error("variable `{name}` is not set by a parameter; change it with `trueup variable set`")]
    Variable {
        /// Its name.
        name: String,
    },
    /// A paused service has no pods, whatever its parameters say.
    #[error(
        "the service is paused; resume it with `trueup resume`, then change the number of pods"
    )]
    Paused,
    /// No parameter sets the field.
    #[error(
        "no parameter of `{template}` sets `{field}`; reject the change, or ignore the field in \
         the drift policy"
    )]
    NoParameter {
        /// The field.
        field: String,
        /// The template.
        template: TemplateRef,
    },
    /// The parameter cannot change any more.
    #[error(
        "`{field}` is set by parameter `{parameter}`, which cannot change once the service exists; \
         reject the change, or declare a new service"
    )]
    Immutable {
        /// The field.
        field: String,
        /// The parameter.
        parameter: String,
    },
    /// Admission refuses the value.
    #[error("the live value is not allowed: {}", sentence(.errors))]
    OutOfBounds {
        /// Which bound, at which parameter.
        errors: Vec<FieldError>,
    },
    /// Other fields would change, too.
    #[error(
        "parameter `{parameter}` sets more than `{field}`: {} would change, too; set it in the \
         manifest and apply it, or reject the change",
        .others.join(", ")
    )]
    More {
        /// The field.
        field: String,
        /// The parameter.
        parameter: String,
        /// What else would change.
        others: Vec<String>,
    },
    /// The desired value is the live one already.
    #[error("the desired value of `{field}` is the live value already")]
    Unchanged {
        /// The field.
        field: String,
    },
}

fn sentence(errors: &[FieldError]) -> String {
    let all = errors.iter().map(|error| format!("{} {}", error.field, error.message));
    all.collect::<Vec<_>>().join("; ")
}

impl From<AdoptRefusal> for Refused {
    fn from(refusal: AdoptRefusal) -> Self {
        match refusal {
            AdoptRefusal::BeingDeleted => Self::BeingDeleted,
            AdoptRefusal::OutOfBounds { errors } => Self::Invalid(errors),
            AdoptRefusal::TemplateGone { .. }
            | AdoptRefusal::NoValue { .. }
            | AdoptRefusal::Protected { .. }
            | AdoptRefusal::Run
            | AdoptRefusal::Outdated { .. }
            | AdoptRefusal::TooLong { .. }
            | AdoptRefusal::Removed { .. }
            | AdoptRefusal::Variable { .. }
            | AdoptRefusal::Paused
            | AdoptRefusal::NoParameter { .. }
            | AdoptRefusal::Immutable { .. }
            | AdoptRefusal::More { .. }
            | AdoptRefusal::Unchanged { .. } => Self::at("divergence", refusal.to_string()),
        }
    }
}
