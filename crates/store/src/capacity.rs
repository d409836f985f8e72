//! Where the capacity of a cluster went: reading the stored days.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;
use trueup_model::id::ClusterId;
use trueup_model::money::{Currency, Money};
use trueup_model::org::PLATFORM;
use trueup_model::usage::{Meter, Unsold};
use trueup_rules::usage::capacity::{Account, Balance};

use crate::db::pool::Tx;
use crate::db::row::{read, time};
use crate::{App, Error};

/// Where the capacity of a cluster went on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityDay {
    /// The cluster.
    pub cluster: ClusterId,
    /// The day in UTC, such as `2030-01-31`.
    pub day: String,
    /// How far it is known.
    pub known_until: Timestamp,
    /// The parts of each meter.
    pub accounts: BTreeMap<Meter, Account>,
    /// What the unsold part of it would have cost.
    pub costs: Vec<(Unsold, Money)>,
}

impl CapacityDay {
    /// Whether everything that was used fits into what existed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.accounts.values().all(|account| account.unexplained == 0)
    }
}

impl App {
    /// The newest days of a cluster, or of all of them, newest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_capacity_days(
        &self,
        cluster: Option<ClusterId>,
        days: i32,
    ) -> Result<Vec<CapacityDay>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        days_of(&mut tx, cluster, days).await
    }
}

/// The newest days, newest first.
pub(crate) async fn days_of(
    tx: &mut Tx,
    cluster: Option<ClusterId>,
    days: i32,
) -> Result<Vec<CapacityDay>, Error> {
    let rows = sqlx::query(
        "select cluster_id, day::text as day, meter, capacity::text as capacity, delivered::text as delivered,
                under_delivered::text as under_delivered, orphan::text as orphan, gap::text as gap, known_until
         from capacity_days d
         where ($1::uuid is null or cluster_id = $1)
           and day > (select max(day) from capacity_days m where m.cluster_id = d.cluster_id) - $2
         order by day desc, cluster_id, meter",
    )
    .bind(cluster.map(ClusterId::uuid))
    .bind(days)
    .fetch_all(&mut **tx)
    .await?;
    let mut found: Vec<CapacityDay> = Vec::new();
    for row in &rows {
        let (meter, balance) = (read("meter", row.try_get("meter")?)?, balance(row)?);
        let (cluster, day) =
            (ClusterId::from_uuid(row.try_get("cluster_id")?), row.try_get::<String, _>("day")?);
        if found.last().is_none_or(|last| last.cluster != cluster || last.day != day) {
            let known_until = time(row, "known_until")?;
            let (accounts, costs) = (BTreeMap::new(), Vec::new());
            found.push(CapacityDay { cluster, day, known_until, accounts, costs });
        }
        if let Some(last) = found.last_mut() {
            last.accounts.insert(meter, balance.account());
        }
    }
    add_costs(tx, cluster, &mut found).await?;
    Ok(found)
}

async fn add_costs(
    tx: &mut Tx,
    cluster: Option<ClusterId>,
    days: &mut [CapacityDay],
) -> Result<(), Error> {
    let rows = sqlx::query(
        "select cluster_id, day::text as day, why, currency, micros from capacity_costs
         where $1::uuid is null or cluster_id = $1 order by why, currency",
    )
    .bind(cluster.map(ClusterId::uuid))
    .fetch_all(&mut **tx)
    .await?;
    for row in &rows {
        let (of, day): (uuid::Uuid, String) = (row.try_get("cluster_id")?, row.try_get("day")?);
        let (of, currency): (_, Currency) =
            (ClusterId::from_uuid(of), read("currency", row.try_get("currency")?)?);
        let why: Unsold = read("reason", row.try_get("why")?)?;
        let cost = Money { micros: row.try_get("micros")?, currency };
        if let Some(found) = days.iter_mut().find(|one| one.cluster == of && one.day == day) {
            found.costs.push((why, cost));
        }
    }
    Ok(())
}

/// Reads a balance from its columns.
pub(crate) fn balance(row: &PgRow) -> Result<Balance, Error> {
    let number = |column: &str| -> Result<i128, Error> {
        let text: String = row.try_get(column)?;
        text.parse().map_err(|source: std::num::ParseIntError| Error::corrupt("capacity", source))
    };
    Ok(Balance {
        capacity: number("capacity")?,
        delivered: number("delivered")?,
        under_delivered: number("under_delivered")?,
        orphan: number("orphan")?,
        gap: number("gap")?,
    })
}
