//! Which problems each operation can answer with, for the OpenAPI document.
//!
//! Most follow from the shape of an operation: what it takes, and whether it writes. The handler lists the rest,
//! in the extension `x-problems` of its `utoipa::path`. The tests check every problem that they receive against
//! the document.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use trueup_api::Code;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Any request may meet these.
const ALWAYS: [Code; 10] = [
    Code::Unauthenticated,
    Code::Forbidden,
    Code::CrossSite,
    Code::NotFound,
    Code::TokenInUrl,
    Code::BadRequest,
    Code::TooLarge,
    Code::TooBusy,
    Code::DatabaseUnavailable,
    Code::Internal,
];
/// An operation with a body may meet these as well.
const BODY: [Code; 2] = [Code::MalformedBody, Code::InvalidManifest];
/// An operation that writes may meet these as well.
const WRITE: [Code; 7] = [
    Code::PreconditionFailed,
    Code::BeingDeleted,
    Code::KeyReused,
    Code::OverQuota,
    Code::OverSpending,
    Code::NoBalance,
    Code::OutcomeUnknown,
];

/// Where a handler lists what else it may meet. In the document the list becomes responses.
const EXTENSION: &str = "x-problems";

/// Adds the problem responses of every operation.
pub(super) fn add(document: &mut OpenApi) {
    let mut responses = BTreeMap::new();
    for item in document.paths.paths.values_mut() {
        let reads = item.get.iter_mut().map(|operation| (operation, false));
        let writes = [&mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
            .into_iter()
            .flatten()
            .map(|operation| (operation, true));
        for (operation, writes) in reads.chain(writes) {
            let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
            let mut codes = by_shape(operation, writes);
            codes.extend(take_own(operation));
            for code in codes {
                by_status.entry(code.status()).or_default().push(code);
            }
            for (status, codes) in by_status {
                let name = name(status, &codes);
                let reference = RefOr::Ref(Ref::from_response_name(&name));
                operation.responses.responses.insert(status.to_string(), reference);
                responses.insert(name, RefOr::T(response(&codes)));
            }
        }
    }
    let components = document.components.get_or_insert_default();
    components.schemas.insert("Problem".to_owned(), trueup_api::Problem::schema());
    let mut used = Vec::new();
    trueup_api::Problem::schemas(&mut used);
    components.schemas.extend(used);
    components.responses.extend(responses);
}

/// One shared response for each set of codes with the same status: `Problem409_TU1302_TU1303`.
fn name(status: u16, codes: &[Code]) -> String {
    let codes: Vec<String> = codes.iter().map(|code| format!("_{code}")).collect();
    format!("Problem{status}{}", codes.concat())
}

/// The codes that follow from what an operation takes, and from whether it writes.
fn by_shape(operation: &Operation, writes: bool) -> BTreeSet<Code> {
    let mut codes = BTreeSet::from(ALWAYS);
    if operation.request_body.is_some() {
        codes.extend(BODY);
    }
    if writes {
        codes.extend(WRITE);
    }
    let takes_query = operation.parameters.iter().flatten().any(|parameter| {
        matches!(parameter, RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query)
    });
    if takes_query {
        codes.insert(Code::InvalidManifest);
    }
    codes
}

/// The codes that the handler lists. An invalid list stays in the document, where the tests find it.
fn take_own(operation: &mut Operation) -> Vec<Code> {
    let listed = operation.extensions.as_ref().and_then(|extensions| extensions.get(EXTENSION));
    let Some(codes) = listed.and_then(|codes| Vec::<Code>::deserialize(codes).ok()) else {
        return Vec::new();
    };
    if let Some(extensions) = &mut operation.extensions {
        extensions.remove(EXTENSION);
    }
    codes
}

/// A problem with one of these codes.
fn response(codes: &[Code]) -> Response {
    let titles: Vec<String> =
        codes.iter().map(|code| format!("`{code}`: {}", code.title())).collect();
    let names = codes.iter().map(|code| code.into_str());
    let code = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).build();
    let only = ObjectBuilder::new().property("code", code).build();
    let problem = Ref::from_schema_name(trueup_api::Problem::name());
    let schema = AllOfBuilder::new().item(problem).item(only).build();
    Response::builder()
        .description(titles.join(". "))
        .content("application/problem+json", Content::new(Some(RefOr::T(Schema::AllOf(schema)))))
        .build()
}
