//! Reading a request's address strictly, and saying what is wrong with it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use trueup_api::Code;

use crate::AppState;
use crate::front::problem::Failure;

/// The names in a path.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

/// The parameters after the question mark; one that is not known is refused.
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

/// axum says first what it was doing, which helps nobody who asked.
fn unusable(said: &str) -> Failure {
    let why = said.split_once(": ").map_or(said, |(_, why)| why);
    let detail = format!("the address cannot be read: {why}; mend it and ask again");
    Failure::new(Code::BadRequest, detail)
}
