//! Problem responses. Every error of the store becomes one here, and only here.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use trueup_api::{Code, Problem, problem};
use trueup_model::budget::Budget;
use trueup_model::money::Money;
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::quota::{Amounts, Quota};
use trueup_rules::access::TokenRefused;
use trueup_rules::admit::{FieldError, Refused};
use trueup_rules::rate::subscription::Excess;
use trueup_store::door::Refusal;
use trueup_store::{Error, SIGN_IN_WINDOW};

use crate::front::trace;

/// A problem response; the `Err` of every handler.
#[derive(Debug)]
pub(crate) struct Failure(Box<Problem>);

pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// A problem with one field.
    pub(crate) fn at(code: Code, detail: String, field: String, message: String) -> Self {
        let errors = vec![problem::FieldError { field, message }];
        Self(Box::new(Problem { errors, ..Problem::new(code, detail) }))
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what}; check its name and the project"))
    }

    /// Too many sign-ins have failed.
    pub(crate) fn too_many_sign_ins() -> Self {
        let minutes = SIGN_IN_WINDOW.as_mins();
        let detail = format!(
            "too many failed sign-ins with this address or from this client; wait {minutes} minutes"
        );
        Self::new(Code::TooManySignIns, detail)
    }

    /// The database did not confirm a change.
    pub(crate) fn outcome_unknown() -> Self {
        let detail = "the database did not confirm the change, so it may be saved or not; retry \
                      with the same Idempotency-Key, or read the resource first";
        Self::new(Code::OutcomeUnknown, detail)
    }

    fn over_quota(more: Amounts, quota: &Quota, project: Option<&Name>) -> Self {
        let errors: Vec<problem::FieldError> = quota
            .short_of(more)
            .map(|(resource, left)| problem::FieldError {
                field: resource.into_str().to_owned(),
                message: format!("{} more needed, {left} left", more.get(resource)),
            })
            .collect();
        let detail = match project {
            None => "nothing was saved; request less, delete something, or ask an operator to raise the \
                     quota (`trueup get quota` shows the usage)"
                .to_owned(),
            Some(project) => format!(
                "the quota of the project {project} is exceeded; nothing was saved; request less, delete \
                 something in it, or raise its quota (`trueup quota --of {project}`)"
            ),
        };
        Self(Box::new(Problem { errors, ..Problem::new(Code::OverQuota, detail) }))
    }

    /// More is used than an offer allows.
    fn below_use(exceeded: &[Excess]) -> Self {
        let errors: Vec<problem::FieldError> = exceeded
            .iter()
            .map(|one| problem::FieldError {
                field: one.resource.into_str().to_owned(),
                message: format!("{} are used, and the offer allows {}", one.used, one.limit),
            })
            .collect();
        let detail = "more is used than the offer allows; nothing was saved; delete or scale down \
                      something first, or let the change begin with the next billing period \
                      (`--at next-period`)";
        Self(Box::new(Problem { errors, ..Problem::new(Code::OverQuota, detail) }))
    }

    fn decided(what: &str, decision: &str, by: Option<String>, at: Timestamp) -> Self {
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        let detail = format!("the {what} was {decision}{by} at {at}; nothing was saved");
        Self::new(Code::AlreadyDecided, detail)
    }

    fn over_spending(budget: &Budget, more_micros: i64, project: Option<&Name>) -> Self {
        let amount = |micros: i64| Money { micros, currency: budget.currency };
        let before = budget.held_micros.saturating_sub(more_micros);
        let (whose, option) = match project {
            None => (String::new(), String::new()),
            Some(project) => (format!("the project {project}, "), format!(" --of {project}")),
        };
        let detail = format!(
            "this would cost {} until the end of the billing period; of the budget of {whose}{}, {} is spent and \
             {} is held by other services; nothing was saved; request less, pause something, or raise the \
             budget (`trueup budget{option}`)",
            amount(more_micros),
            amount(budget.limit_micros),
            amount(budget.spent_micros),
            amount(before),
        );
        Self::new(Code::OverSpending, detail)
    }

    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let errors: Vec<problem::FieldError> = errors
            .into_iter()
            .map(|error| problem::FieldError { field: error.field, message: error.message })
            .collect();
        let named: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        let detail =
            format!("invalid fields: {}; nothing was saved; fix and retry", named.join(", "));
        Self(Box::new(Problem { errors, ..Problem::new(Code::InvalidManifest, detail) }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            // A text that admission accepts and Postgres cannot store is the caller's mistake.
            error if error.is_about_text() => Self::new(
                Code::BadRequest,
                "a text contains a character that cannot be stored, such as U+0000; remove it",
            ),
            Error::Unavailable(source) => {
                tracing::warn!(error = %source, "database unavailable");
                Self::new(Code::DatabaseUnavailable, "nothing was saved; retry in a few seconds")
            }
            error @ (Error::CommitUnknown(_) | Error::Silent) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, source, "commit outcome unknown");
                Self::outcome_unknown()
            }
            Error::Overtaken => Self::new(
                Code::PreconditionFailed,
                "another request changed the resource at the same time; re-read and retry",
            ),
            error @ (Error::Fenced
            | Error::Corrupt { .. }
            | Error::Database(_)
            | Error::Migrate(_)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, source, "request failed: internal error");
                Self::new(Code::Internal, "a bug in Trueup; report it with the trace id")
            }
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(what) => Self::not_found(what),
            Refusal::NoCluster => {
                Self::new(Code::BadRequest, "no cluster is registered; start one with `trueup up`")
            }
            Refusal::Refused(Refused::Invalid(errors)) => Self::invalid(errors),
            Refusal::Refused(Refused::BeingDeleted) => Self::new(
                Code::BeingDeleted,
                "wait until the deletion is complete (`trueup watch NAME --until deleted`, \
                 `trueup get project NAME`), then declare it again",
            ),
            Refusal::OrgBeingDeleted => Self::new(
                Code::BeingDeleted,
                "the org is being deleted; nothing new is accepted in it",
            ),
            Refusal::CannotEncrypt(why) => {
                tracing::error!(error = %why, "cannot encrypt a secret");
                Self::new(
                    Code::KeyUnavailable,
                    "nothing was saved; ask an operator to restore the key",
                )
            }
            Refusal::Changed { current } => Self::new(
                Code::PreconditionFailed,
                format!("generation is now {current}; re-read and retry"),
            ),
            Refusal::OtherVersion { current: 0 } => Self::new(
                Code::PreconditionFailed,
                "the variable or secret is not set; re-read the list and retry",
            ),
            Refusal::OtherVersion { current } => Self::new(
                Code::PreconditionFailed,
                format!("version is now {current}; re-read and retry"),
            ),
            Refusal::KeyReused => Self::new(
                Code::KeyReused,
                "this `Idempotency-Key` was used with a different body; use a new key",
            ),
            Refusal::NoBalance
            | Refusal::BelowUse(_)
            | Refusal::OverQuota { .. }
            | Refusal::OverSpending { .. } => limit_reached(&refusal),
            Refusal::NameTaken(what) => Self::new(
                Code::NameTaken,
                format!("another {what} has this name; choose a different one"),
            ),
            Refusal::TokenSpec(why) => token_refused(&why),
            Refusal::CodeNotValid
            | Refusal::RoleNotGiven
            | Refusal::AlreadyMember
            | Refusal::NotVouched(_)
            | Refusal::LastOwner => people_refused(&refusal),
            Refusal::Withdrawn => Self::new(
                Code::VerificationWithdrawn,
                "the operator withdrew the verification of this domain, and its TXT value is no \
                 longer accepted; remove the domain, add it again and publish the new value, or \
                 ask the operator",
            ),
            Refusal::Kept(why) => Self::new(Code::BadRequest, why),
            Refusal::OverBudget { number } => Self::new(
                Code::Unconfirmed,
                format!(
                    "this is removal {number} in this cluster within an hour; check all of them, \
                     then retry with `confirm` {number}"
                ),
            ),
            Refusal::PreviewVoid(why) => Self::new(
                Code::PreviewVoid,
                format!("{why}; nothing was saved; request a new preview and review it"),
            ),
            Refusal::PreviewNotReady(why) => {
                Self::new(Code::PreviewNotReady, format!("{why}; nothing was saved"))
            }
            Refusal::TooManyPreviews => Self::new(
                Code::TooBusy,
                "the org has 100 open preview requests; each expires within 15 minutes",
            ),
            Refusal::Decided { what, decision, by, at } => Self::decided(what, &decision, by, at),
            Refusal::Store(error) => error.into(),
        }
    }
}

