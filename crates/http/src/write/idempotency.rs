//! Request bodies with their `Idempotency-Key`.

use axum::extract::FromRequest;
use axum::http::Request;
use serde::de::DeserializeOwned;
use trueup_api::Code;
use trueup_store::IdempotencyKey;

use crate::AppState;
use crate::front::body::{bytes, read};
use crate::front::problem::{Answer, Failure};

/// A strict JSON body, and the idempotency key if the request has one.
#[derive(Debug)]
pub(crate) struct Keyed<T> {
    pub(crate) body: T,
    pub(crate) key: Option<IdempotencyKey>,
}

const HEADER: &str = "idempotency-key";

impl<T: DeserializeOwned> FromRequest<AppState> for Keyed<T> {
    type Rejection = Failure;

    async fn from_request(
        request: Request<axum::body::Body>,
        state: &AppState,
    ) -> Result<Self, Failure> {
        let key = key(&request)?;
        let route = format!("{} {}", request.method(), request.uri().path());
        let bytes = bytes(request, state).await?;
        let key = key.map(|key| IdempotencyKey::new(route, key, &bytes));
        Ok(Self { body: read(&bytes)?, key })
    }
}

fn key(request: &Request<axum::body::Body>) -> Answer<Option<String>> {
    let mut all = request.headers().get_all(HEADER).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let key = first.to_str().ok().filter(|key| {
        (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match (key, all.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        (Some(_), Some(_)) | (None, _) => Err(Failure::new(
            Code::BadRequest,
            "`Idempotency-Key` must be sent once, with 1 to 255 visible ASCII characters",
        )),
    }
}
