//! Reads the facts that explain a service's state.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Row};
use trueup_model::drift::DivergenceRecord;
use trueup_model::id::{ConflictId, EventId, OrgId, ReleaseId};
use trueup_model::why::{Asked, DivergenceSeen, EventSeen, Facts, WakeSeen};
use trueup_rules::status::freshness;
use uuid::Uuid;

use crate::db::pool::Tx;
use crate::db::row::read_json;
use crate::service::{ServiceRow, find, resources};
use crate::{App, Error, drift};

/// The most events of one generation that are read.
const EVENTS: i64 = 200;

impl App {
    /// The facts for an explanation; `None` if there is no such service.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_why(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        now: Timestamp,
    ) -> Result<Option<Facts>, Error> {
        let mut tx = self.begin(org).await?;
        let Some(row) = find(&mut tx, project, service).await? else { return Ok(None) };
        let id = row.service.id;
        let (inputs,): (Option<Json<Value>>,) = sqlx::query_as(
            "select inputs from statuses where subject_kind = 'service' and subject_id = $1",
        )
        .bind(id.uuid())
        .fetch_one(&mut *tx)
        .await?;
        Ok(Some(Facts {
            desired: row.service.desired,
            generation: row.service.generation,
            cluster: row.cluster_name.clone(),
            asked: asked(&mut tx, &row).await?,
            wake: wake(&mut tx, &row).await?,
            events: events(&mut tx, &row).await?,
            objects: resources(&mut tx, id).await?,
            divergences: divergences(&mut tx, &row).await?,
            inputs: inputs.map(|inputs| read_json("inputs", inputs)).transpose()?,
            silent: row.watches.silent(&freshness::evidence(&row.service.spec), now),
            freeze: row.frozen,
            status: row.status,
        }))
    }
}

async fn asked(tx: &mut Tx, row: &ServiceRow) -> Result<Asked, Error> {
    let (release, action, principal, at): (Uuid, String, String, jiff_sqlx::Timestamp) =
        sqlx::query_as(
            "select id, action, principal, accepted_at from releases
             where service_id = $1 and generation = $2",
        )
        .bind(row.service.id.uuid())
        .bind(row.service.generation)
        .fetch_one(&mut **tx)
        .await?;
    Ok(Asked { release: ReleaseId::from_uuid(release), action, principal, at: at.to_jiff() })
}

async fn wake(tx: &mut Tx, row: &ServiceRow) -> Result<Option<WakeSeen>, Error> {
    let wake: Option<(String, jiff_sqlx::Timestamp, i32, Option<String>)> = sqlx::query_as(
        "select state, due_at, attempts, last_error from wakes
         where subject_kind = 'service' and subject_id = $1",
    )
    .bind(row.service.id.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    Ok(wake.map(|(state, due_at, attempts, error)| WakeSeen {
        state,
        due_at: due_at.to_jiff(),
        attempts,
        error,
    }))
}

/// The differences that stand, oldest first.
async fn divergences(tx: &mut Tx, row: &ServiceRow) -> Result<Vec<DivergenceSeen>, Error> {
    let statement = format!(
        "select {}, c.id as conflict_id from divergences d
         left join conflicts c on c.settled_at is null
              and (c.cluster_id, c.subject_id, c.kind, c.namespace, c.name, c.field)
                = (d.cluster_id, d.subject_id, d.kind, d.namespace, d.name, d.field)
         where d.subject_kind = 'service' and d.subject_id = $1 and d.ended_at is null
         order by d.first_seen_at, d.id",
        drift::COLUMNS
    );
    let rows = sqlx::query(AssertSqlSafe(statement))
        .bind(row.service.id.uuid())
        .fetch_all(&mut **tx)
        .await?;
    let seen = |row: &PgRow| -> Result<DivergenceSeen, Error> {
        let DivergenceRecord { id, divergence, first_seen_at, expires_at, .. } =
            drift::record(row)?;
        let conflict: Option<Uuid> = row.try_get("conflict_id")?;
        let conflict = conflict.map(ConflictId::from_uuid);
        Ok(DivergenceSeen { id, divergence, since: first_seen_at, expires_at, conflict })
    };
    rows.iter().map(seen).collect()
}

async fn events(tx: &mut Tx, row: &ServiceRow) -> Result<Vec<EventSeen>, Error> {
    let rows: Vec<(Uuid, String, jiff_sqlx::Timestamp)> = sqlx::query_as(
        "select e.id, e.type, e.at from event_seals s join events e on e.id = s.event_id
         where s.org_id = trueup_org() and s.subject_id = $1 and s.generation = $2
         order by s.position limit $3",
    )
    .bind(row.service.id.uuid())
    .bind(row.service.generation)
    .bind(EVENTS)
    .fetch_all(&mut **tx)
    .await?;
    let seen = |(id, kind, at): (Uuid, String, jiff_sqlx::Timestamp)| EventSeen {
        id: EventId::from_uuid(id),
        kind,
        at: at.to_jiff(),
    };
    Ok(rows.into_iter().map(seen).collect())
}
