//! Strict parsing of paths and query strings; errors name the invalid part.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use trueup_api::Code;
use trueup_model::id::{Id, Noun};

use crate::AppState;
use crate::front::problem::Failure;

/// The parameters in the path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters in the query string; unknown ones are rejected.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(names)| Self(names))
            .map_err(|rejection| unusable(&rejection.body_text()))
    }
}

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(parameters)| Self(parameters))
            .map_err(|rejection| unusable(&rejection.body_text()))
    }
}

/// The id in a path. Another text becomes an id that no object has: the lookup is the same, so that
/// its duration tells nothing.
pub(crate) fn id<N: Noun>(text: &str) -> Id<N> {
    text.parse().unwrap_or_else(|_| Id::from_parts(Timestamp::UNIX_EPOCH, [0; 10]))
}

/// The problem for a bad path or query, without the prefix that axum puts before the cause.
fn unusable(said: &str) -> Failure {
    let why = said.split_once(": ").map_or(said, |(_, why)| why);
    let detail = format!("invalid URL: {why}; fix it and retry");
    Failure::new(Code::BadRequest, detail)
}
