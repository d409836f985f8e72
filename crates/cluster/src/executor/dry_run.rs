//! Dry run of an order: the plan of a real pass, with every write sent as a server-side dry run.
//!
//! Nothing is stored in the cluster and nothing is reported.

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
use crate::act::create_only;
use crate::executor::pass::Shared;
use crate::verbs::{self, CallError};

/// Why the dry run of an order failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRunError {
    /// Not possible now; retry later.
    Later(String),
    /// Not possible in the current state; a retry does not help.
    Never(String),
}

impl From<CallError> for DryRunError {
    fn from(error: CallError) -> Self {
        Self::Later(error.to_string())
    }
}

impl Executor {
    /// Returns what executing an order would change, without changing anything.
    ///
    /// # Errors
    /// The cluster is unavailable, or the order would not be executed.
    pub async fn dry_run(&self, mut order: Order) -> Result<ExactPreview, DryRunError> {
        let shared = &*self.shared;
        if let Some(freeze) = shared.frozen(&order) {
            let why = format!("{freeze}; nothing would change until it is unfrozen");
            return Err(DryRunError::Never(why));
        }
        shared.may_send()?;
        if !shared.cache().is_complete() {
            let why = "the initial list of the cluster's objects is not complete";
            return Err(DryRunError::Later(why.to_owned()));
        }
        if !self.is_ready(order.project).await {
            let why = "the project's namespace and policies are not ready; wait until \
                       `trueup get project NAME` shows them ready, then retry";
            return Err(DryRunError::Later(why.to_owned()));
        }
        shared.refresh_all(&order).await?;
        let observed = shared.observed(&mut order, true);
        let mut pass = DryRunPass::new(order, observed);
        loop {
            let drafts = match pass.next(&shared.proofs) {
                Next::Over(preview) => return Ok(preview),
                Next::Try(drafts) => drafts,
            };
            shared.may_send()?;
            let tries = join_all(drafts.iter().map(|draft| attempt(shared, draft))).await;
            for (draft, tries) in drafts.into_iter().zip(tries) {
                pass.take(draft, tries?);
            }
        }
    }

    /// Checks the preconditions of a preview: `None` if they all hold, else what has changed.
    ///
    /// # Errors
    /// The cluster is unavailable, so the preconditions cannot be checked.
    pub async fn is_broken(
        &self,
        unit: Unit,
        preconditions: &[Standing],
    ) -> Result<Option<String>, CallError> {
        let shared = &*self.shared;
        let watched = |kind: &Kind| !Kind::READ.contains(kind);
        let kinds: Vec<Kind> =
            preconditions.iter().map(|standing| standing.key.kind).filter(watched).collect();
        let silent = self.freshness.borrow().silent(&kinds, shared.clock.now());
        if let Some(kind) = silent.first() {
            return Err(CallError::Unreachable(format!("no recent watch event for {kind}")));
        }
        let mut live = BTreeMap::new();
        for Standing { key, .. } in preconditions {
            let found = if Kind::READ.contains(&key.kind) {
                shared.cluster.get(key).await?.map(Arc::new)
            } else {
                shared.cache().get(key)
            };
            live.extend(found.map(|found| (key.clone(), found)));
        }
        Ok(exact::holds(preconditions, unit, &live, &shared.proofs).err())
    }

    /// Whether a project's namespace and policies are ready.
    async fn is_ready(&self, project: ProjectId) -> bool {
        let (answer, answered) = oneshot::channel();
        let sent = self.commands.send(Command::IsReady(project, answer)).await;
        sent.is_ok() && answered.await.unwrap_or(false)
    }
}

/// Sends one write as a dry run.
async fn attempt(shared: &Shared, draft: &Draft) -> Result<Tries, CallError> {
    let Draft { key, write } = draft;
    let made;
    let written = match write {
        Write::Make(object) => {
            made = create_only(object);
            verbs::Draft::Apply(&made)
        }
        Write::Apply(object) => verbs::Draft::Apply(object),
        Write::Patch(patch) => verbs::Draft::Patch(patch),
    };
    match shared.cluster.dry_run(key, written).await {
        Ok(stored) => Ok(Tries::Stored(stored)),
        Err(error) => interpret(shared, key, error).await,
    }
}

/// What an error means for the write; returns the error if it concerns the cluster instead.
async fn interpret(
    shared: &Shared,
    key: &ResourceKey,
    error: CallError,
) -> Result<Tries, CallError> {
    shared.throttle.note_error(&error, shared.clock.monotonic());
    match error {
        CallError::Conflict(_) => Ok(Tries::There(shared.cluster.get(key).await?)),
        CallError::Refused(message) => Ok(Tries::Refused(message)),
        error => match error.absent() {
            Some(why) if key.kind.is_optional() => Ok(Tries::Missing(why)),
            Some(_) | None => Err(error),
        },
    }
}
