//! For operators: liveness, readiness and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use tokio::sync::Mutex;
use trueup_api::Code;

use crate::AppState;
use crate::front::caller::PlatformReader;
use crate::front::problem::{Answer, Failure};

/// Liveness: the process runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Readiness: the database answers. Anybody may ask, so it is asked once per [`FRESH`] however many
/// do, and with one connection at a time. A failure is not kept: the next one asks again.
pub(crate) async fn ready(
    State(state): State<AppState>,
    Extension(readiness): Extension<Readiness>,
) -> Answer<&'static str> {
    let mut answered = readiness.0.lock().await;
    let now = state.clock.monotonic();
    if answered.is_none_or(|at| now.saturating_sub(at) >= FRESH) {
        *answered = None;
        state.app.ping().await?;
        *answered = Some(state.clock.monotonic());
    }
    Ok("ready\n")
}

/// How long an answer of the database counts as readiness.
const FRESH: Duration = Duration::from_secs(1);

/// When the database last answered. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<Duration>>>);

/// The metrics in the OpenMetrics format.
pub(crate) async fn metrics(
    State(state): State<AppState>,
    _reader: PlatformReader,
) -> Answer<Response> {
    let mut text = String::new();
    encode(&mut text, &state.registry)
        .map_err(|_| Failure::new(Code::Internal, "cannot encode the metrics"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
