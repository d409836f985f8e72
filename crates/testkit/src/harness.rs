//! Fault-injection harness: runs a workload with every fault at every place, in virtual time.
//!
//! A [`workload`] is a list of user requests and foreign changes to the cluster. [`learn`] runs it
//! without faults. [`generate`] makes a [`plan`] for each fault at each call and event of that run.
//! [`run`] executes a plan on a [`World`](run::World) whose cluster is behind the fault-injecting
//! [`layer`]. [`oracle`] compares the result with the run without faults. A plan is a small file,
//! so that a failure can be reproduced.

pub mod executor_world;
pub mod generate;
pub mod journal;
pub mod layer;
mod layer_state;
#[cfg(test)]
mod layer_tests;
pub mod learn;
pub mod notes;
pub mod oracle;
mod orders;
mod outside;
pub mod panics;
pub mod plan;
mod receipts;
pub mod run;
pub mod sample;
pub mod sound;
pub mod stage;
pub mod suite;
mod unit_history;
pub mod watching;
pub mod workload;
