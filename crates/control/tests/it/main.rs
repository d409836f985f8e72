//! The loops on a real Postgres and a cluster in memory.

mod anchor;
mod crash_points;
mod ending;
mod endpoint;
mod freeze;
mod log;
mod names;
mod planner;
mod poison;
mod prover;
mod prover_world;
mod recorder;
mod replicas;
mod rig;
mod scaled_clock;
mod sealer;
mod secret;
mod sweep;
mod tenure;
