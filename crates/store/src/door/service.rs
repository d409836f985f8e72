//! Accepts changes of services: declarations, operations and deletion.

mod decide;

use jiff::Timestamp;
use trueup_model::id::{OrgId, PreviewRequestId};
use trueup_model::name::Name;
use trueup_model::receipt::Force;
use trueup_model::service::Service;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;

use super::active_hours::record_turn;
use super::generation::Act;
use super::project::declare;
use super::write::Write;
use super::{Accepted, Refusal, RequestContext};
use crate::db::row::json;
use crate::service::ServiceRow;
use crate::{App, Error, preview_request};

use decide::decide;

/// A requested change of a service.
#[derive(Debug, Clone)]
pub struct ServiceRequest<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The change.
    pub change: ServiceChange<'a>,
    /// Precondition: the generation the caller read.
    pub if_generation: Option<i64>,
    /// The project's name, if it is to be created when it does not exist.
    pub with_project: Option<&'a Name>,
    /// Precondition: the exact preview that must still hold.
    pub preview: Option<PreviewRequestId>,
}

impl<'a> ServiceRequest<'a> {
    /// Declares the service of this name.
    #[must_use]
    pub const fn declare(project: &'a str, name: &'a Name, request: &'a AdmissionRequest) -> Self {
        let change = ServiceChange::Declare(name, request);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Performs an operation on a service.
    #[must_use]
    pub const fn act(project: &'a str, service: &'a str, action: &'a ServiceOperation) -> Self {
        let change = ServiceChange::Act(service, action);
        Self { project, change, if_generation: None, with_project: None, preview: None }
    }

    /// Adds a precondition on the generation.
    #[must_use]
    pub const fn if_generation(self, generation: Option<i64>) -> Self {
        Self { if_generation: generation, ..self }
    }
}

/// A change of a service.
#[derive(Debug, Clone)]
pub enum ServiceChange<'a> {
    /// Declares the service of this name, and creates it if it does not exist.
    Declare(&'a Name, &'a AdmissionRequest),
    /// Performs an operation on a service, by name or id.
    Act(&'a str, &'a ServiceOperation),
}

impl ServiceChange<'_> {
    const fn word(&self) -> &'static str {
        match self {
            Self::Declare(..) => "declare",
            Self::Act(_, action) => action.as_str(),
        }
    }
}

impl App {
    /// Accepts a declaration, an operation or the deletion of a service. Idempotent.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_service(
        &self,
        org: OrgId,
        wanted: &ServiceRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        self.write(org, context, now, |write| accept(write, wanted)).await
    }
}

async fn accept(
    mut write: Write<'_>,
    wanted: &ServiceRequest<'_>,
) -> Result<Accepted<ServiceRow>, Refusal> {
    if let Some(subject) = write.earlier().await? {
        let row = write.find_service(wanted.project, &subject).await?;
        return Ok(Accepted { row, changed: false });
    }
    if let Some(project) = wanted.with_project {
        declare(&mut write, project, None).await?;
    }
    let now = write.now;
    let valid = match wanted.preview {
        Some(preview) => {
            Some(preview_request::find_valid(&mut write.tx, preview, wanted, now).await?)
        }
        None => None,
    };
    let decided = decide(&mut write, wanted, valid.as_ref().map(|valid| valid.service)).await?;
    let id = decided.after.id.to_string();
    if decided.changed {
        let act = Act { word: wanted.change.word(), preview: wanted.preview };
        write.record_generation(&decided.after, act).await?;
        record_force(&mut write, &decided.after, &wanted.change).await?;
        if let Some(turn) = decided.turn {
            record_turn(&mut write, &decided.after, turn).await?;
        }
    }
    if let Some(valid) = &valid {
        valid.check(&mut write.tx, &decided.after).await?;
    }
    // Before the quota is reserved: every change in the org locks its row.
    write.remember(&id).await?;
    let row = write.find_service(wanted.project, &id).await?;
    if decided.changed {
        write.reserve_and_wake(&decided.after).await?;
    }
    write.finish(Accepted { row, changed: decided.changed }).await
}

/// Records who forces a deletion, and why.
async fn record_force(
    write: &mut Write<'_>,
    service: &Service,
    change: &ServiceChange<'_>,
) -> Result<(), Error> {
    if let ServiceChange::Act(_, ServiceOperation::ForceDelete { reason }) = change {
        let force = Force { principal: write.principal(), reason: reason.trim().to_owned() };
        sqlx::query("update services set force = $2 where id = $1")
            .bind(service.id.uuid())
            .bind(json(&force))
            .execute(&mut *write.tx)
            .await?;
    }
    Ok(())
}
