//! Strict parsing of request bodies; errors name the invalid field.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::rejection::BytesRejection;
use axum::http::{Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::Limited;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trueup_api::Code;
use trueup_api::schema::MAX_SENTENCE;
use trueup_rules::admit::FieldError;

use crate::front::problem::{Answer, Failure};
use crate::{AppState, BODY_LIMIT};

/// The timeout for receiving a body: shorter than the deadline of a response.
const ARRIVAL: Duration = Duration::from_secs(5);

/// Middleware: limits the size of every body, with or without a Content-Length.
pub(crate) async fn limited(request: Request<axum::body::Body>, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_LIMIT) {
        return too_large().into_response();
    }
    next.run(request.map(|body| axum::body::Body::new(Limited::new(body, BODY_LIMIT)))).await
}

/// A JSON body; an empty one reads as `{}`.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = Failure;

    async fn from_request(
        request: Request<axum::body::Body>,
        state: &AppState,
    ) -> Result<Self, Failure> {
        read(&bytes(request, state).await?).map(Self)
    }
}

/// Reads the whole body, within the size limit and the timeout.
pub(crate) async fn bytes(
    request: Request<axum::body::Body>,
    state: &AppState,
) -> Result<Bytes, Failure> {
    tokio::select! {
        bytes = Bytes::from_request(request, state) => bytes.map_err(|rejection| unread(&rejection)),
        () = state.clock.sleep(ARRIVAL) => {
            let detail = "request body timed out; retry";
            Err(Failure::new(Code::MalformedBody, detail))
        }
    }
}

/// Parses a JSON body; an empty body is an empty object.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    // serde would accept a list of values as an object with its fields in order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        let detail = "the body must be one JSON object; fix it and retry";
        return Err(Failure::new(Code::MalformedBody, detail));
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let parsed = serde_path_to_error::deserialize(&mut json);
    match parsed {
        Ok(value) => json.end().map_err(|error| malformed(None, &error)).map(|()| value),
        Err(error) => with_whole_numbers(text)
            .ok_or_else(|| malformed(Some(error.path().to_string()), error.inner())),
    }
}

/// Parses the body once more with `3.0` read as `3`: to JSON Schema both are integers, to serde only one
/// is. `None` if there is no such number, because then the error has another cause.
fn with_whole_numbers<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    /// Whether anything was changed.
    fn normalise(value: &mut Value) -> bool {
        match value {
            Value::Number(number) => {
                let whole = number.as_f64().filter(|_| number.is_f64()).and_then(whole);
                whole.is_some_and(|whole| {
                    *number = whole.into();
                    true
                })
            }
            Value::Array(items) => items.iter_mut().fold(false, |any, it| normalise(it) | any),
            Value::Object(fields) => fields.values_mut().fold(false, |any, it| normalise(it) | any),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }
    let mut value: Value = serde_json::from_slice(text).ok()?;
    normalise(&mut value).then(|| serde_json::from_value(value).ok()).flatten()
}

/// A float that is a whole number, within what a float represents exactly.
fn whole(number: f64) -> Option<i64> {
    let exact = number.fract() == 0.0 && number.abs() < 9e15;
    exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// The problem of a body that cannot be parsed. It names the field if the text is valid JSON.
fn malformed(field: Option<String>, error: &serde_json::Error) -> Failure {
    let detail = format!("{error}; fix the JSON body and retry");
    match field.filter(|field| error.is_data() && field != ".") {
        Some(field) => Failure::at(Code::MalformedBody, detail, field, error.to_string()),
        None => Failure::new(Code::MalformedBody, detail),
    }
}

fn unread(rejection: &BytesRejection) -> Failure {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        too_large()
    } else {
        Failure::new(Code::MalformedBody, "the request body is incomplete; retry")
    }
}

fn too_large() -> Failure {
    Failure::new(Code::TooLarge, "the body exceeds 256 KiB; send a smaller one")
}

/// Checks a field: one printable sentence.
pub(crate) fn sentence<'a>(field: &str, text: &'a str) -> Answer<&'a str> {
    let text = text.trim();
    if (1..=MAX_SENTENCE).contains(&text.chars().count()) && !text.contains(char::is_control) {
        return Ok(text);
    }
    let message = "must be a sentence of at most 300 characters, such as `investigating an outage`";
    Err(Failure::invalid(vec![FieldError::at(field, message)]))
}
