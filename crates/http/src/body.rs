//! Reading a body strictly, and saying what is wrong with it.

use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::rejection::BytesRejection;
use axum::http::{Request, StatusCode};
use serde::de::DeserializeOwned;
use trueup_api::Code;

use crate::Door;
use crate::problem::Failure;

/// A JSON body; an empty one reads as `{}`.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Door> for Body<T> {
    type Rejection = Failure;

    async fn from_request(
        request: Request<axum::body::Body>,
        door: &Door,
    ) -> Result<Self, Failure> {
        let bytes =
            Bytes::from_request(request, door).await.map_err(|rejection| unread(&rejection))?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(Self).map_err(|error| {
            Failure::new(
                Code::MalformedBody,
                format!("{error}; mend the JSON body and send it again"),
            )
        })
    }
}

fn unread(rejection: &BytesRejection) -> Failure {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        Failure::new(Code::TooLarge, "the body may have at most 256 KiB; send less")
    } else {
        Failure::new(Code::MalformedBody, "the body did not arrive whole; send it again")
    }
}
