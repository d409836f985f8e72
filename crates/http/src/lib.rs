//! The door's outside: routes, who is calling, problems, and streams of events.
//!
//! A request can only record intent or read what is known: this room sees neither the cluster nor
//! the loops. The list in [`router`] is the table of contents of the API.

mod action;
mod address;
mod answer;
mod body;
mod caller;
mod change;
mod cluster;
mod cursor;
mod deadline;
mod endpoint;
mod event;
mod keyed;
mod lane;
mod leak;
mod openapi;
mod operations;
mod org;
mod plan;
mod preview;
mod problem;
mod project;
mod quota;
mod reference;
mod release;
mod secret;
mod serve;
mod service;
mod stream;
mod streams;
mod template;
mod token;
mod trace;
mod variable;
mod view;
mod volume;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use trueup_model::Clock;
use trueup_rules::envelope::Sealer;
use trueup_store::{App, Signals};

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
    /// How many streams are open.
    pub streams: Streams,
}

/// Every route.
pub fn router(door: Door) -> Router {
    Router::new()
        .route("/healthz", get(operations::health))
        .route("/readyz", get(operations::ready))
        .route("/metrics", get(operations::metrics))
        .route("/openapi.json", get(async || Json(document())))
        .route("/docs/api", get(reference::page))
        .route("/docs/api.css", get(reference::style))
        .route("/docs/errors/{code}", get(operations::error_page))
        .route("/v1/projects", get(project::project_list))
        .route("/v1/projects/{project}", get(project::project_get).put(project::project_put))
        .route("/v1/services", get(service::service_list))
        .route(
            "/v1/projects/{project}/services/{service}",
            get(service::service_get).put(service::service_put).delete(service::service_delete),
        )
        .route("/v1/projects/{project}/services/{service}/watch", get(stream::service_watch))
        .route("/v1/projects/{project}/variables", get(variable::variable_list))
        .route(
            "/v1/projects/{project}/variables/{variable}",
            put(variable::variable_put).delete(variable::variable_delete),
        )
        .route(
            "/v1/projects/{project}/services/{service}/variables",
            get(variable::service_variable_list),
        )
        .route(
            "/v1/projects/{project}/services/{service}/variables/{variable}",
            put(variable::service_variable_put).delete(variable::service_variable_delete),
        )
        .route("/v1/projects/{project}/secrets", get(secret::secret_list))
        .route(
            "/v1/projects/{project}/secrets/{secret}",
            put(secret::secret_put).delete(secret::secret_delete),
        )
        .route(
            "/v1/projects/{project}/services/{service}/secrets",
            get(secret::service_secret_list),
        )
        .route(
            "/v1/projects/{project}/services/{service}/secrets/{secret}",
            put(secret::service_secret_put).delete(secret::service_secret_delete),
        )
        .route("/v1/projects/{project}/services/{service}/pause", post(action::service_pause))
        .route("/v1/projects/{project}/services/{service}/resume", post(action::service_resume))
        .route("/v1/projects/{project}/services/{service}/restart", post(action::service_restart))
        .route("/v1/projects/{project}/services/{service}/scale", post(action::service_scale))
        .route("/v1/projects/{project}/services/{service}/resize", post(action::service_resize))
        .route("/v1/projects/{project}/services/{service}/rollback", post(action::service_rollback))
        .route("/v1/projects/{project}/services/{service}/releases", get(release::release_list))
        .route("/v1/plans", get(plan::plan_list))
        .route("/v1/plans/{plan}", put(plan::plan_put))
        .route("/v1/quota", get(quota::quota_get).put(quota::quota_put))
        .route("/v1/events", get(event::event_list))
        .route("/v1/events/watch", get(stream::event_watch))
        .route("/v1/templates", get(template::template_list))
        .route("/v1/projects/{project}/volumes", get(volume::volume_list))
        .route("/v1/projects/{project}/endpoints", get(endpoint::endpoint_list))
        .route(
            "/v1/projects/{project}/services/{service}/endpoints/{endpoint}",
            put(endpoint::endpoint_put).delete(endpoint::endpoint_delete),
        )
        .route("/v1/clusters", get(cluster::cluster_list))
        .route("/v1/clusters/{cluster}", get(cluster::cluster_get))
        .route("/v1/whoami", get(token::whoami))
        .route("/v1/tokens", get(token::token_list).post(token::token_create))
        .route("/v1/tokens/{token}", delete(token::token_revoke))
        .route("/v1/orgs", get(org::org_list).post(org::org_create))
        .route("/v1/orgs/{org}", get(org::org_get))
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
