//! Pure decisions. No I/O, no clock, no randomness: everything is an argument.
//!
//! `admit` decides whether an ask becomes a promise, `render` what the promise looks like in
//! Kubernetes, `plan` what is left to do, `observe` what the evidence says, `status` what people
//! see, `facts` what the event log is told, `transition` what happened to
//! pods, disks and nodes, `access` who may do what. `chain` makes that log hard to
//! rewrite.
#![deny(clippy::wildcard_enum_match_arm, clippy::float_arithmetic)]

pub mod access;
pub mod admit;
pub mod compare;
pub mod envelope;
pub mod event;
pub mod fair_queue;
pub mod plan;
pub mod preview;
pub mod render;
#[cfg(test)]
#[path = "../tests/it/seed.rs"]
mod seed;
pub mod status;

/// Raised whenever a projection computed from the same inputs could come out differently.
pub const RULES_VERSION: i32 = 4;
