//! Templates: a base spec, the parameters that may be set on it, and which of them may change later.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::name::Name;

/// One published version of a template. Published versions never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// What it is called.
    pub name: Name,
    /// Which version this is.
    pub version: u32,
    /// One sentence for people who choose.
    pub summary: String,
    /// What may be set, by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// The plan of services that name none; without one, the spec's own resources are what they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Name>,
    /// Which images its services may run; without a policy, any that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagePolicy>,
    /// The spec before parameters are set: the shape of `model::spec::Spec`.
    pub spec: Value,
    /// Set by the platform, never by who publishes: no new services, and what to use instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated>,
}

impl Template {
    /// The template and its version, as a manifest says it.
    #[must_use]
    pub fn reference(&self) -> TemplateRef {
        TemplateRef { name: self.name.clone(), version: self.version }
    }
}

/// Which images may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePolicy {
    /// Repositories, or prefixes of them that end with `/`; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether an image must be named by its digest, so that it cannot change behind its name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_digest: bool,
}

/// That a version takes no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deprecated {
    /// Since when.
    pub at: Timestamp,
    /// What to use instead, in one sentence.
    pub instead: String,
}

/// One thing that may be set. The constraints are a small part of JSON Schema under its own names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Parameter {
    /// What values it takes.
    #[serde(rename = "type")]
    pub kind: ParameterKind,
    /// A short name for people, where its own does not say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// One sentence for people.
    pub description: String,
    /// Used when the manifest does not set it; without one, it must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Smallest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// Largest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// Longest text; for a list, the longest of its texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// The only texts that are taken.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Where in the spec the value goes, as a JSON pointer. Values are placed, never spliced into
    /// text; a number or a truth that becomes a variable is spelled out.
    pub sets: String,
    /// Whether it may change once the service exists.
    #[serde(default)]
    pub mutable: bool,
}

/// What a parameter's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Texts in their order.
    List,
    /// Names with text values.
    Map,
}

impl ParameterKind {
    /// The text in a template and on screen.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::List => "list",
            Self::Map => "map",
        }
    }
}

/// Which template a manifest means: `web@1`.
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
    fn a_reference_names_template_and_version() {
        let web: TemplateRef = "web@1".parse().unwrap();
        assert_eq!((web.name.as_str(), web.version), ("web", 1));
        assert_eq!(web.to_string(), "web@1");
        for bad in ["web", "web@", "@1", "web@one", "web@1@2", "WEB@1"] {
            assert_eq!(bad.parse::<TemplateRef>(), Err(ParseTemplateRefError), "{bad}");
        }
    }
}