/// Which limit was reached: of a quota, a budget, an offer or the balance.
fn limit_reached(refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::BelowUse(exceeded) => Failure::below_use(exceeded),
        Refusal::OverQuota { more, quota, project } => {
            Failure::over_quota(*more, quota, project.as_ref())
        }
        Refusal::OverSpending { budget, more_micros, project } => {
            Failure::over_spending(budget, *more_micros, project.as_ref())
        }
        Refusal::NoBalance => Failure::new(
            Code::NoBalance,
            "the subscription is paid in advance, and the org has no balance left; nothing was saved; \
             ask an operator for credit, or change the subscription (`trueup subscription`)",
        ),
        other => Failure::new(Code::Forbidden, other.to_string()),
    }
}

/// Why a person, an invitation or a role was refused.
fn people_refused(refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::CodeNotValid => Failure::new(
            Code::Unauthenticated,
            "the code is not valid: it was used, revoked, has expired, or is incomplete; ask for a \
             new one",
        ),
        Refusal::RoleNotGiven => Failure::new(
            Code::Forbidden,
            "you cannot give or take a role with more permissions than your own; ask an owner",
        ),
        Refusal::AlreadyMember => Failure::new(
            Code::NameTaken,
            "this person is a member already; `trueup members role` changes the role",
        ),
        Refusal::LastOwner => Failure::new(
            Code::LastOwner,
            "first make somebody else an owner (`trueup members role`), or create another owner \
             token (`trueup token create NAME --role owner`)",
        ),
        other => Failure::new(Code::Forbidden, other.to_string()),
    }
}

