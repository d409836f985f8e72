//! Tokens on the wire.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body that asks for a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What to call it: who or what will hold it.
    pub name: String,
    /// `viewer`, `developer`, `owner`, or `operator` (which belongs to no org).
    pub role: String,
    /// The only permissions it shall have of its role; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<String>>,
    /// In how many days it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<u32>,
    /// When it ends, instead of in how many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A token as it is shown; the secret is never among it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// `tok_…`; its 26 characters also stand in the token itself, after `tu_`.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Its role.
    pub role: String,
    /// What it may do.
    pub permissions: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it ends; nothing if it does not.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, give or take an hour.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Timestamp>,
}

/// A token that was just made: the only answer that holds the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// As it will be listed.
    #[serde(flatten)]
    pub token: Token,
    /// The token itself. It is shown now and never again, not even to a repeat of the same request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// A list of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// In name order; revoked ones are not among them.
    pub items: Vec<Token>,
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// The token's id.
    pub token: String,
    /// What it is called.
    pub name: String,
    /// Its role.
    pub role: String,
    /// What it may do.
    pub permissions: Vec<String>,
    /// The org the request is about; nothing for an operator who names none.
    pub org: Option<WhoamiOrg>,
    /// When the token ends; nothing if it does not.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// The org of whoever is asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoamiOrg {
    /// `org_…`
    pub id: String,
    /// What people call it.
    pub name: String,
}
