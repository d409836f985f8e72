//! Problems: RFC 9457 answers with a stable code, and a page in `docs/errors/` for each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every problem Trueup can answer with. Append only: clients decide by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// No token, or one that is not known.
    Unauthenticated,
    /// The token's role does not allow it.
    Forbidden,
    /// No such thing, or none that this caller may know of.
    NotFound,
    /// The body cannot be read.
    MalformedBody,
    /// The request is too large.
    TooLarge,
    /// A parameter of the request's address or headers cannot be used.
    BadRequest,
    /// The manifest breaks a rule; each field_error names its field.
    InvalidManifest,
    /// The thing changed since it was read.
    PreconditionFailed,
    /// It is being deleted and takes no more changes.
    BeingDeleted,
    /// The Idempotency-Key was used for another request.
    KeyReused,
    /// It is more than the org may have.
    OverQuota,
    /// As many streams are open as may be.
    TooManyStreams,
    /// Trueup cannot reach its database.
    DatabaseUnavailable,
    /// The key that seals secrets is missing or wrong.
    KeyUnavailable,
    /// A defect in Trueup.
    Internal,
    /// A token stands in the request's address, where logs and histories keep it.
    TokenInAddress,
    /// Nobody would be left who can make tokens.
    LastOwner,
    /// Something else has this name.
    NameTaken,
    /// The org has too many requests under way.
    TooBusy,
    /// So many removals want to be confirmed.
    Unconfirmed,
    /// The operator took the proof of a domain back.
    ProofWithdrawn,
    /// What an exact preview stands on is not there any more.
    PlanVoid,
    /// An exact preview is not filled, failed, or too old.
    PlanUnready,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 23] = [
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MalformedBody,
        Self::TooLarge,
        Self::BadRequest,
        Self::InvalidManifest,
        Self::PreconditionFailed,
        Self::BeingDeleted,
        Self::KeyReused,
        Self::OverQuota,
        Self::TooManyStreams,
        Self::DatabaseUnavailable,
        Self::KeyUnavailable,
        Self::Internal,
        Self::TokenInAddress,
        Self::LastOwner,
        Self::NameTaken,
        Self::TooBusy,
        Self::Unconfirmed,
        Self::ProofWithdrawn,
        Self::PlanVoid,
        Self::PlanUnready,
    ];

    /// The stable text: `TU` and four digits, area by thousand.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthenticated => "TU1001",
            Self::Forbidden => "TU1002",
            Self::NotFound => "TU1003",
            Self::MalformedBody => "TU1101",
            Self::TooLarge => "TU1102",
            Self::BadRequest => "TU1103",
            Self::InvalidManifest => "TU1201",
            Self::PreconditionFailed => "TU1301",
            Self::BeingDeleted => "TU1302",
            Self::KeyReused => "TU1303",
            Self::OverQuota => "TU1401",
            Self::TooManyStreams => "TU1501",
            Self::DatabaseUnavailable => "TU2001",
            Self::KeyUnavailable => "TU2101",
            Self::Internal => "TU9001",
            Self::TokenInAddress => "TU1004",
            Self::LastOwner => "TU1005",
            Self::NameTaken => "TU1006",
            Self::TooBusy => "TU1007",
            Self::Unconfirmed => "TU1008",
            Self::ProofWithdrawn => "TU1009",
            Self::PlanVoid => "TU1304",
            Self::PlanUnready => "TU1305",
        }
    }

    /// The HTTP status that goes with it.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MalformedBody | Self::BadRequest => 400,
            Self::TooLarge => 413,
            Self::InvalidManifest => 422,
            Self::PreconditionFailed => 412,
            Self::BeingDeleted | Self::KeyReused | Self::OverQuota => 409,
            Self::TooManyStreams => 429,
            Self::DatabaseUnavailable | Self::KeyUnavailable => 503,
            Self::Internal => 500,
            Self::TokenInAddress => 400,
            Self::LastOwner | Self::NameTaken | Self::Unconfirmed | Self::ProofWithdrawn => 409,
            Self::PlanVoid | Self::PlanUnready => 409,
            Self::TooBusy => 429,
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Unauthenticated => "A valid token is needed",
            Self::Forbidden => "This token may not do that",
            Self::NotFound => "There is no such thing",
            Self::MalformedBody => "The body cannot be read",
            Self::TooLarge => "The request is too large",
            Self::BadRequest => "The request cannot be used as it is",
            Self::InvalidManifest => "The manifest breaks a rule",
            Self::PreconditionFailed => "It changed since it was read",
            Self::BeingDeleted => "It is being deleted",
            Self::KeyReused => "This key belongs to another request",
            Self::OverQuota => "It is more than the quota allows",
            Self::TooManyStreams => "Too many streams are open",
            Self::DatabaseUnavailable => "Trueup cannot reach its database",
            Self::KeyUnavailable => "The key for secrets is missing",
            Self::Internal => "A defect in Trueup",
            Self::TokenInAddress => "A token does not belong into an address",
            Self::LastOwner => "Nobody would be left who can make tokens",
            Self::NameTaken => "This name is taken",
            Self::TooBusy => "Too many requests at once",
            Self::Unconfirmed => "So many removals want to be confirmed",
            Self::ProofWithdrawn => "The proof of this host was taken back",
            Self::PlanVoid => "The plan does not hold any more",
            Self::PlanUnready => "The plan cannot be used",
        }
    }
}

/// A problem as it is sent: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where the page about this code is served.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is, in a few words; the same for every answer with this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What happened here, and what to do next.
    pub detail: String,
    /// Each field that is wrong, with how to mend it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The trace to look for in Trueup's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Which, as a path in the manifest: `parameters.replicas`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem with this code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/docs/errors/{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code: code.as_str().to_owned(),
            detail: detail.into(),
            errors: Vec::new(),
            trace: None,
        }
    }
}
