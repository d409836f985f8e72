//! Requests that a browser sends with the cookie must come from our own pages (CSRF).
//!
//! `SameSite=Strict` already keeps the cookie from other sites. But other ports of this machine and other hosts of
//! our domain are the same site to a browser. So a write also needs a header that no form can send, and the
//! browser's word that it comes from our own origin.

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Uri, header};
use trueup_api::Code;

use crate::front::cookie::{authority, is_encrypted};
use crate::front::problem::{Answer, Failure};

/// A header that pages of other origins cannot send without our permission, which nobody gets.
const OWN: &str = "x-trueup-csrf";
/// Where a browser says that a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

/// Checks a request with the cookie.
pub(crate) fn check(parts: &Parts) -> Answer<()> {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let comes_from_us = match origin(parts) {
        Origin::Own => true,
        // A read needs no header: also an address that somebody typed is a read.
        Origin::Unknown => reads,
        Origin::Foreign => false,
    };
    let has_header = only(&parts.headers, OWN) == Some("1");
    if comes_from_us && (reads || has_header) { Ok(()) } else { Err(refused()) }
}

/// Checks a request that signs a browser in: another site must not sign it in as somebody else. A
/// program that is no browser names no origin.
pub(crate) fn check_sign_in(parts: &Parts) -> Answer<()> {
    match origin(parts) {
        Origin::Own | Origin::Unknown => Ok(()),
        Origin::Foreign => Err(refused()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Own,
    Foreign,
    /// The client does not say.
    Unknown,
}

fn origin(parts: &Parts) -> Origin {
    let headers = &parts.headers;
    let by_origin = match (headers.contains_key(header::ORIGIN), only(headers, "origin")) {
        (false, _) => Origin::Unknown,
        (true, Some(origin)) if is_own(parts, origin) => Origin::Own,
        (true, _) => Origin::Foreign,
    };
    let by_site = match (headers.contains_key(FETCH_SITE), only(headers, FETCH_SITE)) {
        (false, _) => Origin::Unknown,
        (true, Some("same-origin")) => Origin::Own,
        // Typed, or from a bookmark.
        (true, Some("none")) => Origin::Unknown,
        (true, _) => Origin::Foreign,
    };
    match (by_origin, by_site) {
        (Origin::Foreign, _) | (_, Origin::Foreign) => Origin::Foreign,
        (Origin::Own, _) | (_, Origin::Own) => Origin::Own,
        (Origin::Unknown, Origin::Unknown) => Origin::Unknown,
    }
}

/// Whether an `Origin` is ours: the scheme, host and port of this request.
fn is_own(parts: &Parts, origin: &str) -> bool {
    let scheme = if is_encrypted(parts) { "https" } else { "http" };
    let (Ok(origin), Some(ours)) = (origin.parse::<Uri>(), authority(parts)) else { return false };
    origin.scheme_str() == Some(scheme) && origin.authority() == Some(&ours)
}

/// The value of a header that was sent once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

fn refused() -> Failure {
    Failure::new(
        Code::CrossSite,
        "a request with the cookie of a session must come from Trueup's own pages, and a write needs \
         the header `X-Trueup-Csrf: 1`; other programs send a token in `Authorization` instead",
    )
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use crate::front::proxy::Encrypted;

    fn allows(method: &Method, headers: &[(&str, &str)], encrypted: bool) -> (bool, bool) {
        let mut request =
            Request::builder().method(method).uri("/v1/projects").header("host", "localhost:7410");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.extension(Encrypted(encrypted)).body(()).unwrap().into_parts().0;
        (check(&parts).is_ok(), check_sign_in(&parts).is_ok())
    }

    /// Headers; whether a write, a read and a sign-in with them are allowed.
    type Row = (&'static [(&'static str, &'static str)], bool, bool, bool);

    /// S07: every combination that a page of another origin can cause.
    #[test]
    fn s07_only_our_own_pages_may_write_with_a_cookie() {
        const OWN_HEADER: (&str, &str) = (OWN, "1");
        const OURS: (&str, &str) = ("origin", "http://localhost:7410");
        let table: [Row; 16] = [
            (&[OWN_HEADER, (FETCH_SITE, "same-origin")], true, true, true),
            (&[OWN_HEADER, OURS], true, true, true),
            (&[OWN_HEADER, OURS, (FETCH_SITE, "same-origin")], true, true, true),
            (&[(FETCH_SITE, "same-origin")], false, true, true),
            (&[OURS], false, true, true),
            (&[OWN_HEADER], false, true, true),
            (&[], false, true, true),
            (&[OWN_HEADER, (FETCH_SITE, "none")], false, true, true),
            (&[OWN_HEADER, (FETCH_SITE, "same-site")], false, false, false),
            (&[OWN_HEADER, (FETCH_SITE, "cross-site")], false, false, false),
            (&[OWN_HEADER, OURS, (FETCH_SITE, "cross-site")], false, false, false),
            (&[OWN_HEADER, ("origin", "http://localhost:3000")], false, false, false),
            (&[OWN_HEADER, ("origin", "https://localhost:7410")], false, false, false),
            (&[OWN_HEADER, ("origin", "null")], false, false, false),
            (&[OWN_HEADER, OURS, ("origin", "http://evil.example")], false, false, false),
            (&[(OWN, "0"), (FETCH_SITE, "same-origin")], false, true, true),
        ];
        for (headers, write, read, sign_in) in table {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert_eq!(
                    allows(&method, headers, false),
                    (write, sign_in),
                    "{method} {headers:?}"
                );
            }
            assert_eq!(allows(&Method::GET, headers, false), (read, sign_in), "GET {headers:?}");
        }
        let encrypted = [OWN_HEADER, ("origin", "https://localhost:7410")];
        assert_eq!(allows(&Method::POST, &encrypted, true), (true, true));
    }
}
