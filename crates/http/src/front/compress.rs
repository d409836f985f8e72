//! Compresses long JSON answers for clients that accept it.
//!
//! A page of a thousand services is ten times smaller compressed, which is what a browser on a slow line
//! waits for. Streams are never compressed, because an event would wait for the next ones; and an answer
//! with an `ETag` is sent as it is, because the tag names these bytes.

use std::io::Write as _;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Shorter answers fit into a packet or two.
const LEAST: u64 = 2048;
/// Answers of this API are shorter; a longer one is sent as it is.
const MOST: u64 = 16 * 1024 * 1024;

/// Middleware: compresses what is worth it.
pub(crate) async fn compressed(request: Request, next: Next) -> Response {
    let asked = request.method() == Method::GET && accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !is_long_json(&response) {
        return response;
    }
    // Caches between us and the client must not give one form to a client that asked for the other.
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if asked { gzip(response).await } else { response }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = named.filter_map(|value| value.to_str().ok()).flat_map(|it| it.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused =
            weight.trim().strip_prefix("q=").is_some_and(|q| q.trim_matches(['0', '.']).is_empty());
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

fn is_long_json(response: &Response) -> bool {
    let headers = response.headers();
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let is_long =
        response.body().size_hint().exact().is_some_and(|size| (LEAST..=MOST).contains(&size));
    let is_tagged = headers.contains_key(header::ETAG);
    is_json && is_long && !is_tagged && !headers.contains_key(header::CONTENT_ENCODING)
}

async fn gzip(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    // The body is in memory already: its size is known, and reading it cannot fail.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(&plain).and_then(|()| encoder.finish());
    let Ok(packed) = packed else { return Response::from_parts(parts, Body::from(plain)) };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_where_it_is_named_and_not_refused() {
        let table = [
            ("gzip", true),
            ("br, GZIP;q=0.8", true),
            ("deflate, br", false),
            ("gzip;q=0, br", false),
            ("gzip; q=0.0", false),
            ("x-gzip", false),
        ];
        for (value, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
