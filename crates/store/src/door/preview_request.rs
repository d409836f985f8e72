//! Requests exact previews of declarations.

use jiff::Timestamp;
use trueup_model::id::{OrgId, PreviewRequestId};
use trueup_model::order::Unit;
use trueup_model::preview_request::{FILLED_WITHIN, KEPT_FOR, PreviewRequest};
use trueup_model::service::Service;
use trueup_rules::preview;

use super::write::Write;
use super::{Accepted, Refusal, RequestContext, ServiceRequest, idempotency};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::json;
use crate::preview_request::{digest, fetch, shown};
use crate::{App, Error};

/// The most open requests per org.
const MOST: i64 = 100;

impl App {
    /// Requests an exact preview of a declaration.
    ///
    /// The declaration is decided in a dry run and left for the executor of the cluster to preview.
    ///
    /// # Errors
    /// [`Refusal`] says why the declaration would not be accepted.
    pub async fn request_preview(
        &self,
        org: OrgId,
        wanted: &ServiceRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<Accepted<PreviewRequest>, Refusal> {
        let mut tx = self.begin(org).await?;
        if let Some(row) = repeated(&mut tx, context, now).await? {
            return Ok(Accepted { row, changed: false });
        }
        tx.rollback().await?;
        let (service, digest) = self.dry_run_declaration(org, wanted, context, now).await?;
        self.write(org, context, now, |write| request(write, &service, &digest)).await
    }

    /// The service as it would be accepted, and a digest of its order.
    async fn dry_run_declaration(
        &self,
        org: OrgId,
        wanted: &ServiceRequest<'_>,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Service, String), Refusal> {
        let dry_run = self.dry_run();
        let context = RequestContext { idempotency_key: None, ..context.clone() };
        let accepted = dry_run.app().accept_service(org, wanted, &context, now).await?;
        let service = accepted.row.service;
        let unit = Unit::Service(service.id);
        let seen = dry_run.seen().units.into_iter().find(|seen| seen.after.unit == unit);
        let digest = match seen {
            Some(seen) => preview::digest(&seen.after),
            None => {
                let mut tx = self.begin(org).await?;
                digest(&mut tx, service.id).await?
            }
        };
        Ok((service, digest))
    }
}

/// The request that was recorded with the same idempotency key.
async fn repeated(
    tx: &mut Tx,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<Option<PreviewRequest>, Refusal> {
    let Some(subject) = idempotency::find(tx, context, now).await? else { return Ok(None) };
    let id = subject.parse().map_err(|_| Refusal::NotFound("preview request"))?;
    let row = fetch(tx, id).await?.ok_or(Refusal::NotFound("preview request"))?;
    Ok(Some(shown(&row, now)?))
}

async fn request(
    mut write: Write<'_>,
    service: &Service,
    digest: &str,
) -> Result<Accepted<PreviewRequest>, Refusal> {
    let now = write.now;
    // The same request may have been accepted during the dry run.
    if let Some(row) = repeated(&mut write.tx, write.context, now).await? {
        return Ok(Accepted { row, changed: false });
    }
    check_limit(&mut write.tx, now).await?;
    let id: PreviewRequestId = new_id(now);
    insert(&mut write, id, service, digest).await?;
    let row = fetch(&mut write.tx, id).await?.ok_or(Refusal::NotFound("preview request"))?;
    let row = shown(&row, now)?;
    write.finish_as(&id.to_string(), Accepted { row, changed: true }).await
}

async fn check_limit(tx: &mut Tx, now: Timestamp) -> Result<(), Refusal> {
    let (open,): (i64,) = sqlx::query_as(
        "select count(*) from preview_requests where org_id = trueup_org() and expires_at > $1",
    )
    .bind(sql(now))
    .fetch_one(&mut **tx)
    .await?;
    if open < MOST { Ok(()) } else { Err(Refusal::TooManyPreviews) }
}

async fn insert(
    write: &mut Write<'_>,
    id: PreviewRequestId,
    service: &Service,
    digest: &str,
) -> Result<(), Error> {
    let now = write.now;
    sqlx::query(
        "insert into preview_requests (id, org_id, project_id, cluster_id, service_id, service, generation,
                                    order_digest, requested_by, created_at, deadline_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(id.uuid())
    .bind(service.org.uuid())
    .bind(service.project.uuid())
    .bind(service.cluster.uuid())
    .bind(service.id.uuid())
    .bind(json(service))
    .bind(service.generation)
    .bind(digest)
    .bind(write.principal_name())
    .bind(sql(now))
    .bind(sql(now + FILLED_WITHIN))
    .bind(sql(now + KEPT_FOR))
    .execute(&mut *write.tx)
    .await?;
    Ok(())
}
