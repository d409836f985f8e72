//! The cookie of a session: only its own host gets it, no script can read it, and no other site sends it.
//!
//! Over TLS its name begins with `__Host-`, which browsers accept only with `Secure`, `Path=/` and no domain.
//! On plain loopback there is no TLS, and all ports of a machine share their cookies: there the name has the
//! port, so that two installs do not sign each other out.

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, header};
use trueup_model::session::{LIFETIME, SessionSecret};

use crate::front::proxy::Encrypted;

/// The port of a URL without one.
const HTTP: u16 = 80;

/// The host and port that a request names: from the URI in HTTP/2, else from `Host`.
pub(crate) fn authority(parts: &Parts) -> Option<Authority> {
    let from_header = || parts.headers.get(header::HOST)?.to_str().ok()?.parse().ok();
    parts.uri.authority().cloned().or_else(from_header)
}

/// Whether the client's connection is encrypted.
pub(crate) fn is_encrypted(parts: &Parts) -> bool {
    parts.extensions.get::<Encrypted>().is_some_and(|encrypted| encrypted.0)
}

/// The cookie of a request's site.
#[derive(Debug, Clone)]
pub(crate) struct SessionCookie {
    name: String,
    secure: bool,
}

/// What a request sent in the cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    Nothing,
    One(String),
    /// Another host of the domain has added its own: none of them can be trusted.
    Several,
}

impl SessionCookie {
    pub(crate) fn of(parts: &Parts) -> Self {
        if is_encrypted(parts) {
            return Self { name: "__Host-trueup".to_owned(), secure: true };
        }
        let port = authority(parts).and_then(|authority| authority.port_u16()).unwrap_or(HTTP);
        Self { name: format!("trueup-{port}"), secure: false }
    }

    /// The cookie that ties a sign-in with a provider to its browser. It is as strict as a session's.
    pub(crate) fn of_sign_in(parts: &Parts) -> Self {
        let session = Self::of(parts);
        Self { name: format!("{}-sign-in", session.name), ..session }
    }

    /// What a request sent.
    pub(crate) fn sent(&self, parts: &Parts) -> Sent {
        let all = parts.headers.get_all(header::COOKIE).iter();
        let texts = all.filter_map(|value| value.to_str().ok());
        let mut ours = texts
            .flat_map(|text| text.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.name)
            .map(|(_, value)| value.to_owned());
        match (ours.next(), ours.next()) {
            (None, _) => Sent::Nothing,
            (Some(only), None) => Sent::One(only),
            (Some(_), Some(_)) => Sent::Several,
        }
    }

    /// The header that stores a secret in the browser.
    pub(crate) fn set(&self, secret: &SessionSecret) -> Option<HeaderValue> {
        self.header(secret.reveal(), LIFETIME.as_secs())
    }

    /// The header that removes the cookie.
    pub(crate) fn clear(&self) -> Option<HeaderValue> {
        self.header("", 0)
    }

    /// The header that stores a value for so many seconds.
    pub(crate) fn header(&self, value: &str, max_age: i64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = &self.name;
        let text =
            format!("{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(host: &str, cookies: &[&str], encrypted: bool) -> Parts {
        let mut request = Request::get("/").header(header::HOST, host);
        for cookie in cookies {
            request = request.header(header::COOKIE, *cookie);
        }
        request.extension(Encrypted(encrypted)).body(()).unwrap().into_parts().0
    }

    /// S06: every attribute, for both kinds of connection.
    #[test]
    fn s06_cookie_is_for_this_host_and_no_script() {
        let secret = SessionSecret::new("abc");
        let over_tls = SessionCookie::of(&parts("trueup.example.com", &[], true));
        let plain = SessionCookie::of(&parts("127.0.0.1:7410", &[], false));
        let set = over_tls.set(&secret).unwrap();
        assert_eq!(
            set.to_str().unwrap(),
            "__Host-trueup=tu_session_abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(!format!("{set:?}").contains("abc"), "the header is not printed");
        assert_eq!(
            plain.set(&secret).unwrap().to_str().unwrap(),
            "trueup-7410=tu_session_abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
        );
        assert_eq!(
            plain.clear().unwrap().to_str().unwrap(),
            "trueup-7410=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        );
    }

    #[test]
    fn only_the_cookie_of_this_port_counts_and_only_once() {
        let sent = |cookies: &[&str]| {
            let parts = parts("localhost:7410", cookies, false);
            SessionCookie::of(&parts).sent(&parts)
        };
        assert_eq!(sent(&[]), Sent::Nothing);
        assert_eq!(sent(&["trueup-80=x; trueup-74100=y; xtrueup-7410=z"]), Sent::Nothing);
        assert_eq!(sent(&["a=b; trueup-7410=x"]), Sent::One("x".to_owned()));
        assert_eq!(sent(&["trueup-7410=x; trueup-7410=y"]), Sent::Several);
        assert_eq!(sent(&["trueup-7410=x", "trueup-7410=x"]), Sent::Several);
    }
}
