//! One database reader per watched org, shared by all its event streams; and one for each set of projects
//! that some of its watchers see.
//!
//! A seal costs one read per watched org and one check of its tokens, however many streams are open.
//! The latest events are kept in memory, serialised once; a stream that is further behind reads the
//! database itself. New events are published once the tokens were checked, which happens after the
//! events were read: a token that was revoked before gets none of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_model::subject::Subject;
use trueup_model::{OrgId, ProjectId};
use trueup_store::{App, Error, EventQuery, SealedEvent};

use crate::AppState;
use crate::stream::watched_token::{WatchedToken, WatchedTokens, check};

/// The poll interval for lost signals.
const POLL: Duration = Duration::from_secs(1);
/// The events kept in memory for a watched org.
const KEPT: usize = 1_000;
/// The page size of a read.
const PAGE: usize = 500;

/// An event as it is sent to streams.
#[derive(Debug)]
pub(crate) struct FeedEvent {
    pub(crate) position: i64,
    pub(crate) kind: String,
    subject: Subject,
    generation: i64,
    /// The CloudEvent as JSON.
    pub(crate) data: String,
}

impl FeedEvent {
    pub(crate) fn new(event: &SealedEvent) -> Self {
        Self {
            position: event.position,
            kind: event.kind.clone(),
            subject: event.subject,
            generation: event.generation,
            data: serde_json::to_string(&crate::event::view(event)).unwrap_or_default(),
        }
    }

    fn matches(&self, query: &EventQuery) -> bool {
        query.of.is_none_or(|subject| subject == self.subject)
            && query.kind.as_ref().is_none_or(|kind| *kind == self.kind)
            && query.generation.is_none_or(|generation| generation == self.generation)
    }
}

/// What the feed has after a position.
#[derive(Debug)]
pub(crate) enum Ahead {
    /// Nothing has been read yet.
    Unread,
    /// The matching events, complete up to this position.
    Known(VecDeque<Arc<FeedEvent>>, i64),
    /// The position is older than what is kept: read the database, at least up to this position.
    Behind(i64),
}

/// An org, and the only projects of it that are seen.
type Seen = (OrgId, Option<Arc<BTreeSet<ProjectId>>>);

/// The readers of this process, one for all who see the same. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<BTreeMap<Seen, Weak<Feed>>>>);

impl Feeds {
    /// Joins the feed of an org with this token, and starts it if necessary.
    pub(crate) fn join(
        &self,
        state: &AppState,
        (app, org): (&App, OrgId),
        token: &Arc<WatchedToken>,
    ) -> Watcher {
        let seen = (org, app.visible_projects());
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = feeds.get(&seen).and_then(Weak::upgrade);
        let feed = match running.filter(|feed| !feed.shared.ended.is_cancelled()) {
            Some(feed) => feed,
            None => {
                feeds.retain(|_, feed| feed.strong_count() > 0);
                let feed = Arc::new(Feed::start(app.clone(), org, state.clone()));
                feeds.insert(seen, Arc::downgrade(&feed));
                feed
            }
        };
        drop(feeds);
        feed.shared.lock().tokens.insert(token);
        Watcher { reads: feed.shared.reads.subscribe(), feed }
    }
}

/// The reader of one org. It stops when the last stream drops it.
#[derive(Debug)]
struct Feed {
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

impl Feed {
    fn start(app: App, org: OrgId, state: AppState) -> Self {
        let shared = Arc::new(Shared {
            app,
            org,
            state: Mutex::default(),
            reads: watch::Sender::new(0),
            ended: state.stop.child_token(),
        });
        let mut task = JoinSet::new();
        task.spawn(Arc::clone(&shared).run(state));
        Self { shared, _task: task }
    }
}

#[derive(Debug)]
struct Shared {
    /// Sees what all of its watchers may read.
    app: App,
    org: OrgId,
    state: Mutex<State>,
    /// Counts the publications.
    reads: watch::Sender<u64>,
    /// Cancelled at shutdown, or when the reader panicked.
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// Every event of the org after `from` up to `end`, in order.
    kept: VecDeque<Arc<FeedEvent>>,
    /// The position before the first kept event.
    from: i64,
    /// The last position that was read; `None` before the first read.
    end: Option<i64>,
    tokens: WatchedTokens,
}

impl State {
    /// Adds the events after `from` up to `end`. Older events are dropped if there is a gap.
    fn publish(&mut self, fresh: VecDeque<Arc<FeedEvent>>, from: i64, end: i64) {
        if self.end != Some(from) {
            self.kept.clear();
            self.from = from;
        }
        self.kept.extend(fresh);
        self.from = trim(&mut self.kept).unwrap_or(self.from);
        self.end = Some(end);
    }

