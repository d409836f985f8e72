//! The door's outside: routes, who is calling, problems, and streams of events.
//!
//! A request can only record intent or read what is known: this room sees neither the cluster nor
//! the loops. The lists in `routes` are the table of contents of the API.

mod cluster;
mod describe;
mod domain;
mod endpoint;
mod entry;
mod event;
mod finding;
mod freeze;
mod front;
mod log;
mod operation;
mod org;
mod plan;
mod preview_request;
mod project;
mod quota;
mod release;
mod secret;
mod service;
mod stream;
mod template;
mod token;
mod transition;
mod variable;
mod view;
mod volume;
mod wake;
mod why;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use trueup_model::Clock;
use trueup_rules::envelope::Encryptor;
use trueup_store::{App, Signals};

pub use describe::openapi::document;
pub use front::read_repair::ReadRepair;
pub use front::serve::{Limits, serve};
pub use log::{Lines, LiveLogs, LogSource, NoLogs};
pub use stream::limit::Streams;

/// The largest body that is read.
const BODY_LIMIT: usize = 256 * 1024;

/// What the routes use.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The database, as the app.
    pub app: App,
    /// Who wants to know what was recorded.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Seals the secrets that people bring. It opens none.
    pub sealer: Encryptor,
    /// What `/metrics` shows.
    pub registry: Arc<Registry>,
    /// Ends the streams when the process stops.
    pub stop: CancellationToken,
    /// Where live logs are read.
    pub logs: Arc<dyn LiveLogs>,
    /// How many streams are open.
    pub streams: Streams,
    /// What readers doubted lately.
    pub doubts: ReadRepair,
}

/// Every route, behind everything that each request passes.
pub fn router(state: AppState) -> Router {
    Router::new()
        .merge(describe::routes::for_everybody())
        .merge(describe::routes::projects())
        .merge(describe::routes::services())
        .merge(describe::routes::platform())
        .merge(describe::routes::people())
        .fallback(front::problem::no_such_route)
        .method_not_allowed_fallback(front::problem::no_such_route)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(front::body::limited))
        .layer(middleware::from_fn_with_state(
            front::concurrency::ConcurrencyLimits::default(),
            front::concurrency::kept,
        ))
        .layer(middleware::from_fn_with_state(state.clone(), front::deadline::bounded))
        .layer(middleware::from_fn(front::token_in_url::refused))
        .layer(middleware::from_fn(front::trace::traced))
        .with_state(state)
}
