//! One file of the dashboard: its forms, its caching and its response.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest as _, Sha256};

/// Files below it have a hash of their content in their name.
const IMMUTABLE: &str = "_app/immutable/";
/// The compressed forms, best first: the ending of the file and the name of the encoding.
const ENCODINGS: [(&str, &str); 2] = [(".br", "br"), (".gz", "gzip")];

/// Content types by the ending of a file.
const TYPES: [(&str, &str); 12] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
];

/// A file, plain and compressed.
#[derive(Debug)]
pub(super) struct Asset {
    content_type: &'static str,
    caching: &'static str,
    plain: Form,
    /// In the order of [`ENCODINGS`].
    compressed: Vec<(&'static str, Form)>,
}

/// A form of a file. Each has an ETag of its own.
#[derive(Debug)]
struct Form {
    content: Bytes,
    etag: HeaderValue,
}

impl Form {
    fn new(content: &'static [u8]) -> Self {
        let hash = BASE64URL_NOPAD.encode(&Sha256::digest(content));
        // Base64 consists of valid characters.
        let etag = HeaderValue::try_from(format!("\"{hash}\""));
        let etag = etag.unwrap_or(HeaderValue::from_static("\"\""));
        Self { content: Bytes::from_static(content), etag }
    }
}

/// The files by path, with the compressed ones as forms of the others.
pub(super) fn assets(files: &[(&'static str, &'static [u8])]) -> BTreeMap<&'static str, Asset> {
    let all: BTreeMap<&str, &'static [u8]> = files.iter().copied().collect();
    let is_compressed = |path: &str| {
        let plain = ENCODINGS.iter().find_map(|(ending, _)| path.strip_suffix(ending));
        plain.is_some_and(|plain| all.contains_key(plain))
    };
    let plain = files.iter().filter(|(path, _)| !is_compressed(path));
    plain.map(|(path, content)| (*path, asset(path, content, &all))).collect()
}

fn asset(path: &str, content: &'static [u8], all: &BTreeMap<&str, &'static [u8]>) -> Asset {
    let ending = path.rsplit('.').next().unwrap_or_default();
    let known = TYPES.iter().find(|(known, _)| *known == ending);
    let forms = ENCODINGS.iter().filter_map(|(ending, encoding)| {
        let content = all.get(format!("{path}{ending}").as_str())?;
        Some((*encoding, Form::new(content)))
    });
    let is_immutable = path.starts_with(IMMUTABLE);
    Asset {
        content_type: known.map_or("application/octet-stream", |(_, content_type)| content_type),
        caching: if is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" },
        plain: Form::new(content),
        compressed: forms.collect(),
    }
}

impl Asset {
    /// The response with the best form that the client accepts; empty if the client has it.
    pub(super) fn response(&self, method: &Method, request: &HeaderMap) -> Response {
        let accepted =
            |(encoding, _): &&(&str, Form)| accepts(request, header::ACCEPT_ENCODING, encoding);
        let (encoding, form) = match self.compressed.iter().find(accepted) {
            Some((encoding, form)) => (Some(*encoding), form),
            None => (None, &self.plain),
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, form.etag.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(self.caching));
        headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
        if has_it(request, &form.etag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(form.content.len()));
        if let Some(encoding) = encoding {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let is_head = method == Method::HEAD;
        let body = if is_head { Body::empty() } else { Body::from(form.content.clone()) };
        (headers, body).into_response()
    }
}

/// Whether `If-None-Match` names this ETag.
fn has_it(request: &HeaderMap, etag: &HeaderValue) -> bool {
    items(request, header::IF_NONE_MATCH).any(|tag| {
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag.as_bytes()
    })
}

/// Whether a header such as `Accept` names this value, not with the quality zero.
pub(super) fn accepts(request: &HeaderMap, name: HeaderName, value: &str) -> bool {
    items(request, name).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|named| named.eq_ignore_ascii_case(value));
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        is_named && quality.is_none_or(|quality| quality.parse().is_ok_and(|q: f32| q > 0.0))
    })
}

/// The comma-separated items of a header.
fn items(request: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = request.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}
