//! Preview requests: reading them, and accepting only what was previewed.

mod fill;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, PreviewRequestId, ServiceId};
use trueup_model::name::Name;
use trueup_model::order::Unit;
use trueup_model::preview_request::{HELD_WITHIN, PreviewRequest, PreviewState};
use trueup_model::service::Service;
use trueup_rules::preview;

use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, read_json, time};
use crate::door::{Refusal, ServiceChange, ServiceRequest};
use crate::work::order;
use crate::{App, Error, project};

pub use fill::{PendingPreview, PreviewResult};

/// A request with its cluster, which explains why it is not filled.
const SELECT: &str = "select r.id, r.service_id, r.service, r.generation, r.order_digest, r.state, r.why,
        r.preview, r.hash, r.requested_by, r.created_at, r.deadline_at, r.checked_at, r.expires_at,
        p.name as project_name, c.name as cluster_name, c.heard_at
     from preview_requests r join projects p on p.id = r.project_id join clusters c on c.id = r.cluster_id";

impl App {
    /// A preview request of a service, by project and service name or id, and the request's id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_preview_request(
        &self,
        org: OrgId,
        project: &str,
        service: &str,
        wanted: &str,
        now: Timestamp,
    ) -> Result<Option<PreviewRequest>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(project) = project::find(&mut tx, project).await? else { return Ok(None) };
        let Ok(id) = wanted.parse() else { return Ok(None) };
        let Some(row) = fetch(&mut tx, id).await? else { return Ok(None) };
        let previewed = previewed(&row)?;
        let named = previewed.name.as_str() == service || previewed.id.to_string() == service;
        let is_it = previewed.project == project.project.id && named;
        is_it.then(|| shown(&row, now)).transpose()
    }
}

/// A request's row, of [`SELECT`].
pub(crate) async fn fetch(tx: &mut Tx, id: PreviewRequestId) -> Result<Option<PgRow>, Error> {
    let statement = format!("{SELECT} where r.id = $1");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(id.uuid())
        .fetch_optional(&mut **tx)
        .await?;
    Ok(row)
}

/// The service as it would be accepted.
fn previewed(row: &PgRow) -> Result<Service, Error> {
    read_json("previewed service", row.try_get("service")?)
}

/// A request as it is now. Timeouts are not stored but derived from the current time.
pub(crate) fn shown(row: &PgRow, now: Timestamp) -> Result<PreviewRequest, Error> {
    let stored: PreviewState = read("state of a preview request", row.try_get("state")?)?;
    let why: Option<String> = row.try_get("why")?;
    let expires_at = time(row, "expires_at")?;
    let (state, why) = match stored {
        _ if now >= expires_at => {
            let why = "the preview expired after 15 minutes; request a new one";
            (PreviewState::Expired, Some(why.to_owned()))
        }
        PreviewState::Waiting if now >= time(row, "deadline_at")? => {
            let why = why.map_or_else(|| unattended(row), Ok)?;
            (PreviewState::Failed, Some(format!("preview timed out after 60 s: {why}")))
        }
        stored => (stored, why),
    };
    let preview: Option<Json<Value>> = row.try_get("preview")?;
    Ok(PreviewRequest {
        id: PreviewRequestId::from_uuid(row.try_get("id")?),
        project_name: row.try_get("project_name")?,
        service_name: previewed(row)?.name,
        service: ServiceId::from_uuid(row.try_get("service_id")?),
        generation: row.try_get("generation")?,
        state,
        why,
        preview: preview.map(|preview| read_json("exact preview", preview)).transpose()?,
        hash: row.try_get("hash")?,
        requested_by: row.try_get("requested_by")?,
        created_at: time(row, "created_at")?,
        checked_at: maybe_time(row, "checked_at")?,
        expires_at,
    })
}

/// Why no process has picked up a request.
fn unattended(row: &PgRow) -> Result<String, Error> {
    let name: String = row.try_get("cluster_name")?;
    let last_event = match maybe_time(row, "heard_at")? {
        Some(at) => format!("the last watch event was received at {at}"),
        None => "no watch event was ever received".to_owned(),
    };
    Ok(format!(
        "no process works on cluster {name} now, {last_event}; check it with `trueup get clusters`"
    ))
}

/// An exact preview that a request is conditional on.
pub(crate) struct ValidPreview {
    /// The service that was previewed.
    pub(crate) service: ServiceId,
    generation: i64,
    digest: String,
    /// Why the preview no longer holds.
    broken: Option<String>,
}

/// Finds the preview that a request is conditional on, and checks that it can be used.
pub(crate) async fn find_valid(
    tx: &mut Tx,
    id: PreviewRequestId,
    wanted: &ServiceRequest<'_>,
    now: Timestamp,
) -> Result<ValidPreview, Refusal> {
    let row = fetch(tx, id).await?.ok_or(Refusal::NotFound("preview request"))?;
    let previewed = previewed(&row)?;
    let project = project::find(tx, wanted.project).await?.ok_or(Refusal::NotFound("project"))?;
    let is_it = match wanted.change {
        ServiceChange::Declare(name, _) => is_of(&previewed, name),
        ServiceChange::Act(..) => false,
    };
    if !is_it || previewed.project != project.project.id {
        return Err(Refusal::NotFound("preview request of this service"));
    }
    let request = shown(&row, now)?;
    let why = request.why.unwrap_or_default();
    let broken = match request.state {
        PreviewState::Filled => None,
        PreviewState::Void => Some(why),
        PreviewState::Waiting => {
            let why = "the preview is not filled yet; wait and retry".to_owned();
            return Err(Refusal::PreviewNotReady(why));
        }
        PreviewState::Failed | PreviewState::Expired => return Err(Refusal::PreviewNotReady(why)),
    };
    let fresh = request.checked_at.is_some_and(|checked| checked + HELD_WITHIN >= now);
    if broken.is_none() && !fresh {
        let why = "the preview cannot be checked now: the cluster was not observed recently; retry \
                   once it is reachable";
        return Err(Refusal::PreviewNotReady(why.to_owned()));
    }
    let digest = row.try_get("order_digest").map_err(Error::from)?;
    Ok(ValidPreview { service: previewed.id, generation: previewed.generation, digest, broken })
}

fn is_of(previewed: &Service, name: &Name) -> bool {
    previewed.name == *name
}

impl ValidPreview {
    /// Refuses a change that differs from the preview.
    ///
    /// A changed service is reported before a changed cluster: it explains more.
    pub(crate) async fn check(&self, tx: &mut Tx, after: &Service) -> Result<(), Refusal> {
        if after.id != self.service {
            let why = "another service has this name now";
            return Err(Refusal::PreviewVoid(why.to_owned()));
        }
        if after.generation != self.generation {
            return Err(Refusal::PreviewVoid(format!(
                "the service changed since: this would be generation {}, and generation {} was \
                 previewed",
                after.generation, self.generation
            )));
        }
        if digest(tx, after.id).await? != self.digest {
            let why = "the objects would differ from the preview: the manifest differs, or a variable, \
                       secret, endpoint or domain of the service changed since";
            return Err(Refusal::PreviewVoid(why.to_owned()));
        }
        self.broken.clone().map_or(Ok(()), |why| Err(Refusal::PreviewVoid(why)))
    }
}

/// A digest of a service's order, as the transaction sees it.
pub(crate) async fn digest(tx: &mut Tx, service: ServiceId) -> Result<String, Error> {
    let orders = order::load(tx, &[service.uuid()]).await?;
    Ok(orders.get(&Unit::Service(service)).map(preview::digest).unwrap_or_default())
}
