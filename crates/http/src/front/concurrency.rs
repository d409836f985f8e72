//! Concurrency limits, so that no flood takes the database connections of others.
//!
//! The connections for requests are divided: most for tenants, who share them fairly by org; some for
//! roles of the platform, which therefore get in whatever tenants do, also into a flooding org; some
//! for lookups of unknown tokens and for sign-ins, shared fairly by client address; and the rest for
//! what has no caller (readiness, event readers, the checks of open streams). A key has a number of
//! requests in flight, more in a queue, and the rest are rejected at once. A stream frees its slot
//! with its first byte.
//!
//! Looking up a token takes a database connection, too. A token that was valid before is looked up
//! in a slot of its org; it is still checked each time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use trueup_api::Code;
use trueup_model::OrgId;
use trueup_model::org::PLATFORM;
use trueup_store::{APP_CONNECTIONS, token_hash};

use crate::front::fair_slots::{FairSlot, FairSlots, Shares};
use crate::front::problem::{Answer, Failure};
use crate::front::proxy::ClientAddress;

/// Requests in the queue of a key: enough for a normal burst.
const QUEUED: usize = 256;
/// Requests of tenants. Two orgs whose every request hangs leave room for others.
const TENANTS: Shares = Shares { all: 18, each: 8, queued: QUEUED };
/// Requests of roles of the platform.
const OPERATORS: Shares = Shares { all: 3, each: 3, queued: QUEUED };
/// Lookups of unknown tokens: one takes about a millisecond.
const LOOKUPS: Shares = Shares { all: 3, each: 2, queued: QUEUED };
/// Requests that authenticate in their body.
const SIGN_INS: Shares = Shares { all: 2, each: 2, queued: QUEUED };
const _: () =
    assert!(TENANTS.all + OPERATORS.all + LOOKUPS.all + SIGN_INS.all + 4 <= APP_CONNECTIONS);

/// The most tokens that are remembered as valid. When it is reached, all are forgotten.
const KNOWN_TOKENS: usize = 10_000;

const BUSY_ORG: &str = "the org has too many requests in flight; retry later";
const BUSY_OPERATORS: &str = "operators have too many requests in flight; retry later";
const BUSY_UNKNOWN_TOKENS: &str =
    "too many requests with unknown tokens in flight; retry in a second";

/// The concurrency limits of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tenants: FairSlots<OrgId>,
    operators: FairSlots<()>,
    lookups: FairSlots<IpAddr>,
    sign_ins: FairSlots<IpAddr>,
    /// Hashes of tokens that were valid, with the lane of each.
    known: Mutex<BTreeMap<Vec<u8>, Lane>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            tenants: FairSlots::new(TENANTS),
            operators: FairSlots::new(OPERATORS),
            lookups: FairSlots::new(LOOKUPS),
            sign_ins: FairSlots::new(SIGN_INS),
            known: Mutex::default(),
        }
    }
}

/// Whose slots a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Those of an org.
    Tenant(OrgId),
    /// Those of the platform.
    Operators,
}

impl Lane {
    /// The lane of a caller whose role is of this org (see `Principal::home`), in the org that the
    /// request is about.
    pub(crate) fn of(home: OrgId, org: OrgId) -> Self {
        if home == PLATFORM { Self::Operators } else { Self::Tenant(org) }
    }
}

/// A slot of any kind, held for what dropping it does.
#[derive(Debug)]
enum Held {
    Tenant { _slot: FairSlot<OrgId> },
    Operator { _slot: FairSlot<()> },
    Unknown { _slot: FairSlot<IpAddr> },
}

impl ConcurrencyLimits {
    async fn enter(&self, lane: Lane) -> Answer<Held> {
        match lane {
            Lane::Tenant(org) => {
                let slot = self.0.tenants.slot(org).await.ok_or_else(|| busy(BUSY_ORG))?;
                Ok(Held::Tenant { _slot: slot })
            }
            Lane::Operators => {
                let slot = self.0.operators.slot(()).await.ok_or_else(|| busy(BUSY_OPERATORS))?;
                Ok(Held::Operator { _slot: slot })
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Lane>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(detail: &'static str) -> Failure {
    Failure::new(Code::TooBusy, detail)
}

/// A slot for a caller that is not known yet.
async fn of_client(slots: &FairSlots<IpAddr>, parts: &Parts) -> Answer<Held> {
    let slot = slots.slot(client(parts)).await.ok_or_else(|| busy(BUSY_UNKNOWN_TOKENS))?;
    Ok(Held::Unknown { _slot: slot })
}

/// The client's address; of IPv6 its network, because one client has all addresses in it.
fn client(parts: &Parts) -> IpAddr {
    match parts.extensions.get::<ClientAddress>().map(|client| client.0.to_canonical()) {
        Some(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        Some(address @ IpAddr::V4(_)) => address,
        None => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// The slot of a request, taken once its lane is known.
#[derive(Debug, Clone)]
struct Slot {
    limits: ConcurrencyLimits,
    held: Arc<Mutex<Option<Held>>>,
}

impl Slot {
    fn hold(&self, held: Held) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    }
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
    /// Whose slot it is; `None` for unknown tokens.
    lane: Option<Lane>,
    held: Option<Held>,
}

/// Waits for a slot for the lookup of this token.
pub(crate) async fn admit_lookup(parts: &Parts, token: &str) -> Answer<LookupPermit> {
    let Some(slot) = parts.extensions.get::<Slot>() else {
        return Ok(LookupPermit { lane: None, held: None });
    };
    let lane = slot.limits.known().get(&token_hash(token)).copied();
    let held = match lane {
        Some(lane) => slot.limits.enter(lane).await?,
        None => of_client(&slot.limits.0.lookups, parts).await?,
    };
    Ok(LookupPermit { lane, held: Some(held) })
}

/// Takes a slot for a caller that is not known: for a request that authenticates in its body.
pub(crate) async fn enter_unknown(parts: &Parts) -> Answer<()> {
    let Some(slot) = parts.extensions.get::<Slot>() else { return Ok(()) };
    slot.hold(of_client(&slot.limits.0.sign_ins, parts).await?);
    Ok(())
}

/// Takes a slot of the lane; keeps the slot of the lookup if it is the same lane's.
pub(crate) async fn enter(parts: &Parts, lane: Lane, lookup: LookupPermit) -> Answer<()> {
    let Some(slot) = parts.extensions.get::<Slot>() else { return Ok(()) };
    let held = match lookup {
        LookupPermit { lane: Some(own), held: Some(held) } if own == lane => held,
        LookupPermit { .. } => {
            drop(lookup);
            slot.limits.enter(lane).await?
        }
    };
    slot.hold(held);
    Ok(())
}

/// Remembers a token as valid.
pub(crate) fn remember(parts: &Parts, token: &str, lane: Lane) {
    let Some(slot) = parts.extensions.get::<Slot>() else { return };
    let mut known = slot.limits.known();
    if known.len() >= KNOWN_TOKENS {
        known.clear();
    }
    known.insert(token_hash(token), lane);
}

/// Forgets a token that is not valid.
pub(crate) fn forget(parts: &Parts, token: &str) {
    if let Some(slot) = parts.extensions.get::<Slot>() {
        slot.limits.known().remove(&token_hash(token));
    }
}
