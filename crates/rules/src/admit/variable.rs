//! Variables and secrets that are set beside a manifest: what may be set, and who wins.
//!
//! A container reads each name once. From weakest to strongest: what the project shares, what the
//! manifest and its template say, what is set for the service. Secrets that a template generates
//! stand outside of that order: a name that collides with one is refused when it is set.

use std::collections::{BTreeMap, BTreeSet};

use trueup_model::secret::EncryptedSecret;
use trueup_model::spec::Spec;
use trueup_model::variable::VariableName;

use crate::admit::FieldError;

/// The longest value.
pub const MOST_VALUE: usize = 32_768;
/// How much the variables of one project or one service may have together, and its secrets.
///
/// A service reads both and its spec's, which has twice as much: all of it is as much as a ConfigMap or a Secret takes.
pub const MOST_TOGETHER: usize = 256 << 10;
/// How much the variables of a spec may have together.
pub const MOST_IN_SPEC: usize = 2 * MOST_TOGETHER;
/// How many names one project or one service may set.
pub const MOST_ENTRIES: usize = 200;
/// How many services one change may reach: each one gets a new generation in the same transaction.
pub const MOST_SERVICES: usize = 500;

/// Whether a value may be set. What is wrong is said without repeating the value.
///
/// # Errors
/// The field_error names the field `value`.
pub fn check_value(value: &str) -> Result<(), FieldError> {
    if value.len() > MOST_VALUE || value.contains('\0') {
        let message = "must be at most 32 KiB and without NUL".to_owned();
        return Err(FieldError { field: "value".to_owned(), message });
    }
    Ok(())
}

/// Names that this spec generates itself and that somebody sets as well, as a parameter or beside
/// the manifest. Generated secrets win over nothing silently.
#[must_use]
pub fn collisions<'a>(spec: &Spec, set: impl IntoIterator<Item = &'a str>) -> Vec<FieldError> {
    let generated: BTreeSet<&str> = spec.generated_secrets.iter().map(String::as_str).collect();
    let in_spec = spec.variables.keys().map(|name| (name.as_str(), "parameters.variables"));
    let beside = set.into_iter().map(|name| (name, "name"));
    in_spec
        .chain(beside)
        .filter(|(name, _)| generated.contains(name))
        .map(|(name, field)| FieldError {
            field: field.to_owned(),
            message: format!(
                "`{name}` is a secret that the template generates; choose another name"
            ),
        })
        .collect()
}

/// What is set for a project or for a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// Plain variables.
    pub variables: BTreeMap<VariableName, String>,
    /// Secrets, sealed.
    pub secrets: BTreeMap<VariableName, EncryptedSecret>,
}

/// What a service's containers read: plain variables, and sealed secrets.
pub type Read = (BTreeMap<String, String>, BTreeMap<String, EncryptedSecret>);

/// Lays what is set over a spec. Each name comes from one place only.
#[must_use]
pub fn merge(spec: &Spec, project: &Entries, service: &Entries) -> Read {
    let (mut variables, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    lay(&mut variables, &mut secrets, project);
    for (name, value) in &spec.variables {
        secrets.remove(name);
        variables.insert(name.clone(), value.clone());
    }
    lay(&mut variables, &mut secrets, service);
    for name in &spec.generated_secrets {
        variables.remove(name);
        secrets.remove(name);
    }
    (variables, secrets)
}

fn lay(
    variables: &mut BTreeMap<String, String>,
    secrets: &mut BTreeMap<String, EncryptedSecret>,
    entries: &Entries,
) {
    for (name, value) in &entries.variables {
        secrets.remove(name.as_str());
        variables.insert(name.to_string(), value.clone());
    }
    for (name, secret) in &entries.secrets {
        variables.remove(name.as_str());
        secrets.insert(name.to_string(), secret.clone());
    }
}

/// Whether a project or a service may set these from now on. What is too much already may get less.
///
/// # Errors
/// The field_error names the field `value`.
pub fn check_together(before: &Entries, after: &Entries) -> Result<(), FieldError> {
    let grown = after.sizes().into_iter().zip(before.sizes());
    for (size, was) in grown {
        if size > MOST_TOGETHER && size > was {
            let message =
                "would make more than 256 KiB together with what is set here; keep large \
                           values in a volume or outside"
                    .to_owned();
            return Err(FieldError { field: "value".to_owned(), message });
        }
    }
    Ok(())
}

impl Entries {
    /// How many bytes the variables and the secrets have, each together.
    fn sizes(&self) -> [usize; 2] {
        // A sealed value is as long as the value and its tag.
        let secrets =
            self.secrets.values().map(|secret| secret.sealed.bytes.len().saturating_sub(16));
        [self.variables.values().map(String::len).sum(), secrets.sum()]
    }
}
