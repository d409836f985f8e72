//! The loops. Each takes ids and nothing else, wakes by signal and by time, and can be stopped at any
//! point: what it had begun is begun again.
//!
//! `tenure` holds a cluster's lease and runs its loops while it lasts: the `driver` turns wakes into
//! orders, the executor (room `cluster`) makes them true, `settle` writes down what it reports,
//! `recorder` what it notices of pods, disks and nodes, `finder` what it finds that belongs to nobody.
//! `planner` says what an order would do before anybody gives it.
//! `backlog` counts what waits, whoever holds the lease.
//! `bell` nudges other processes on the same database and hears them.
//! `sealer` puts events in order; `sweep` forgets what is kept for a while only; `prover` asks DNS, through
//! the seam `names`, whose a host is.

mod backlog;
mod bell;
mod driver;
mod finder;
mod measured;
mod metrics;
pub mod names;
mod overdue;
mod planner;
mod prover;
mod recorder;
mod sealer;
mod settle;
mod silence;
mod sweep;
mod tenure;
mod unseal;
mod within;

pub use bell::Bell;
pub use measured::Measured;
pub use metrics::Metrics;
pub use prover::Prover;
pub use sealer::Sealer;
pub use sweep::Sweep;
pub use tenure::Tenure;
