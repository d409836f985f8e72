//! The loops on a real Postgres and a cluster in memory.

mod crash_points;
mod endpoint;
mod rig;
mod sealer;
mod secret;
mod sweep;
mod tenure;
