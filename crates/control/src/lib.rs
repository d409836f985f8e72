//! The control loops. Each runs on a signal and on a timer and can be cancelled at any point: work
//! that was not finished is done again.
//!
//! - `lease_holder` holds a cluster's lease and runs these loops while it does:
//!   - `driver` turns wakes into orders; the executor (crate `cluster`) converges them;
//!   - `report_tap` and `acceptance_timer` measure the executor's reports, with the orders that
//!     the driver noted in `service_meter`;
//!   - `report_writer` records the executor's reports;
//!   - `recorder` records transitions of pods, disks and nodes;
//!   - `usage_meter` computes usage from the recorded transitions;
//!   - `finding_recorder` records labelled objects without a record, and removes them on request;
//!   - `adopter` adopts values whose drift policy needs no approval, and expires proposals;
//!   - `preview_filler` fills exact previews with dry runs;
//!   - `reprojector` projects statuses again that older rules computed;
//!   - `reachability_recorder` records when the cluster becomes unreachable or reachable;
//!   - `order_check` compares the executor's orders with the database, in case a wake was lost;
//!   - `overdue` reports deletions that take too long.
//! - `backlog` measures the work queue, whichever process holds the lease.
//! - `notifier` notifies the other replicas on the same database and receives their notifications.
//! - `sealer` gives events their position and hash.
//! - `accruer` posts usage to the ledger.
//! - `closer` issues invoices when a billing period is over.
//! - `purge` deletes expired idempotency keys.
//! - `domain_verifier` verifies domains by DNS, through the interface in `dns`.
//! - `identity_reconciler` asks identity providers whether they still vouch for people.

mod acceptance_timer;
mod accruer;
mod adopter;
mod backlog;
mod capacity_check;
mod closer;
mod contact;
mod deadline;
mod decrypt;
pub mod dns;
mod domain_verifier;
mod driver;
mod finding_recorder;
mod given_orders;
mod hours_follower;
mod identity_reconciler;
mod lease_holder;
mod measured;
mod metrics;
mod notifier;
mod order_check;
mod overdue;
mod preview_filler;
mod purge;
mod reachability_recorder;
mod recorder;
mod repair_times;
mod report_tap;
mod report_writer;
mod reprojector;
mod sealer;
mod service_meter;
mod silence;
mod usage_meter;

pub use accruer::Accruer;
pub use closer::Closer;
pub use domain_verifier::DomainVerifier;
pub use identity_reconciler::IdentityReconciler;
pub use lease_holder::LeaseHolder;
pub use measured::Measured;
pub use metrics::Metrics;
pub use notifier::Notifier;
pub use purge::Purge;
pub use sealer::Sealer;
