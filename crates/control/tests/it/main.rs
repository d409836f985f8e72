//! The loops on a real Postgres and a cluster in memory.

mod anchor;
mod endpoint;
#[cfg(test)]
mod freeze;
mod rig;
mod sealer;
mod secret;
mod sweep;
mod tenure;
