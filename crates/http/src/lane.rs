//! A lane for each org: nobody's flood takes the connections that everybody needs.
//!
//! Whoever is not known yet has a lane, too, a small one for all of them together: looking up a token
//! takes a connection, and a flood of tokens that nobody has must not take the last. A token that was
//! good before needs no place there; whether it still is, is asked each time all the same.
//!
//! So many requests of an org are worked on at once; more of them wait in order, and what is more
//! than that is refused at once. A stream leaves its lane with its first byte.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_store::token_hash;

use crate::problem::{Answer, Failure};

/// Fewer than the database has connections for requests.
const AT_WORK: usize = 12;
/// As many as a busy moment of an honest caller.
const WAITING: usize = 256;

/// Unknown callers at once: a look takes about a millisecond.
const STRANGERS: usize = 4;
/// As many tokens as are remembered to have been good. Beyond that, all of them are forgotten.
const REMEMBERED: usize = 10_000;

/// The lanes of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    orgs: Mutex<BTreeMap<OrgId, Lane>>,
    strangers: Lane,
    /// Digests of tokens that were good.
    known: Mutex<BTreeSet<Vec<u8>>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            orgs: Mutex::default(),
            strangers: Lane::new(STRANGERS, WAITING),
            known: Mutex::default(),
        }
    }
}

#[derive(Debug, Clone)]
struct Lane {
    work: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl Lane {
    fn new(at_work: usize, waiting: usize) -> Self {
        Self { work: Arc::new(Semaphore::new(at_work)), queue: Arc::new(Semaphore::new(waiting)) }
    }

    /// Waits for a place; too many who wait are refused with these words.
    async fn place(self, busy: &'static str) -> Answer<Option<OwnedSemaphorePermit>> {
        let refused = |_| Failure::new(Code::TooBusy, busy);
        let _waiting = self.queue.try_acquire_owned().map_err(refused)?;
        // The semaphore is never closed, so that it can only be waited for.
        Ok(self.work.acquire_owned().await.ok())
    }
}

impl Lanes {
    fn of(&self, org: OrgId) -> Lane {
        let mut lanes = self.0.orgs.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.entry(org).or_insert_with(|| Lane::new(AT_WORK, WAITING)).clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    let busy = "this org has too many requests under way; wait for some of them";
    let held = place.lanes.of(org).place(busy).await?;
    *place.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    Ok(())
}

/// A place to look a token up from; none is needed for one that was good before.
pub(crate) async fn knock(parts: &Parts, token: &str) -> Answer<Option<OwnedSemaphorePermit>> {
    let Some(place) = parts.extensions.get::<Place>() else { return Ok(None) };
    if place.lanes.known().contains(&token_hash(token)) {
        return Ok(None);
    }
    let busy = "too many requests with tokens that are not known here are under way; wait a second";
    place.lanes.0.strangers.clone().place(busy).await
}

/// This token was good.
pub(crate) fn remember(parts: &Parts, token: &str) {
    let Some(place) = parts.extensions.get::<Place>() else { return };
    let mut known = place.lanes.known();
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(token_hash(token));
}

/// This token is not good any more.
pub(crate) fn forget(parts: &Parts, token: &str) {
    if let Some(place) = parts.extensions.get::<Place>() {
        place.lanes.known().remove(&token_hash(token));
    }
}
