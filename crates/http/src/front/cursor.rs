//! Pagination cursors. A cursor is valid only for the org that received it.

use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_api::Code;
use trueup_api::schema::MAX_PAGE;
use trueup_model::OrgId;
use trueup_model::id::{Id, Noun, ServiceId};
use trueup_model::order::Unit;
use trueup_model::subject::Subject;
use trueup_store::{ServiceOrder, ServicePosition, ServiceSort};

use crate::front::problem::{Answer, Failure};

/// The largest page size, and the default.
const USUAL: i64 = 100;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    org: OrgId,
    name: String,
    id: ServiceId,
    /// In a list that is ordered by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
}

/// The unit that a page ended with.
pub(crate) fn unit(text: &str) -> Answer<Unit> {
    text.parse().ok().and_then(Subject::unit).ok_or_else(changed)
}

/// The id that a page ended with.
pub(crate) fn id<N: Noun>(text: &str) -> Answer<Id<N>> {
    text.parse().map_err(|_| changed())
}

fn changed() -> Failure {
    Failure::new(Code::BadRequest, "`after` must be the `next` of a page, unchanged")
}

/// The cursor for a position.
pub(crate) fn after(org: OrgId, position: ServicePosition) -> String {
    let ServicePosition { name, id, at } = position;
    let cursor = Cursor { org, name, id, at };
    BASE64URL_NOPAD.encode(&serde_json::to_vec(&cursor).unwrap_or_default())
}

/// The position that a cursor of this org encodes, for a list with this order.
pub(crate) fn position(
    org: OrgId,
    order: ServiceOrder,
    text: Option<&str>,
) -> Answer<Option<ServicePosition>> {
    let Some(text) = text else { return Ok(None) };
    let cursor = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let cursor: Option<Cursor> = cursor.and_then(|json| serde_json::from_slice(&json).ok());
    // Postgres rejects NUL in a text.
    let cursor = cursor.filter(|cursor| {
        let is_timed = order.by != ServiceSort::Name;
        cursor.org == org && !cursor.name.contains('\0') && cursor.at.is_some() == is_timed
    });
    let Cursor { name, id, at, .. } = cursor.ok_or_else(|| {
        Failure::new(
            Code::BadRequest,
            "`cursor` must be the `next` of a page with the same `sort`, unchanged",
        )
    })?;
    Ok(Some(ServicePosition { name, id, at }))
}

/// The page size of a request.
pub(crate) fn limit(wanted: Option<i64>) -> Answer<i64> {
    let limit = wanted.unwrap_or(USUAL);
    if (1..=MAX_PAGE).contains(&limit) {
        Ok(limit)
    } else {
        Err(Failure::new(Code::BadRequest, format!("`limit` must be from 1 to {MAX_PAGE}")))
    }
}
