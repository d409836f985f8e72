//! The HTTP API: routes, authentication, problem responses and event streams.
//!
//! A request can only record intent or read what is stored: this crate uses neither the cluster
//! nor the control loops. `describe::routes` lists every operation.

mod access;
mod audit;
mod billing;
mod billing_export;
mod budget;
mod capacity;
mod cluster;
mod comparison;
mod conflict;
mod cost;
mod credit;
mod dashboard;
mod describe;
mod domain;
mod drift;
mod endpoint;
mod entry;
mod event;
mod finding;
mod freeze;
mod front;
mod invitation;
mod invoice;
mod ledger;
mod log;
mod lookup;
mod mail;
mod member;
mod offer;
mod operation;
mod org;
mod overview;
mod password;
mod plan;
mod preview_request;
mod project;
mod provider;
mod provider_sign_in;
mod quota;
mod receipt;
mod release;
mod secret;
mod service;
mod session;
mod setup;
mod stream;
mod subscription;
mod template;
mod token;
mod transition;
mod variable;
mod volume;
mod wake;
mod why;
mod write;

use std::sync::Arc;

pub use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use trueup_model::Clock;
use trueup_model::billing::BillingSettings;
use trueup_rules::envelope::Encryptor;
use trueup_rules::event::checkpoint::CheckpointKey;
use trueup_store::{App, Signals};

pub use cost::spend::SpendCache;
pub use dashboard::Dashboard;
pub use describe::openapi::document;
pub use front::host::{AllowedHosts, for_hosts};
pub use front::proxy::TrustedProxies;
pub use front::read_repair::ReadRepair;
pub use front::serve::{Limits, Listener, serve};
pub use front::tls::{Certificate, CertificateError};
pub use log::{Lines, LiveLogs, LogSource, NoLogs};
pub use mail::{InvitationMail, Mailer, NoMail};
pub use password::Passwords;
pub use provider_sign_in::{NoProviders, SignInProviders};
pub use stream::limit::Streams;

/// The largest request body, in bytes.
const BODY_LIMIT: usize = 256 * 1024;

/// The state shared by all handlers.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The database, with the role of the app.
    pub app: App,
    /// Wakes the loops and streams that wait for what a request records.
    pub signals: Signals,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Encrypts the secrets that callers set. It cannot decrypt.
    pub encryptor: Encryptor,
    /// The metrics of `/metrics`.
    pub registry: Arc<Registry>,
    /// Cancelled at shutdown; ends all streams.
    pub stop: CancellationToken,
    /// Reads live logs from the cluster.
    pub logs: Arc<dyn LiveLogs>,
    /// The open streams and their limits.
    pub streams: Streams,
    /// The recent repair requests of readers.
    pub read_repair: ReadRepair,
    /// Checks passwords.
    pub passwords: Passwords,
    /// Sends invitations.
    pub mail: Arc<dyn Mailer>,
    /// Asks identity providers.
    pub providers: Arc<dyn SignInProviders>,
    /// How usage is billed.
    pub billing: Arc<BillingSettings>,
    /// What orgs spend, as last computed.
    pub spend: SpendCache,
    /// The files of the dashboard.
    pub dashboard: Dashboard,
    /// Signs checkpoints of event logs.
    pub checkpoints: Arc<CheckpointKey>,
}

/// Every route, behind the middleware that each request passes.
pub fn router(state: AppState) -> Router {
    let (operations, _) = describe::routes::operations().split_for_parts();
    Router::new()
        .merge(describe::routes::pages())
        .merge(operations)
        .fallback(dashboard::fallback)
        .method_not_allowed_fallback(front::problem::method_not_allowed)
        .layer(middleware::from_fn(front::compress::compressed))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(front::body::limited))
        .layer(middleware::from_fn_with_state(
            front::concurrency::ConcurrencyLimits::default(),
            front::concurrency::limited,
        ))
        .layer(middleware::from_fn_with_state(state.clone(), front::deadline::bounded))
        .layer(middleware::from_fn(front::token_in_url::refused))
        .layer(middleware::from_fn(front::headers::kept_private))
        .layer(middleware::from_fn(front::trace::traced))
        .with_state(state)
}
