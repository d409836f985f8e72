//! Pure decisions. No I/O, no clock, no randomness: everything is an argument.
//!
//! `admit` decides whether a request becomes a release, `render` turns it into Kubernetes objects,
//! `compare` finds what differs in the cluster, `plan` decides the next writes, `status` projects
//! what users see, `drift` decides what happens to changes by other writers, `preview` shows what a
//! change would do, `event` derives events and their hash chain, `access` decides who may do what, `federation` decides what an identity
//! provider may say, `password` hashes passwords, `scram` makes the verifiers of Postgres,
//! `envelope` encrypts secrets, and `fair_queue` shares work between lanes and orgs.
#![deny(clippy::wildcard_enum_match_arm, clippy::float_arithmetic)]

pub mod access;
pub mod active_hours;
pub mod admit;
pub mod compare;
pub mod drift;
pub mod envelope;
pub mod event;
pub mod fair_queue;
pub mod federation;
pub mod password;
pub mod plan;
pub mod preview;
pub mod rate;
pub mod render;
pub mod scram;
#[cfg(test)]
#[path = "../tests/it/seed.rs"]
mod seed;
pub mod spelling;
pub mod status;
pub mod usage;

/// Raised whenever a projection computed from the same inputs could come out differently.
pub const RULES_VERSION: i32 = 8;
