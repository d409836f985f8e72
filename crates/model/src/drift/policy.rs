//! Drift policies: which differences are reverted, adopted or ignored.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};
use utoipa::ToSchema;

use crate::key::Kind;

/// What happens to a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[schema(as = DriftVerdict)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Verdict {
    /// It is reverted.
    #[default]
    Enforce,
    /// Its value becomes the desired state, if that is approved.
    Adopt,
    /// It is shown and left alone.
    Ignore,
}

/// How a value is adopted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum AdoptMode {
    /// It is reverted at once, and proposed for approval.
    #[default]
    Propose,
    /// It is proposed for approval, and stays until the proposal is decided or expires.
    Keep,
    /// It is adopted without approval.
    Automatic,
}

/// A drift policy of a service, a project or a template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriftPolicy {
    /// For all fields without a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How values are adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<AdoptMode>,
    /// For kinds and fields. The longest matching path wins, then a rule with a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<DriftRule>,
}

impl DriftPolicy {
    /// Whether it says nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.verdict.is_none() && self.adopt.is_none() && self.rules.is_empty()
    }
}

/// The verdict for some fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriftRule {
    /// Only for objects of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Only for this field and what is inside of it: `spec.replicas`,
    /// `spec.template.spec.containers.main.image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub path: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
}
