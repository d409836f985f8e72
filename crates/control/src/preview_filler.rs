//! The planner: fills plan requests by in_dry_run their orders, and looks whether filled ones still hold.
//!
//! Nothing is claimed. Only the holder of the lease fills, a request is filled once, and a rehearsal that
//! was not written down left nothing behind: it is simply made again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use trueup_cluster::{DryRunError, Executor};
use trueup_model::Clock;
use trueup_model::order::Order;
use trueup_rules::envelope::Decryptor;
use trueup_store::{Error, Lease, PendingPreview, PreviewResult, Worker};

use crate::deadline::within;
use crate::decrypt::with_secrets;
use crate::metrics::{Ended, Metrics};

/// How often is looked for requests, and whether filled ones hold.
const POLL: Duration = Duration::from_secs(1);
/// How often old ones are forgotten.
const FORGET: Duration = Duration::from_secs(60);
/// How many are filled side by side.
const AT_ONCE: i64 = 4;
/// The longest that one rehearsal takes: others wait for it.
const LONGEST: Duration = Duration::from_secs(20);

pub(crate) struct Planner {
    pub(crate) worker: Worker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    pub(crate) lease: Lease,
    pub(crate) executor: Arc<Executor>,
    pub(crate) master_key: [u8; 32],
    pub(crate) opener: Decryptor,
}

impl Planner {
    /// Works until the lease is over.
    pub(crate) async fn run(self) {
        let mut forgets = Duration::ZERO;
        loop {
            let now = self.clock.monotonic();
            let done = match self.fill().await {
                Ok(()) => self.check().await,
                failed => failed,
            };
            let done = match done {
                Ok(()) if now >= forgets => {
                    forgets = now + FORGET;
                    let forgotten = self.worker.forget_plans(self.clock.now());
                    within(&*self.clock, forgotten).await.map(|_| ())
                }
                done => done,
            };
            match done {
                Ok(()) => {}
                Err(Error::Fenced) => return,
                Err(error) => tracing::debug!(%error, "plan requests cannot be looked at now"),
            }
            self.clock.sleep(POLL).await;
        }
    }

    /// Fills what was asked for.
    async fn fill(&self) -> Result<(), Error> {
        let asked = self.worker.asked_plans(self.lease.cluster, AT_ONCE, self.clock.now());
        let asked = within(&*self.clock, asked).await?;
        let ends =
            join_all(asked.into_iter().map(async |PendingPreview { id, order }| match order {
                Ok(order) => (id, self.dry_run(*order).await),
                Err(why) => (id, PreviewResult::Failed(why)),
            }));
        for (id, end) in ends.await {
            match &end {
                PreviewResult::Filled(_) => self.count("filled"),
                PreviewResult::Failed(_) => self.count("failed"),
                PreviewResult::Waits(why) => tracing::debug!(%id, why, "a plan cannot be made now"),
            }
            let told = self.worker.end_plan(self.lease, id, &end, self.clock.now());
            within(&*self.clock, told).await?;
        }
        Ok(())
    }

    /// What an order would do. Whatever goes wrong with one holds nobody else up.
    async fn dry_run(&self, order: Order) -> PreviewResult {
        let order = match with_secrets(order, &self.master_key, &self.opener) {
            Ok(order) => order,
            Err(why) => return PreviewResult::Waits(why),
        };
        let unit = order.unit;
        let rehearsed = AssertUnwindSafe(self.executor.dry_run(order)).catch_unwind();
        let rehearsed = tokio::select! {
            rehearsed = rehearsed => rehearsed,
            () = self.clock.sleep(LONGEST) => {
                return PreviewResult::Waits("the cluster answers too slowly".to_owned());
            }
        };
        match rehearsed {
            Ok(Ok(plan)) => PreviewResult::Filled(plan),
            Ok(Err(DryRunError::Later(why))) => PreviewResult::Waits(why),
            Ok(Err(DryRunError::Never(why))) => PreviewResult::Failed(why),
            Err(_) => {
                tracing::error!(%unit, "a rehearsal met a defect; its panic is in this log");
                PreviewResult::Failed(
                    "a defect in Trueup; the operator's log says where".to_owned(),
                )
            }
        }
    }

    /// Looks whether plans that can be gone by still hold.
    async fn check(&self) -> Result<(), Error> {
        let open = self.worker.open_plans(self.lease.cluster, self.clock.now());
        let (mut holding, mut broken) = (Vec::new(), Vec::new());
        for (id, unit, footing) in within(&*self.clock, open).await? {
            match self.executor.is_broken(unit, &footing).await {
                Ok(None) => holding.push(id),
                Ok(Some(why)) => broken.push((id, why)),
                // What cannot be looked at is not said to hold, and nobody goes by it for long.
                Err(error) => tracing::debug!(%id, %error, "a plan cannot be checked now"),
            }
        }
        if holding.is_empty() && broken.is_empty() {
            return Ok(());
        }
        broken.iter().for_each(|_| self.count("void"));
        let noted = self.worker.note_plans(self.lease, &holding, &broken, self.clock.now());
        within(&*self.clock, noted).await
    }

    fn count(&self, outcome: &'static str) {
        self.metrics.plans.get_or_create(&Ended { outcome }).inc();
    }
}
