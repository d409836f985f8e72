//! The backlog of wakes: lists and metrics for operators.

use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, Row};
use trueup_model::id::{ClusterId, OrgId};
use trueup_model::order::Unit;
use trueup_model::wake::{Lane, Wake, WakeState};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{read, unit, unit_uuid};
use crate::{App, Error, Worker};

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
    "subject_kind, subject_id, org_id, scope_id, lane, state, due_at, attempts, poison,
                       last_error, died_at, trace";

fn wake(row: &PgRow) -> Result<Wake, Error> {
    let time = |name| row.try_get::<Option<jiff_sqlx::Timestamp>, _>(name);
    Ok(Wake {
        unit: unit(row.try_get("subject_kind")?, row.try_get("subject_id")?)?,
        org: OrgId::from_uuid(row.try_get("org_id")?),
        cluster: ClusterId::from_uuid(row.try_get("scope_id")?),
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
               and ($3::uuid is null or subject_id > $3)
             order by subject_id limit $4"
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
}

impl Worker {
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
             from wakes where scope_id = $1 group by lane",
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
            "insert into wakes as w (subject_kind, subject_id, org_id, scope_kind, scope_id, lane, due_at, state, died_at,
                                     last_error)
             select $1, $2, u.org_id, 'cluster', u.cluster_id, 'repair', $3, 'dead', $3, $4
             from (select org_id, cluster_id from services where id = $2
                   union all select org_id, cluster_id from projects where id = $2) u
             on conflict (subject_kind, subject_id) do update set
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

/// The wake of a unit.
pub(crate) async fn find(tx: &mut Tx, of: Unit) -> Result<Option<Wake>, Error> {
    let statement =
        format!("select {COLUMNS} from wakes where subject_kind = $1 and subject_id = $2");
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
