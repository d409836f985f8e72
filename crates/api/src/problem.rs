//! Problems: RFC 9457 responses with a stable code, and a page in `docs/errors/` for each.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumProperty, EnumString, IntoStaticStr, VariantArray};
use utoipa::ToSchema;

/// Every problem of the API. Append only: clients depend on the codes.
///
/// Each has a stable code, a title and an HTTP status. The first digit is the area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumMessage, EnumProperty, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
#[schema(as = ProblemCode)]
pub enum Code {
    /// No token was sent, or the token is not valid.
    #[serde(rename = "TU1001")]
    #[strum(serialize = "TU1001", message = "Valid token required", props(status = 401))]
    Unauthenticated,
    /// The token's role does not allow the request.
    #[serde(rename = "TU1002")]
    #[strum(serialize = "TU1002", message = "Permission denied", props(status = 403))]
    Forbidden,
    /// The object does not exist, or the caller may not know of it.
    #[serde(rename = "TU1003")]
    #[strum(serialize = "TU1003", message = "Not found", props(status = 404))]
    NotFound,
    /// A token is part of the URL, where logs and histories keep it.
    #[serde(rename = "TU1004")]
    #[strum(serialize = "TU1004", message = "Token in URL rejected", props(status = 400))]
    TokenInUrl,
    /// No owner would be left.
    #[serde(rename = "TU1005")]
    #[strum(serialize = "TU1005", message = "Cannot remove the last owner", props(status = 409))]
    LastOwner,
    /// Another object has this name.
    #[serde(rename = "TU1006")]
    #[strum(serialize = "TU1006", message = "Name is taken", props(status = 409))]
    NameTaken,
    /// The org has too many requests in flight.
    #[serde(rename = "TU1007")]
    #[strum(serialize = "TU1007", message = "Too many requests in flight", props(status = 429))]
    TooBusy,
    /// So many removals within an hour need a confirmation.
    #[serde(rename = "TU1008")]
    #[strum(
        serialize = "TU1008",
        message = "Removal limit reached; confirmation required",
        props(status = 409)
    )]
    Unconfirmed,
    /// The operator withdrew the verification of the domain.
    #[serde(rename = "TU1009")]
    #[strum(
        serialize = "TU1009",
        message = "Domain verification was withdrawn",
        props(status = 409)
    )]
    VerificationWithdrawn,
    /// A request with the cookie of a session does not come from Trueup's own pages.
    #[serde(rename = "TU1010")]
    #[strum(serialize = "TU1010", message = "Cross-site request refused", props(status = 403))]
    CrossSite,
    /// Too many sign-ins with this address or from this client have failed.
    #[serde(rename = "TU1011")]
    #[strum(serialize = "TU1011", message = "Too many failed sign-ins", props(status = 429))]
    TooManySignIns,
    /// A sign-in with an identity provider failed.
    #[serde(rename = "TU1012")]
    #[strum(
        serialize = "TU1012",
        message = "Sign-in with the identity provider failed",
        props(status = 401)
    )]
    ProviderSignInFailed,
    /// The body cannot be parsed.
    #[serde(rename = "TU1101")]
    #[strum(serialize = "TU1101", message = "Malformed body", props(status = 400))]
    MalformedBody,
    /// The request is too large.
    #[serde(rename = "TU1102")]
    #[strum(serialize = "TU1102", message = "Request too large", props(status = 413))]
    TooLarge,
    /// A parameter in the path, the query or a header is not valid.
    #[serde(rename = "TU1103")]
    #[strum(serialize = "TU1103", message = "Bad request", props(status = 400))]
    BadRequest,
    /// The path does not support the method.
    #[serde(rename = "TU1104")]
    #[strum(serialize = "TU1104", message = "Method not allowed", props(status = 405))]
    MethodNotAllowed,
    /// Trueup does not answer to the host that the request names.
    #[serde(rename = "TU1105")]
    #[strum(serialize = "TU1105", message = "Host not allowed", props(status = 421))]
    HostNotAllowed,
    /// The manifest violates a rule; each field error names its field.
    #[serde(rename = "TU1201")]
    #[strum(serialize = "TU1201", message = "Invalid values", props(status = 422))]
    InvalidManifest,
    /// The object changed since it was read.
    #[serde(rename = "TU1301")]
    #[strum(serialize = "TU1301", message = "Changed since it was read", props(status = 412))]
    PreconditionFailed,
    /// The object is being deleted and takes no more changes.
    #[serde(rename = "TU1302")]
    #[strum(serialize = "TU1302", message = "Being deleted", props(status = 409))]
    BeingDeleted,
    /// The Idempotency-Key was used for another request.
    #[serde(rename = "TU1303")]
    #[strum(serialize = "TU1303", message = "Idempotency key reused", props(status = 409))]
    KeyReused,
    /// The state that an exact preview was computed from has changed.
    #[serde(rename = "TU1304")]
    #[strum(serialize = "TU1304", message = "Preview is no longer valid", props(status = 409))]
    PreviewVoid,
    /// An exact preview is not filled, failed, or expired.
    #[serde(rename = "TU1305")]
    #[strum(serialize = "TU1305", message = "Preview cannot be applied", props(status = 409))]
    PreviewNotReady,
    /// A person, a policy or a later change has decided about the divergence or conflict already.
    #[serde(rename = "TU1306")]
    #[strum(serialize = "TU1306", message = "Already decided", props(status = 409))]
    AlreadyDecided,
    /// The request exceeds the quota of the org.
    #[serde(rename = "TU1401")]
    #[strum(serialize = "TU1401", message = "Quota exceeded", props(status = 409))]
    OverQuota,
    /// The request would cost more than the budget of the org has left.
    #[serde(rename = "TU1402")]
    #[strum(serialize = "TU1402", message = "Budget exceeded", props(status = 409))]
    OverSpending,
    /// The org pays in advance, and has no balance left.
    #[serde(rename = "TU1403")]
    #[strum(serialize = "TU1403", message = "No balance left", props(status = 409))]
    NoBalance,
    /// The limit of open streams is reached.
    #[serde(rename = "TU1501")]
    #[strum(serialize = "TU1501", message = "Too many open streams", props(status = 429))]
    TooManyStreams,
    /// The database cannot be reached; nothing was saved.
    #[serde(rename = "TU2001")]
    #[strum(serialize = "TU2001", message = "Database unavailable", props(status = 503))]
    DatabaseUnavailable,
    /// The database did not confirm a change, so it may be saved or not.
    #[serde(rename = "TU2002")]
    #[strum(serialize = "TU2002", message = "Outcome unknown", props(status = 503))]
    OutcomeUnknown,
    /// The key that encrypts secrets is missing or wrong.
    #[serde(rename = "TU2101")]
    #[strum(serialize = "TU2101", message = "Key for secrets unavailable", props(status = 503))]
    KeyUnavailable,
    /// An identity provider does not answer.
    #[serde(rename = "TU2201")]
    #[strum(serialize = "TU2201", message = "Identity provider unavailable", props(status = 503))]
    ProviderUnavailable,
    /// A bug in Trueup.
    #[serde(rename = "TU9001")]
    #[strum(serialize = "TU9001", message = "Internal error", props(status = 500))]
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The HTTP status of the code.
    #[must_use]
    pub fn status(self) -> u16 {
        self.get_int("status").and_then(|status| u16::try_from(status).ok()).unwrap_or(500)
    }

    /// The title of the code.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.get_message().unwrap_or_default()
    }
}

/// A problem as it is sent: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The path of the page about this code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The title of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: Code,
    /// What happened, and what to do next.
    pub detail: String,
    /// Each invalid field, with how to fix it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The trace id, to search for in Trueup's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// One invalid field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// The path of the field in the manifest: `parameters.replicas`.
    pub field: String,
    /// What is wrong, and what would be valid.
    pub message: String,
}

impl Problem {
    /// A problem with this code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/docs/errors/{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: detail.into(),
            errors: Vec::new(),
            trace: None,
        }
    }
}
