//! Postgres: the only SQL in Trueup.
//!
//! Every public function is a whole operation: it begins a transaction, does its work and commits,
//! so no caller can hold a transaction across other I/O. [`App`] answers requests for one org at a
//! time; [`Worker`] serves the loops. They are different database roles with different rights.

mod backfill;
mod begin;
mod bell;
mod bootstrap;
mod clock;
mod cluster;
mod domain;
pub mod door;
mod endpoint;
mod error;
mod event;
mod finding;
mod freeze;
mod identity;
mod lease;
mod look;
mod mint;
mod order;
mod org;
mod overdue;
mod plan;
mod plan_request;
mod pool;
mod project;
mod projection;
mod quota;
mod rehearsal;
mod release;
mod repeat;
mod row;
mod seal;
mod secret;
mod service;
mod settle;
mod setup;
mod signal;
mod status;
mod template;
mod token;
mod transition;
mod variable;
mod volume;
mod wake;
mod why;

pub use bell::Listener;
pub use bootstrap::{RolePasswords, Urls, bootstrap, is_ours, schema_digest};
pub use clock::DbClock;
pub use cluster::{ClusterHolds, ClusterRow};
pub use error::Error;
pub use event::{EventOrder, EventQuery, SealedEvent};
pub use finding::Removal;
pub use freeze::FreezeAsk;
pub use identity::Recognised;
pub use lease::{Lease, Turn};
pub use look::DueLook;
pub use mint::new_token;
pub use plan_request::{AskedPlan, PlanEnd};
pub use pool::{App, Worker};
pub use project::ProjectRow;
pub use projection::{Rebuilt, Verdict};
pub use rehearsal::{Rehearsal, Rehearsed, RehearsedUnit};
pub use repeat::Repeat;
pub use seal::{SEALED_AT_ONCE, Unsealed};
pub use service::{Pods, ServiceDetail, ServiceFilter, ServicePosition, ServiceRow};
pub use setup::{Setup, Shipped, token_hash};
pub use signal::{Counts, Nudge, Signals};
pub use token::{Minted, TokenRow};
pub use transition::Observer;
pub use wake::{LaneLoad, WakeFilter};
