//! Domains: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::domain::{CertificateState, DnsResult, DomainState, Host, Tls};
use trueup_model::id::DomainId;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::project::project_path;
use crate::service::{NoBody, service_path};

/// The body that adds a domain to a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "tls": "auto" }))]
pub struct DomainBody {
    /// `auto` (the default): the cluster obtains and renews a certificate, if it has an issuer.
    /// `off`: no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Tls>)]
    pub tls: Option<String>,
}

/// The body that sets or withdraws the verification of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "verified": true }))]
pub struct DomainVerificationBody {
    /// Whether the domain is verified.
    pub verified: bool,
}

/// A domain as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// `dom_…`
    #[schema(value_type = DomainId)]
    pub id: String,
    /// The host name.
    #[schema(value_type = Host)]
    pub host: String,
    /// The service that the host is routed to.
    pub service: String,
    /// Whether the cluster obtains a certificate.
    pub tls: Tls,
    /// How far the domain is, as far as the cluster was observed.
    pub state: DomainState,
    /// Why a verified host is not open although its object exists, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The certificate that the cluster keeps for the host.
    #[serde(default)]
    pub certificate: DomainCertificate,
    /// The DNS record that verifies the domain; absent in a preview, where its value is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<DomainVerification>,
    /// When the domain was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// The name of the token that added it.
    pub made_by: String,
    /// When it was added.
    pub created_at: Timestamp,
}

/// The certificate of a host, as far as the cluster was observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainCertificate {
    /// Its state.
    pub state: CertificateState,
    /// The cluster's issuer that signs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// When it expires; absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Why it could not be obtained or renewed, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The TXT record that verifies a domain, and the state of its DNS checks.
///
/// Trueup checks DNS by itself for a week after a request, at growing intervals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainVerification {
    /// The name of the record.
    pub name: String,
    /// The value of the record.
    pub value: String,
    /// When DNS was last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Timestamp>,
    /// What the last check found instead of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<DnsResult>,
    /// Why the domain is not verified yet, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When DNS is checked next; absent if no check is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check_at: Option<Timestamp>,
}

/// A list of domains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainList {
    /// In service and host order.
    pub items: Vec<Domain>,
}

impl Client {
    /// The domains of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_list(&self, project: &str) -> Result<DomainList, ClientError> {
        self.get(&format!("{}/domains", project_path(project)?)).await
    }

    /// One domain.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_get(
        &self,
        project: &str,
        service: &str,
        host: &str,
    ) -> Result<Domain, ClientError> {
        self.get(&domain_path(project, service, host)?).await
    }

    /// Routes a host to a service once the domain is verified.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_put(
        &self,
        project: &str,
        service: &str,
        host: &str,
        body: &DomainBody,
    ) -> Result<Domain, ClientError> {
        Ok(self.put(&domain_path(project, service, host)?, body).await?.1)
    }

    /// Sets or withdraws the verification of a domain. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_verify(
        &self,
        project: &str,
        service: &str,
        host: &str,
        body: &DomainVerificationBody,
    ) -> Result<Domain, ClientError> {
        let path = format!("{}/verification", domain_path(project, service, host)?);
        Ok(self.put(&path, body).await?.1)
    }

    /// Requests a DNS check of a domain now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_check(
        &self,
        project: &str,
        service: &str,
        host: &str,
    ) -> Result<Domain, ClientError> {
        let path = format!("{}/check", domain_path(project, service, host)?);
        self.post(&path, &NoBody {}).await
    }

    /// Removes a domain from a service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_delete(
        &self,
        project: &str,
        service: &str,
        host: &str,
    ) -> Result<(), ClientError> {
        self.remove(&domain_path(project, service, host)?).await
    }
}

fn domain_path(project: &str, service: &str, host: &str) -> Result<String, ClientError> {
    Ok(format!("{}/domains/{}", service_path(project, service)?, segment(host)?))
}
