//! The harness: learn what a workload does, plan every way in which that can go wrong, run each plan
//! in virtual time, and judge the end.
//!
//! A [`workload`] is what people ask and what others do to the cluster. [`learn`] runs it with
//! nothing going wrong. [`plan`] makes a plan for each fault at each place that was learned. [`run`]
//! carries a plan out on a [`World`](run::World) whose cluster lies behind the [`layer`] that breaks
//! things; [`oracle`] compares what came of it with what was learned. A plan is a small file, and a
//! plan that fails is the way to see the failure again.

pub mod executor_world;
pub mod generate;
mod held;
pub mod journal;
pub mod layer;
mod layer_state;
#[cfg(test)]
mod layer_tests;
pub mod learn;
pub mod notes;
pub mod oracle;
mod orders;
pub mod panics;
pub mod plan;
mod receipts;
pub mod run;
pub mod sample;
pub mod sound;
pub mod stage;
pub mod suite;
pub mod watching;
pub mod workload;
