//! A concurrency limit per org, so that a burst from one org leaves connections for the others.
//!
//! Some requests of an org are in flight, more wait in a queue, and the rest are rejected at once.
//! A stream frees its slot with its first byte.
//!
//! Looking up a token takes a database connection, too. A token that was valid before is looked up
//! in a slot of its org; it is still checked each time. All unknown tokens share one small limit,
//! so that a flood of invalid tokens cannot take the last connection.

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

/// Requests of an org in flight: fewer than the database connections for requests.
const IN_FLIGHT: usize = 12;
/// Requests of an org in the queue: enough for a normal burst.
const QUEUED: usize = 256;

/// Lookups of unknown tokens in flight: one takes about a millisecond.
const UNKNOWN_TOKENS: usize = 4;
/// The most tokens that are remembered as valid. When it is reached, all are forgotten.
const KNOWN_TOKENS: usize = 10_000;

const BUSY_ORG: &str = "the org has too many requests in flight; retry later";
const BUSY_UNKNOWN_TOKENS: &str =
    "too many requests with unknown tokens in flight; retry in a second";

/// The concurrency limits of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    orgs: Mutex<BTreeMap<OrgId, ConcurrencyLimit>>,
    unknown: ConcurrencyLimit,
    /// Hashes of tokens that were valid, with the org of each.
    known: Mutex<BTreeMap<Vec<u8>, OrgId>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            orgs: Mutex::default(),
            unknown: ConcurrencyLimit::new(UNKNOWN_TOKENS, QUEUED),
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
    fn new(in_flight: usize, queued: usize) -> Self {
        Self { work: Arc::new(Semaphore::new(in_flight)), queue: Arc::new(Semaphore::new(queued)) }
    }

    /// Waits for a slot; fails with this message if the queue is full.
    async fn slot(self, busy: &'static str) -> Answer<Option<OwnedSemaphorePermit>> {
        let refused = |_| Failure::new(Code::TooBusy, busy);
        let _queued = self.queue.try_acquire_owned().map_err(refused)?;
        // The semaphore is never closed, so acquiring cannot fail.
        Ok(self.work.acquire_owned().await.ok())
    }
}

impl ConcurrencyLimits {
    fn of(&self, org: OrgId) -> ConcurrencyLimit {
        let mut limits = self.0.orgs.lock().unwrap_or_else(PoisonError::into_inner);
        limits.entry(org).or_insert_with(|| ConcurrencyLimit::new(IN_FLIGHT, QUEUED)).clone()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, OrgId>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a request, taken once its org is known.
#[derive(Debug, Clone)]
struct Slot {
    limits: ConcurrencyLimits,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// Middleware: frees the slot of a request when its response begins.
pub(crate) async fn limited(
    State(limits): State<ConcurrencyLimits>,
    mut request: Request,
    next: Next,
) -> Response {
    let slot = Slot { limits, held: Arc::default() };
    request.extensions_mut().insert(slot.clone());
    let response = next.run(request).await;
    drop(slot.held.lock().unwrap_or_else(PoisonError::into_inner).take());
    response
}

/// A slot for the lookup of a token.
#[derive(Debug)]
pub(crate) struct LookupPermit {
    /// The org whose slot it is; `None` for unknown tokens.
    org: Option<OrgId>,
    permit: Option<OwnedSemaphorePermit>,
}

/// Waits for a slot for the lookup of this token.
pub(crate) async fn admit_lookup(parts: &Parts, token: &str) -> Answer<LookupPermit> {
    let Some(slot) = parts.extensions.get::<Slot>() else {
        return Ok(LookupPermit { org: None, permit: None });
    };
    let org = slot.limits.known().get(&token_hash(token)).copied();
    let permit = match org {
        Some(org) => slot.limits.of(org).slot(BUSY_ORG).await?,
        None => slot.limits.0.unknown.clone().slot(BUSY_UNKNOWN_TOKENS).await?,
    };
    Ok(LookupPermit { org, permit })
}

/// Takes one of the slots for unknown callers: for a request that authenticates in its body.
pub(crate) async fn enter_unknown(parts: &Parts) -> Answer<()> {
    let Some(slot) = parts.extensions.get::<Slot>() else { return Ok(()) };
    let held = slot.limits.0.unknown.clone().slot(BUSY_UNKNOWN_TOKENS).await?;
    *slot.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    Ok(())
}

/// Takes a slot of the org; keeps the slot of the lookup if it is the same org's.
pub(crate) async fn enter(parts: &Parts, org: OrgId, lookup: LookupPermit) -> Answer<()> {
    let Some(slot) = parts.extensions.get::<Slot>() else { return Ok(()) };
    let held = if lookup.org == Some(org) {
        lookup.permit
    } else {
        drop(lookup);
        slot.limits.of(org).slot(BUSY_ORG).await?
    };
    *slot.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    Ok(())
}

/// Remembers a token as valid.
pub(crate) fn remember(parts: &Parts, token: &str, org: OrgId) {
    let Some(slot) = parts.extensions.get::<Slot>() else { return };
    let mut known = slot.limits.known();
    if known.len() >= KNOWN_TOKENS {
        known.clear();
    }
    known.insert(token_hash(token), org);
}

/// Forgets a token that is not valid.
pub(crate) fn forget(parts: &Parts, token: &str) {
    if let Some(slot) = parts.extensions.get::<Slot>() {
        slot.limits.known().remove(&token_hash(token));
    }
}
