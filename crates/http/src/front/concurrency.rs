//! A lane for each org: nobody's flood takes the connections that everybody needs.
//!
//! Looking up a token takes a connection, too. A token that was good before is looked up from a place
//! in the lane of its org; whether it still is good is asked each time all the same. Whoever is not
//! known yet has a small lane together with all others like that, so that a flood of tokens that
//! nobody has does not take the last connection.
//!
//! So many requests of an org are worked on at once; more of them wait in order, and what is more
//! than that is refused at once. A stream leaves its lane with its first byte.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_store::token_hash;

use crate::front::problem::{Answer, Failure};

/// Fewer than the database has connections for requests.
const AT_WORK: usize = 12;
/// As many as a busy moment of an honest caller.
const WAITING: usize = 256;

/// Unknown callers at once: a look takes about a millisecond.
const STRANGERS: usize = 4;
/// As many tokens as are remembered to have been good. Beyond that, all of them are forgotten.
const REMEMBERED: usize = 10_000;

const BUSY_ORG: &str = "this org has too many requests under way; wait for some of them";
const BUSY_STRANGERS: &str =
    "too many requests with tokens that are not known here are under way; wait a second";

/// The lanes of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    orgs: Mutex<BTreeMap<OrgId, ConcurrencyLimit>>,
    strangers: ConcurrencyLimit,
    /// Digests of tokens that were good, with the org of each.
    known: Mutex<BTreeMap<Vec<u8>, OrgId>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            orgs: Mutex::default(),
            strangers: ConcurrencyLimit::new(STRANGERS, WAITING),
            known: Mutex::default(),
        }
    }
}

#[derive(Debug, Clone)]
struct ConcurrencyLimit {
    work: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl ConcurrencyLimit {
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

impl ConcurrencyLimits {
    fn of(&self, org: OrgId) -> ConcurrencyLimit {
        let mut lanes = self.0.orgs.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.entry(org).or_insert_with(|| ConcurrencyLimit::new(AT_WORK, WAITING)).clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, OrgId>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's place, taken once its org is known.
#[derive(Debug, Clone)]
struct Place {
    lanes: ConcurrencyLimits,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// Frees the request's place when its answer begins.
pub(crate) async fn kept(
    State(lanes): State<ConcurrencyLimits>,
    mut request: Request,
    next: Next,
) -> Response {
    let place = Place { lanes, held: Arc::default() };
    request.extensions_mut().insert(place.clone());
    let response = next.run(request).await;
    drop(place.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    response
}

/// A place to look a token up from.
#[derive(Debug)]
pub(crate) struct Knock {
    /// Whose lane it is in; strangers have no org.
    org: Option<OrgId>,
    permit: Option<OwnedSemaphorePermit>,
}

/// Waits for a place to look this token up from.
pub(crate) async fn knock(parts: &Parts, token: &str) -> Answer<Knock> {
    let Some(place) = parts.extensions.get::<Place>() else {
        return Ok(Knock { org: None, permit: None });
    };
    let org = place.lanes.known().get(&token_hash(token)).copied();
    let permit = match org {
        Some(org) => place.lanes.of(org).place(BUSY_ORG).await?,
        None => place.lanes.0.strangers.clone().place(BUSY_STRANGERS).await?,
    };
    Ok(Knock { org, permit })
}

/// Goes on in the org's lane: in the same place if that is where the token was looked up from.
pub(crate) async fn enter(parts: &Parts, org: OrgId, knock: Knock) -> Answer<()> {
    let Some(place) = parts.extensions.get::<Place>() else { return Ok(()) };
    let held = if knock.org == Some(org) {
        knock.permit
    } else {
        drop(knock);
        place.lanes.of(org).place(BUSY_ORG).await?
    };
    *place.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    Ok(())
}

/// This token was good.
pub(crate) fn remember(parts: &Parts, token: &str, org: OrgId) {
    let Some(place) = parts.extensions.get::<Place>() else { return };
    let mut known = place.lanes.known();
    if known.len() >= REMEMBERED {
        known.clear();
    }
    known.insert(token_hash(token), org);
}

/// This token is not good any more.
pub(crate) fn forget(parts: &Parts, token: &str) {
    if let Some(place) = parts.extensions.get::<Place>() {
        place.lanes.known().remove(&token_hash(token));
    }
}
