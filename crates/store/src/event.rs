//! Events: recorded in the transaction of their cause, read only once sealed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, Postgres, QueryBuilder};
use trueup_model::event::{Fact, NewEvent, Source, wire_source, wire_type};
use trueup_model::id::{EventId, OrgId};
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::principal::PrincipalId;
use trueup_model::subject::Subject;
use trueup_rules::event::chain::{Content, Hash};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{json, subject, unit, unit_uuid};
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
    /// What it is about.
    pub subject: Subject,
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
    /// The name of the principal in the fact, if it has one that is known today.
    pub principal_name: Option<String>,
}

/// Which sealed events to read.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only those about this subject.
    pub of: Option<Subject>,
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
    let subjects: Vec<Uuid> = events.iter().map(|event| event.subject.uuid()).collect();
    sqlx::query(
        "insert into events (id, org_id, source, type, subject_kind, subject_id, generation, at, trace, cause, body)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[],
                              $7::bigint[], $8::timestamptz[], $9::text[], $10::uuid[], $11::jsonb[])",
    )
    .bind(&ids)
    .bind(&orgs)
    .bind(events.iter().map(|event| event.source.into_str()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.fact.name()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.subject.kind()).collect::<Vec<_>>())
    .bind(&subjects)
    .bind(events.iter().map(|event| event.generation).collect::<Vec<_>>())
    .bind(events.iter().map(|event| sql(event.at)).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.trace.clone()).collect::<Vec<_>>())
    .bind(events.iter().map(|event| event.cause.map(EventId::uuid)).collect::<Vec<_>>())
    .bind(events.iter().map(|event| json(&event.fact)).collect::<Vec<_>>())
    .execute(&mut **tx)
    .await?;
    sqlx::query(
        "insert into event_queue (event_id, org_id, subject_id)
         select * from unnest($1::uuid[], $2::uuid[], $3::uuid[])",
    )
    .bind(&ids)
    .bind(&orgs)
    .bind(&subjects)
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
        "select distinct on (e.subject_id, e.generation) e.subject_kind, e.subject_id, e.generation, e.id, e.trace
         from unnest($1::uuid[], $2::bigint[]) as a (subject_id, generation)
         join events e on e.subject_id = a.subject_id and e.generation = a.generation
              and e.source in ('user', 'system')
         order by e.subject_id, e.generation, e.id",
    )
    .bind(of.iter().map(|(unit, _)| unit_uuid(*unit)).collect::<Vec<_>>())
    .bind(of.iter().map(|(_, generation)| *generation).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    rows.into_iter()
        .map(|(kind, id, generation, event, trace)| {
            Ok(((unit(&kind, id)?, generation), (EventId::from_uuid(event), trace)))
        })
        .collect()
}

/// The columns of an event that readers see; the table alias is `e`.
pub(crate) const SHOWN: &str = "e.id, e.source, e.type, e.version, e.subject_kind, e.subject_id, e.generation, e.at, e.trace, e.cause, e.body";

/// A row of [`SHOWN`].
#[derive(FromRow)]
pub(crate) struct Shown {
    id: Uuid,
    source: String,
    pub(crate) r#type: String,
    version: i32,
    subject_kind: String,
    pub(crate) subject_id: Uuid,
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
    pub(crate) fn link(&self, previous: &Hash, org: OrgId, position: i64) -> Result<Hash, Error> {
        let subject = subject(&self.subject_kind, self.subject_id)?.to_string();
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
        Ok(trueup_rules::event::chain::link(previous, org, position, &content))
    }
}

/// An event about a subject, without a trace and a cause.
pub(crate) fn about(
    org: OrgId,
    subject: Subject,
    generation: i64,
    fact: Fact,
    source: Source,
    now: Timestamp,
) -> NewEvent {
    let id = new_id(now);
    NewEvent { id, org, source, subject, generation, at: now, fact, trace: None, cause: None }
}

/// An event for operators that no request caused.
pub(crate) fn of_platform(fact: Fact, source: Source, now: Timestamp) -> NewEvent {
    about(PLATFORM, Subject::Org(PLATFORM), 0, fact, source, now)
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
            statement.push(" and s.subject_id = ").push_bind(of.uuid());
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
        let names = principal_names(&mut tx, &rows).await?;
        rows.into_iter().map(|row| sealed(row, &names)).collect()
    }

    /// A sealed event of an org by its id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_event(&self, org: OrgId, id: EventId) -> Result<Option<SealedEvent>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "select s.org_id, s.position, s.hash, {SHOWN}
             from event_seals s join events e on e.id = s.event_id
             where s.org_id = trueup_org() and s.event_id = $1"
        );
        let row: Option<Columns> = sqlx::query_as(sqlx::AssertSqlSafe(statement))
            .bind(id.uuid())
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let names = principal_names(&mut tx, std::slice::from_ref(&row)).await?;
        sealed(row, &names).map(Some)
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

    /// The position and hash of an org's newest sealed event; the beginning of the chain where there is
    /// none.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn last_seal(&self, org: OrgId) -> Result<(i64, Hash), Error> {
        let mut tx = self.begin(org).await?;
        let last: Option<(i64, Vec<u8>)> = sqlx::query_as(
            "select position, hash from event_seals where org_id = trueup_org()
             order by position desc limit 1",
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some((position, hash)) = last else { return Ok((0, Hash::START)) };
        Ok((position, stored(&hash)?))
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
                  where org_id = trueup_org() and subject_id = $1 and generation >= $2),
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

/// The principal that a fact names. Older facts have a name instead of an id.
fn principal(body: &Value) -> Option<PrincipalId> {
    body["principal"].as_str()?.parse().ok()
}

/// The names of the principals that these events name.
async fn principal_names(tx: &mut Tx, rows: &[Columns]) -> Result<BTreeMap<Uuid, String>, Error> {
    let ids = rows.iter().filter_map(|row| principal(&row.shown.body));
    let ids: BTreeSet<Uuid> = ids.map(PrincipalId::uuid).collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(Uuid, String)> = sqlx::query_as("select id, name from principal_names($1)")
        .bind(ids.into_iter().collect::<Vec<_>>())
        .fetch_all(&mut **tx)
        .await?;
    Ok(rows.into_iter().collect())
}

fn sealed(columns: Columns, names: &BTreeMap<Uuid, String>) -> Result<SealedEvent, Error> {
    let Columns { org_id, position, hash, shown } = columns;
    Ok(SealedEvent {
        position,
        hash: stored(&hash)?,
        id: EventId::from_uuid(shown.id),
        org: OrgId::from_uuid(org_id),
        source: shown.source,
        kind: shown.r#type,
        version: shown.version,
        subject: subject(&shown.subject_kind, shown.subject_id)?,
        generation: shown.generation,
        at: shown.at.to_jiff(),
        trace: shown.trace,
        cause: shown.cause.map(EventId::from_uuid),
        principal_name: principal(&shown.body).and_then(|id| names.get(&id.uuid()).cloned()),
        body: shown.body.0,
    })
}
