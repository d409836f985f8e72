//! Image references, read strictly: `registry/repository:tag@digest`.
//!
//! What Kubernetes would reject much later is rejected on admission, and a policy is only safe if
//! it parses a name like the node that pulls the image.

use trueup_model::spec::Spec;
use trueup_model::template::{ImagePolicy, Template};

use super::FieldError;

/// A parsed image reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image<'a> {
    /// The registry's host and port, if the reference names one.
    pub registry: Option<&'a str>,
    /// The repository's path below it.
    pub path: &'a str,
    /// The tag.
    pub tag: Option<&'a str>,
    /// The digest.
    pub digest: Option<&'a str>,
}

/// The longest name, registry and path together, that registries accept.
const LONGEST: usize = 255;

/// Parses a reference.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse(text: &str) -> Result<Image<'_>, String> {
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err("must have a digest of the form `@sha256:` and 64 hex digits".to_owned());
    }
    // A colon after the last slash begins a tag; before it, a port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (rest, None),
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("must have a tag of at most 128 letters, digits, '_', '.' and '-'".to_owned());
    }
    let (registry, path) = match name.split_once('/') {
        Some((first, path)) if is_host(first) => (Some(first), path),
        Some(_) | None => (None, name),
    };
    let good = path.split('/').all(is_component) && name.len() <= LONGEST;
    if !good || registry.is_some_and(|registry| !is_registry(registry)) {
        return Err(
            "must be an image, such as `registry.example/team/web:1.2`: lower-case letters, digits, \
             '.', '_' and '-' between slashes"
                .to_owned(),
        );
    }
    Ok(Image { registry, path, tag, digest })
}

/// The error of a service with a new image from an internal registry, at the parameter that sets it.
///
/// Nodes pull images from wherever a reference points, so a registry could be used to reach hosts
/// of the operator's own network and to scan their ports. Such registries are allowed only by name.
/// A public name that points to such a host is not noticed: names are not looked up here.
pub(super) fn internal_registry(template: &Template, spec: &Spec) -> Option<FieldError> {
    let is_listed = template.images.as_ref().is_some_and(|policy| !policy.allow.is_empty());
    let registry = parse(&spec.image).ok()?.registry.filter(|_| !is_listed)?;
    let what = internal(registry)?;
    let parameter = template.parameters.iter().find(|(_, parameter)| parameter.sets == "/image");
    let field =
        parameter.map_or_else(|| "template".to_owned(), |(name, _)| format!("parameters.{name}"));
    let message = format!(
        "registry `{registry}` is {what}, which is refused by default; ask the operator for a \
         version of the template that lists it under `images.allow`"
    );
    Some(FieldError { field, message })
}

/// Why a registry may be inside of the operator's own network; `None` if it has a public name.
fn internal(registry: &str) -> Option<&'static str> {
    let host = registry.split_once(':').map_or(registry, |(host, _)| host).to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    let last = labels.last().copied().unwrap_or_default();
    // No public domain ends with a number: this is an IPv4 address in one of its spellings.
    if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
        return Some("an IP address");
    }
    if labels.len() == 1 {
        return Some("a name without a domain");
    }
    INTERNAL_DOMAINS.contains(&last).then_some("in an internal domain")
}

/// Top-level domains that never exist publicly, or are used inside of networks.
const INTERNAL_DOMAINS: [&str; 14] = [
    "arpa",
    "cluster",
    "corp",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "onion",
    "private",
    "svc",
];

