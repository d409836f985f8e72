//! Rehearsing an order: a pass of which nothing stays. The plan is that of a real pass, each write is
//! tried at the API server without being stored, and nothing goes into the event log.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::oneshot;
use trueup_model::ProjectId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, Unit};
use trueup_model::preview_request::{ExactPreview, Standing};
use trueup_rules::preview::exact::{self, Draft, DryRunPass, Next, Tries, Write};

use super::{Command, Executor};
use crate::act::only_new;
use crate::executor::pass::Shared;
use crate::verbs::{self, CallError};

/// Why an order could not be rehearsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRunError {
    /// Not now: it may be tried again.
    Later(String),
    /// Not as things are.
    Never(String),
}

impl From<CallError> for DryRunError {
    fn from(error: CallError) -> Self {
        Self::Later(error.to_string())
    }
}

impl Executor {
    /// Says what carrying out an order would do, and does nothing.
    ///
    /// # Errors
    /// The cluster cannot be asked, or the order would not be carried out.
    pub async fn dry_run(&self, mut order: Order) -> Result<ExactPreview, DryRunError> {
        let shared = &*self.shared;
        if let Some(freeze) = shared.frozen(&order) {
            let why = format!("{freeze}; nothing would be done until somebody unfreezes it");
            return Err(DryRunError::Never(why));
        }
        shared.may_send()?;
        if !shared.cache().is_complete() {
            let why = "the cluster has not been seen whole yet";
            return Err(DryRunError::Later(why.to_owned()));
        }
        if !self.is_ready(order.project).await {
            let why = "its project's namespace and policies are not there yet; wait for them \
                       (`trueup get project NAME`), then ask again";
            return Err(DryRunError::Later(why.to_owned()));
        }
        shared.read_afresh(&order).await?;
        let observed = shared.look(&mut order, true);
        let mut rehearsal = DryRunPass::new(order, observed);
        loop {
            let drafts = match rehearsal.next(&shared.proofs) {
                Next::Over(plan) => return Ok(plan),
                Next::Try(drafts) => drafts,
            };
            shared.may_send()?;
            let tries = join_all(drafts.iter().map(|draft| attempt(shared, draft))).await;
            for (draft, tries) in drafts.into_iter().zip(tries) {
                rehearsal.take(draft, tries?);
            }
        }
    }

    /// Whether what a plan stands on is still there: nothing, or what is otherwise now.
    ///
    /// # Errors
    /// That cannot be known now.
    pub async fn is_broken(
        &self,
        unit: Unit,
        footing: &[Standing],
    ) -> Result<Option<String>, CallError> {
        let shared = &*self.shared;
        let watched = |kind: &Kind| !Kind::READ.contains(kind);
        let kinds: Vec<Kind> =
            footing.iter().map(|standing| standing.key.kind).filter(watched).collect();
        let silent = self.freshness.borrow().silent(&kinds, shared.clock.now());
        if let Some(kind) = silent.first() {
            return Err(CallError::Unreachable(format!("nothing was heard of {kind}")));
        }
        let mut live = BTreeMap::new();
        for Standing { key, .. } in footing {
            let found = if Kind::READ.contains(&key.kind) {
                shared.cluster.get(key).await?.map(Arc::new)
            } else {
                shared.cache().get(key)
            };
            live.extend(found.map(|found| (key.clone(), found)));
        }
        Ok(exact::holds(footing, unit, &live, &shared.proofs).err())
    }

    /// Whether everything of a project is there.
    async fn is_ready(&self, project: ProjectId) -> bool {
        let (answer, answered) = oneshot::channel();
        let asked = self.commands.send(Command::IsReady(project, answer)).await;
        asked.is_ok() && answered.await.unwrap_or(false)
    }
}

/// What comes of one write.
async fn attempt(shared: &Shared, draft: &Draft) -> Result<Tries, CallError> {
    let Draft { key, write } = draft;
    let made;
    let written = match write {
        Write::Make(object) => {
            made = only_new(object);
            verbs::Draft::Apply(&made)
        }
        Write::Apply(object) => verbs::Draft::Apply(object),
        Write::Patch(patch) => verbs::Draft::Patch(patch),
    };
    match shared.cluster.dry_run(key, written).await {
        Ok(stored) => Ok(Tries::Stored(stored)),
        Err(error) => meant(shared, key, error).await,
    }
}

/// What an error says of the write; an error of its own where it says something of the cluster.
async fn meant(shared: &Shared, key: &ResourceKey, error: CallError) -> Result<Tries, CallError> {
    shared.throttle.heed(&error, shared.clock.monotonic());
    match error {
        CallError::Conflict(_) => Ok(Tries::There(shared.cluster.get(key).await?)),
        CallError::Refused(words) => Ok(Tries::Refused(words)),
        error => match error.absent() {
            Some(why) if key.kind.is_optional() => Ok(Tries::Missing(why)),
            Some(_) | None => Err(error),
        },
    }
}
