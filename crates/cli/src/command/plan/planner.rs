//! Previews documents one after the other, each with what the documents before it change.
//!
//! Dry runs store nothing, so a project from one document does not exist for the next. A service
//! whose new project is in the same files is therefore previewed together with it. What services
//! take of the quota is added up here for the same reason.

use std::collections::BTreeSet;

use trueup_api::client::{DryRunClient, Terms};
use trueup_api::plan::Amount;
use trueup_api::preview::{Preview, PreviewUnitKind};
use trueup_api::service::ServiceManifest;

use super::Planned;
use super::total::{RunningTotal, Shortage, Total};
use crate::connect::context::{Connection, Context};
use crate::manifest::Manifest;

/// Previews documents in their order.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    context: &'a Context,
    connection: &'a Connection,
    new_projects: BTreeSet<String>,
    /// `None` until the first service.
    total: Option<RunningTotal>,
}

impl<'a> Planner<'a> {
    pub(super) const fn new(context: &'a Context, connection: &'a Connection) -> Self {
        Self { context, connection, new_projects: BTreeSet::new(), total: None }
    }

    /// Where it previews.
    pub(super) const fn connection(&self) -> (&'a Context, &'a Connection) {
        (self.context, self.connection)
    }

    /// Whether a document before this one creates the project.
    pub(super) fn creates(&self, project: &str) -> bool {
        self.new_projects.contains(project)
    }

    /// The total of the services so far; `None` without any.
    pub(super) fn total(&self) -> Option<Total> {
        let total = self.total.as_ref().map(RunningTotal::total);
        total.filter(|total| total.services > 0)
    }

    /// Dry-runs one document.
    pub(super) async fn preview(
        &mut self,
        manifest: Manifest,
        location: &str,
    ) -> anyhow::Result<Planned> {
        let dry_run = self.connection.client.dry_run();
        let client = dry_run.client();
        let mut error = None;
        let (subject, preview) = match manifest {
            Manifest::Plan { name, body } => {
                self.context.wait("planning", client.plan_put(&name, &body)).await?;
                (format!("plan/{name}"), dry_run.seen())
            }
            Manifest::Project { name, body } => {
                self.context.wait("planning", client.project_put(&name, &body)).await?;
                let preview = dry_run.seen();
                if preview.as_ref().is_some_and(|preview| preview.changed) {
                    self.new_projects.insert(name.clone());
                }
                (format!("project/{name}"), preview)
            }
            Manifest::Service { name, body } => {
                let project = self.context.project_of(body.project.as_ref(), self.connection)?;
                let subject = format!("service/{project}/{name}");
                self.begin_total().await?;
                let (mut preview, monthly) =
                    self.preview_service(&project, &name, &body, &dry_run).await?;
                if let (Some(total), Some(preview)) = (&mut self.total, &mut preview) {
                    error = too_much(&total.add(&subject, preview, monthly));
                }
                (subject, preview)
            }
        };
        let document = location.to_owned();
        Ok(Planned { document, subject: Some(subject), preview, error, ..Planned::default() })
    }

    /// Reads the quota before the first service.
    async fn begin_total(&mut self) -> anyhow::Result<()> {
        if self.total.is_none() {
            let reading = self.connection.client.quota_get();
            let quota = self.context.wait("reading the quota", reading).await?;
            self.total = Some(RunningTotal::new(quota));
        }
        Ok(())
    }

    /// Dry-runs a service, and returns its price per month as well.
    async fn preview_service(
        &self,
        project: &str,
        name: &str,
        body: &ServiceManifest,
        dry_run: &DryRunClient,
    ) -> anyhow::Result<(Option<Preview>, Option<Amount>)> {
        let client = dry_run.client();
        if !self.creates(project) {
            let declaring = client.service_put(project, name, body, &Terms::PLAIN);
            let accepted = self.context.wait("planning", declaring).await?;
            return Ok((dry_run.seen(), accepted.service.monthly));
        }
        let declaring = client.service_put_with_project(project, name, body, &Terms::PLAIN);
        let accepted = self.context.wait("planning", declaring).await?;
        let mut preview = dry_run.seen();
        // The project is previewed by its own document.
        let units = preview.iter_mut().map(|preview| &mut preview.units);
        units.for_each(|units| units.retain(|unit| unit.kind != PreviewUnitKind::Project));
        Ok((preview, accepted.service.monthly))
    }
}

/// The error of a service that fits into the quota alone, but not after the services before it.
fn too_much(over_quota: &[Shortage]) -> Option<String> {
    let short: Vec<String> = over_quota.iter().map(|short| short.text()).collect();
    let message = format!("over quota with the services before it: {}", short.join(", "));
    (!over_quota.is_empty()).then_some(message)
}
