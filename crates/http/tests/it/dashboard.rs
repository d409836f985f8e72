//! The dashboard's files: which path has which, caching, compression and the content security policy.

use axum::http::{Method, StatusCode};
use trueup_http::Dashboard;

use crate::front::{Front, Reply};

const SCRIPT: &str = "/_app/immutable/entry/start.abc123.js";
const PAGE: &[u8] = b"<!doctype html><body style=\"display: contents\"><script>boot()</script>\
                      <script src=\"/_app/immutable/entry/start.abc123.js\"></script></body>";
/// What the build of a dashboard leaves. The contents of compressed files are not looked into.
const FILES: [(&str, &[u8]); 6] = [
    ("200.html", PAGE),
    ("200.html.br", b"page in brotli"),
    ("200.html.gz", b"page in gzip"),
    (
        "_app/immutable/entry/start.abc123.js",
        b"t('<i style=\"top: 0\"></i><b style=\"${x}\"></b>')",
    ),
    ("_app/version.json", b"{}"),
    ("favicon.svg", b"<svg/>"),
];
/// What a browser sends when it opens a page.
const HTML: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

async fn front() -> Front {
    let mut front = Front::new().await;
    front.rebuild(|state| state.dashboard = Dashboard::new(&FILES));
    front
}

impl Front {
    async fn open_page(&self, path: &str) -> Reply {
        self.get(path).header("accept", HTML).send().await
    }
}

#[tokio::test]
async fn files_are_found_by_exact_path_and_screens_are_the_page() {
    let front = front().await;
    for (path, content_type, caching) in [
        ("/", "text/html; charset=utf-8", "no-cache"),
        (SCRIPT, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        ("/_app/version.json", "application/json", "no-cache"),
        ("/favicon.svg", "image/svg+xml", "no-cache"),
    ] {
        let reply = front.get(path).send().await;
        assert_eq!(reply.status, StatusCode::OK, "{path}");
        assert_eq!(reply.header("content-type"), Some(content_type), "{path}");
        assert_eq!(reply.header("cache-control"), Some(caching), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{path}");
    }
    for screen in
        ["/orgs/demo/services", "/sign-in", "/orgs/demo/projects/shop/services/a.b?tab=why"]
    {
        let reply = front.open_page(screen).await;
        assert_eq!((reply.status, &*reply.body), (StatusCode::OK, PAGE), "{screen}");
    }
}

#[tokio::test]
async fn page_is_no_answer_to_other_clients_methods_or_paths() {
    let front = front().await;
    front.get("/orgs/demo").send().await.must_be(404, "TU1003");
    // A file of an older build, the API, and what is beside them.
    for path in
        ["/_app/immutable/old.js", "/v1/none", "/docs/none", "/metrics/none", "/v1", "/docs"]
    {
        assert_eq!(front.open_page(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    for path in ["//", "/..", "/../Cargo.toml", "/%2e%2e/", "/favicon.svg/", "/200.html.br"] {
        assert_eq!(front.get(path).send().await.status, StatusCode::NOT_FOUND, "{path}");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let reply = front.request(method, "/favicon.svg").send().await;
        reply.must_be(405, "TU1104");
        assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    }
}

#[tokio::test]
async fn client_gets_the_best_form_that_it_accepts() {
    let front = front().await;
    let mut etags = Vec::new();
    for (accepted, encoding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), &b"page in brotli"[..]),
        ("br;q=0, GZIP;q=0.5", Some("gzip"), b"page in gzip"),
        ("deflate, gzip;q=0", None, PAGE),
        ("", None, PAGE),
    ] {
        let reply = front.get("/").header("accept-encoding", accepted).send().await;
        assert_eq!(reply.header("content-encoding"), encoding, "{accepted}");
        assert_eq!(&*reply.body, body, "{accepted}");
        assert_eq!(reply.header("vary"), Some("accept, accept-encoding"));
        etags.push(reply.header("etag").unwrap().to_owned());
    }
    etags.dedup();
    assert_eq!(etags.len(), 3, "each form should have an ETag of its own: {etags:?}");
}

#[tokio::test]
async fn conditional_and_head_requests_have_the_headers_and_no_body() {
    let front = front().await;
    let full = front.get("/").send().await;
    let etag = full.header("etag").unwrap();
    for tag in [etag.to_owned(), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let reply = front.get("/").header("if-none-match", &tag).send().await;
        assert_eq!((reply.status, reply.body.len()), (StatusCode::NOT_MODIFIED, 0), "{tag}");
        assert_eq!(reply.header("etag"), Some(etag));
        assert_eq!(reply.header("cache-control"), Some("no-cache"));
        assert_eq!(reply.header("content-security-policy"), full.header("content-security-policy"));
    }
    assert_eq!(front.get("/").header("if-none-match", "\"x\"").send().await.status, StatusCode::OK);
    let head = front.request(Method::HEAD, "/").send().await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    assert_eq!(head.header("content-length"), Some(PAGE.len().to_string().as_str()));
    assert_eq!(head.header("etag"), Some(etag));
}

#[tokio::test]
async fn policy_allows_only_own_files_and_hashes_of_inline_parts() {
    let front = front().await;
    let reply = front.get("/").send().await;
    insta::assert_snapshot!(reply.header("content-security-policy").unwrap().replace("; ", "\n"));
}

#[tokio::test]
async fn without_a_build_the_page_says_how_to_get_one() {
    let front = Front::new().await;
    let reply = front.open_page("/orgs/demo/services").await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert!(reply.text().contains("npm"), "{}", reply.text());
    let policy = reply.header("content-security-policy").unwrap();
    assert!(policy.contains("style-src 'self' 'sha256-"), "{policy}");
    front.get("/none").send().await.must_be(404, "TU1003");
}
