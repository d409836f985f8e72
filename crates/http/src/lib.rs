//! The door's outside: routes, who is calling, problems, and streams of events.
//!
//! A request can only record intent or read what is known: this room sees neither the cluster nor
//! the loops. The lists in `routes` are the table of contents of the API.

mod action;
mod address;
mod answer;
mod body;
mod caller;
mod change;
mod cluster;
mod cursor;
mod deadline;
mod domain;
mod doubt;
mod endpoint;
mod entry;
mod event;
mod feed;
mod finding;
mod freeze;
mod keyed;
mod lane;
mod leak;
mod log;
mod openapi;
mod operations;
mod org;
mod plan;
mod plan_request;
mod preview;
mod problem;
mod project;
mod quota;
mod reference;
mod release;
mod routes;
mod secret;
mod serve;
mod service;
mod stream;
mod streams;
mod template;
mod token;
mod trace;
mod transition;
mod variable;
mod view;
mod volume;
mod wake;
mod why;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use trueup_model::Clock;
use trueup_rules::envelope::Sealer;
use trueup_store::{App, Signals};

pub use doubt::Doubts;
pub use log::{Lines, LiveLogs, LogSource, NoLogs};
pub use openapi::document;
pub use serve::{Limits, serve};
pub use streams::Streams;

/// The largest body that is read.
const BODY_LIMIT: usize = 256 * 1024;

/// What the routes use.
#[derive(Debug, Clone)]
pub struct Door {
    /// The database, as the app.
    pub app: App,
    /// Who wants to know what was recorded.
    pub signals: Signals,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Seals the secrets that people bring. It opens none.
    pub sealer: Sealer,
    /// What `/metrics` shows.
    pub registry: Arc<Registry>,
    /// Ends the streams when the process stops.
    pub stop: CancellationToken,
    /// Where live logs are read.
    pub logs: Arc<dyn LiveLogs>,
    /// How many streams are open.
    pub streams: Streams,
    /// What readers doubted lately.
    pub doubts: Doubts,
}

/// Every route, behind everything that each request passes.
pub fn router(door: Door) -> Router {
    Router::new()
        .merge(routes::for_everybody())
        .merge(routes::projects())
        .merge(routes::services())
        .merge(routes::platform())
        .merge(routes::people())
        .fallback(problem::no_such_route)
        .method_not_allowed_fallback(problem::no_such_route)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(body::limited))
        .layer(middleware::from_fn_with_state(lane::Lanes::default(), lane::kept))
        .layer(middleware::from_fn_with_state(door.clone(), deadline::bounded))
        .layer(middleware::from_fn(leak::refused))
        .layer(middleware::from_fn(trace::traced))
        .with_state(door)
}
