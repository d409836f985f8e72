//! A watch that can be silent, late, cut, deaf or double, as a plan says.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch::Receiver;
use trueup_cluster::{CallError, Cluster, WatchEvent};
use trueup_model::key::Kind;

use super::layer::{Shared, error};
use super::plan::{Ends, Failure, FaultAction};

struct Watching {
    shared: Arc<Shared>,
    kind: Kind,
    inner: BoxStream<'static, Result<WatchEvent, CallError>>,
    turn: Receiver<u64>,
    /// Said next, before anything new.
    next: Option<WatchEvent>,
    /// Ends with a 410 at this monotonic time.
    cut_at: Option<Duration>,
    /// Stood still until this monotonic time.
    still_until: Option<Duration>,
    over: bool,
}

/// Follows a kind through the layer.
pub(super) fn stream(
    shared: &Arc<Shared>,
    kind: Kind,
    from: String,
) -> BoxStream<'static, Result<WatchEvent, CallError>> {
    let watching = Watching {
        shared: Arc::clone(shared),
        kind,
        inner: shared.fake.watch(kind, from),
        turn: shared.turn.subscribe(),
        next: None,
        cut_at: None,
        still_until: None,
        over: false,
    };
    stream::unfold(watching, |mut watching| async move {
        let said = watching.next().await?;
        watching.over = said.is_err();
        Some((said, watching))
    })
    .boxed()
}

impl Watching {
    async fn next(&mut self) -> Option<Result<WatchEvent, CallError>> {
        if self.over {
            return None;
        }
        loop {
            if self.shared.is_dead() {
                self.shared.die().await;
            }
            if self.shared.turn_away() {
                return Some(Err(error(Failure::Unreachable)));
            }
            if let Some((_, left)) = self.shared.stale() {
                self.shared.clock.sleep(left).await;
                self.still_until = Some(self.shared.clock.monotonic());
                continue;
            }
            let now = self.shared.clock.monotonic();
            let was_still = self.still_until == Some(now);
            if let Some(heard) = self.next.take() {
                if was_still {
                    self.shared.was_stale();
                }
                return Some(Ok(heard));
            }
            let cut_in = self.cut_at.map(|at| at.saturating_sub(now));
            if cut_in == Some(Duration::ZERO) {
                return Some(Err(CallError::Expired));
            }
            // Somewhere far away if nothing is due.
            let due = [cut_in, self.shared.next_turn()].into_iter().flatten().min();
            let clock = Arc::clone(&self.shared.clock);
            let heard = tokio::select! {
                biased;
                Ok(()) = self.turn.changed() => continue,
                () = clock.sleep(due.unwrap_or_default()), if due.is_some() => continue,
                heard = self.inner.next() => heard?,
            };
            match heard {
                Ok(WatchEvent::Bookmark(_)) | Err(_) => return Some(heard),
                Ok(event) => {
                    if was_still {
                        self.shared.was_stale();
                    }
                    if let Some(said) = self.tell(event).await {
                        return Some(said);
                    }
                }
            }
        }
    }

    /// Says an event, unless a plan has it otherwise.
    async fn tell(&mut self, event: WatchEvent) -> Option<Result<WatchEvent, CallError>> {
        let Some(due) = self.shared.event(self.kind) else { return Some(Ok(event)) };
        self.shared.begin(&due);
        match due.action {
            FaultAction::Twice => {
                self.shared.happened(&due);
                self.next = Some(event.clone());
                Some(Ok(event))
            }
            FaultAction::Drop(seconds) => {
                self.shared.happened(&due);
                self.cut_at = Some(self.shared.clock.monotonic() + Duration::from_secs(seconds));
                None
            }
            FaultAction::Silence(seconds, ends) => {
                self.shared.happened(&due);
                self.shared.clock.sleep(Duration::from_secs(seconds)).await;
                match ends {
                    Ends::Late => Some(Ok(event)),
                    Ends::Expired => Some(Err(CallError::Expired)),
                    Ends::Broken => Some(Err(error(Failure::Unanswered))),
                }
            }
            FaultAction::Crash(_) => {
                self.shared.happened(&due);
                self.shared.die().await
            }
            // The cluster is away or stale from here on: look again before anything is said.
            FaultAction::Away(_)
            | FaultAction::Flap(_)
            | FaultAction::Stale(_)
            | FaultAction::Refuse(..)
            | FaultAction::LeaseEnds(_)
            | FaultAction::Fail(..)
            | FaultAction::Lose(_)
            | FaultAction::Hang(_)
            | FaultAction::ForeignEdit
            | FaultAction::ForeignDelete => {
                self.next = Some(event);
                None
            }
        }
    }
}
