//! The loops. Each takes ids and nothing else, wakes by signal and by time, and can be stopped at any
//! point: what it had begun is begun again.
//!
//! `tenure` holds a cluster's lease and runs its loops while it lasts: the `driver` turns wakes into
//! orders, the executor (room `cluster`) makes them true, `settle` writes down what it reports,
//! `recorder` what it notices of pods, disks and nodes, `finder` what it finds that belongs to nobody.
//! `planner` says what an order would do before anybody gives it.
//! `backlog` counts what waits, whoever holds the lease.
//! `bell` notifications other processes on the same database and hears them.
//! `sealer` puts events in order; `sweep` forgets what is kept for a while only; `prover` asks DNS, through
//! the seam `names`, whose a host is.

mod backlog;
mod deadline;
mod decrypt;
pub mod dns;
mod domain_verifier;
mod driver;
mod finding_recorder;
mod lease_holder;
mod measured;
mod metrics;
mod notifier;
mod overdue;
mod preview_filler;
mod purge;
mod recorder;
mod report_writer;
mod sealer;
mod silence;

pub use domain_verifier::DomainVerifier;
pub use lease_holder::LeaseHolder;
pub use measured::Measured;
pub use metrics::Metrics;
pub use notifier::Notifier;
pub use purge::Purge;
pub use sealer::Sealer;