/// Why a token was refused, and what would be accepted.
fn token_refused(why: &TokenRefused) -> Failure {
    let names = |all: &[Permission]| {
        all.iter().map(|one| format!("`{}`", one.into_str())).collect::<Vec<_>>().join(", ")
    };
    let field_error = |field: &str, message: String| {
        Failure::invalid(vec![FieldError { field: field.to_owned(), message }])
    };
    match why {
        TokenRefused::Role => Failure::new(
            Code::Forbidden,
            "a token cannot create one with a higher role than its own; use a token with that role",
        ),
        TokenRefused::NotInRole(some) => field_error(
            "permissions",
            format!("{} is not in that role; choose a higher role or omit it", names(some)),
        ),
        TokenRefused::Permissions(some) => Failure::new(
            Code::Forbidden,
            format!("this token does not have {}; remove it from `permissions`", names(some)),
        ),
        TokenRefused::Outlives(end) => Failure::new(
            Code::Forbidden,
            format!("this token expires at {end}; a token that it creates cannot expire later"),
        ),
        TokenRefused::Past => field_error("expires_at", "must be in the future".to_owned()),
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut problem = self.0;
        problem.trace = trace::current();
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            // A window of failed sign-ins is a quarter of an hour; any other limit frees up at once.
            let seconds = if problem.code == Code::TooManySignIns { "900" } else { "1" };
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A path that does not exist.
pub(crate) async fn no_such_route() -> Failure {
    Failure::new(Code::NotFound, "no such path; /openapi.json lists all of them")
}

/// A method that a path does not support. The router adds the `Allow` header.
pub(crate) async fn method_not_allowed() -> Failure {
    Failure::new(Code::MethodNotAllowed, "use a method of the `Allow` header")
}
