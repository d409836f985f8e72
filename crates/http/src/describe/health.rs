//! For operators: liveness, readiness and metrics.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use trueup_api::Code;

use crate::AppState;
use crate::front::caller::PlatformReader;
use crate::front::problem::{Answer, Failure};

/// Liveness: the process runs.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Readiness: the database answers.
pub(crate) async fn ready(State(state): State<AppState>) -> Answer<&'static str> {
    state.app.ping().await?;
    Ok("ready\n")
}

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
