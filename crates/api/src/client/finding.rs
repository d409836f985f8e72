//! Findings, for operators.

use reqwest::Method;

use super::path::{query, segment};
use super::{Client, ClientError};
use crate::finding::{Finding, FindingList, FindingRemoveBody};

impl Client {
    /// A page of findings: the open ones, or with `closed` all. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn finding_list(
        &self,
        closed: bool,
        after: Option<&str>,
    ) -> Result<FindingList, ClientError> {
        let parameters = [("closed", closed.then_some("true")), ("after", after)];
        self.get(&query("/v1/findings", &parameters)).await
    }

    /// Requests the removal of a finding. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn finding_remove(
        &self,
        finding: &str,
        body: &FindingRemoveBody,
    ) -> Result<Finding, ClientError> {
        let path = format!("/v1/findings/{}/remove", segment(finding)?);
        let response = self.send(self.request(Method::POST, &path).json(body), &path).await?;
        self.body(response, &path).await
    }
}
