//! Answers with their headers: what was accepted, where to watch it, and how to ask again.

use axum::http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use trueup_api::Code;
use trueup_rules::status::freshness::{evidence, objects};
use trueup_store::ServiceRow;

use crate::AppState;
use crate::front::problem::{Answer, Failure};

/// Says where a service is, and which version of it this is.
pub(crate) fn locate(headers: &mut HeaderMap, state: &AppState, row: &ServiceRow) {
    let (project, id) = (&row.project_name, row.service.id);
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/projects/{project}/services/{id}")) {
        headers.insert(header::LOCATION, location);
    }
    tag(headers, state, row);
}

/// Adds the entity tag: generation, projection, freshness.
pub(crate) fn tag(headers: &mut HeaderMap, state: &AppState, row: &ServiceRow) {
    let fresh = freshness(row, state.clock.now());
    // A freeze is seen at once, before anything is projected anew.
    let frozen = if row.frozen.is_some() { ".z" } else { "" };
    let tag = format!("\"g{}.p{}.f{fresh}{frozen}\"", row.service.generation, row.projection);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// 1 where every watch is fresh that the answer leans on, 2 where only its health is, else 0.
fn freshness(row: &ServiceRow, now: Timestamp) -> u8 {
    let spec = &row.service.spec;
    let health = row.watches.silent(&evidence(spec), now).is_empty();
    let objects = row.watches.silent(&objects(spec), now).is_empty();
    match (health, objects) {
        (true, true) => 1,
        (true, false) => 2,
        (false, _) => 0,
    }
}

/// The generation a caller insists on, out of an entity tag of ours.
pub(crate) fn if_generation(headers: &HeaderMap) -> Answer<Option<i64>> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let generation = value.to_str().ok().and_then(|tag| {
        let tag = tag.trim_matches('"').strip_prefix('g')?;
        tag.split('.').next()?.parse().ok()
    });
    generation.map(Some).ok_or_else(|| {
        Failure::new(
            Code::BadRequest,
            "`If-Match` takes an ETag as it was given, such as \"g3.p7.f1\"",
        )
    })
}

/// Whether the caller has seen exactly this.
pub(crate) fn is_unchanged(asked: &HeaderMap, answer: &HeaderMap) -> bool {
    let asked = asked.get(header::IF_NONE_MATCH);
    asked.is_some() && asked == answer.get(header::ETAG)
}
