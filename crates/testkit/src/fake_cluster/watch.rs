//! A watch: a stream of events from the history.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch::Receiver;
use tokio::time::Sleep;
use trueup_cluster::{CallError, WatchEvent};
use trueup_model::key::Kind;

use super::{Shared, Verb};

struct Watching {
    shared: Arc<Shared>,
    kind: Kind,
    position: u64,
    news: Receiver<u64>,
    open: Option<Pin<Box<Sleep>>>,
    over: bool,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens the watch when it is first polled, as a request would.
pub(super) fn stream(
    shared: Arc<Shared>,
    kind: Kind,
    from: &str,
) -> BoxStream<'static, Result<WatchEvent, CallError>> {
    let news = shared.news.subscribe();
    let position = from.parse().unwrap_or_default();
    let watching = Watching { shared, kind, position, news, open: None, over: false };
    stream::unfold(watching, |mut watching| async move {
        let event = watching.next().await?;
        Some((event, watching))
    })
    .boxed()
}

impl Watching {
    async fn next(&mut self) -> Option<Result<WatchEvent, CallError>> {
        if self.over {
            return None;
        }
        if self.open.is_none() {
            let mut inner = self.shared.lock();
            if let Some(error) = inner.admit(Verb::Watch, self.kind).unwrap_or_else(Some) {
                self.over = true;
                return Some(Err(error));
            }
            self.open = Some(Box::pin(tokio::time::sleep(inner.watch_limit)));
            self.shared.watches.fetch_add(1, Ordering::SeqCst);
        }
        loop {
            self.news.borrow_and_update();
            match self.poll() {
                Ok(Some(event)) => return Some(Ok(event)),
                Ok(None) => {}
                Err(error) => {
                    self.close();
                    return Some(Err(error));
                }
            }
            let open = self.open.as_mut()?;
            tokio::select! {
                biased;
                Ok(()) = self.news.changed() => {}
                () = open => {
                    self.close();
                    return Some(Ok(WatchEvent::Bookmark(self.position.to_string())));
                }
            }
        }
    }

    fn close(&mut self) {
        self.over = true;
        if self.open.take().is_some() {
            self.shared.watches.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// The next event, if there is one now.
    fn poll(&mut self) -> Result<Option<WatchEvent>, CallError> {
        let inner = self.shared.lock();
        if !inner.reachable {
            return Err(CallError::Unreachable("the fake cluster became unreachable".to_owned()));
        }
        if let Some(error) = inner.refusal(Verb::Watch, self.kind) {
            return Err(error);
        }
        if self.position < inner.state.compacted() {
            return Err(CallError::Expired);
        }
        if inner.deaf.contains(&self.kind) {
            self.position = self.position.max(inner.state.version());
            return Ok(None);
        }
        if let Some((event, version)) = inner.state.after(self.kind, self.position) {
            self.position = version;
            return Ok(Some(event));
        }
        self.position = self.position.max(inner.state.version());
        Ok(None)
    }
}
