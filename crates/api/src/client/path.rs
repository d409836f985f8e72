//! Paths and query strings. Names are user input, so they are percent-encoded.

use super::ClientError;

/// A name as one segment of a path.
///
/// Empty names and dots are rejected: even encoded, they would change the path.
pub(crate) fn segment(name: &str) -> Result<String, ClientError> {
    if matches!(name, "" | "." | "..") {
        return Err(ClientError::Protocol(format!(
            "`{name}` is not a valid name. Names have lower-case letters, digits and dashes"
        )));
    }
    Ok(encode(name))
}

/// A path with the query parameters that have a value.
pub(crate) fn query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let given: Vec<String> = parameters
        .iter()
        .filter_map(|(key, value)| value.map(|value| format!("{key}={}", encode(value))))
        .collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

/// Percent-encodes everything except the unreserved characters of RFC 3986.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_encoded() {
        for (name, path) in [
            ("web", "web"),
            ("svc_01ab", "svc_01ab"),
            ("a/b?c#d", "a%2Fb%3Fc%23d"),
            ("ü", "%C3%BC"),
        ] {
            assert_eq!(segment(name).unwrap(), path);
        }
        for name in ["", ".", ".."] {
            assert!(segment(name).is_err());
        }
    }

    #[test]
    fn queries_contain_only_given_parameters() {
        assert_eq!(query("/v1/services", &[("project", None)]), "/v1/services");
        assert_eq!(
            query("/v1/events", &[("after", Some("a&b")), ("limit", Some("5"))]),
            "/v1/events?after=a%26b&limit=5"
        );
    }
}
