//! Events: recorded in the transaction of their cause, read only once sealed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, Postgres, QueryBuilder};
use trueup_model::event::{Fact, NewEvent, Source, wire_source, wire_type};
use trueup_model::id::{EventId, OrgId};
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_rules::event::chain::{Content, Hash};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{json, unit, unit_uuid};
use crate::door::RequestContext;
use crate::work::seal::stored;
use crate::{App, Error};

/// An event with its position and hash.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedEvent {
    /// Its position in its org's log, without gaps.
    pub position: i64,
    /// The hash over it and everything before it.
    pub hash: Hash,
    /// Its id.
    pub id: EventId,
    /// The tenant.
    pub org: OrgId,
    /// The component that emitted it.
    pub source: String,
    /// Its type.
    pub kind: String,
    /// The type's version.
    pub version: i32,
    /// The unit it is about.
    pub unit: Unit,
    /// The generation it is about.
    pub generation: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The trace it belongs to.
    pub trace: Option<String>,
    /// The event that caused it.
    pub cause: Option<EventId>,
    /// The fact.
    pub body: Value,
}

/// Which sealed events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only those of this unit.
    pub of: Option<Unit>,
    /// Only those of this type.
    pub kind: Option<String>,
    /// Only those about this generation.
    pub generation: Option<i64>,
    /// Only those after this position.
    pub after: Option<i64>,
    /// Only those before this position.
    pub before: Option<i64>,
    /// The order.
    pub order: EventOrder,
    /// The maximum number of events.
    pub limit: i64,
}

/// The order of listed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventOrder {
    /// The oldest first.
    #[default]
    OldestFirst,
    /// The newest first.
    NewestFirst,
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
        "insert into events (id, org_id, source, type, unit_kind, unit_id, generation, at, trace, cause, body)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[],
                              $7::bigint[], $8::timestamptz[], $9::text[], $10::uuid[], $11::jsonb[])",
    )
    .bind(&ids)
    .bind(&orgs)
    .bind(events.iter().map(|event| event.source.into_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.fact.name()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.unit.kind()).collect::<Vec<_>>())
    .bind(&units)
    .bind(events.iter().map(|event| event.generation).collect::<Vec<_>>())
    .bind(events.iter().map(|event| sql(event.at)).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.trace.clone()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.cause.map(EventId::uuid)).collect::<Vec<_>>())
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

/// The event that requested each of these generations, and its trace.
pub(crate) async fn requests(
    tx: &mut Tx,
    of: &[(Unit, i64)],
) -> Result<BTreeMap<(Unit, i64), (EventId, Option<String>)>, Error> {
    if of.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(String, Uuid, i64, Uuid, Option<String>)> = sqlx::query_as(
        "select distinct on (e.unit_id, e.generation) e.unit_kind, e.unit_id, e.generation, e.id, e.trace
         from unnest($1::uuid[], $2::bigint[]) as a (unit_id, generation)
         join events e on e.unit_id = a.unit_id and e.generation = a.generation
              and e.source in ('user', 'system')
         order by e.unit_id, e.generation, e.id",
    )
    .bind(of.iter().map(|(unit, _)| unit_uuid(*unit)).collect::<Vec<_>>())
    .bind(of.iter().map(|(_, generation)| *generation).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(kind, id, generation, event, trace)| {
            ((unit(&kind, id), generation), (EventId::from_uuid(event), trace))
        })
        .collect())
}

/// The columns of an event that readers see; the table alias is `e`.
pub(crate) const SHOWN: &str = "e.id, e.source, e.type, e.version, e.unit_kind, e.unit_id, e.generation, e.at, e.trace, e.cause, e.body";

/// A row of [`SHOWN`].
#[derive(FromRow)]
pub(crate) struct Shown {
    id: Uuid,
    source: String,
    pub(crate) r#type: String,
    version: i32,
    unit_kind: String,
    pub(crate) unit_id: Uuid,
    pub(crate) generation: i64,
    at: jiff_sqlx::Timestamp,
    trace: Option<String>,
    cause: Option<Uuid>,
    body: Json<Value>,
}

/// A row of seal and event.
#[derive(FromRow)]
struct Columns {
    org_id: Uuid,
    position: i64,
    hash: Vec<u8>,
    #[sqlx(flatten)]
    shown: Shown,
}