    /// The kept events after a position that match a query, at most `most`.
    fn after(&self, query: &EventQuery, after: i64, most: usize) -> Ahead {
        let Some(end) = self.end else { return Ahead::Unread };
        if after < self.from {
            return Ahead::Behind(end);
        }
        let first = self.kept.partition_point(|event| event.position <= after);
        let matching = self.kept.iter().skip(first).filter(|event| event.matches(query));
        let found: VecDeque<Arc<FeedEvent>> = matching.take(most).map(Arc::clone).collect();
        let is_full = found.len() >= most;
        let last = found.back().filter(|_| is_full).map(|event| event.position);
        // A stream that read from the database may be ahead of this feed. It must not go back: the
        // events between would be sent twice.
        Ahead::Known(found, last.unwrap_or(end).max(after))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads after every seal, and at least once per `POLL`.
    async fn run(self: Arc<Self>, state: AppState) {
        let _ended = self.ended.clone().drop_guard();
        let mut seals = state.signals.seals();
        loop {
            seals.mark_unchanged();
            if let Err(error) = self.read(&state).await {
                tracing::debug!(org = %self.org, %error, "cannot read events; retrying");
            }
            tokio::select! {
                () = self.ended.cancelled() => return,
                sealed = seals.changed() => if sealed.is_err() { return },
                () = state.clock.sleep(POLL) => {}
            }
        }
    }

    /// Reads new events, then checks the tokens, and only then publishes the events.
    async fn read(&self, state: &AppState) -> Result<(), Error> {
        let known = self.lock().end;
        let mut end = match known {
            Some(end) => end,
            None => self.app.last_position(self.org).await?,
        };
        let mut from = end;
        let mut fresh: VecDeque<Arc<FeedEvent>> = VecDeque::new();
        loop {
            let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
            let query = EventQuery { after: Some(end), limit, ..EventQuery::default() };
            let page = self.app.list_events(self.org, &query).await?;
            fresh.extend(page.iter().map(|event| Arc::new(FeedEvent::new(event))));
            from = trim(&mut fresh).unwrap_or(from);
            end = page.last().map_or(end, |event| event.position);
            if page.len() < PAGE {
                break;
            }
        }
        let tokens = self.lock().tokens.all();
        if !fresh.is_empty() {
            check(state, &tokens).await?;
        }
        self.lock().publish(fresh, from, end);
        self.reads.send_modify(|count| *count = count.wrapping_add(1));
        Ok(())
    }
}

/// Drops the oldest events beyond the limit; returns the last position that was dropped.
fn trim(kept: &mut VecDeque<Arc<FeedEvent>>) -> Option<i64> {
    let many = kept.len().saturating_sub(KEPT);
    kept.drain(..many).next_back().map(|event| event.position)
}

/// A stream's membership in a feed; dropping it leaves the feed.
#[derive(Debug)]
pub(crate) struct Watcher {
    feed: Arc<Feed>,
    reads: watch::Receiver<u64>,
}

impl Watcher {
    /// Marks the current state as seen: [`Self::changed`] waits for later publications.
    pub(crate) fn mark_seen(&mut self) {
        self.reads.mark_unchanged();
    }

    /// Waits for a publication since the last [`Self::mark_seen`]; `None` when the feed has ended.
    pub(crate) async fn changed(&mut self) -> Option<()> {
        tokio::select! {
            () = self.feed.shared.ended.cancelled() => None,
            read = self.reads.changed() => read.ok(),
        }
    }

