//! A volume: disk that a service claims. It is read only here; templates and parameters make it.

use jiff::Timestamp;

use crate::id::ServiceId;

/// A claim of a service, as it was recorded and last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// What the claim is called in its namespace.
    pub name: String,
    /// Whose it is.
    pub service: ServiceId,
    /// What that is called.
    pub service_name: String,
    /// Where it is.
    pub namespace: String,
    /// How much is asked for; none where the service asks for no disk any more.
    pub size_gib: Option<u32>,
    /// Where the containers see it.
    pub path: Option<String>,
    /// Whether it has its disk; none until that was seen.
    pub bound: Option<bool>,
    /// Which incarnation was last seen.
    pub uid: Option<String>,
    /// When the service was last seen.
    pub observed_at: Option<Timestamp>,
}
