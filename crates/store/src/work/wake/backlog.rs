//! The backlog of wakes: lists, requeueing and metrics for operators.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};
use trueup_model::event::{Fact, NewEvent, Source};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::order::Unit;
use trueup_model::service::DesiredState;
use trueup_model::status::Phase;
use trueup_model::wake::{Lane, Wake, WakeState};
use uuid::Uuid;

use super::{Request, request};
use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::{Tx, enter};
use crate::db::row::{read, unit, unit_uuid};
use crate::door::{Refusal, RequestContext};
use crate::{App, Error, ServiceRow, Worker, event, service};

/// Which wakes to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct WakeFilter {
    /// Only wakes in this state.
    pub state: Option<WakeState>,
    /// Only wakes of this lane.
    pub lane: Option<Lane>,
    /// Only wakes of units after this one.
    pub after: Option<Unit>,
}

/// The load of a lane of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLoad {
    /// The lane.
    pub lane: Lane,
    /// Wakes that wait.
    pub queued: i64,
    /// Wakes in progress.
    pub running: i64,
    /// Wakes that failed too often.
    pub dead: i64,
    /// When the oldest waiting wake became due.
    pub oldest_due: Option<Timestamp>,
}

const COLUMNS: &str =
    "unit_kind, unit_id, org_id, cluster_id, lane, state, due_at, attempts, poison,
                       last_error, died_at, trace";

fn wake(row: &PgRow) -> Result<Wake, Error> {
    let time = |name| row.try_get::<Option<jiff_sqlx::Timestamp>, _>(name);
    Ok(Wake {
        unit: unit(row.try_get("unit_kind")?, row.try_get("unit_id")?),
        org: OrgId::from_uuid(row.try_get("org_id")?),
        cluster: ClusterId::from_uuid(row.try_get("cluster_id")?),
        lane: read("lane", row.try_get("lane")?)?,
        state: read("state of a wake", row.try_get("state")?)?,
        due_at: row.try_get::<jiff_sqlx::Timestamp, _>("due_at")?.to_jiff(),
        attempts: row.try_get("attempts")?,
        poison: row.try_get("poison")?,
        last_error: row.try_get("last_error")?,
        died_at: time("died_at")?.map(jiff_sqlx::Timestamp::to_jiff),
        trace: row.try_get("trace")?,
    })
}

impl App {
    /// Wakes in the order of their units' ids: of one org, or of every org for the platform's org.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_wakes(
        &self,
        org: OrgId,
        filter: WakeFilter,
        limit: i64,
    ) -> Result<Vec<Wake>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "select {COLUMNS} from wakes
             where ($1::text is null or state = $1) and ($2::text is null or lane = $2)
               and ($3::uuid is null or unit_id > $3)
             order by unit_id limit $4"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(filter.state.map(|state| state.into_str()))
            .bind(filter.lane.map(|lane| lane.into_str()))
            .bind(filter.after.map(unit_uuid))
            .bind(limit)
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(wake).collect()
    }

    /// Requeues a dead wake; returns it and whether that changed anything.
    ///
    /// The platform's org finds the wakes of every org.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn requeue_wake(
        &self,
        org: OrgId,
        of: Unit,
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<(Wake, bool), Refusal> {
        let mut tx = self.begin(org).await?;
        let found = find(&mut tx, of).await?.ok_or(Refusal::NotFound("wake"))?;
        // From here on in the wake's org, like every change.
        enter(&mut tx, found.org).await?;
        if found.state != WakeState::Dead {
            return Ok((found, false));
        }
        let again = Request::by(context, of, found.org, found.cluster, Lane::UserChange);
        let again = Request { fresh: true, ..again };
        let requeued = NewEvent {
            id: new_id(now),
            org: found.org,
            source: Source::User,
            unit: of,
            generation: generation(&mut tx, of, found.org).await?.unwrap_or(0),
            at: now,
            fact: Fact::WakeRequeued { principal: context.principal.name.clone() },
            trace: context.trace.clone(),
            cause: None,
        };
        event::record(&mut tx, &[requeued]).await?;
        request(&mut tx, &again, now).await?;
        let found = find(&mut tx, of).await?.ok_or(Refusal::NotFound("wake"))?;
        self.end(tx).await?;
        Ok((found, true))
    }
}

