//! The preview filler: fills preview requests with dry runs, and checks whether filled ones are
//! valid.
//!
//! Requests are not claimed. Only the lease holder fills them, and a dry run whose result was not
//! recorded left nothing behind: it is made again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use trueup_cluster::{DryRunError, Executor};
use trueup_model::Clock;
use trueup_model::order::Order;
use trueup_model::secret::MasterKey;
use trueup_rules::envelope::Decryptor;
use trueup_store::{Error, Lease, PendingPreview, PreviewResult, Worker};

use crate::deadline::within;
use crate::decrypt::with_secrets;
use crate::metrics::{Ended, Metrics};

/// How often requests are polled and filled ones checked.
const POLL: Duration = Duration::from_secs(1);
/// How often expired requests are deleted.
const PURGE: Duration = Duration::from_secs(60);
/// How many are filled concurrently.
const AT_ONCE: i64 = 4;
/// The timeout of one dry run: other requests wait for it.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct PreviewFiller {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    pub(crate) executor: Arc<Executor>,
    pub(crate) master_key: MasterKey,
    pub(crate) decryptor: Decryptor,
}

impl PreviewFiller {
    /// Runs until the lease is lost.
    pub(crate) async fn run(self) {
        let mut next_purge = Duration::ZERO;
        loop {
            let now = self.clock.monotonic();
            let done = match self.fill().await {
                Ok(()) => self.check().await,
                failed => failed,
            };
            let done = match done {
                Ok(()) if now >= next_purge => {
                    next_purge = now + PURGE;
                    let purged = self.worker.purge_previews(self.clock.now());
                    within(&*self.clock, purged).await.map(|_| ())
                }
                done => done,
            };
            match done {
                Ok(()) => {}
                Err(Error::Fenced) => return,
                Err(error) => {
                    tracing::debug!(%error, "cannot process preview requests; will retry")
                }
            }
            self.clock.sleep(POLL).await;
        }
    }

    /// Fills pending requests.
    async fn fill(&self) -> Result<(), Error> {
        let pending = self.worker.pending_previews(self.lease.scope, AT_ONCE, self.clock.now());
        let pending = within(&*self.clock, pending).await?;
        let results =
            join_all(pending.into_iter().map(async |PendingPreview { id, order }| match order {
                Ok(order) => (id, self.dry_run(*order).await),
                Err(why) => (id, PreviewResult::Failed(why)),
            }));
        for (id, result) in results.await {
            match &result {
                PreviewResult::Filled(_) => self.count("filled"),
                PreviewResult::Failed(_) => self.count("failed"),
                PreviewResult::Waits(why) => {
                    tracing::debug!(%id, why, "cannot fill a preview request; will retry");
                }
            }
            let recorded = self.worker.finish_preview(self.lease, id, &result, self.clock.now());
            within(&*self.clock, recorded).await?;
        }
        Ok(())
    }

    /// What an order would do. A failure of one request does not affect the others.
    async fn dry_run(&self, order: Order) -> PreviewResult {
        let order = match with_secrets(order, &self.master_key, &self.decryptor) {
            Ok(order) => order,
            Err(why) => return PreviewResult::Waits(why),
        };
        let unit = order.unit;
        let dry_run = AssertUnwindSafe(self.executor.dry_run(order)).catch_unwind();
        let preview = tokio::select! {
            preview = dry_run => preview,
            () = self.clock.sleep(TIMEOUT) => {
                return PreviewResult::Waits("the dry run timed out after 20 s".to_owned());
            }
        };
        match preview {
            Ok(Ok(preview)) => PreviewResult::Filled(preview),
            Ok(Err(DryRunError::Later(why))) => PreviewResult::Waits(why),
            Ok(Err(DryRunError::Never(why))) => PreviewResult::Failed(why),
            Err(_) => {
                tracing::error!(%unit, "a dry run panicked; the panic is in this log");
                PreviewResult::Failed("a defect in Trueup; see the operator's log".to_owned())
            }
        }
    }

    /// Checks whether filled previews are still valid.
    async fn check(&self) -> Result<(), Error> {
        let open = self.worker.open_previews(self.lease.scope, self.clock.now());
        let (mut valid, mut void) = (Vec::new(), Vec::new());
        for (id, unit, footing) in within(&*self.clock, open).await? {
            match self.executor.is_broken(unit, &footing).await {
                Ok(None) => valid.push(id),
                Ok(Some(why)) => void.push((id, why)),
                // Without a check a preview is not confirmed, and soon cannot be used.
                Err(error) => tracing::debug!(%id, %error, "cannot check a preview; will retry"),
            }
        }
        if valid.is_empty() && void.is_empty() {
            return Ok(());
        }
        void.iter().for_each(|_| self.count("void"));
        let recorded =
            self.worker.record_preview_checks(self.lease, &valid, &void, self.clock.now());
        within(&*self.clock, recorded).await
    }

    fn count(&self, outcome: &'static str) {
        self.metrics.previews.get_or_create(&Ended { outcome }).inc();
    }
}
