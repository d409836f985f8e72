//! The door: the only writer of desired state. One transaction per change, whoever asks.
//!
//! Inside it: the row's lock, the pure decision of `rules::admit`, the new generation and its
//! release, the event, the quota and the wake. All of it is durable when the caller hears of it, or none is.

mod config;
mod domain;
mod domain_check;
pub(crate) mod dry_run;
mod endpoint;
mod entry;
pub(crate) mod idempotency;
mod project;
mod race;
mod secret;
mod service;
mod variable;

use trueup_model::event::Source;
use trueup_model::principal::Principal;
use trueup_model::quota::{Amounts, Quota};
use trueup_rules::access::TokenRefused;
use trueup_rules::admit::Refused;
use trueup_rules::envelope::EnvelopeError;

use crate::Error;

pub use config::EntryRequest;
pub use domain::DomainRequest;
pub use endpoint::{EndpointRequest, EndpointTarget};
pub use entry::EntryKind;
pub use project::ProjectForce;
pub use secret::SecretRequest;
pub use service::{ServiceChange, ServiceRequest};

use crate::door::idempotency::IdempotencyKey;

/// Who asks, and on which trace.
#[derive(Debug, Clone)]
pub struct RequestContext<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The trace of the request.
    pub trace: Option<String>,
    /// What makes the request known again, if the caller wants that.
    pub repeat: Option<IdempotencyKey>,
    /// What the events of it come from.
    pub source: Source,
}

impl<'a> RequestContext<'a> {
    /// Somebody whose requests are not known again.
    #[must_use]
    pub const fn new(principal: &'a Principal, trace: Option<String>) -> Self {
        Self { principal, trace, repeat: None, source: Source::User }
    }

    /// Trueup itself.
    pub(crate) const fn system(principal: &'a Principal) -> Self {
        Self { principal, trace: None, repeat: None, source: Source::System }
    }
}

/// What the door answers: the thing as it is promised now, and whether that is new.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted<T> {
    /// As it is now.
    pub row: T,
    /// Whether this ask changed it.
    pub changed: bool,
}

/// Why the door did not accept.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such project, or service, in this org.
    #[error("there is no such {0} here")]
    NotFound(&'static str),
    /// No cluster can take it.
    #[error("there is no cluster to run in")]
    NoCluster,
    /// The rules refuse it.
    #[error("the rules refuse it")]
    Refused(Refused),
    /// The org's key for secrets cannot be used.
    #[error("the org's key cannot be used: {0}")]
    Unsealable(EnvelopeError),
    /// It changed since the caller read it.
    #[error("its generation is {current} now")]
    Changed {
        /// The generation it has.
        current: i64,
    },
    /// A variable or secret changed since the caller read it.
    #[error("its version is {current} now")]
    OtherVersion {
        /// The version it has; 0 where it is not set.
        current: i64,
    },
    /// The key of this request was used for another one.
    #[error("the Idempotency-Key belongs to another request")]
    KeyReused,
    /// It is more than the org may have.
    #[error("it is more than the org's quota")]
    OverQuota {
        /// How much more it takes than is held for it.
        more: Amounts,
        /// What the org may have and has.
        quota: Quota,
    },
    /// Something else has this name.
    #[error("another {0} has this name")]
    NameTaken(&'static str),
    /// A token would have more than its maker.
    #[error("the context may not make this token")]
    TokenSpec(TokenRefused),
    /// Nobody would be left who can make tokens.
    #[error("it is the last token that can make tokens")]
    LastOwner,
    /// The operator took the proof of a domain back.
    #[error("its proof was taken back")]
    Withdrawn,
    /// It is not for Trueup to remove.
    #[error("it is kept: {0}")]
    Kept(&'static str),
    /// So many removals want to be confirmed.
    #[error("it would be removal {number} within an hour")]
    OverBudget {
        /// The number to confirm.
        number: u64,
    },
    /// What the exact preview stands on is not there any more.
    #[error("the plan does not hold: {0}")]
    PlanVoid(String),
    /// The exact preview cannot be gone by.
    #[error("the plan cannot be used: {0}")]
    PlanUnready(String),
    /// So many exact previews of the org are open.
    #[error("too many plans are open")]
    TooManyPlans,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
