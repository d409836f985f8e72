//! Accepting services: declare, change, delete.

use jiff::Timestamp;
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::project::Project;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Spec;
use trueup_model::wake::Lane;
use trueup_rules::admit::{Admitted, Ask, admit};
use trueup_rules::names;

use super::{Accepted, Asker, Refusal};
use crate::clock::sql;
use crate::mint::mint;
use crate::pool::Tx;
use crate::row::json;
use crate::service::{ServiceRow, find, service};
use crate::{App, Error, event, project, status, template, wake};

/// What somebody asks of a service.
#[derive(Debug, Clone)]
pub struct ServiceAsk<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service's name.
    pub name: &'a Name,
    /// What it shall be.
    pub ask: &'a Ask,
    /// The generation the caller has seen, if it insists on it.
    pub if_generation: Option<i64>,
}

/// Which service shall be gone.
#[derive(Debug, Clone, Copy)]
pub struct DeleteAsk<'a> {
    /// The project, by name or id.
    pub project: &'a str,
    /// The service, by name or id.
    pub service: &'a str,
    /// The generation the caller has seen, if it insists on it.
    pub if_generation: Option<i64>,
}

impl App {
    /// Declares a service: makes it, changes it, or finds that nothing is to be changed.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn accept_service(
        &self,
        org: OrgId,
        wanted: &ServiceAsk<'_>,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        match self.try_accept_service(org, wanted, asker, now).await {
            // Two callers declared the same new name at once: the second one now finds it.
            Err(Refusal::Store(error)) if error.constraint() == Some("services_name_key") => {
                self.try_accept_service(org, wanted, asker, now).await
            }
            answer => answer,
        }
    }

    async fn try_accept_service(
        &self,
        org: OrgId,
        wanted: &ServiceAsk<'_>,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let mut tx = self.begin(org).await?;
        let project = project::find(&mut tx, wanted.project)
            .await?
            .ok_or(Refusal::NotFound("project"))?
            .project;
        let current = lock(&mut tx, &project, wanted.name.as_str()).await?;
        check_generation(current.as_ref(), wanted.if_generation)?;
        let template = template::find(&mut tx, &wanted.ask.template).await?;
        let admitted =
            admit(wanted.ask, template.as_ref(), current.as_ref()).map_err(Refusal::Refused)?;
        let changed = match admitted {
            Admitted::Unchanged => false,
            Admitted::Changed(spec) => {
                let next = next(current, &project, wanted, *spec, now);
                record(&mut tx, &next, asker, now).await?;
                true
            }
        };
        let row = found(&mut tx, wanted.project, wanted.name.as_str()).await?;
        tx.commit().await.map_err(Error::from)?;
        Ok(Accepted { row, changed })
    }

    /// Asks for a service to be gone. Asking again changes nothing.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn delete_service(
        &self,
        org: OrgId,
        wanted: &DeleteAsk<'_>,
        asker: &Asker<'_>,
        now: Timestamp,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let DeleteAsk { project, service: wanted, if_generation } = *wanted;
        let mut tx = self.begin(org).await?;
        let found_row = found(&mut tx, project, wanted).await?;
        let locked = sqlx::query("select * from services where id = $1 for update")
            .bind(found_row.service.id.uuid())
            .fetch_one(&mut *tx)
            .await?;
        let current = service(&locked)?;
        check_generation(Some(&current), if_generation)?;
        let changed = current.desired != DesiredState::Deleted;
        if changed {
            let next = Service {
                desired: DesiredState::Deleted,
                generation: current.generation.saturating_add(1),
                accepted_at: now,
                ..current
            };
            record(&mut tx, &next, asker, now).await?;
        }
        let row = found(&mut tx, project, &found_row.service.id.to_string()).await?;
        tx.commit().await.map_err(Error::from)?;
        Ok(Accepted { row, changed })
    }
}

async fn found(tx: &mut Tx, project: &str, wanted: &str) -> Result<ServiceRow, Refusal> {
    find(tx, project, wanted).await?.ok_or(Refusal::NotFound("service"))
}

