//! Events: recorded in the transaction of their cause, read only once sealed.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use trueup_model::event::NewEvent;
use trueup_model::id::{EventId, OrgId};
use trueup_model::order::Unit;
use uuid::Uuid;

use crate::clock::sql;
use crate::pool::Tx;
use crate::row::{json, unit, unit_uuid};
use crate::{App, Error};

/// An event with its place in the order.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedEvent {
    /// Its place in its org's order, without gaps.
    pub position: i64,
    /// Its id.
    pub id: EventId,
    /// Who or what it comes from.
    pub source: String,
    /// Its type.
    pub kind: String,
    /// The type's version.
    pub version: i32,
    /// What it is about.
    pub unit: Unit,
    /// The generation it speaks of.
    pub generation: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The fact.
    pub body: Value,
}

/// Writes events and queues them for the sealer.
pub(crate) async fn record(tx: &mut Tx, events: &[NewEvent]) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = events.iter().map(|event| event.id.uuid()).collect();
    let orgs: Vec<Uuid> = events.iter().map(|event| event.org.uuid()).collect();
    let units: Vec<Uuid> = events.iter().map(|event| unit_uuid(event.unit)).collect();
    sqlx::query(
        "insert into events (id, org_id, source, type, unit_kind, unit_id, generation, at, trace, body)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[],
                              $7::bigint[], $8::timestamptz[], $9::text[], $10::jsonb[])",
    )
    .bind(&ids)
    .bind(&orgs)
    .bind(events.iter().map(|event| event.source.as_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.fact.name()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.unit.kind()).collect::<Vec<_>>())
    .bind(&units)
    .bind(events.iter().map(|event| event.generation).collect::<Vec<_>>())
    .bind(events.iter().map(|event| sql(event.at)).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.trace.clone()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| json(&event.fact)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    sqlx::query(
        "insert into event_queue (event_id, org_id, unit_id)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[])",
    )
    .bind(&ids)
    .bind(&orgs)
    .bind(&units)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

type Columns =
    (i64, Uuid, String, String, i32, String, Uuid, i64, jiff_sqlx::Timestamp, Json<Value>);

impl App {
    /// Sealed events of an org after a position, of one unit or of all.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_events(
        &self,
        org: OrgId,
        of: Option<Unit>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<SealedEvent>, Error> {
        let mut tx = self.begin(org).await?;
        let rows: Vec<Columns> = sqlx::query_as(
            "select s.position, e.id, e.source, e.type, e.version, e.unit_kind, e.unit_id, e.generation,
                    e.at, e.body
             from event_seals s join events e on e.id = s.event_id
             where s.org_id = trueup_org() and s.position > $1 and ($2::uuid is null or s.unit_id = $2)
             order by s.position limit $3",
        )
        .bind(after)
        .bind(of.map(unit_uuid))
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        Ok(rows.into_iter().map(sealed).collect())
    }

    /// The position just before the first event of a unit's generation.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn generation_position(
        &self,
        org: OrgId,
        of: Unit,
        generation: i64,
    ) -> Result<i64, Error> {
        let mut tx = self.begin(org).await?;
        let (before,): (i64,) = sqlx::query_as(
            "select coalesce(
                 (select min(s.position) - 1 from event_seals s join events e on e.id = s.event_id
                  where s.org_id = trueup_org() and s.unit_id = $1 and e.generation >= $2),
                 (select max(position) from event_seals where org_id = trueup_org()),
                 0)",
        )
        .bind(unit_uuid(of))
        .bind(generation)
        .fetch_one(&mut *tx)
        .await?;
        Ok(before)
    }
}

fn sealed(columns: Columns) -> SealedEvent {
    let (position, id, source, kind, version, unit_kind, unit_id, generation, at, body) = columns;
    SealedEvent {
        position,
        id: EventId::from_uuid(id),
        source,
        kind,
        version,
        unit: unit(&unit_kind, unit_id),
        generation,
        at: at.to_jiff(),
        body: body.0,
    }
}
