//! One reader of events for all who watch an org.
//!
//! Each seal costs one read for each org that somebody watches, and one look at each token that
//! watches it, however many streams there are. The latest events are kept, printed once, for everybody;
//! a reader who is further behind asks the database by itself. What is new is handed out only together with
//! what the tokens were found to be after it was read.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_model::OrgId;
use trueup_model::order::Unit;
use trueup_model::principal::Principal;
use trueup_store::{Error, EventQuery, SealedEvent};

use crate::front::caller::Caller;
use crate::{AppState, view};

/// The safety net for a signal that got lost, and the longest that a dead token is believed.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// How many events are kept for an org that is watched.
const KEPT: usize = 1_000;
/// How many are read at once.
const PAGE: usize = 500;
/// How many tokens are asked about side by side.
const WIDTH: usize = 4;

/// An event as watchers are told it.
#[derive(Debug)]
pub(crate) struct FeedEvent {
    pub(crate) position: i64,
    pub(crate) kind: String,
    unit: Unit,
    generation: i64,
    /// The whole of it as JSON.
    pub(crate) data: String,
}

impl FeedEvent {
    pub(crate) fn new(event: &SealedEvent) -> Self {
        Self {
            position: event.position,
            kind: event.kind.clone(),
            unit: event.unit,
            generation: event.generation,
            data: serde_json::to_string(&view::event(event)).unwrap_or_default(),
        }
    }

    fn is_asked_for(&self, query: &EventQuery) -> bool {
        query.of.is_none_or(|unit| unit == self.unit)
            && query.kind.as_ref().is_none_or(|kind| *kind == self.kind)
            && query.generation.is_none_or(|generation| generation == self.generation)
    }
}

/// What is known beyond a position.
#[derive(Debug)]
pub(crate) enum Ahead {
    /// Nothing was read yet.
    Unread,
    /// What was asked for, up to this position.
    Known(VecDeque<Arc<FeedEvent>>, i64),
    /// More than is kept: the database knows. The end is at least here.
    Behind(i64),
}

/// Whether a watcher may be told anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    /// It was not asked for too long: nothing is told until it is.
    Doubtful,
    /// The token is gone, or is not what it was.
    Over,
}

/// The readers of this process, one for each org that is watched. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<BTreeMap<OrgId, Weak<Feed>>>>);

impl Feeds {
    /// Joins those who watch the caller's org.
    pub(crate) fn join(&self, state: &AppState, caller: &Caller) -> Watcher {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = feeds.get(&caller.org).and_then(Weak::upgrade);
        let feed = match running.filter(|feed| !feed.shared.over.is_cancelled()) {
            Some(feed) => feed,
            None => {
                feeds.retain(|_, feed| feed.strong_count() > 0);
                let feed = Arc::new(Feed::start(caller.org, state.clone()));
                feeds.insert(caller.org, Arc::downgrade(&feed));
                feed
            }
        };
        drop(feeds);
        feed.shared.lock().enter(caller, state.clock.monotonic());
        Watcher { reads: feed.shared.reads.subscribe(), token: caller.token().to_owned(), feed }
    }
}

