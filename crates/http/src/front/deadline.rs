//! A deadline for every response: a hanging database is treated as unavailable.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use trueup_api::Code;

use crate::AppState;
use crate::front::problem::Failure;

/// Longer than any response takes, shorter than clients wait.
const LIMIT: Duration = Duration::from_secs(10);

/// Middleware: responds 503 after the deadline. A stream meets it with its first byte.
pub(crate) async fn bounded(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let reads = request.method().is_safe();
    tokio::select! {
        response = next.run(request) => response,
        () = state.clock.sleep(LIMIT) => {
            tracing::warn!("request deadline exceeded; check whether the database hangs");
            if reads {
                let detail = "the database did not answer in time; retry in a few seconds";
                Failure::new(Code::DatabaseUnavailable, detail).into_response()
            } else {
                Failure::outcome_unknown().into_response()
            }
        }
    }
}
