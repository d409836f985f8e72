//! A volume: disk claimed by a service. Read-only in the API; templates and parameters define it.

use jiff::Timestamp;

use crate::id::ServiceId;

/// A service's PersistentVolumeClaim, as recorded and last observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The name of the claim in its namespace.
    pub name: String,
    /// The service it belongs to.
    pub service: ServiceId,
    /// The service's name.
    pub service_name: String,
    /// Its namespace.
    pub namespace: String,
    /// The requested size; none if the service no longer requests a disk.
    pub size_gib: Option<u32>,
    /// Its mount path in the containers.
    pub path: Option<String>,
    /// Whether it is bound to a disk; none until observed.
    pub bound: Option<bool>,
    /// The uid last observed.
    pub uid: Option<String>,
    /// When the service was last observed.
    pub observed_at: Option<Timestamp>,
}