impl Shown {
    /// The hash of this event at this position.
    pub(crate) fn link(&self, previous: &Hash, org: OrgId, position: i64) -> Hash {
        let subject = unit(&self.unit_kind, self.unit_id).to_string();
        let cause = self.cause.map(|cause| EventId::from_uuid(cause).to_string());
        let content = Content {
            id: &EventId::from_uuid(self.id).to_string(),
            source: &wire_source(&self.source),
            kind: &wire_type(&self.r#type, self.version),
            subject: &subject,
            generation: self.generation,
            time: self.at.to_jiff(),
            trace: self.trace.as_deref(),
            cause: cause.as_deref(),
            data: &self.body.0,
        };
        trueup_rules::event::chain::link(previous, org, position, &content)
    }
}

/// An event for operators that no request caused.
pub(crate) fn of_platform(fact: Fact, source: Source, now: Timestamp) -> NewEvent {
    NewEvent {
        id: new_id(now),
        org: PLATFORM,
        source,
        unit: Unit::Org(PLATFORM),
        generation: 0,
        at: now,
        fact,
        trace: None,
        cause: None,
    }
}

/// Records an event about the org itself.
pub(crate) async fn record_of_org(
    tx: &mut Tx,
    org: OrgId,
    fact: Fact,
    context: &RequestContext<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let unit = Unit::Org(org);
    let trace = context.trace.clone();
    let id = new_id(now);
    let new = NewEvent {
        id,
        org,
        source: Source::User,
        unit,
        generation: 0,
        at: now,
        fact,
        trace,
        cause: None,
    };
    record(tx, &[new]).await
}

impl App {
    /// Sealed events of an org.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_events(
        &self,
        org: OrgId,
        query: &EventQuery,
    ) -> Result<Vec<SealedEvent>, Error> {
        let mut tx = self.begin(org).await?;
        // Only the given conditions: a generic statement with all of them could use no index.
        let mut statement = QueryBuilder::<Postgres>::new("select s.org_id, s.position, s.hash, ");
        statement
            .push(SHOWN)
            .push(" from event_seals s join events e on e.id = s.event_id")
            .push(" where s.org_id = trueup_org()");
        if let Some(of) = query.of {
            statement.push(" and s.unit_id = ").push_bind(unit_uuid(of));
        }
        if let Some(kind) = &query.kind {
            statement.push(" and s.type = ").push_bind(kind);
        }
        if let Some(generation) = query.generation {
            statement.push(" and s.generation = ").push_bind(generation);
        }
        if let Some(after) = query.after {
            statement.push(" and s.position > ").push_bind(after);
        }
        if let Some(before) = query.before {
            statement.push(" and s.position < ").push_bind(before);
        }
        statement.push(match query.order {
            EventOrder::OldestFirst => " order by s.position limit ",
            EventOrder::NewestFirst => " order by s.position desc limit ",
        });
        statement.push_bind(query.limit);
        let rows: Vec<Columns> = statement.build_query_as().fetch_all(&mut *tx).await?;
        rows.into_iter().map(sealed).collect()
    }

    /// The position of an org's newest sealed event; 0 where there is none.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn last_position(&self, org: OrgId) -> Result<i64, Error> {
        let mut tx = self.begin(org).await?;
        let (last,): (i64,) = sqlx::query_as(
            "select coalesce(max(position), 0) from event_seals where org_id = trueup_org()",
        )
        .fetch_one(&mut *tx)
        .await?;
        Ok(last)
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
                 (select min(position) - 1 from event_seals
                  where org_id = trueup_org() and unit_id = $1 and generation >= $2),
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

fn sealed(columns: Columns) -> Result<SealedEvent, Error> {
    let Columns { org_id, position, hash, shown } = columns;
    Ok(SealedEvent {
        position,
        hash: stored(&hash)?,
        id: EventId::from_uuid(shown.id),
        org: OrgId::from_uuid(org_id),
        source: shown.source,
        kind: shown.r#type,
        version: shown.version,
        unit: unit(&shown.unit_kind, shown.unit_id),
        generation: shown.generation,
        at: shown.at.to_jiff(),
        trace: shown.trace,
        cause: shown.cause.map(EventId::from_uuid),
        body: shown.body.0,
    })
}
