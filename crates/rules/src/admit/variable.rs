//! Variables and secrets that are set outside of a manifest: limits, collisions and precedence.
//!
//! A container reads each name once. From lowest to highest precedence: values of the project, of
//! the manifest and its template, of the service. Generated secrets are outside of that order: a
//! name that collides with one is refused when it is set.

use std::collections::{BTreeMap, BTreeSet};

use trueup_model::secret::EncryptedSecret;
use trueup_model::spec::Spec;
use trueup_model::variable::{MAX_VALUE, VariableName};

use crate::admit::FieldError;

/// The most bytes of all variables of one project or service; the same limit holds for its secrets.
///
/// A service reads its own, its project's and its spec's, which may have twice as much: in sum,
/// what a ConfigMap or a Secret can hold.
pub const MOST_TOGETHER: usize = 256 << 10;
/// The most bytes of all variables of a spec.
pub const MOST_IN_SPEC: usize = 2 * MOST_TOGETHER;
/// How many names one project or one service may set.
pub const MOST_ENTRIES: usize = 200;
/// How many services one change may affect: each gets a new generation in the same transaction.
pub const MOST_SERVICES: usize = 500;

/// Whether a value may be set. The error does not repeat the value.
///
/// # Errors
/// The error names the field `value`.
pub fn check_value(value: &str) -> Result<(), FieldError> {
    if value.len() > MAX_VALUE || value.contains('\0') {
        let message = "must be at most 32 KiB and without NUL".to_owned();
        return Err(FieldError { field: "value".to_owned(), message });
    }
    Ok(())
}

/// Names of generated secrets that are also set, as a parameter or outside of the manifest.
#[must_use]
pub fn collisions<'a>(spec: &Spec, set: impl IntoIterator<Item = &'a str>) -> Vec<FieldError> {
    let generated: BTreeSet<&str> = spec.generated_secrets.iter().map(String::as_str).collect();
    let in_spec = spec.variables.keys().map(|name| (name.as_str(), "parameters.variables"));
    let outside = set.into_iter().map(|name| (name, "name"));
    in_spec
        .chain(outside)
        .filter(|(name, _)| generated.contains(name))
        .map(|(name, field)| FieldError {
            field: field.to_owned(),
            message: format!(
                "`{name}` is a secret that the template generates; choose another name"
            ),
        })
        .collect()
}

/// The variables and secrets of a project or of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// Plain variables.
    pub variables: BTreeMap<VariableName, String>,
    /// Secrets, encrypted.
    pub secrets: BTreeMap<VariableName, EncryptedSecret>,
}

/// What a service's containers read: plain variables and encrypted secrets.
pub type Read = (BTreeMap<String, String>, BTreeMap<String, EncryptedSecret>);

/// Merges the entries with those of a spec. Each name comes from one source only.
#[must_use]
pub fn merge(spec: &Spec, project: &Entries, service: &Entries) -> Read {
    let (mut variables, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    overlay(&mut variables, &mut secrets, project);
    for (name, value) in &spec.variables {
        secrets.remove(name);
        variables.insert(name.clone(), value.clone());
    }
    overlay(&mut variables, &mut secrets, service);
    for name in &spec.generated_secrets {
        variables.remove(name);
        secrets.remove(name);
    }
    (variables, secrets)
}

fn overlay(
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

/// Checks the total size after a change. A total above the limit may still shrink.
///
/// # Errors
/// The error names the field `value`.
pub fn check_together(before: &Entries, after: &Entries) -> Result<(), FieldError> {
    let grown = after.sizes().into_iter().zip(before.sizes());
    for (size, was) in grown {
        if size > MOST_TOGETHER && size > was {
            let message =
                "would raise the total set here above 256 KiB; keep large values in a volume or \
                 outside"
                    .to_owned();
            return Err(FieldError { field: "value".to_owned(), message });
        }
    }
    Ok(())
}

impl Entries {
    /// Total bytes of the variables and of the secrets.
    fn sizes(&self) -> [usize; 2] {
        // A ciphertext is as long as the value and its 16-byte tag.
        let secrets =
            self.secrets.values().map(|secret| secret.sealed.bytes.len().saturating_sub(16));
        [self.variables.values().map(String::len).sum(), secrets.sum()]
    }
}
