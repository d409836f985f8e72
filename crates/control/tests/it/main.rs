//! The loops on a real Postgres and a cluster in memory.

mod active_hours;
mod adopter;
mod anchor;
mod crash_points;
mod dns;
mod domain_verifier;
mod domain_verifier_world;
mod ending;
mod endpoint;
mod freeze;
#[cfg(test)]
mod identity_reconciler;
mod lease_holder;
mod log;
mod order_check;
mod poison;
mod preview_filler;
mod purge;
mod reachability_recorder;
mod recorder;
mod replicas;
mod rig;
mod scaled_clock;
mod sealer;
mod secret;
mod service_metrics;
