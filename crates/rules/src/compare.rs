//! Desired against live: which fields differ, who wrote them, and which differences count.

pub(crate) mod closed;
pub mod diff;
pub(crate) mod edit;
pub(crate) mod fields;
pub(crate) mod fixed;
pub mod injector;
pub(crate) mod owner;
pub(crate) mod path;
