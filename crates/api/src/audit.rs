//! Checkpoints of the event log: wire types and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::client::{Client, ClientError};

/// What the event log of the org was, signed by the install. Keep it outside of its reach: it proves
/// everything up to its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// The org: `org_…`.
    pub orgid: String,
    /// The last position of the log; 0 for an empty one.
    #[schema(example = "41")]
    pub sequence: String,
    /// The hash at that position.
    pub hash: String,
    /// When it was signed.
    pub time: Timestamp,
    /// The public key, in base64 (Ed25519).
    pub key: String,
    /// The signature, in base64.
    pub signature: String,
}

/// The public key that checkpoints are verified with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckpointKey {
    /// `ed25519`.
    #[schema(example = "ed25519")]
    pub algorithm: String,
    /// The key, in base64.
    pub key: String,
}

impl Client {
    /// A checkpoint of the org's event log, signed now.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn audit_checkpoint(&self) -> Result<Checkpoint, ClientError> {
        self.get("/v1/audit/checkpoint").await
    }

    /// The public key of the install's checkpoints.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn audit_key(&self) -> Result<CheckpointKey, ClientError> {
        self.get("/v1/audit/key").await
    }
}
