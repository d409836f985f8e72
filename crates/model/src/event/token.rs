//! Facts about tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::TokenId;
use crate::principal::Role;

/// A token was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// Which.
    pub token: TokenId,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Who requested it.
    pub principal: String,
}

/// A token was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRevoked {
    /// Which.
    pub token: TokenId,
    /// Its name.
    pub name: String,
    /// Who requested it.
    pub principal: String,
}
