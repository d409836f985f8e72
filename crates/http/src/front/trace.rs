//! A trace id for each request: in the log, in problems, and in the events that it causes.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::front::proxy::ClientAddress;
use crate::front::token_in_url;

tokio::task_local! {
    static TRACE: String;
}

/// The trace id of the current request.
pub(crate) fn current() -> Option<String> {
    TRACE.try_with(Clone::clone).ok()
}

/// Middleware: runs a request with its trace id, from W3C `traceparent` or newly generated.
pub(crate) async fn traced(request: Request, next: Next) -> Response {
    let given = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let trace = given.and_then(trace_id).unwrap_or_else(new_trace);
    let client = request.extensions().get::<ClientAddress>().map(|client| client.0.to_string());
    let span = tracing::info_span!(
        "request", trace = %trace, client, method = %request.method(), path = %token_in_url::shown(request.uri()));
    let work = async {
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "answered");
        response
    };
    let mut response = TRACE.scope(trace.clone(), work.instrument(span)).await;
    if let Ok(value) = HeaderValue::from_str(&trace) {
        response.headers_mut().insert("trueup-trace", value);
    }
    response
}

/// The trace id inside `00-<32 hex>-<16 hex>-<2 hex>`.
fn trace_id(traceparent: &str) -> Option<String> {
    let id = traceparent.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())).then(|| id.to_owned())
}

fn new_trace() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system should have randomness");
    data_encoding::HEXLOWER.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_traceparent_is_ignored() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_id(good).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
        for bad in ["", "00-xyz-1-1", "00-0af7-1-01", "00-0af7651916cd43dd8448eb211c8031\n9c-b-1"] {
            assert_eq!(trace_id(bad), None, "{bad:?}");
        }
    }
}
