//! Errors of a call, by what the caller should do about them.

use std::error::Error;

use reqwest::Response;

use crate::problem::{Code, FieldError, Problem};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server responded with a problem.
    #[error("{}", sentence(&self.summary(), self.advice()))]
    Problem(Box<Problem>),
    /// The server cannot be reached, or the response was cut off.
    #[error("{}", sentence(&self.summary(), self.advice()))]
    Unreachable {
        /// The URL of the request.
        url: String,
        /// The error of the HTTP library.
        source: reqwest::Error,
    },
    /// The response is not one of Trueup's, or the request cannot be sent.
    #[error("{0}")]
    Protocol(String),
}

impl ClientError {
    /// What happened, with one line per field error.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Problem(problem) => {
                let mut text = format!("{}: {} ({})", problem.title, problem.detail, problem.code);
                for error in &problem.errors {
                    text.push_str(&format!("\n  {}: {}", error.field, error.message));
                }
                text
            }
            Self::Unreachable { url, source } if source.is_timeout() => {
                format!("timed out waiting for {url}")
            }
            Self::Unreachable { url, source } => {
                format!("cannot reach {url}: {}", root_cause(source))
            }
            Self::Protocol(text) => text.clone(),
        }
    }

    /// What to do next, if the summary does not say it.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Problem(problem) => problem_advice(problem),
            Self::Unreachable { .. } => {
                Some("start the server with `trueup up`, or pass its URL with --url")
            }
            Self::Protocol(_) => None,
        }
    }

    /// The problem's code, where Trueup answered with a problem whose code is known.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            Self::Unreachable { .. } | Self::Protocol(_) => None,
        }
    }

    /// Whether the error is transient, so that a retry may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.status >= 500 || problem.status == 429,
            Self::Unreachable { .. } => true,
            Self::Protocol(_) => false,
        }
    }
}

fn problem_advice(problem: &Problem) -> Option<&'static str> {
    let code = problem.code;
    match code {
        Code::Unauthenticated => {
            Some("pass a valid token with --token or TRUEUP_TOKEN; `trueup up` prints one")
        }
        Code::Forbidden => Some(
            "use a token that may do this; `trueup whoami` shows the org, the role and the \
             permissions of yours",
        ),
        Code::NotFound => Some("`trueup get` lists what exists"),
        Code::InvalidManifest if problem.errors.iter().any(is_parameter) => Some(
            "fix these fields and retry; `trueup explain TEMPLATE` shows a template's parameters",
        ),
        Code::InvalidManifest => None,
        Code::PreconditionFailed => Some("read the resource again and repeat the change"),
        Code::BeingDeleted => Some(
            "a service or project can be declared again once its deletion is complete; an org \
             cannot: use another org",
        ),
        Code::TooManyStreams => Some("close unused watches, or retry later"),
        Code::DatabaseUnavailable => Some("retry in a few seconds"),
        Code::OutcomeUnknown => Some("check whether the change is there before you repeat it"),
        Code::KeyUnavailable => Some("ask the operator to restore the key files of this server"),
        Code::Internal => Some("search Trueup's log for the trace and report it"),
        Code::KeyReused => Some("use a new key for a new request"),
        Code::OverSpending => Some("`trueup budget` shows what is spent and held"),
        Code::NoBalance => {
            Some("`trueup subscription` shows the balance and what happens without one")
        }
        Code::OverQuota => Some("`trueup get quota` shows the usage and what is left"),
        Code::TooManySignIns => Some("check the address and the password, and retry later"),
        Code::TooBusy => Some("send fewer requests at once, or retry in a second"),
        Code::Unconfirmed => Some("check all of them first, then pass --confirm with that number"),
        Code::PreviewVoid => {
            Some("request a new preview with `trueup plan -f FILE --exact` and review it")
        }
        Code::PreviewNotReady => {
            Some("retry later, or request a new preview: `trueup plan -f FILE --exact`")
        }
        Code::AlreadyDecided => {
            Some("`trueup drift --all`, `trueup conflicts --all` or `trueup invoice` shows how")
        }
        Code::ProviderSignInFailed => Some("begin again in a browser, or ask an owner of the org"),
        Code::ProviderUnavailable => Some("retry in a few minutes; `trueup provider` shows why"),
        Code::MalformedBody
        | Code::TooLarge
        | Code::BadRequest
        | Code::MethodNotAllowed
        | Code::HostNotAllowed
        | Code::CrossSite
        | Code::TokenInUrl
        | Code::LastOwner
        | Code::NameTaken
        | Code::VerificationWithdrawn => None,
    }
}

/// Whether a template decides what the field may be.
fn is_parameter(error: &FieldError) -> bool {
    error.field.starts_with("parameters")
}

fn sentence(summary: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{summary}; {advice}"),
        None => summary.to_owned(),
    }
}

/// The innermost cause, such as "connection refused" instead of "error sending request".
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The error in a response that is not a success.
pub(super) async fn refusal(response: Response, url: &str) -> ClientError {
    let status = response.status();
    let bytes = match response.bytes().await {
        Ok(bytes) => bytes,
        Err(source) => {
            return ClientError::Unreachable { url: url.to_owned(), source };
        }
    };
    match serde_json::from_slice::<Problem>(&bytes) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => {
            let text: String = String::from_utf8_lossy(&bytes)
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(200)
                .collect();
            let body = if text.trim().is_empty() { "an empty body" } else { text.trim() };
            ClientError::Protocol(format!(
                "{url} responded {status} with: {body}. Check that the URL is Trueup's and that \
                 the server is ready"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::FieldError;

    #[test]
    fn problem_names_each_field_and_what_to_do() {
        let mut problem = Problem::new(Code::InvalidManifest, "one field is wrong");
        problem.errors.push(FieldError {
            field: "parameters.replicas".to_owned(),
            message: "must be at most 10".to_owned(),
        });
        let error = ClientError::Problem(Box::new(problem));
        let text = error.to_string();
        assert!(text.contains("TU1201"), "{text}");
        assert!(text.contains("parameters.replicas: must be at most 10"), "{text}");
        assert!(text.contains("fix these fields"), "{text}");
        assert_eq!(error.code(), Some(Code::InvalidManifest));
        assert!(!error.is_transient());
    }

    /// The server answers with the same codes for services, projects and orgs.
    #[test]
    fn hints_about_deletions_and_permissions_fit_orgs_too() {
        let advice = |code, detail: &str| {
            ClientError::Problem(Box::new(Problem::new(code, detail))).advice().unwrap_or_default()
        };
        let hint = advice(Code::BeingDeleted, "the org is being deleted");
        assert!(hint.contains("use another org") && !hint.contains("trueup watch"), "{hint}");
        let hint = advice(Code::Forbidden, "this token belongs to org `acme`");
        assert!(hint.contains("`trueup whoami` shows the org"), "{hint}");
    }

    #[test]
    fn only_429_and_5xx_are_transient() {
        for code in Code::ALL.iter().copied() {
            let error = ClientError::Problem(Box::new(Problem::new(code, "")));
            let passing = code.status() == 429 || code.status() >= 500;
            assert_eq!(error.is_transient(), passing, "{code:?}");
        }
    }
}
