//! A deadline for every answer: a database that hangs is as good as one that is gone.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use trueup_api::Code;

use crate::AppState;
use crate::front::problem::Failure;

/// Longer than any answer takes, shorter than a person or a client waits.
const LIMIT: Duration = Duration::from_secs(10);

/// Answers 503 where the handler does not. A stream has answered once it begins.
pub(crate) async fn bounded(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    tokio::select! {
        response = next.run(request) => response,
        () = state.clock.sleep(LIMIT) => {
            tracing::warn!("a request had no answer in time; is the database hanging?");
            let detail = "the database did not answer in time, so it is not known whether the change was \
                          recorded; sending the same request again is safe";
            Failure::new(Code::DatabaseUnavailable, detail).into_response()
        }
    }
}
