//! The OpenAPI document, from the registered handlers. A checked-in copy shows changes in review.

use std::sync::{LazyLock, OnceLock};

use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use super::{former, problems, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Trueup",
        description = "Keeps desired, observed and billed state consistent with each other."
    ),
    security(("token" = []), ("session" = [])),
)]
struct Head;

/// The OpenAPI document.
#[must_use]
pub fn document() -> Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(build).clone()
}

/// The document as it is served: written once, because anybody may ask for it.
pub(crate) async fn page() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

fn build() -> Value {
    let mut document =
        OpenApiRouter::with_openapi(Head::openapi()).merge(routes::operations()).into_openapi();
    let components = document.components.get_or_insert_default();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("token", SecurityScheme::Http(scheme));
    let cookie = ApiKeyValue::with_description(
        "__Host-trueup",
        "The cookie of a session; `trueup-PORT` on plain loopback. A write also needs the header \
         `X-Trueup-Csrf: 1`, and to come from the same origin.",
    );
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    components.schemas.extend(trueup_api::schema::all());
    problems::add(&mut document);
    let mut document = serde_json::to_value(document).unwrap_or_default();
    former::add(&mut document);
    mark_optional_bodies(&mut document);
    document
}

/// A body whose fields are all optional may be left out: an empty body is an empty object.
fn mark_optional_bodies(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let paths = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    let operations = paths.filter_map(Value::as_object_mut).flat_map(|path| path.values_mut());
    for operation in operations {
        let reference = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let name = reference.as_str().and_then(|reference| reference.rsplit('/').next());
        if name.is_some_and(|name| schemas[name].get("required").is_none()) {
            operation["requestBody"]["required"] = false.into();
        }
    }
}
