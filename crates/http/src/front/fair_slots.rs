//! Slots that are shared fairly: each that becomes free goes to whoever has the fewest.
//!
//! A key (an org, or the address of a client) has a queue of its own and never more than its share
//! of the slots, so no number of requests of one key delays another by more than one request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How many slots there are, and how many of them one key may hold and wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) all: usize,
    pub(crate) each: usize,
    pub(crate) queued: usize,
}

/// Slots shared by keys. Clones share them.
#[derive(Debug)]
pub(crate) struct FairSlots<K: Ord + Clone> {
    shares: Shares,
    state: Arc<Mutex<State<K>>>,
}

impl<K: Ord + Clone> Clone for FairSlots<K> {
    fn clone(&self) -> Self {
        Self { shares: self.shares, state: Arc::clone(&self.state) }
    }
}

#[derive(Debug)]
struct State<K: Ord + Clone> {
    taken: usize,
    /// Counts the slots given so far: of two keys with as many slots, the one served longer ago is
    /// next.
    turn: u64,
    /// Only keys that hold a slot or wait for one.
    keys: BTreeMap<K, Share<K>>,
}

#[derive(Debug)]
struct Share<K: Ord + Clone> {
    taken: usize,
    served: u64,
    waiting: VecDeque<oneshot::Sender<FairSlot<K>>>,
}

/// A slot; dropping it gives it to the next.
#[derive(Debug)]
pub(crate) struct FairSlot<K: Ord + Clone> {
    slots: FairSlots<K>,
    key: Option<K>,
}

impl<K: Ord + Clone> FairSlots<K> {
    pub(crate) fn new(shares: Shares) -> Self {
        let state = State { taken: 0, turn: 0, keys: BTreeMap::new() };
        Self { shares, state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a slot; `None` if the queue of the key is full.
    pub(crate) async fn slot(&self, key: K) -> Option<FairSlot<K>> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let share = state.keys.entry(key).or_default();
            if share.waiting.len() >= self.shares.queued {
                share.waiting.retain(|waiting| !waiting.is_closed());
            }
            if share.waiting.len() >= self.shares.queued {
                return None;
            }
            share.waiting.push_back(sender);
            self.give(&mut state);
        }
        // The sender stays in the queue until it was used.
        receiver.await.ok()
    }

    /// Gives the free slots to those that wait.
    fn give(&self, state: &mut State<K>) {
        while state.taken < self.shares.all {
            let next = state
                .keys
                .iter()
                .filter(|(_, share)| share.taken < self.shares.each && !share.waiting.is_empty())
                .min_by_key(|(_, share)| (share.taken, share.served))
                .map(|(key, _)| key.clone());
            let Some(key) = next else { return };
            state.turn = state.turn.saturating_add(1);
            let turn = state.turn;
            let Some(share) = state.keys.get_mut(&key) else { return };
            let Some(sender) = share.waiting.pop_front() else { return };
            match sender.send(FairSlot { slots: self.clone(), key: Some(key.clone()) }) {
                Ok(()) => {
                    share.taken = share.taken.saturating_add(1);
                    share.served = turn;
                    state.taken = state.taken.saturating_add(1);
                }
                // The request was cancelled. Its slot was never taken, so nothing gives it back.
                Err(mut unused) => {
                    unused.key = None;
                    forget_idle(state, &key);
                }
            }
        }
    }

    fn release(&self, key: &K) {
        let mut state = self.lock();
        state.taken = state.taken.saturating_sub(1);
        if let Some(share) = state.keys.get_mut(key) {
            share.taken = share.taken.saturating_sub(1);
        }
        self.give(&mut state);
        forget_idle(&mut state, key);
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a key that holds nothing and waits for nothing.
fn forget_idle<K: Ord + Clone>(state: &mut State<K>, key: &K) {
    if state.keys.get(key).is_some_and(|share| share.taken == 0 && share.waiting.is_empty()) {
        state.keys.remove(key);
    }
}

impl<K: Ord + Clone> Default for Share<K> {
    fn default() -> Self {
        Self { taken: 0, served: 0, waiting: VecDeque::new() }
    }
}

impl<K: Ord + Clone> Drop for FairSlot<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.slots.release(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const SHARES: Shares = Shares { all: 4, each: 3, queued: 5 };

    fn slots() -> FairSlots<&'static str> {
        FairSlots::new(SHARES)
    }

    #[tokio::test]
    async fn one_key_never_has_every_slot() {
        let slots = slots();
        let mut held = Vec::new();
        for _ in 0..SHARES.each {
            held.push(slots.slot("flood").now_or_never().flatten().expect("a free slot"));
        }
        assert!(slots.slot("flood").now_or_never().is_none(), "it has its share");
        assert!(slots.slot("other").now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn free_slot_goes_to_the_key_with_the_fewest_and_not_to_the_longest_queue() {
        let slots = slots();
        let mut held = Vec::new();
        for key in ["a", "a", "b", "b"] {
            held.push(slots.slot(key).now_or_never().flatten().expect("a free slot"));
        }
        let mut flood: Vec<_> =
            ["a", "b", "a", "b"].map(|key| Box::pin(slots.slot(key))).into_iter().collect();
        for waiting in &mut flood {
            assert!(waiting.now_or_never().is_none(), "all are taken");
        }
        let mut third = Box::pin(slots.slot("c"));
        assert!((&mut third).now_or_never().is_none());
        held.pop();
        let got = (&mut third).now_or_never().flatten();
        assert!(got.is_some(), "the key that came last has nothing yet");
    }

    #[tokio::test]
    async fn full_queue_refuses_and_cancelled_requests_leave_it() {
        let slots = slots();
        let mut held = Vec::new();
        for _ in 0..SHARES.each {
            held.push(slots.slot("a").now_or_never().flatten().expect("a free slot"));
        }
        let mut queue: Vec<_> = (0..SHARES.queued).map(|_| Box::pin(slots.slot("a"))).collect();
        for waiting in &mut queue {
            assert!(waiting.now_or_never().is_none());
        }
        assert!(matches!(slots.slot("a").now_or_never(), Some(None)), "refused at once");
        queue.clear();
        assert!(slots.slot("a").now_or_never().is_none(), "there is room in the queue");
        held.clear();
        assert!(slots.slot("a").now_or_never().flatten().is_some());
        assert!(slots.lock().keys.is_empty() && slots.lock().taken == 0, "nothing is left over");
    }

    /// A slot that arrives at a request that is being cancelled is not lost.
    #[tokio::test]
    async fn slot_of_a_cancelled_request_is_given_on() {
        let slots = slots();
        let mut held = Vec::new();
        for key in ["a", "a", "b", "b"] {
            held.push(slots.slot(key).now_or_never().flatten().expect("a free slot"));
        }
        let mut cancelled = Box::pin(slots.slot("c"));
        assert!((&mut cancelled).now_or_never().is_none());
        held.pop();
        drop(cancelled);
        assert!(slots.slot("d").now_or_never().flatten().is_some());
    }
}
