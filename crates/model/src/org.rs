//! Orgs: tenants and billing accounts.

use jiff::Timestamp;
use uuid::Uuid;

use crate::id::OrgId;

/// The org of the platform's operators.
///
/// Operators' tokens belong to it, and so do events that concern no tenant, so that the same
/// row-level security protects them as any org's.
pub const PLATFORM: OrgId = OrgId::from_uuid(Uuid::nil());

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Org {
    /// Its id.
    pub id: OrgId,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its deletion was requested. Nothing new is accepted in it from then on.
    pub deleting_at: Option<Timestamp>,
}
