//! The claims about a person, from an ID token and from the userinfo endpoint.

use std::collections::BTreeMap;

use openidconnect::core::CoreGenderClaim;
use openidconnect::{AdditionalClaims, IdTokenClaims, UserInfoClaims};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::provider::Claims;

/// The most groups of a person that are read.
const MOST_GROUPS: usize = 1000;

/// The claims that the standard does not name: which one has the groups is configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Further {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for Further {}

pub(crate) type TokenClaims = IdTokenClaims<Further, CoreGenderClaim>;
pub(crate) type InfoClaims = UserInfoClaims<Further, CoreGenderClaim>;

/// What one source says; what it leaves out is none.
#[derive(Debug, Default)]
pub(crate) struct Said {
    email: Option<String>,
    email_verified: Option<bool>,
    name: Option<String>,
    groups: Option<Vec<String>>,
}

impl Said {
    pub(crate) fn by_token(claims: &TokenClaims, groups_claim: &str) -> Self {
        Self {
            email: claims.email().map(|email| email.to_string()),
            email_verified: claims.email_verified(),
            name: claims.name().and_then(|name| name.get(None)).map(|name| name.to_string()),
            groups: groups(claims.additional_claims(), groups_claim),
        }
    }

    pub(crate) fn by_info(claims: &InfoClaims, groups_claim: &str) -> Self {
        Self {
            email: claims.email().map(|email| email.to_string()),
            email_verified: claims.email_verified(),
            name: claims.name().and_then(|name| name.get(None)).map(|name| name.to_string()),
            groups: groups(claims.additional_claims(), groups_claim),
        }
    }

    /// What both say: the newer source wins. An address and whether it is verified come from one source.
    pub(crate) fn or(self, older: Self) -> Self {
        let (email, email_verified) = match self.email {
            Some(email) => (Some(email), self.email_verified),
            None => (older.email, older.email_verified),
        };
        Self {
            email,
            email_verified,
            name: self.name.or(older.name),
            groups: self.groups.or(older.groups),
        }
    }

    pub(crate) fn about(self, subject: &str) -> Claims {
        Claims {
            subject: subject.to_owned(),
            email: self.email,
            email_verified: self.email_verified == Some(true),
            name: self.name,
            groups: self.groups.unwrap_or_default(),
            refresh_token: None,
        }
    }
}

/// A list of texts, or one text; anything else is no group.
fn groups(claims: &Further, name: &str) -> Option<Vec<String>> {
    match claims.all.get(name)? {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(all) => {
            let texts = all.iter().filter_map(Value::as_str).take(MOST_GROUPS);
            Some(texts.map(str::to_owned).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(claims: Value) -> Said {
        let mut claims = claims;
        claims["sub"] = json!("1");
        let text = claims.to_string();
        let read = InfoClaims::from_json::<std::io::Error>(text.as_bytes(), None);
        Said::by_info(&read.unwrap(), "groups")
    }

    #[test]
    fn address_and_its_verification_come_from_one_source() {
        let token = said(json!({"email": "ada@example.com", "email_verified": true}));
        let info = said(json!({"email": "eve@example.com"}));
        let both = info.or(token).about("1");
        assert_eq!((both.email.as_deref(), both.email_verified), (Some("eve@example.com"), false));
    }

    #[test]
    fn newer_groups_replace_older_ones_even_when_there_are_none() {
        let groups = |newer: Value| {
            let older = said(json!({"groups": ["ops"], "name": "Ada"}));
            said(newer).or(older).about("1").groups
        };
        assert_eq!(groups(json!({})), ["ops"]);
        assert_eq!(groups(json!({"groups": []})), [""; 0]);
        assert_eq!(groups(json!({"groups": "dev"})), ["dev"]);
        assert_eq!(groups(json!({"groups": ["dev", 7, null]})), ["dev"]);
        assert_eq!(groups(json!({"groups": {"dev": true}})), [""; 0]);
    }
}
