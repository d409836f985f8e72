//! Domains of a project's services.

use reqwest::Method;

use super::path::segment;
use super::service::service_path;
use super::{Client, ClientError};
use crate::domain::{Domain, DomainBody, DomainList, DomainVerificationBody};
use crate::service::NoBody;

impl Client {
    /// The domains of a project's services.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn domain_list(&self, project: &str) -> Result<DomainList, ClientError> {
        self.get(&format!("/v1/projects/{}/domains", segment(project)?)).await
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
        let response = self.send(self.request(Method::POST, &path).json(&NoBody {}), &path).await?;
        self.body(response, &path).await
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