/// Whether a policy allows this image.
///
/// # Errors
/// What the policy requires.
pub fn allowed(policy: &ImagePolicy, image: &Image<'_>) -> Result<(), String> {
    let name = match image.registry {
        Some(registry) => format!("{registry}/{}", image.path),
        None => image.path.to_owned(),
    };
    let matches = |allowed: &String| match allowed.strip_suffix('/') {
        Some(prefix) => name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')),
        None => name == *allowed,
    };
    if !policy.allow.is_empty() && !policy.allow.iter().any(matches) {
        return Err(format!(
            "`{name}` is not among the images that may run here: {}",
            policy.allow.join(", ")
        ));
    }
    if policy.require_digest && image.digest.is_none() {
        return Err(
            "must be named by its digest, such as `web@sha256:…`, so that it cannot change"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether a policy's entry could match anything: a repository, or a prefix that ends with `/`.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    let name = text.strip_suffix('/').unwrap_or(text);
    let registry_alone = text.ends_with('/') && is_host(name) && is_registry(name);
    let repository = parse(name).is_ok_and(|image| image.tag.is_none() && image.digest.is_none());
    registry_alone || repository
}

/// The first part of a name is a host if it cannot be part of a path, or is `localhost`.
fn is_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

fn is_registry(host: &str) -> bool {
    let (name, port) = match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    };
    let label = |label: &str| {
        let inner = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(label)
        && port.is_none_or(|port| {
            !port.starts_with('+') && port.parse::<u16>().is_ok_and(|number| number > 0)
        })
}

/// Words of lower-case letters and digits, with '.', '_', '__' or dashes between them.
fn is_component(component: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let bounded = bytes.first().is_some_and(|b| word(*b)) && bytes.last().is_some_and(|b| word(*b));
    let separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    bounded
        && separators.filter(|between| !between.is_empty()).all(|between| {
            matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let inner = tag.bytes().all(|b| letter(b) || b == b'.' || b == b'-');
    (1..=128).contains(&tag.len()) && inner && tag.bytes().next().is_some_and(letter)
}

fn is_digest(digest: &str) -> bool {
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    match digest.split_once(':') {
        Some(("sha256", text)) => hex(text, 64),
        Some(("sha512", text)) => hex(text, 128),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_reference_has_four_parts() {
        let full = format!("registry.example:5000/team/web:1.2@{DIGEST}");
        let image = parse(&full).unwrap();
        assert_eq!(image.registry, Some("registry.example:5000"));
        assert_eq!((image.path, image.tag), ("team/web", Some("1.2")));
        assert_eq!(image.digest, Some(DIGEST));
        let short = parse("team/web").unwrap();
        assert_eq!(short, Image { registry: None, path: "team/web", tag: None, digest: None });
        let port = parse("localhost:5000/web").unwrap();
        assert_eq!((port.registry, port.path, port.tag), (Some("localhost:5000"), "web", None));
        for good in ["a", "nginx:1", "my__app/x--y.z:V_1.0", "storefront:1.4.2"] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn invalid_references_are_refused() {
        let long = "a/".repeat(130);
        for bad in [
            "",
            " ",
            "a b",
            "Web",
            "web:",
            "web:-1",
            "web@",
            "web@sha256:12",
            "web@md5:12",
            "/web",
            "web/",
            "a//b",
            "-a",
            "a-",
            "a..b",
            "a___b",
            "a._b",
            "registry.example:x/web",
            "a:b:c",
            "registry.example:0/web",
            "registry.example:+1/web",
            ".example/web",
            "a\n",
            "a\0",
            "wéb",
            "https://registry.example/web",
            "$(IMAGE)",
            "{{ .image }}",
            &long,
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    fn policy(allow: &[&str], require_digest: bool) -> ImagePolicy {
        ImagePolicy { allow: allow.iter().map(|one| (*one).to_owned()).collect(), require_digest }
    }

    #[test]
    fn a_policy_matches_whole_parts_of_a_name() {
        let policy = policy(&["registry.example/team/", "postgres"], false);
        let may = |text: &str| allowed(&policy, &parse(text).unwrap()).is_ok();
        for good in ["registry.example/team/web:1", "registry.example/team/a/b", "postgres:18"] {
            assert!(may(good), "{good}");
        }
        for bad in [
            "registry.example/team2/web",
            "registry.example/team",
            "other.example/registry.example/team/web",
            "other.example/postgres",
            "postgres/evil",
            "postgres2",
        ] {
            assert!(!may(bad), "{bad}");
        }
    }

    #[test]
    fn a_policy_may_require_a_digest() {
        let policy = policy(&[], true);
        let error = allowed(&policy, &parse("web:1").unwrap()).unwrap_err();
        assert!(error.contains("digest"), "{error}");
        assert_eq!(allowed(&policy, &parse(&format!("web@{DIGEST}")).unwrap()), Ok(()));
    }

    #[test]
    fn registries_of_internal_networks_are_recognised() {
        for bad in [
            "10.0.0.5:22",
            "127.0.0.1",
            "127.1:5000",
            "0x7f.0x1",
            "localhost",
            "localhost:5000",
            "registry:5000",
            "REGISTRY",
            "registry.local",
            "registry.team.svc:5000",
            "registry.default.svc.cluster.local",
            "metadata.google.internal",
            "Registry.Corp",
        ] {
            assert!(internal(bad).is_some(), "{bad}");
        }
        for good in ["registry.example", "ghcr.io", "a.co:5000", "docker.io"] {
            assert_eq!(internal(good), None, "{good}");
        }
    }

    #[test]
    fn policy_entries_are_names_or_prefixes() {
        for good in ["postgres", "registry.example/", "registry.example/team/", "team/"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in ["", "/", "postgres:18", "a b", "*", "registry.example/*", "Web"] {
            assert!(!is_pattern(bad), "{bad}");
        }
    }
}
