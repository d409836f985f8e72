//! Rejects tokens in URLs before they are used, and keeps them out of the log.
//!
//! Proxies, shells and browsers store URLs, so a token in a URL must be considered leaked.

use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use trueup_api::Code;
use trueup_model::token::is_in;

use crate::front::problem::Failure;

/// Query parameters that clients use for tokens.
const NAMES: [&str; 7] =
    ["token", "access_token", "api_token", "api_key", "apikey", "authorization", "bearer"];

/// Middleware: rejects a request with a token in its URL, or with a query parameter for one.
pub(crate) async fn refused(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let named = uri.query().unwrap_or_default().split('&').any(|pair| {
        let name = decoded(pair.split('=').next().unwrap_or_default()).to_lowercase();
        NAMES.contains(&name.as_str())
    });
    if named || holds_token(uri) {
        let detail = "send tokens only in the header `Authorization: Bearer TOKEN`; revoke a token \
                      that was part of a URL, because it may have leaked";
        return Failure::new(Code::TokenInUrl, detail).into_response();
    }
    next.run(request).await
}

/// The path for the log, without a token.
pub(crate) fn shown(uri: &Uri) -> &str {
    if holds_token(uri) { "[token removed]" } else { uri.path() }
}

fn holds_token(uri: &Uri) -> bool {
    uri.path_and_query().is_some_and(|address| is_in(&decoded(address.as_str())))
}

/// The percent-decoded text: an encoded token is still a token.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code =
            code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { more.get(2..).unwrap_or_default() } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_token_is_detected() {
        let token = "tu_01h455vb4pex5vsknk084sn02q_abcdefgh";
        let hidden = "%74u%5F01h455vb4pex5vsknk084sn02q";
        for address in [format!("/v1/x/{token}"), format!("/v1/x?a={token}"), format!("/{hidden}")]
        {
            let uri: Uri = address.parse().unwrap();
            assert!(holds_token(&uri), "{address}");
            assert!(!shown(&uri).contains("01h4"), "{address}");
        }
        let plain: Uri = "/v1/projects/shop?after=%zz%".parse().unwrap();
        assert_eq!((holds_token(&plain), shown(&plain)), (false, "/v1/projects/shop"));
    }
}