impl App {
    /// Requests a reconciliation of a service with fresh reads from the cluster.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn reconcile_service(
        &self,
        org: OrgId,
        (project, service): (&str, &str),
        context: &RequestContext<'_>,
        now: Timestamp,
    ) -> Result<ServiceRow, Refusal> {
        let mut tx = self.begin(org).await?;
        let row = service::find(&mut tx, project, service).await?;
        let row = row.ok_or(Refusal::NotFound("service"))?;
        let found = &row.service;
        // A deleted service has no objects left that could differ.
        if row.status.phase == Phase::Deleted {
            return Ok(row);
        }
        let unit = Unit::Service(found.id);
        let event = NewEvent {
            id: new_id(now),
            org,
            source: Source::User,
            unit,
            generation: found.generation,
            at: now,
            fact: Fact::ReconcileRequested { principal: context.principal.name.clone() },
            trace: context.trace.clone(),
            cause: None,
        };
        event::record(&mut tx, &[event]).await?;
        let lane = match found.desired {
            DesiredState::Active | DesiredState::Paused => Lane::UserChange,
            DesiredState::Deleted => Lane::Delete,
        };
        let wake = Request::by(context, unit, org, found.cluster, lane);
        request(&mut tx, &Request { fresh: true, ..wake }, now).await?;
        self.end(tx).await?;
        Ok(row)
    }

    /// Requests a reconciliation with low priority, because a read found the service diverged.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn repair_service(&self, row: &ServiceRow, now: Timestamp) -> Result<(), Error> {
        let found = &row.service;
        let mut tx = self.begin(found.org).await?;
        let repair = Request::repair(Unit::Service(found.id), found.org, found.cluster);
        request(&mut tx, &Request { fresh: true, ..repair }, now).await?;
        tx.commit().await?;
        Ok(())
    }
}

impl Worker {
    /// The number of queued and of running wakes.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn count_wakes(&self) -> Result<(i64, i64), Error> {
        Ok(sqlx::query_as(
            "select count(*) filter (where state = 'queued'), count(*) filter (where state = 'running') from wakes",
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// The load of each lane of a cluster; empty lanes are left out.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn lane_loads(&self, cluster: ClusterId) -> Result<Vec<LaneLoad>, Error> {
        #[derive(FromRow)]
        struct Columns {
            lane: String,
            queued: i64,
            running: i64,
            dead: i64,
            oldest: Option<jiff_sqlx::Timestamp>,
        }
        let rows: Vec<Columns> = sqlx::query_as(
            "select lane, count(*) filter (where state = 'queued') as queued,
                    count(*) filter (where state = 'running') as running,
                    count(*) filter (where state = 'dead') as dead,
                    min(due_at) filter (where state = 'queued') as oldest
             from wakes where cluster_id = $1 group by lane",
        )
        .bind(cluster.uuid())
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(LaneLoad {
                    lane: read("lane", row.lane)?,
                    queued: row.queued,
                    running: row.running,
                    dead: row.dead,
                    oldest_due: row.oldest.map(jiff_sqlx::Timestamp::to_jiff),
                })
            })
            .collect()
    }

    /// Marks a unit's wake as dead at once, because its rows cannot be processed.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn mark_wake_dead(&self, of: Unit, why: &str, now: Timestamp) -> Result<(), Error> {
        sqlx::query(
            "insert into wakes as w (unit_kind, unit_id, org_id, cluster_id, lane, due_at, state, died_at,
                                     last_error)
             select $1, $2, u.org_id, u.cluster_id, 'repair', $3, 'dead', $3, $4
             from (select org_id, cluster_id from services where id = $2
                   union all select org_id, cluster_id from projects where id = $2) u
             on conflict (unit_kind, unit_id) do update set
                 state = 'dead', died_at = $3, last_error = $4, claimed_seq = null,
                 requested_seq = w.requested_seq + 1",
        )
        .bind(of.kind())
        .bind(unit_uuid(of))
        .bind(sql(now))
        .bind(why)
        .execute(self.pool())
        .await?;
        Ok(())
    }
}

async fn find(tx: &mut Tx, of: Unit) -> Result<Option<Wake>, Error> {
    let statement = format!("select {COLUMNS} from wakes where unit_kind = $1 and unit_id = $2");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(of.kind())
        .bind(unit_uuid(of))
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(wake).transpose()
}

/// The current generation of a unit of this org.
pub(crate) async fn generation(tx: &mut Tx, of: Unit, org: OrgId) -> Result<Option<i64>, Error> {
    let found: Option<(i64,)> = sqlx::query_as(
        "select generation from services where id = $1 and org_id = $2
         union all select generation from projects where id = $1 and org_id = $2",
    )
    .bind::<Uuid>(unit_uuid(of))
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.map(|(generation,)| generation))
}
