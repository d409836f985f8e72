//! Conflicts: fields that two writers fight over, until a person decides.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_model::drift::ConflictDecision;
use trueup_model::id::ConflictId;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::schema::{Hours, UnitKey};

/// A conflict as it is shown: the enforcement of its field stopped when it was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Conflict {
    /// `cft_…`
    #[schema(value_type = ConflictId)]
    pub id: String,
    /// The service or project that the object belongs to: `svc_…` or `prj_…`.
    #[schema(value_type = UnitKey)]
    pub subject: String,
    /// The project's name.
    pub project: String,
    /// The service's name; absent for an object of the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The object: `Deployment/namespace/name`.
    pub object: String,
    /// The path of the field; empty for the object itself.
    pub field: String,
    /// The field manager that Trueup fights with, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was raised.
    pub raised_at: Timestamp,
    /// The decision; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<ConflictSettlement>,
}

/// The decision about a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictSettlement {
    /// Whose value holds.
    pub decision: ConflictDecision,
    /// The name of the token that decided.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// Until when it holds; absent for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// A list of conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConflictList {
    /// In the order in which they were raised.
    pub items: Vec<Conflict>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The body that settles a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision": "ours", "for_hours": 8}))]
pub struct ConflictSettleBody {
    /// `ours` enforces the desired value, `adopt` makes the live value the desired one, `ignore`
    /// leaves the field to the other writer.
    #[schema(value_type = ConflictDecision)]
    pub decision: String,
    /// How long the decision holds, in hours; if omitted, for ever. Not for `adopt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 8)]
    #[schema(value_type = Option<Hours>)]
    pub for_hours: Option<u32>,
    /// The decision that this one replaces; only for a conflict that is settled as `ours` or `ignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ConflictDecision>)]
    pub instead_of: Option<String>,
}

impl Client {
    /// A page of conflicts: the open ones, or with `settled` all.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn conflict_list(
        &self,
        settled: bool,
        after: Option<&str>,
    ) -> Result<ConflictList, ClientError> {
        let parameters = [("settled", settled.then_some("true")), ("after", after)];
        self.get(&query("/v1/conflicts", &parameters)).await
    }

    /// Settles a conflict.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn conflict_settle(
        &self,
        conflict: &str,
        body: &ConflictSettleBody,
    ) -> Result<Conflict, ClientError> {
        self.post(&format!("/v1/conflicts/{}/settle", segment(conflict)?), body).await
    }
}
