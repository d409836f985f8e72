//! A watch with planned faults: silent, delayed, cut, or with lost or duplicated events.

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
    recheck: Receiver<u64>,
    /// Delivered next, before anything new.
    next: Option<WatchEvent>,
    /// Ends with a 410 at this monotonic time.
    cut_at: Option<Duration>,
    /// Was stale until this monotonic time.
    stale_until: Option<Duration>,
    over: bool,
}

/// Watches a kind through the layer.
pub(super) fn stream(
    shared: &Arc<Shared>,
    kind: Kind,
    from: String,
) -> BoxStream<'static, Result<WatchEvent, CallError>> {
    let watching = Watching {
        shared: Arc::clone(shared),
        kind,
        inner: shared.fake.watch(kind, from),
        recheck: shared.recheck.subscribe(),
        next: None,
        cut_at: None,
        stale_until: None,
        over: false,
    };
    stream::unfold(watching, |mut watching| async move {
        let item = watching.next().await?;
        watching.over = item.is_err();
        Some((item, watching))
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
            if self.shared.is_unreachable() {
                return Some(Err(error(Failure::Unreachable)));
            }
            if let Some((_, left)) = self.shared.stale() {
                self.shared.clock.sleep(left).await;
                self.stale_until = Some(self.shared.clock.monotonic());
                continue;
            }
            let now = self.shared.clock.monotonic();
            let was_stale = self.stale_until == Some(now);
            if let Some(event) = self.next.take() {
                if was_stale {
                    self.shared.note_stale();
                }
                return Some(Ok(event));
            }
            let cut_in = self.cut_at.map(|at| at.saturating_sub(now));
            if cut_in == Some(Duration::ZERO) {
                return Some(Err(CallError::Expired));
            }
            let due = [cut_in, self.shared.next_outage_change()].into_iter().flatten().min();
            let clock = Arc::clone(&self.shared.clock);
            let item = tokio::select! {
                biased;
                Ok(()) = self.recheck.changed() => continue,
                () = clock.sleep(due.unwrap_or_default()), if due.is_some() => continue,
                item = self.inner.next() => item?,
            };
            match item {
                Ok(WatchEvent::Bookmark(_)) | Err(_) => return Some(item),
                Ok(event) => {
                    if was_stale {
                        self.shared.note_stale();
                    }
                    if let Some(item) = self.deliver(event).await {
                        return Some(item);
                    }
                }
            }
        }
    }

    /// Delivers an event, or applies the fault that is due.
    async fn deliver(&mut self, event: WatchEvent) -> Option<Result<WatchEvent, CallError>> {
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
            // The cluster may be unreachable or stale from here on: check again before delivery.
            FaultAction::Away(_)
            | FaultAction::Flap(_)
            | FaultAction::Stale(_)
            | FaultAction::Refuse(..)
            | FaultAction::LeaseEnds(_)
            | FaultAction::Fail(..)
            | FaultAction::Lose(_)
            | FaultAction::Hang(_)
            | FaultAction::ForeignEdit
            | FaultAction::ForeignDelete
            | FaultAction::ForeignRelabel
            | FaultAction::ForeignTakeOver(_) => {
                self.next = Some(event);
                None
            }
        }
    }
}
