//! Pure decisions. No I/O, no clock, no randomness: everything is an argument.
//!
//! `admit` decides whether an ask becomes a promise, `render` what the promise looks like in
//! Kubernetes, `plan` what is left to do, `observe` what the evidence says, `status` what people
//! see, `facts` what the event log is told, `transition` what happened to
//! pods, disks and nodes, `access` who may do what. `chain` makes that log hard to
//! rewrite.
#![deny(clippy::wildcard_enum_match_arm, clippy::float_arithmetic)]

pub mod access;
pub mod action;
pub mod admit;
pub mod chain;
mod closed;
mod compare;
pub mod cost;
pub mod diff;
pub mod domain;
pub mod envelope;
pub mod exact;
pub mod facts;
pub mod finding;
mod fixed;
pub mod freshness;
pub mod image;
pub mod injector;
pub mod lost;
pub mod names;
pub mod observe;
mod owner;
mod path;
pub mod plan;
pub mod preview;
pub mod proof;
pub mod quantity;
pub mod render;
pub mod schedule;
pub mod secret;
#[cfg(test)]
#[path = "../tests/it/seed.rs"]
mod seed;
pub mod spec;
pub mod status;
pub mod survey;
pub mod template;
pub mod transition;
pub mod turn;
pub mod variable;
pub mod why;

/// Raised whenever a projection computed from the same inputs could come out differently.
pub const RULES_VERSION: i32 = 4;
