//! Facts about tokens.
//!
//! They name a token by its id. People choose the names of tokens, and may put personal data into
//! them; facts are hashed and kept for ever.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::TokenId;
use crate::principal::Role;

/// A token was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// Which.
    pub token: TokenId,
    /// Its name, in events that are older than this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
    /// Its name, in events that are older than this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who requested it.
    pub principal: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::event::Fact;

    #[test]
    fn sealed_facts_with_a_name_and_new_ones_without_keep_their_form() {
        let token = "tok_01h455vb4pex5vsknk084sn02q";
        for stored in [
            json!({"type": "TokenCreated", "token": token, "name": "ci", "role": "viewer", "principal": "owner"}),
            json!({"type": "TokenRevoked", "token": token, "name": "ci", "principal": token}),
            json!({"type": "TokenCreated", "token": token, "role": "viewer", "principal": token}),
            json!({"type": "TokenRevoked", "token": token, "principal": token}),
        ] {
            let fact: Fact = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(serde_json::to_value(&fact).unwrap(), stored);
        }
    }
}
