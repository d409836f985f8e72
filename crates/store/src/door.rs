//! The door: every write of a request, one transaction per change.
//!
//! It is the only writer of desired state. The transaction holds the row's lock, the pure decision
//! of `rules::admit`, the new generation and its release, the event, the quota and the wake. Either
//! all of it is committed or none of it. Every write runs in the same frame (`write.rs`): org,
//! request, time, idempotency key, dry run and retries.

mod active_hours;
mod billing;
mod binding;
mod budget;
mod config;
mod conflict;
mod credit;
mod domain;
mod domain_check;
mod drift;
pub(crate) mod dry_run;
mod endpoint;
mod entry;
mod federation;
mod finding;
pub(crate) mod freeze;
mod generation;
pub(crate) mod idempotency;
mod invitation;
mod invoice;
mod lock;
mod member;
mod org;
mod plan;
mod preview_request;
mod project;
mod project_quota;
mod provider;
mod quota;
mod routing;
mod secret;
mod service;
mod session;
mod setup;
mod subscription;
mod template;
mod token;
mod variable;
mod variable_patch;
mod wake;
mod write;

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::budget::Budget;
use trueup_model::event::Source;
use trueup_model::id::OrgId;
use trueup_model::name::Name;
use trueup_model::principal::{Principal, PrincipalId, Role};
use trueup_model::provider::IdentityEnd;
use trueup_model::quota::{Amounts, Quota};
use trueup_rules::access::TokenRefused;
use trueup_rules::admit::Refused;
use trueup_rules::envelope::EnvelopeError;
use trueup_rules::rate::subscription::Excess;

use crate::Error;

pub use budget::BudgetRequest;
pub use config::EntryRequest;
pub use credit::CreditRequest;
pub use domain::DomainRequest;
pub use endpoint::{EndpointRequest, EndpointTarget};
pub use entry::EntryKind;
pub use federation::{PendingSignIn, ProviderSignIn};
pub use invitation::{Acceptance, Account, CreatedInvitation, InvitationSpec};
pub use invoice::InvoiceRequest;
pub use project::ProjectForce;
pub use provider::ProviderRequest;
pub use secret::SecretRequest;
pub use service::{ServiceChange, ServiceRequest};
pub use subscription::{SubscriptionChange, SubscriptionRequest};
pub use variable_patch::VariablePatch;

use crate::door::idempotency::IdempotencyKey;

/// The principal, trace id and idempotency key of a request.
#[derive(Debug, Clone)]
pub struct RequestContext<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The trace id of the request.
    pub trace: Option<String>,
    /// The idempotency key, if the caller sent one.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The source of the events that the request causes.
    pub source: Source,
}

impl<'a> RequestContext<'a> {
    /// A user's request without an idempotency key.
    #[must_use]
    pub const fn new(principal: &'a Principal, trace: Option<String>) -> Self {
        Self { principal, trace, idempotency_key: None, source: Source::User }
    }

    /// A change that Trueup makes itself.
    pub(crate) const fn system(principal: &'a Principal) -> Self {
        Self { principal, trace: None, idempotency_key: None, source: Source::System }
    }
}

/// The principal of changes that Trueup makes itself, for attribution; no token and no permissions.
fn system_principal(org: OrgId, name: &str) -> Principal {
    Principal {
        id: PrincipalId::System,
        name: name.to_owned(),
        role: Role::Viewer,
        projects: Vec::new(),
        org: Some(org),
        permissions: Some(BTreeSet::new()),
        expires_at: None,
    }
}

/// The result of an accepted request.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted<T> {
    /// The object as it is now.
    pub row: T,
    /// Whether this request changed it.
    pub changed: bool,
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The org has no such object.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// No cluster is registered.
    #[error("no cluster is registered")]
    NoCluster,
    /// The admission rules refuse it.
    #[error("refused by the admission rules")]
    Refused(Refused),
    /// The code of an invitation or of the set-up is not valid, or was used.
    #[error("the code is not valid")]
    CodeNotValid,
    /// A provider does not vouch for somebody who may enter.
    #[error("the provider does not vouch for the person: {0}")]
    NotVouched(IdentityEnd),
    /// The role has permissions that the caller does not have.
    #[error("the role has more permissions than the caller")]
    RoleNotGiven,
    /// The person is a member already.
    #[error("already a member")]
    AlreadyMember,
    /// The org is being deleted.
    #[error("the org is being deleted")]
    OrgBeingDeleted,
    /// The org's data key for secrets cannot be used.
    #[error("the org's data key cannot be used: {0}")]
    CannotEncrypt(EnvelopeError),
    /// A precondition failed: the object changed since the caller read it.
    #[error("generation is now {current}")]
    Changed {
        /// The current generation.
        current: i64,
    },
    /// A precondition failed: the variable or secret changed since the caller read it.
    #[error("version is now {current}")]
    OtherVersion {
        /// The current version; 0 if it is not set.
        current: i64,
    },
    /// The idempotency key was used for another request.
    #[error("the Idempotency-Key was used for another request")]
    KeyReused,
    /// The org's quota is too small.
    #[error("the org's quota is exceeded")]
    OverQuota {
        /// How much more than the current reservation is needed.
        more: Amounts,
        /// The limit and usage of the org, or of the project.
        quota: Box<Quota>,
        /// The project, if it is its quota that is too small.
        project: Option<Name>,
    },
    /// More is used than the offer of a subscription allows.
    #[error("more is used than the offer allows")]
    BelowUse(Vec<Excess>),
    /// The org pays in advance, and has no balance left.
    #[error("the org has no balance left")]
    NoBalance,
    /// The org's budget has no room for what this would cost.
    #[error("the org's budget has no room")]
    OverSpending {
        /// The budget as it would be with it.
        budget: Budget,
        /// What the change would cost until the end of the period.
        more_micros: i64,
        /// The project, if it is its budget that has no room.
        project: Option<Name>,
    },
    /// Another object has this name.
    #[error("another {0} has this name")]
    NameTaken(&'static str),
    /// A token would have more permissions than its creator.
    #[error("the principal may not create this token")]
    TokenSpec(TokenRefused),
    /// It is the last token that can create tokens.
    #[error("cannot revoke the last token that can create tokens")]
    LastOwner,
    /// The operator withdrew the verification of a domain.
    #[error("the operator withdrew the domain's verification")]
    Withdrawn,
    /// Trueup may not remove the object.
    #[error("the object must be kept: {0}")]
    Kept(&'static str),
    /// The limit of removals per hour is reached: further ones must be confirmed.
    #[error("removal {number} within an hour requires confirmation")]
    OverBudget {
        /// The number to confirm.
        number: u64,
    },
    /// The state that the exact preview was computed from has changed.
    #[error("the exact preview no longer holds: {0}")]
    PreviewVoid(String),
    /// The exact preview is not filled, or cannot be checked now.
    #[error("the exact preview cannot be used: {0}")]
    PreviewNotReady(String),
    /// The org has too many open preview requests.
    #[error("too many open preview requests")]
    TooManyPreviews,
    /// There is nothing left to decide about a divergence, a conflict or an invoice.
    #[error("the {what} was {decision} by {} at {at}", .by.as_deref().unwrap_or("Trueup"))]
    Decided {
        /// What was to be decided: `divergence`, `conflict` or `invoice`.
        what: &'static str,
        /// What became of it.
        decision: String,
        /// Who decided; `None` if no decision was needed.
        by: Option<String>,
        /// When.
        at: Timestamp,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
