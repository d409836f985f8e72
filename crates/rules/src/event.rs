//! Events: what a report adds to the event log, and the hash chain over the log.

pub mod chain;
pub mod checkpoint;
pub mod draft;
