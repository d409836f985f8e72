//! What can go wrong in a call, told apart by what its caller should do about it.

use std::error::Error;

use reqwest::Response;

use crate::problem::{Code, Problem};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Trueup answered, and said no.
    #[error("{}", sentence(&self.summary(), self.advice()))]
    Problem(Box<Problem>),
    /// Trueup could not be asked, or stopped in the middle of its answer.
    #[error("{}", sentence(&self.summary(), self.advice()))]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong below.
        source: reqwest::Error,
    },
    /// Something answered, and not in a way that Trueup does; or nothing could be sent.
    #[error("{0}")]
    Protocol(String),
}

impl ClientError {
    /// What happened, in one line for each thing that is wrong.
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
                format!("no answer from {url} in time")
            }
            Self::Unreachable { url, source } => {
                format!("cannot reach {url}: {}", root_cause(source))
            }
            Self::Protocol(text) => text.clone(),
        }
    }

    /// What to do next, where the summary does not say it already.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Problem(problem) => problem_advice(problem),
            Self::Unreachable { .. } => Some(
                "see whether Trueup runs with `trueup status`, start it with `trueup up`, or pass \
                 its address with --url",
            ),
            Self::Protocol(_) => None,
        }
    }

    /// The problem's code, where Trueup answered with a problem whose code is known.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => {
                Code::ALL.into_iter().find(|code| code.as_str() == problem.code)
            }
            Self::Unreachable { .. } | Self::Protocol(_) => None,
        }
    }

    /// Whether the same call may well succeed in a moment.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.status >= 500 || problem.status == 429,
            Self::Unreachable { .. } => true,
            Self::Protocol(_) => false,
        }
    }
}

fn problem_advice(problem: &Problem) -> Option<&'static str> {
    let code = Code::ALL.into_iter().find(|code| code.as_str() == problem.code)?;
    match code {
        Code::Unauthenticated => {
            Some("pass a valid token with --token or TRUEUP_TOKEN; `trueup up` prints one")
        }
        Code::Forbidden => Some("use a token whose role allows it"),
        Code::NotFound => Some("`trueup get` lists what there is"),
        Code::InvalidManifest => Some(
            "mend the fields that are named and send it again; `trueup get templates` lists what \
             may be set",
        ),
        Code::PreconditionFailed => Some("read it again and repeat the change on what is there"),
        Code::BeingDeleted => Some(
            "wait until it is gone (`trueup watch NAME --until deleted`), then declare it anew",
        ),
        Code::TooManyStreams => Some("end a watch that nobody reads, or try again soon"),
        Code::DatabaseUnavailable => Some("nothing was changed; try again in a few seconds"),
        Code::KeyUnavailable => Some("ask the operator to restore the key files of this Trueup"),
        Code::Internal => Some("look for the trace in Trueup's log and report it"),
        Code::KeyReused => Some("choose a new key for a new request"),
        Code::OverQuota => Some("`trueup get quota` shows what is taken and what is left"),
        Code::TooBusy => Some("ask less at once, or try again in a second"),
        Code::Unconfirmed => {
            Some("look at all of them first, then pass --confirm with that number")
        }
        Code::PlanVoid => Some("make a new plan with `trueup plan -f FILE --exact` and look at it"),
        Code::PlanUnready => {
            Some("try again soon, or make a new plan: `trueup plan -f FILE --exact`")
        }
        Code::MalformedBody
        | Code::TooLarge
        | Code::BadRequest
        | Code::TokenInAddress
        | Code::LastOwner
        | Code::NameTaken
        | Code::ProofWithdrawn => None,
    }
}

fn sentence(summary: &str, advice: Option<&str>) -> String {
    match advice {
        Some(advice) => format!("{summary}; {advice}"),
        None => summary.to_owned(),
    }
}

/// The innermost cause: "connection refused" says more than "error sending request".
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The error in an answer that is no success.
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
            let said = if text.trim().is_empty() { "nothing more" } else { text.trim() };
            ClientError::Protocol(format!(
                "{url} answered {status} and said: {said}. Check that the address is Trueup's and \
                 that it is ready"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::FieldError;

    #[test]
    fn a_problem_names_each_field_and_what_to_do() {
        let mut problem = Problem::new(Code::InvalidManifest, "one field is wrong");
        problem.errors.push(FieldError {
            field: "parameters.replicas".to_owned(),
            message: "must be at most 10".to_owned(),
        });
        let error = ClientError::Problem(Box::new(problem));
        let text = error.to_string();
        assert!(text.contains("TU1201"), "{text}");
        assert!(text.contains("parameters.replicas: must be at most 10"), "{text}");
        assert!(text.contains("mend the fields"), "{text}");
        assert_eq!(error.code(), Some(Code::InvalidManifest));
        assert!(!error.is_passing());
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for code in Code::ALL {
            let error = ClientError::Problem(Box::new(Problem::new(code, "")));
            let passing = code.status() == 429 || code.status() >= 500;
            assert_eq!(error.is_passing(), passing, "{code:?}");
        }
    }
}
