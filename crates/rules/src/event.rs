//! Events: the facts that a report adds to the log, and the hash chain that seals them.

pub mod chain;
pub mod draft;
