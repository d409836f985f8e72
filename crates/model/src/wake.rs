//! A wake: a hint that a unit wants looking at. It carries an id and nothing else.

use crate::id::{ClusterId, OrgId};
use crate::order::Unit;

/// Which queue a wake waits in, so that none starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Somebody changed something and is watching.
    UserChange,
    /// Something has to go.
    Delete,
}

impl Lane {
    /// The text in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserChange => "user_change",
            Self::Delete => "delete",
        }
    }
}

/// A wake that this process has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What wants looking at.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The cluster it runs in.
    pub cluster: ClusterId,
    /// The request that was current when it was claimed; a newer one survives finishing.
    pub seq: i64,
    /// How often it was tried since it last ended well.
    pub attempts: i32,
}