async fn lock(tx: &mut Tx, project: &Project, name: &str) -> Result<Option<Service>, Error> {
    let row = sqlx::query(
        "select * from services where project_id = $1 and name = $2 and deleted_at is null for update",
    )
    .bind(project.id.uuid())
    .bind(name)
    .fetch_optional(&mut **tx)
    .await?;
    row.as_ref().map(service).transpose()
}

fn check_generation(current: Option<&Service>, wanted: Option<i64>) -> Result<(), Refusal> {
    let current = current.map_or(0, |service| service.generation);
    match wanted {
        Some(wanted) if wanted != current => Err(Refusal::Changed { current }),
        Some(_) | None => Ok(()),
    }
}

fn next(
    current: Option<Service>,
    project: &Project,
    wanted: &ServiceAsk<'_>,
    spec: Spec,
    now: Timestamp,
) -> Service {
    let parameters = wanted.ask.parameters.clone();
    match current {
        Some(current) => Service {
            generation: current.generation.saturating_add(1),
            parameters,
            spec,
            accepted_at: now,
            ..current
        },
        None => {
            let id: ServiceId = mint(now);
            Service {
                id,
                org: project.org,
                project: project.id,
                name: wanted.name.clone(),
                cluster: project.cluster,
                object_name: names::object_name(wanted.name, id),
                template: wanted.ask.template.clone(),
                parameters,
                spec,
                desired: DesiredState::Active,
                generation: 1,
                accepted_at: now,
            }
        }
    }
}

/// Everything that makes a new generation durable: row, release, status, event, wake.
pub(crate) async fn record(
    tx: &mut Tx,
    service: &Service,
    asker: &Asker<'_>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let unit = Unit::Service(service.id);
    let deletes = service.desired == DesiredState::Deleted;
    upsert(tx, service).await?;
    insert_release(tx, service, &asker.principal.name).await?;
    status::accept(tx, unit, service.org, now).await?;
    let queued = NewEvent {
        id: mint(now),
        org: service.org,
        source: Source::User,
        unit,
        generation: service.generation,
        at: now,
        fact: Fact::ServiceQueued { deletes, principal: asker.principal.name.clone() },
        trace: asker.trace.clone(),
    };
    event::record(tx, &[queued]).await?;
    let lane = if deletes { Lane::Delete } else { Lane::UserChange };
    wake::request(tx, unit, service.org, service.cluster, lane, now).await?;
    Ok(())
}

async fn upsert(tx: &mut Tx, service: &Service) -> Result<(), Error> {
    sqlx::query(
        "insert into services (id, org_id, project_id, name, cluster_id, object_name, template_name,
                               template_version, parameters, spec, desired, generation, accepted_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
         on conflict (id) do update set parameters = $9, spec = $10, desired = $11, generation = $12,
                                        accepted_at = $13",
    )
    .bind(service.id.uuid())
    .bind(service.org.uuid())
    .bind(service.project.uuid())
    .bind(service.name.as_str())
    .bind(service.cluster.uuid())
    .bind(&service.object_name)
    .bind(service.template.name.as_str())
    .bind(i32::try_from(service.template.version).unwrap_or(i32::MAX))
    .bind(json(&service.parameters))
    .bind(json(&service.spec))
    .bind(service.desired.as_str())
    .bind(service.generation)
    .bind(sql(service.accepted_at))
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn insert_release(tx: &mut Tx, service: &Service, principal: &str) -> Result<(), Error> {
    sqlx::query(
        "insert into releases (id, org_id, service_id, generation, template_name, template_version,
                               parameters, spec, desired, principal, accepted_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(mint::<trueup_model::id::noun::Release>(service.accepted_at).uuid())
    .bind(service.org.uuid())
    .bind(service.id.uuid())
    .bind(service.generation)
    .bind(service.template.name.as_str())
    .bind(i32::try_from(service.template.version).unwrap_or(i32::MAX))
    .bind(json(&service.parameters))
    .bind(json(&service.spec))
    .bind(service.desired.as_str())
    .bind(principal)
    .bind(sql(service.accepted_at))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
