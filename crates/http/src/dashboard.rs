//! Serves the dashboard: static files, found by their exact path, and one page for every screen.
//!
//! The files are an input, so this crate compiles and is tested without Node. Where there is none, a
//! page says how to build the dashboard.

mod asset;
mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::AppState;
use crate::front::problem::{method_not_allowed, no_such_route};
use asset::{Asset, accepts};

/// The page for every screen: SvelteKit's names of a fallback page.
const PAGES: [&str; 2] = ["200.html", "index.html"];
/// First segments of paths that are not screens.
const RESERVED: [&str; 8] =
    [".well-known", "_app", "docs", "healthz", "metrics", "openapi.json", "readyz", "v1"];
/// Shown if the dashboard was not built.
const NOT_BUILT: (&str, &[u8]) = ("index.html", include_bytes!("dashboard/not_built.html"));

/// Headers of every file.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The files of the dashboard.
#[derive(Debug, Clone)]
pub struct Dashboard(Arc<Site>);

#[derive(Debug)]
struct Site {
    /// By path, without the first slash.
    assets: BTreeMap<&'static str, Asset>,
    /// The path of the page for every screen.
    page: &'static str,
    /// The content security policy of all files.
    policy: HeaderValue,
    is_built: bool,
}

impl Default for Dashboard {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Dashboard {
    /// Serves these files, each with its path. `NAME.br` and `NAME.gz` are compressed forms of `NAME`.
    ///
    /// Without a page among them, the dashboard was not built.
    #[must_use]
    pub fn new(files: &[(&'static str, &'static [u8])]) -> Self {
        let has = |name: &&str| files.iter().any(|(path, _)| path == name);
        let page = PAGES.into_iter().find(has);
        let files = if page.is_some() { files } else { &[NOT_BUILT] };
        let policy = HeaderValue::try_from(policy::policy(files));
        Self(Arc::new(Site {
            assets: asset::assets(files),
            page: page.unwrap_or(NOT_BUILT.0),
            // It consists of keywords and hashes.
            policy: policy.unwrap_or(HeaderValue::from_static("default-src 'none'")),
            is_built: page.is_some(),
        }))
    }
}

impl Site {
    /// The file for a request of this path: itself, or the page if a screen is opened.
    fn find(&self, path: &str, headers: &HeaderMap) -> Option<&Asset> {
        let path = path.strip_prefix('/')?;
        if path.is_empty() {
            return self.assets.get(self.page);
        }
        let first = path.split('/').next().unwrap_or_default();
        let screen = || !RESERVED.contains(&first) && accepts(headers, header::ACCEPT, "text/html");
        self.assets.get(path).or_else(|| screen().then(|| self.assets.get(self.page)).flatten())
    }
}

/// Answers every path that is not a route of the API.
pub(crate) async fn fallback(
    State(state): State<AppState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let site = &state.dashboard.0;
    let Some(asset) = site.find(uri.path(), &headers) else {
        return no_such_route().await.into_response();
    };
    if method != Method::GET && method != Method::HEAD {
        let allow = [(header::ALLOW, HeaderValue::from_static("GET, HEAD"))];
        return (allow, method_not_allowed().await).into_response();
    }
    let mut response = asset.response(&method, &headers);
    if !site.is_built && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    let added = response.headers_mut();
    added.insert(header::CONTENT_SECURITY_POLICY, site.policy.clone());
    for (name, value) in HEADERS {
        added.insert(name, HeaderValue::from_static(value));
    }
    response
}