    /// The kept events after a position that match a query, at most `most`.
    pub(crate) fn after(&self, query: &EventQuery, after: i64, most: usize) -> Ahead {
        self.feed.shared.lock().after(query, after, most)
    }
}

#[cfg(test)]
mod tests {
    use trueup_model::id::ServiceId;
    use uuid::Uuid;

    use super::*;

    fn unit(number: u128) -> Subject {
        Subject::Service(ServiceId::from_uuid(Uuid::from_u128(number)))
    }

    /// Events with these positions; every third is about another service.
    fn events(positions: std::ops::RangeInclusive<i64>) -> VecDeque<Arc<FeedEvent>> {
        let event = |position: i64| FeedEvent {
            position,
            kind: "ServiceQueued".to_owned(),
            subject: unit(if position % 3 == 0 { 2 } else { 1 }),
            generation: 1,
            data: String::new(),
        };
        positions.map(|position| Arc::new(event(position))).collect()
    }

    fn found(ahead: Ahead) -> (Vec<i64>, i64) {
        match ahead {
            Ahead::Known(found, at) => (found.iter().map(|event| event.position).collect(), at),
            Ahead::Unread | Ahead::Behind(_) => panic!("expected kept events: {ahead:?}"),
        }
    }

    #[test]
    fn reader_gets_matching_events_and_continues_after_them() {
        let mut state = State::default();
        let all = EventQuery::default();
        assert!(matches!(state.after(&all, 0, 9), Ahead::Unread));
        state.publish(VecDeque::new(), 4, 4);
        assert!(matches!(state.after(&all, 3, 9), Ahead::Behind(4)));
        assert_eq!(found(state.after(&all, 4, 9)), (vec![], 4));
        state.publish(events(5..=9), 4, 9);
        assert_eq!(found(state.after(&all, 4, 9)), (vec![5, 6, 7, 8, 9], 9));
        assert_eq!(found(state.after(&all, 6, 2)), (vec![7, 8], 8), "at most `most`");
        let one = EventQuery { of: Some(unit(2)), ..EventQuery::default() };
        assert_eq!(found(state.after(&one, 4, 9)), (vec![6, 9], 9));
        assert_eq!(found(state.after(&one, 6, 1)), (vec![9], 9));
        let none = EventQuery { kind: Some("QuotaChanged".to_owned()), ..EventQuery::default() };
        assert_eq!(found(state.after(&none, 4, 9)), (vec![], 9), "continues at the end");
    }

    #[test]
    fn reader_ahead_of_the_feed_does_not_get_an_event_twice() {
        let (mut state, all) = (State::default(), EventQuery::default());
        state.publish(VecDeque::new(), 4, 4);
        // The stream read 5 and 6 from the database; the feed has not read them yet.
        assert_eq!(found(state.after(&all, 6, 9)), (vec![], 6));
        state.publish(events(5..=7), 4, 7);
        assert_eq!(found(state.after(&all, 6, 9)), (vec![7], 7));
    }

    #[test]
    fn kept_events_are_bounded_and_have_no_gap() {
        let kept = i64::try_from(KEPT).unwrap();
        let (mut state, all) = (State::default(), EventQuery::default());
        state.publish(VecDeque::new(), 0, 0);
        state.publish(events(1..=kept), 0, kept);
        state.publish(events(kept + 1..=kept + 5), kept, kept + 5);
        assert!(matches!(state.after(&all, 4, 9), Ahead::Behind(_)), "6 is the oldest");
        assert_eq!(found(state.after(&all, 5, 2)), (vec![6, 7], 7));
        // More at once than the limit: earlier events are dropped, too.
        let (from, end) = (kept + 105, 2 * kept + 105);
        state.publish(events(from + 1..=end), from, end);
        assert!(matches!(state.after(&all, from - 1, 9), Ahead::Behind(_)));
        assert_eq!(found(state.after(&all, from, 1)), (vec![from + 1], from + 1));
        assert_eq!(state.kept.len(), KEPT);
    }
}