/// The reader of one org. It ends with the last who holds it.
#[derive(Debug)]
struct Feed {
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl Feed {
    fn start(org: OrgId, state: AppState) -> Self {
        let shared = Arc::new(Shared {
            org,
            state: Mutex::default(),
            reads: watch::Sender::new(0),
            over: state.stop.child_token(),
        });
        let mut task = JoinSet::new();
        task.spawn(Arc::clone(&shared).run(state));
        Self { shared, _task: task }
    }
}

#[derive(Debug)]
struct Shared {
    org: OrgId,
    state: Mutex<State>,
    /// Counts what was published.
    reads: watch::Sender<u64>,
    /// The process stops, or the reader fell over.
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Every event of the org between the two positions, in order.
    kept: VecDeque<Arc<FeedEvent>>,
    /// Kept is what comes after this position.
    from: i64,
    /// The last position that was read; none before the first read.
    end: Option<i64>,
    tokens: BTreeMap<String, Token>,
}

/// A token that watches.
struct Token {
    streams: usize,
    /// Whose it was when it was last asked about.
    principal: Option<Principal>,
    /// When that was, by the monotonic clock.
    asked: Duration,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl State {
    /// A stream begins: its token was good a moment ago.
    fn enter(&mut self, caller: &Caller, now: Duration) {
        let fresh = || Token { streams: 0, principal: Some(caller.principal.clone()), asked: now };
        let token = self.tokens.entry(caller.token().to_owned()).or_insert_with(fresh);
        token.streams = token.streams.saturating_add(1);
    }

    /// Adds what comes after `from` up to `end`. What was kept before goes where something is missing
    /// between the two.
    fn publish(&mut self, fresh: VecDeque<Arc<FeedEvent>>, from: i64, end: i64) {
        if self.end != Some(from) {
            self.kept.clear();
            self.from = from;
        }
        self.kept.extend(fresh);
        self.from = trim(&mut self.kept).unwrap_or(self.from);
        self.end = Some(end);
    }

    /// What is known beyond a position of what is asked for, at most so many.
    fn after(&self, query: &EventQuery, after: i64, most: usize) -> Ahead {
        let Some(end) = self.end else { return Ahead::Unread };
        if after < self.from {
            return Ahead::Behind(end);
        }
        let first = self.kept.partition_point(|told| told.position <= after);
        let asked_for = self.kept.iter().skip(first).filter(|told| told.is_asked_for(query));
        let found: VecDeque<Arc<FeedEvent>> = asked_for.take(most).map(Arc::clone).collect();
        let is_full = found.len() >= most;
        let last = found.back().filter(|_| is_full).map(|told| told.position);
        // A stream that read from the database may be ahead of this feed. It must not go back: the events
        // between would be sent twice.
        Ahead::Known(found, last.unwrap_or(end).max(after))
    }

    fn leave(&mut self, token: &str) {
        if let Some(known) = self.tokens.get_mut(token) {
            known.streams = known.streams.saturating_sub(1);
            if known.streams == 0 {
                self.tokens.remove(token);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads whenever something was sealed, and now and then.
    async fn run(self: Arc<Self>, state: AppState) {
        let _fell_over = self.over.clone().drop_guard();
        let mut seals = state.signals.seals();
        loop {
            seals.mark_unchanged();
            if let Err(error) = self.read(&state).await {
                tracing::debug!(org = %self.org, %error, "watchers cannot be told anything now");
            }
            tokio::select! {
                () = self.over.cancelled() => return,
                sealed = seals.changed() => if sealed.is_err() { return },
                () = state.clock.sleep(POLL) => {}
            }
        }
    }

    /// Reads what is new, asks about the tokens after that, and publishes both at once.
    async fn read(&self, state: &AppState) -> Result<(), Error> {
        let known = self.lock().end;
        let mut end = match known {
            Some(end) => end,
            None => state.app.last_position(self.org).await?,
        };
        let mut from = end;
        let mut fresh: VecDeque<Arc<FeedEvent>> = VecDeque::new();
        loop {
            let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
            let query = EventQuery { after: Some(end), limit, ..EventQuery::default() };
            let page = state.app.list_events(self.org, &query).await?;
            fresh.extend(page.iter().map(|event| Arc::new(FeedEvent::new(event))));
            from = trim(&mut fresh).unwrap_or(from);
            end = page.last().map_or(end, |event| event.position);
            if page.len() < PAGE {
                break;
            }
        }
        let asked = state.clock.monotonic();
        let principals = self.ask(state).await?;
        let mut state = self.lock();
        state.publish(fresh, from, end);
        for (token, principal) in principals {
            if let Some(known) = state.tokens.get_mut(&token) {
                (known.principal, known.asked) = (principal, asked);
            }
        }
        drop(state);
        self.reads.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }

    /// Whose each token is now that watches.
    async fn ask(&self, state: &AppState) -> Result<Vec<(String, Option<Principal>)>, Error> {
        let tokens: Vec<String> = self.lock().tokens.keys().cloned().collect();
        let now = state.clock.now();
        stream::iter(tokens)
            .map(|token| async move {
                let principal = state.app.authenticate(&token, now).await?;
                Ok((token, principal))
            })
            .buffer_unordered(WIDTH)
            .try_collect()
            .await
    }
}

/// Lets go of the oldest that are too many; answers with the last position that went.
fn trim(kept: &mut VecDeque<Arc<FeedEvent>>) -> Option<i64> {
    let many = kept.len().saturating_sub(KEPT);
    kept.drain(..many).next_back().map(|told| told.position)
}

/// One who watches. Dropping it takes it off the list.
#[derive(Debug)]
pub(crate) struct Watcher {
    feed: Arc<Feed>,
    reads: watch::Receiver<u64>,
    token: String,
}

impl Watcher {
    /// From here on, [`Self::news`] waits for what is published later.
    pub(crate) fn look(&mut self) {
        self.reads.mark_unchanged();
    }

    /// Completes when something was published since the last look; nothing when nothing ever will be.
    pub(crate) async fn news(&mut self) -> Option<()> {
        tokio::select! {
            () = self.feed.shared.over.cancelled() => None,
            read = self.reads.changed() => read.ok(),
        }
    }

    /// Whether this caller may still be told anything.
    pub(crate) fn standing(&self, caller: &Caller, now: Duration) -> Standing {
        let state = self.feed.shared.lock();
        match state.tokens.get(&self.token) {
            Some(token) if token.principal.as_ref() != Some(&caller.principal) => Standing::Over,
            Some(token) if now.saturating_sub(token.asked) < POLL => Standing::Good,
            Some(_) | None => Standing::Doubtful,
        }
    }

    /// What is known beyond a position of what is asked for, at most so many.
    pub(crate) fn after(&self, query: &EventQuery, after: i64, most: usize) -> Ahead {
        self.feed.shared.lock().after(query, after, most)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.feed.shared.lock().leave(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use trueup_model::id::ServiceId;
    use uuid::Uuid;

    use super::*;

    fn unit(number: u128) -> Unit {
        Unit::Service(ServiceId::from_uuid(Uuid::from_u128(number)))
    }

    /// The events of these positions; every third is about another service.
    fn events(positions: std::ops::RangeInclusive<i64>) -> VecDeque<Arc<FeedEvent>> {
        let told = |position: i64| FeedEvent {
            position,
            kind: "ServiceQueued".to_owned(),
            unit: unit(if position % 3 == 0 { 2 } else { 1 }),
            generation: 1,
            data: String::new(),
        };
        positions.map(|position| Arc::new(told(position))).collect()
    }

    fn found(ahead: Ahead) -> (Vec<i64>, i64) {
        match ahead {
            Ahead::Known(found, at) => (found.iter().map(|told| told.position).collect(), at),
            Ahead::Unread | Ahead::Behind(_) => panic!("it should be known: {ahead:?}"),
        }
    }

    #[test]
    fn each_reader_gets_what_it_asks_for_and_goes_on_behind_it() {
        let mut state = State::default();
        let all = EventQuery::default();
        assert!(matches!(state.after(&all, 0, 9), Ahead::Unread));
        state.publish(VecDeque::new(), 4, 4);
        assert!(matches!(state.after(&all, 3, 9), Ahead::Behind(4)));
        assert_eq!(found(state.after(&all, 4, 9)), (vec![], 4));
        state.publish(events(5..=9), 4, 9);
        assert_eq!(found(state.after(&all, 4, 9)), (vec![5, 6, 7, 8, 9], 9));
        assert_eq!(found(state.after(&all, 6, 2)), (vec![7, 8], 8), "no more than asked for");
        let one = EventQuery { of: Some(unit(2)), ..EventQuery::default() };
        assert_eq!(found(state.after(&one, 4, 9)), (vec![6, 9], 9));
        assert_eq!(found(state.after(&one, 6, 1)), (vec![9], 9));
        let none = EventQuery { kind: Some("QuotaChanged".to_owned()), ..EventQuery::default() };
        assert_eq!(found(state.after(&none, 4, 9)), (vec![], 9), "it need not look again");
    }

    #[test]
    fn reader_ahead_of_the_feed_does_not_get_an_event_twice() {
        let (mut state, all) = (State::default(), EventQuery::default());
        state.publish(VecDeque::new(), 4, 4);
        // It read 5 and 6 from the database, which the feed has not read yet.
        assert_eq!(found(state.after(&all, 6, 9)), (vec![], 6));
        state.publish(events(5..=7), 4, 7);
        assert_eq!(found(state.after(&all, 6, 9)), (vec![7], 7));
    }

    #[test]
    fn what_is_kept_has_an_end_and_never_a_gap() {
        let kept = i64::try_from(KEPT).unwrap();
        let (mut state, all) = (State::default(), EventQuery::default());
        state.publish(VecDeque::new(), 0, 0);
        state.publish(events(1..=kept), 0, kept);
        state.publish(events(kept + 1..=kept + 5), kept, kept + 5);
        assert!(matches!(state.after(&all, 4, 9), Ahead::Behind(_)), "6 is the oldest");
        assert_eq!(found(state.after(&all, 5, 2)), (vec![6, 7], 7));
        // More at once than is kept: what came before it is let go, too.
        let (from, end) = (kept + 105, 2 * kept + 105);
        state.publish(events(from + 1..=end), from, end);
        assert!(matches!(state.after(&all, from - 1, 9), Ahead::Behind(_)));
        assert_eq!(found(state.after(&all, from, 1)), (vec![from + 1], from + 1));
        assert_eq!(state.kept.len(), KEPT);
    }
}
