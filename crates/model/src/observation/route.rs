//! What the controllers of routes and certificates report about a host.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An Ingress or HTTPRoute, as its controller reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSeen {
    /// The host that it routes.
    pub host: String,
    /// Whether its controller routes it.
    pub admission: Admission,
}

/// Whether a controller routes a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Admission {
    /// No controller has reported about the newest spec.
    Pending,
    /// No controller has reported about it for so long that none may serve its class.
    Unanswered {
        /// The ingress class that it names; none for the cluster's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<String>,
    },
    /// The host is routed.
    Admitted,
    /// A controller does not route it.
    Refused(ReportedProblem),
}

/// A Certificate, as cert-manager reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateSeen {
    /// Whether there is a valid certificate. It stays valid while its renewal fails.
    pub ready: bool,
    /// The name of its issuer.
    pub issuer: String,
    /// When the certificate expires, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Why the last attempt to obtain or renew it failed; none once an attempt has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ReportedProblem>,
}

/// Why a controller does not do what an object asks for, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedProblem {
    /// The reason of the condition, such as `NotAllowedByListeners`.
    pub reason: String,
    /// Its message.
    pub message: String,
}

impl ReportedProblem {
    /// Reason and message in one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.message.is_empty() {
            self.reason.clone()
        } else {
            format!("{}: {}", self.reason, self.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_admission_parses_back_from_its_json() {
        let problem = ReportedProblem { reason: "NotAllowed".to_owned(), message: String::new() };
        let unanswered =
            |class: Option<&str>| Admission::Unanswered { class: class.map(str::to_owned) };
        let all = [
            Admission::Pending,
            unanswered(None),
            unanswered(Some("nginx")),
            Admission::Admitted,
            Admission::Refused(problem),
        ];
        for admission in all {
            let text = serde_json::to_string(&admission).unwrap();
            assert_eq!(serde_json::from_str::<Admission>(&text).unwrap(), admission, "{text}");
        }
    }
}
