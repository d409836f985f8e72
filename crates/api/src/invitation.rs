//! Invitations: wire types and client methods.

use jiff::Timestamp;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use trueup_model::id::InvitationId;
use trueup_model::principal::Role;
use trueup_model::secret::{SecretValue, expose};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::schema::ProjectKey;
use crate::session::Session;

/// The body that invites somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"email": "grace@example.com", "role": "developer"}))]
pub struct InvitationRequest {
    /// The address.
    pub email: String,
    /// The role that the invitation offers.
    #[schema(value_type = Role)]
    pub role: String,
    /// The only project that it offers the role in, by name or id; the whole org when omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ProjectKey>)]
    pub project: Option<String>,
}

/// An open invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// `ivt_…`
    #[schema(value_type = InvitationId)]
    pub id: String,
    /// The invited address.
    pub email: String,
    /// The role that it offers.
    pub role: Role,
    /// The name of the only project that it offers the role in; null for the whole org.
    pub project: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// A new invitation: the only response that contains the code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewInvitation {
    /// The invitation without its code.
    #[serde(flatten)]
    pub invitation: Invitation,
    /// The code, for the invited person alone. It is shown only once: a retry with the same idempotency key does
    /// not return it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl std::fmt::Debug for NewInvitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewInvitation")
            .field("invitation", &self.invitation)
            .finish_non_exhaustive()
    }
}

/// A list of invitations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationList {
    /// The open ones, the newest first.
    pub items: Vec<Invitation>,
}

/// The body that accepts an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "tu_invitation_…", "name": "Grace Hopper", "password": "a long and unusual sentence"}))]
pub struct InvitationAcceptance {
    /// The code of the invitation.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub code: SecretValue,
    /// The name of the person; not needed if they have an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The password: of the account, or for the new one.
    #[serde(serialize_with = "expose")]
    #[schema(value_type = String, format = "password")]
    pub password: SecretValue,
}

impl Client {
    /// The open invitations of the org.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invitation_list(&self) -> Result<InvitationList, ClientError> {
        self.get("/v1/invitations").await
    }

    /// Invites somebody. Only this response ever contains the code.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invitation_create(
        &self,
        wanted: &InvitationRequest,
    ) -> Result<NewInvitation, ClientError> {
        self.post("/v1/invitations", wanted).await
    }

    /// Revokes an invitation by id.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invitation_revoke(&self, id: &str) -> Result<Invitation, ClientError> {
        let path = format!("/v1/invitations/{}", segment(id)?);
        let response = self.send(self.request(Method::DELETE, &path), &path).await?;
        self.body(response, &path).await
    }

    /// Accepts an invitation. Returns the session and its secret.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn invitation_accept(
        &self,
        wanted: &InvitationAcceptance,
    ) -> Result<(Session, SecretValue), ClientError> {
        self.begin_session("/v1/invitations/accept", wanted).await
    }
}
