//! Postgres: the only SQL in Trueup.
//!
//! Every public function is a complete operation: it begins a transaction, does its work and
//! commits, so no caller can hold a transaction across other I/O. [`App`] serves requests for one
//! org at a time; [`Worker`] serves the control loops. They are database roles with different
//! privileges.

mod balance;
mod billing;
mod budget;
mod capacity;
mod charge;
mod cluster;
mod comparison;
mod conflict;
mod credential_check;
mod credit;
mod db;
mod domain;
pub mod door;
mod drift;
mod endpoint;
mod error;
mod event;
mod finding;
mod freeze;
mod invitation;
mod invoice;
mod ledger;
mod lookup;
mod member;
mod offer;
mod org;
mod overview;
mod plan;
mod preview_request;
mod price;
mod project;
mod project_quota;
mod project_role;
mod projection;
mod provider;
mod quota;
mod receipt;
mod release;
mod secret;
mod service;
mod session;
mod sign_in_attempts;
mod sold;
mod status;
mod subscription;
mod template;
mod token;
mod transition;
mod usage;
mod user;
mod variable;
mod volume;
mod why;
mod work;

pub use billing::{CostInputs, SoldService};
pub use capacity::CapacityDay;
pub use charge::BillingExport;
pub use cluster::{ClusterRow, ClusterUsage, ReachabilityChange};
pub use comparison::ComparisonFacts;
pub use conflict::ConflictRow;
pub use credential_check::LiveCredential;
pub use db::bootstrap::{RolePasswords, Urls, bootstrap, is_ours, schema_digest};
pub use db::clock::DbClock;
pub use db::new_id::{new_code, new_salt, new_token};
pub use db::pool::{APP_CONNECTIONS, App, Worker};
pub use db::setup::{Setup, Shipped, token_hash};
pub use door::dry_run::{DryRunResult, DryRunTx, DryRunUnit};
pub use door::freeze::FreezeRequest;
pub use door::idempotency::IdempotencyKey;
pub use drift::{DivergenceFilter, DivergenceRow, DriftSum};
pub use error::Error;
pub use event::{EventOrder, EventQuery, SealedEvent};
pub use finding::Removal;
pub use invitation::OpenInvitation;
pub use invoice::{Explained, ExplainedInterval};
pub use ledger::{AccountBalance, LedgerEntry, LedgerPosting, Verification};
pub use lookup::{Findable, Place};
pub use overview::{Need, NeedCause, Overview, ServiceCount};
pub use preview_request::{PendingPreview, PreviewResult};
pub use project::ProjectRow;
pub use project_role::digest as project_roles_digest;
pub use projection::{Comparison, Rebuilt, Reprojected};
pub use receipt::{ReceiptBundle, ReceiptRow};
pub use service::{
    Pods, RecordedObject, ServiceDetail, ServiceFilter, ServiceOrder, ServicePosition, ServiceRow,
    ServiceSort,
};
pub use session::{Login, NewSession};
pub use sign_in_attempts::{SIGN_IN_WINDOW, SignInAttempt};
pub use token::{CreatedToken, TokenRow};
pub use transition::Observer;
pub use usage::OrgUsage;
pub use user::FirstUser;
pub use work::accrual::Accrued;
pub use work::capacity::CapacityCheck;
pub use work::dns_check::DueDnsCheck;
pub use work::identity::Recognised;
pub use work::lease::{Lease, LeaseScope, Platform, Turn};
pub use work::meter::Metered;
pub use work::notify::Listener;
pub use work::order_mark::OrderMark;
pub use work::proposal::WaitingProposal;
pub use work::seal::{SEALED_AT_ONCE, Unsealed};
pub use work::signal::{Counts, Notification, Signals};
pub use work::wake::{LaneLoad, WakeFilter};
