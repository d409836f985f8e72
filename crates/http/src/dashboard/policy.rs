//! The content security policy of the dashboard: its own files, and what is inline by its hash.
//!
//! The hashes are computed from the files that are served, so that they cannot be out of date.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

/// Never needed by the dashboard. The last two close the DOM's ways to run a text as a script: only
/// the policies of Svelte's templates and of the dashboard's own worker may create one.
const FIXED: &str = "object-src 'none'; base-uri 'none'; form-action 'self'; \
                     frame-ancestors 'none'; require-trusted-types-for 'script'; \
                     trusted-types svelte-trusted-html worker";

/// The policy for pages among these files.
pub(super) fn policy(files: &[(&str, &[u8])]) -> String {
    let (mut scripts, mut styles, mut attributes) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (path, content) in files {
        let Ok(text) = std::str::from_utf8(content) else { continue };
        if path.ends_with(".html") {
            scripts.extend(elements(text, "script"));
            styles.extend(elements(text, "style"));
        }
        // Templates of components are texts in scripts.
        if path.ends_with(".html") || path.ends_with(".js") {
            attributes.extend(style_attributes(text));
        }
    }
    let mut policy = format!("default-src 'self'; script-src 'self'{}", sources(&scripts));
    if !styles.is_empty() {
        policy.push_str(&format!("; style-src 'self'{}", sources(&styles)));
    }
    if !attributes.is_empty() {
        policy.push_str(&format!("; style-src-attr 'unsafe-hashes'{}", sources(&attributes)));
    }
    format!("{policy}; {FIXED}")
}

/// The hashes of these texts as sources of a policy.
fn sources(texts: &BTreeSet<&str>) -> String {
    let hash = |text: &&str| format!(" 'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    texts.iter().map(hash).collect()
}

/// What is between the tags of these elements. Elements without content, such as scripts with a
/// `src`, are left out.
fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let parts = text.split(open.as_str()).skip(1);
    let inner = parts.filter_map(|part| part.split(close.as_str()).next()?.split_once('>'));
    inner.map(|(_, inner)| inner).filter(|inner| !inner.is_empty()).collect()
}

/// The values of `style` attributes, except computed ones.
fn style_attributes(text: &str) -> impl Iterator<Item = &str> {
    let values = text.split(" style=\"").skip(1).filter_map(|part| part.split_once('"'));
    values.map(|(value, _)| value).filter(|value| {
        let is_css = |byte: u8| byte.is_ascii_alphanumeric() || b" :;-.,%()#!".contains(&byte);
        !value.is_empty() && value.bytes().all(is_css)
    })
}
