//! Templates: a base spec, its parameters, and which of them may change later.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::drift::DriftPolicy;
use crate::name::Name;

/// One published version of a template. A published version never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Its name.
    pub name: Name,
    /// Its version.
    pub version: u32,
    /// A one-sentence description.
    pub summary: String,
    /// The parameters, by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// The default plan of its services; without one, they get the resources in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Name>,
    /// The images its services may run; without a policy, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagePolicy>,
    /// The spec before parameters are set, in the form of `model::spec::Spec`.
    pub spec: Value,
    /// The drift policy of its services, where neither they nor their project have one.
    #[serde(default, skip_serializing_if = "DriftPolicy::is_empty")]
    pub drift: DriftPolicy,
    /// Set by the platform, never by the publisher: no new services, and what to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated>,
}

impl Template {
    /// The reference to this version, as used in a manifest.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { name: self.name.clone(), version: self.version }
    }
}

/// The images that may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePolicy {
    /// Repositories, or prefixes that end with `/`; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether an image must be named by its digest, so that it cannot change under its tag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_digest: bool,
}

/// The deprecation of a version: it accepts no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deprecated {
    /// Since when.
    pub at: Timestamp,
    /// What to use instead, in one sentence.
    pub instead: String,
}

/// One parameter. The constraints are a subset of JSON Schema, with the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Parameter {
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: ParameterKind,
    /// A display name, if the parameter's own name is not clear enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A one-sentence description.
    pub description: String,
    /// Used if the manifest does not set it; without one, it is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The smallest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The largest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// The maximum length of a text; for a list, of each of its texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The only allowed texts.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Where in the spec the value goes, as a JSON pointer. Values are never spliced into text; a
    /// number or boolean that sets a variable is converted to text.
    pub sets: String,
    /// Whether it may change once the service exists.
    #[serde(default)]
    pub mutable: bool,
}

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ParameterKind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A list of texts.
    List,
    /// A map from names to texts.
    Map,
}

/// A reference to a template version: `web@1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateRef {
    /// The template's name.
    pub name: Name,
    /// Its version.
    pub version: u32,
}

/// A text that is not `name@version`.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("must be a template and its version, such as `web@1`")]
pub struct ParseTemplateRefError;

impl FromStr for TemplateRef {
    type Err = ParseTemplateRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, version) = text.split_once('@').ok_or(ParseTemplateRefError)?;
        Ok(Self {
            name: name.parse().map_err(|_| ParseTemplateRefError)?,
            version: version.parse().map_err(|_| ParseTemplateRefError)?,
        })
    }
}

impl TryFrom<String> for TemplateRef {
    type Error = ParseTemplateRefError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<TemplateRef> for String {
    fn from(template: TemplateRef) -> Self {
        template.to_string()
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_has_template_and_version() {
        let web: TemplateRef = "web@1".parse().unwrap();
        assert_eq!((web.name.as_str(), web.version), ("web", 1));
        assert_eq!(web.to_string(), "web@1");
        for bad in ["web", "web@", "@1", "web@one", "web@1@2", "WEB@1"] {
            assert_eq!(bad.parse::<TemplateRef>(), Err(ParseTemplateRefError), "{bad}");
        }
    }
}
