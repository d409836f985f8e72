//! A lane for each org: nobody's flood takes the connections that everybody needs.
//!
//! So many requests of an org are worked on at once; more of them wait in order, and what is more
//! than that is refused at once. A stream leaves its lane with its first byte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trueup_api::Code;
use trueup_model::OrgId;

use crate::problem::{Answer, Failure};

/// Fewer than the database has connections for requests.
const AT_WORK: usize = 12;
/// As many as a busy moment of an honest caller.
const WAITING: usize = 256;

/// The lanes of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes(Arc<Mutex<BTreeMap<OrgId, Lane>>>);

#[derive(Debug, Clone)]
struct Lane {
    work: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Lanes {
    fn of(&self, org: OrgId) -> Lane {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Lane {
            work: Arc::new(Semaphore::new(AT_WORK)),
            queue: Arc::new(Semaphore::new(WAITING)),
        };
        lanes.entry(org).or_insert_with(new).clone()
    }
}

/// A request's place, taken once its org is known.
#[derive(Debug, Clone)]
struct Place {
    lanes: Lanes,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// Frees the request's place when its answer begins.
pub(crate) async fn kept(State(lanes): State<Lanes>, mut request: Request, next: Next) -> Response {
    let place = Place { lanes, held: Arc::default() };
    request.extensions_mut().insert(place.clone());
    let response = next.run(request).await;
    drop(place.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    response
}

/// Waits for a place in the org's lane.
pub(crate) async fn enter(parts: &Parts, org: OrgId) -> Answer<()> {
    let Some(place) = parts.extensions.get::<Place>() else { return Ok(()) };
    let lane = place.lanes.of(org);
    let busy = |_| {
        let detail = "this org has too many requests under way; wait for some of them";
        Failure::new(Code::TooBusy, detail)
    };
    let _waiting = lane.queue.try_acquire_owned().map_err(busy)?;
    // The semaphore is never closed, so that it can only be waited for.
    let held = lane.work.acquire_owned().await.ok();
    *place.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    Ok(())
}
