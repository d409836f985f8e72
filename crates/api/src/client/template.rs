//! Templates. Operators publish and deprecate them.

use reqwest::Method;
use serde::Serialize;

use super::path::segment;
use super::{Client, ClientError};
use crate::template::{Template, TemplateDeprecation, TemplateList, TemplateManifest};

impl Client {
    /// Every template version.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_list(&self) -> Result<TemplateList, ClientError> {
        self.get("/v1/templates").await
    }

    /// Every version of one template.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_versions(&self, name: &str) -> Result<TemplateList, ClientError> {
        self.get(&format!("/v1/templates/{}", segment(name)?)).await
    }

    /// One template version with its spec and its schema.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_get(&self, name: &str, version: u32) -> Result<Template, ClientError> {
        self.get(&version_path(name, version)?).await
    }

    /// Publishes the next version of a template. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_publish(
        &self,
        manifest: &TemplateManifest,
    ) -> Result<Template, ClientError> {
        self.send_template("/v1/templates", manifest).await
    }

    /// Deprecates a template version: no new services. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_deprecate(
        &self,
        name: &str,
        version: u32,
        deprecation: &TemplateDeprecation,
    ) -> Result<Template, ClientError> {
        let path = format!("{}/deprecate", version_path(name, version)?);
        self.send_template(&path, deprecation).await
    }

    async fn send_template<B: Serialize + Sync>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<Template, ClientError> {
        let response = self.send(self.request(Method::POST, path).json(body), path).await?;
        self.body(response, path).await
    }
}

fn version_path(name: &str, version: u32) -> Result<String, ClientError> {
    Ok(format!("/v1/templates/{}/versions/{version}", segment(name)?))
}
