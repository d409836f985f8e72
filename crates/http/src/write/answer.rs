//! Response headers of a service: Location, ETag and caching; and the preconditions of a request.

use axum::http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use trueup_api::Code;
use trueup_rules::status::freshness::{evidence, objects};
use trueup_store::ServiceRow;

use crate::AppState;
use crate::front::problem::{Answer, Failure};

/// Adds the Location and the ETag of a service.
pub(crate) fn locate(headers: &mut HeaderMap, state: &AppState, row: &ServiceRow) {
    let (project, id) = (&row.project_name, row.service.id);
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/projects/{project}/services/{id}")) {
        headers.insert(header::LOCATION, location);
    }
    tag(headers, state, row);
}

/// Adds the ETag: generation, projection and freshness.
pub(crate) fn tag(headers: &mut HeaderMap, state: &AppState, row: &ServiceRow) {
    let fresh = freshness(row, state.clock.now());
    // A freeze shows at once, before the next projection.
    let frozen = if row.frozen.is_some() { ".z" } else { "" };
    let tag = format!("\"g{}.p{}.f{fresh}{frozen}\"", row.service.generation, row.projection);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// 1 if every watch that the response depends on is fresh, 2 if only the health's are, else 0.
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

/// The generation that `If-Match` requires, from one of our ETags.
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
            "`If-Match` must be an ETag of the resource, such as \"g3.p7.f1\"",
        )
    })
}

/// Whether `If-None-Match` names the current ETag.
pub(crate) fn is_unchanged(request: &HeaderMap, answer: &HeaderMap) -> bool {
    let tag = request.get(header::IF_NONE_MATCH);
    tag.is_some() && tag == answer.get(header::ETAG)
}
