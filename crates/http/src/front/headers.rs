//! Headers that every response has unless its handler says otherwise.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Middleware: a response is for its caller alone, so no cache keeps it; and it is nothing but what its content
/// type says, so no browser runs it.
pub(crate) async fn kept_private(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let (no_store, nosniff) =
        (HeaderValue::from_static("no-store"), HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(nosniff);
    response
}
