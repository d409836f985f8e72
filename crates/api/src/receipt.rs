//! Deletion receipts: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use trueup_model::receipt::Receipt;
use trueup_model::service::DesiredState;
use trueup_model::{OrgId, ProjectId};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::org::org_path;
use crate::project::project_path;
use crate::schema::UnitKey;

/// The kind of a receipt's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ReceiptKind {
    /// A service.
    Service,
    /// A project.
    Project,
}

/// A deletion receipt with the service or project that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubjectReceipt {
    /// The id of the service or project: `svc_…` or `prj_…`.
    #[schema(value_type = UnitKey)]
    pub subject: String,
    /// Service or project.
    pub kind: ReceiptKind,
    /// Its name. Another one may have it by now.
    pub name: String,
    /// The project's name.
    pub project: String,
    /// `prj_…`
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    /// When its absence was verified.
    pub verified_at: Timestamp,
    /// The evidence that nothing is left.
    pub receipt: Receipt,
}

/// A service or project without a deletion receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingReceipt {
    /// The id of the service or project: `svc_…` or `prj_…`.
    #[schema(value_type = UnitKey)]
    pub subject: String,
    /// Service or project.
    pub kind: ReceiptKind,
    /// Its name.
    pub name: String,
    /// The desired state: `deleted` while its deletion is not verified yet.
    pub desired: DesiredState,
}

/// The deletion receipts of a project: its own, and one for every service that it ever had. In pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptList {
    /// The project's name.
    pub project: String,
    /// `prj_…`
    #[schema(value_type = ProjectId)]
    pub project_id: String,
    /// Whether the project and each of its services have a receipt, on this page or not.
    pub complete: bool,
    /// The services in name order, then the project.
    pub items: Vec<SubjectReceipt>,
    /// What has no receipt, in the same order.
    pub missing: Vec<MissingReceipt>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The deletion receipts of an org: of every project that it ever had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OrgReceiptList {
    /// The org's name.
    pub org: String,
    /// `org_…`
    #[schema(value_type = OrgId)]
    pub org_id: String,
    /// When the deletion of the org was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting_at: Option<Timestamp>,
    /// Whether the deletion was requested, and the receipts of every project are complete.
    pub complete: bool,
    /// The receipts of each project, in name order.
    pub items: Vec<ReceiptList>,
}

impl Client {
    /// A page of the receipts of a project and its services, by the project's name or id, also
    /// after its deletion.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn receipt_list(
        &self,
        project: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<ReceiptList, ClientError> {
        let path = format!("{}/receipts", project_path(project)?);
        let limit = limit.map(|limit| limit.to_string());
        self.get(&query(&path, &[("after", after), ("limit", limit.as_deref())])).await
    }

    /// Every receipt of a project and its services; reads all pages.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn every_receipt(&self, project: &str) -> Result<ReceiptList, ClientError> {
        let mut all = self.receipt_list(project, None, Some(1000)).await?;
        while let Some(after) = all.next.take() {
            // By id: the name may belong to another project by now.
            let page = self.receipt_list(&all.project_id, Some(&after), Some(1000)).await?;
            all.items.extend(page.items);
            all.missing.extend(page.missing);
            all.complete &= page.complete;
            all.next = page.next;
        }
        Ok(all)
    }

    /// The receipts of every project of an org, by the org's name or id, also after its deletion.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn org_receipts(&self, org: &str) -> Result<OrgReceiptList, ClientError> {
        self.get(&format!("{}/receipts", org_path(org)?)).await
    }

    /// The receipt of a service or project, by its id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn receipt_get(&self, subject: &str) -> Result<SubjectReceipt, ClientError> {
        self.get(&format!("/v1/receipts/{}", segment(subject)?)).await
    }
}
