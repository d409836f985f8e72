//! From what went wrong to what the caller reads: the only place that makes problem answers.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use trueup_api::{Code, Problem, problem};
use trueup_model::principal::Permission;
use trueup_model::quota::{Amounts, Quota};
use trueup_rules::access::TokenRefused;
use trueup_rules::admit::{FieldError, Refused};
use trueup_store::Error;
use trueup_store::door::Refusal;

use crate::front::trace;

/// A problem on its way out. `Err` of every handler.
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
        Self::new(
            Code::NotFound,
            format!("there is no such {what} here; check its name and the project"),
        )
    }

    fn over_quota(more: Amounts, quota: &Quota) -> Self {
        let errors: Vec<problem::FieldError> = quota
            .short_of(more)
            .map(|(resource, left)| problem::FieldError {
                field: resource.as_str().to_owned(),
                message: format!("{} more are needed and {left} are left", more.get(resource)),
            })
            .collect();
        let detail = "nothing was recorded; ask for less, delete something, or ask an operator for \
                      more (`trueup get quota` shows what is taken)";
        Self(Box::new(Problem { errors, ..Problem::new(Code::OverQuota, detail) }))
    }

    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let errors: Vec<problem::FieldError> = errors
            .into_iter()
            .map(|error| problem::FieldError { field: error.field, message: error.message })
            .collect();
        let named: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        let detail = format!("mend {} and send it again; nothing was recorded", named.join(", "));
        Self(Box::new(Problem { errors, ..Problem::new(Code::InvalidManifest, detail) }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            // A net below the rules: what they let through and no database takes is the caller's mistake.
            error if error.is_about_text() => Self::new(
                Code::BadRequest,
                "a text holds a character that cannot be stored, such as U+0000; leave it out",
            ),
            Error::Unavailable(source) => {
                tracing::warn!(error = %source, "the database cannot be reached");
                Self::new(
                    Code::DatabaseUnavailable,
                    "nothing was recorded; try again in a few seconds",
                )
            }
            error @ (Error::CommitUnknown(_) | Error::Silent) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, source, "a change was not answered by the database");
                Self::new(
                    Code::DatabaseUnavailable,
                    "it is not known whether this was recorded; send it again with the same \
                     Idempotency-Key, or look before you do",
                )
            }
            Error::Overtaken => Self::new(
                Code::PreconditionFailed,
                "somebody else changed it at the same moment; ask again",
            ),
            error @ (Error::Fenced
            | Error::Corrupt { .. }
            | Error::Database(_)
            | Error::Migrate(_)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, source, "a request failed by a defect");
                Self::new(Code::Internal, "this is a defect; report it with the trace given here")
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
                "wait until it is deleted (`trueup watch NAME --until deleted`, `trueup get project NAME`), \
                 then declare it anew",
            ),
            Refusal::Unsealable(why) => {
                tracing::error!(error = %why, "a secret could not be sealed");
                Self::new(
                    Code::KeyUnavailable,
                    "nothing was recorded; ask the operator to restore the key",
                )
            }
            Refusal::Changed { current } => Self::new(
                Code::PreconditionFailed,
                format!("its generation is {current} now; read it again and decide anew"),
            ),
            Refusal::OtherVersion { current: 0 } => Self::new(
                Code::PreconditionFailed,
                "it is not set now; list what is set and decide anew",
            ),
            Refusal::OtherVersion { current } => Self::new(
                Code::PreconditionFailed,
                format!("its version is {current} now; read it again and decide anew"),
            ),
            Refusal::KeyReused => Self::new(
                Code::KeyReused,
                "a request with another body used this `Idempotency-Key`; choose a new key",
            ),
            Refusal::OverQuota { more, quota } => Self::over_quota(more, &quota),
            Refusal::NameTaken(what) => Self::new(
                Code::NameTaken,
                format!("another {what} has this name; choose another one"),
            ),
            Refusal::TokenSpec(why) => token_refused(&why),
            Refusal::LastOwner => Self::new(
                Code::LastOwner,
                "make another token that can make tokens first (`trueup token create NAME --role owner`)",
            ),
            Refusal::Withdrawn => Self::new(
                Code::ProofWithdrawn,
                "the operator took the proof of this host back, and its text proves nothing any more; remove the \
                 domain, add it again and publish its new text, or ask the operator",
            ),
            Refusal::Kept(why) => Self::new(Code::BadRequest, why),
            Refusal::OverBudget { number } => Self::new(
                Code::Unconfirmed,
                format!(
                    "this would be removal {number} in this cluster within an hour; if you are sure of all \
                     of them, ask again with `confirm` {number}"
                ),
            ),
            Refusal::PlanVoid(why) => Self::new(
                Code::PlanVoid,
                format!("{why}; nothing was recorded, ask for a new plan and look at it"),
            ),
            Refusal::PlanUnready(why) => {
                Self::new(Code::PlanUnready, format!("{why}; nothing was recorded"))
            }
            Refusal::TooManyPlans => Self::new(
                Code::TooBusy,
                "a hundred plans of this org are open; they end by themselves within a quarter of an hour",
            ),
            Refusal::Store(error) => error.into(),
        }
    }
}

/// What was too much about a token, and what would do.
fn token_refused(why: &TokenRefused) -> Failure {
    let names = |all: &[Permission]| {
        all.iter().map(|one| format!("`{}`", one.as_str())).collect::<Vec<_>>().join(", ")
    };
    let field_error = |field: &str, message: String| {
        Failure::invalid(vec![FieldError { field: field.to_owned(), message }])
    };
    match why {
        TokenRefused::Role => Failure::new(
            Code::Forbidden,
            "a token never makes one with a higher role than its own; ask somebody who has it",
        ),
        TokenRefused::NotInRole(some) => field_error(
            "permissions",
            format!("{} is not in that role; choose a higher role or leave it out", names(some)),
        ),
        TokenRefused::Permissions(some) => Failure::new(
            Code::Forbidden,
            format!("this token does not have {} itself; name fewer in `permissions`", names(some)),
        ),
        TokenRefused::Outlives(end) => Failure::new(
            Code::Forbidden,
            format!("this token ends at {end}, so none that it makes may end later"),
        ),
        TokenRefused::Past => {
            field_error("expires_at", "is in the past; name a time to come".to_owned())
        }
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
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Paths and methods that do not exist.
pub(crate) async fn no_such_route() -> Failure {
    Failure::new(Code::NotFound, "there is no such route; /openapi.json lists them")
}
