//! Domains on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body that leads a host to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "tls": "auto" }))]
pub struct DomainBody {
    /// `auto` for a certificate that the cluster gets and renews where it can, or `off`; left out,
    /// `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

/// The body that says whether a host is proved to be the org's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "verified": true }))]
pub struct DomainVerificationBody {
    /// Whether it is.
    pub verified: bool,
}

/// A domain as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// `dom_…`
    pub id: String,
    /// The host name.
    pub host: String,
    /// The service that it leads to.
    pub service: String,
    /// `auto` or `off`.
    pub tls: String,
    /// `unverified`, `opening` or `open`, as far as the cluster was seen.
    pub state: String,
    /// What DNS says when the host is the org's; not in a preview, because its text is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<DomainVerification>,
    /// When it was proved to be the org's, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub verified_at: Option<Timestamp>,
    /// Who asked for it.
    pub made_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// The TXT record that proves whose a host is: nobody else can publish it. Trueup looks for it by itself,
/// soon after somebody asked and then less and less, for a week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainVerification {
    /// The name of the record.
    pub name: String,
    /// Its text.
    pub value: String,
    /// When it was looked for last, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<Timestamp>,
    /// What was seen instead of it: `nothing`, `other_texts`, or `doubt` where DNS did not say yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Why the host is not proved yet, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it is looked for next; nothing where nobody looks until somebody asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_check_at: Option<Timestamp>,
}

/// A list of domains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainList {
    /// In service and host order.
    pub items: Vec<Domain>,
}
