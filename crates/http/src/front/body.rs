//! Reading a body strictly, and saying what is wrong with it.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::rejection::BytesRejection;
use axum::http::{Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::Limited;
use serde::de::DeserializeOwned;
use trueup_api::Code;

use crate::front::problem::Failure;
use crate::{AppState, BODY_LIMIT};

/// How long a body may take to arrive: shorter than an answer may take.
const ARRIVAL: Duration = Duration::from_secs(5);

/// Lets no body grow beyond the limit, whoever reads it and however it is sent.
pub(crate) async fn limited(request: Request<axum::body::Body>, next: Next) -> Response {
    let told = request.headers().get(header::CONTENT_LENGTH);
    let told = told.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|length| length > BODY_LIMIT) {
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

/// The whole body, as far as a body may go.
pub(crate) async fn bytes(
    request: Request<axum::body::Body>,
    state: &AppState,
) -> Result<Bytes, Failure> {
    tokio::select! {
        bytes = Bytes::from_request(request, state) => bytes.map_err(|rejection| unread(&rejection)),
        () = state.clock.sleep(ARRIVAL) => {
            let detail = "the body did not arrive in time; send it again, all at once";
            Err(Failure::new(Code::MalformedBody, detail))
        }
    }
}

/// What a body says; an empty one says nothing.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    // serde would take a list of values for an object with its fields in order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        let detail = "the body must be one JSON object; mend it and send it again";
        return Err(Failure::new(Code::MalformedBody, detail));
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| malformed(Some(error.path().to_string()), error.inner()))?;
    json.end().map_err(|error| malformed(None, &error))?;
    Ok(value)
}

/// Where the text is JSON, the problem names the field that is wrong with it.
fn malformed(field: Option<String>, error: &serde_json::Error) -> Failure {
    let detail = format!("{error}; mend the JSON body and send it again");
    match field.filter(|field| error.is_data() && field != ".") {
        Some(field) => Failure::at(Code::MalformedBody, detail, field, error.to_string()),
        None => Failure::new(Code::MalformedBody, detail),
    }
}

fn unread(rejection: &BytesRejection) -> Failure {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        too_large()
    } else {
        Failure::new(Code::MalformedBody, "the body did not arrive whole; send it again")
    }
}

fn too_large() -> Failure {
    Failure::new(Code::TooLarge, "the body may have at most 256 KiB; send less")
}
