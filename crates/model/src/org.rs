//! Orgs: tenants and billing accounts.

use jiff::Timestamp;
use uuid::Uuid;

use crate::id::OrgId;

/// The org of whoever runs Trueup. Operators' tokens are its tokens, and facts that belong to no
/// tenant are its events, so that both stand behind the same walls as everybody else's.
pub const PLATFORM: OrgId = OrgId::from_uuid(Uuid::nil());

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Org {
    /// Its id.
    pub id: OrgId,
    /// What people call it.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
}
