//! JSON schemas of texts with a strict form, for the API's description.
//!
//! A schema states the same rule as the type's `FromStr`, so a client can check a value before it
//! sends it.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::Host;
use crate::id::{Id, Noun};
use crate::money::Currency;
use crate::name::{self, Name};
use crate::template::TemplateRef;
use crate::variable::{self, VariableName};

/// A name without the anchors of a pattern: a DNS label that starts with a letter.
const LABEL: &str = "[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?";
/// Names that the platform keeps for itself.
const NOT_RESERVED: &str = "(?!(?:default|trueup)(?:$|@))(?!kube-)";

/// A text that matches a pattern and has at most so many characters.
#[must_use]
pub fn text(pattern: impl Into<String>, min: usize, max: usize) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern.into()))
        .min_length(Some(min))
        .max_length(Some(max))
}

fn described(object: ObjectBuilder, description: &str) -> RefOr<Schema> {
    object.description(Some(description)).into()
}

impl PartialSchema for Name {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("^{NOT_RESERVED}{LABEL}$");
        described(
            text(pattern, 1, name::MAX_LEN),
            "A DNS label of at most 40 characters that starts with a letter and is not reserved.",
        )
    }
}

impl ToSchema for Name {}

impl PartialSchema for TemplateRef {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("^{NOT_RESERVED}{LABEL}@[1-9][0-9]{{0,8}}$");
        described(
            text(pattern, 3, name::MAX_LEN.saturating_add(10)),
            "A template's name and version, such as `web@1`.",
        )
    }
}

impl ToSchema for TemplateRef {}

impl PartialSchema for VariableName {
    fn schema() -> RefOr<Schema> {
        described(
            text("^[A-Za-z_][A-Za-z0-9_]*$", 1, variable::MAX_NAME),
            "The name of an environment variable: letters, digits and `_`, no digit first.",
        )
    }
}

impl ToSchema for VariableName {}

impl PartialSchema for Host {
    fn schema() -> RefOr<Schema> {
        let label = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
        let reserved =
            "(?!.*(?:^|\\.)(?:arpa|internal|invalid|local|localhost|onion|svc|trueup\\.dev)$)";
        let pattern = format!("^{reserved}(?!.*\\.[0-9]+$){label}(?:\\.{label})+$");
        described(
            text(pattern, 3, Self::LONGEST),
            "A host name in lower case with at least one dot, such as `www.example.org`.",
        )
    }
}

impl ToSchema for Host {}

impl PartialSchema for Currency {
    fn schema() -> RefOr<Schema> {
        described(text("^[A-Z]{3}$", 3, 3), "A currency by its three capital letters.")
    }
}

impl ToSchema for Currency {}

impl<N: Noun> PartialSchema for Id<N> {
    fn schema() -> RefOr<Schema> {
        let pattern = format!("^{}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$", N::PREFIX);
        let length = N::PREFIX.len().saturating_add(27);
        text(pattern, length, length).into()
    }
}

impl<N: Noun> ToSchema for Id<N> {
    fn name() -> Cow<'static, str> {
        let mut letters = N::PREFIX.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        Cow::Owned(first.into_iter().chain(letters).chain("Id".chars()).collect())
    }

    fn schemas(_schemas: &mut Vec<(String, RefOr<Schema>)>) {}
}
