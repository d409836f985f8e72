//! Order marks: what an executor's orders are compared with, in case a wake was lost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::Row;
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::ClusterId;
use trueup_model::order::{Order, Unit};
use trueup_model::service::DesiredState;

use crate::db::row::{read, unit, unit_uuid};
use crate::freeze::freeze;
use crate::work::lease::{Lease, fence};
use crate::work::wake;
use crate::{Error, Worker};

/// What identifies a version of an order: enough to see that an executor holds an older one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderMark {
    /// The generation it was made from.
    pub generation: i64,
    /// The desired state.
    pub desired: DesiredState,
    /// The freeze of the unit alone.
    pub freeze: Option<Freeze>,
}

impl OrderMark {
    /// The mark of an order.
    #[must_use]
    pub fn of(order: &Order) -> Self {
        let Order { generation, desired, freeze, .. } = order;
        Self { generation: *generation, desired: *desired, freeze: freeze.clone() }
    }

    /// Whether the other one was accepted after this one.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.generation <= other.generation && self != other
    }
}

impl Worker {
    /// The marks of the orders that the database has for a cluster: one for each unit that is not
    /// deleted.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn order_marks(
        &self,
        cluster: ClusterId,
    ) -> Result<BTreeMap<Unit, OrderMark>, Error> {
        let rows = sqlx::query(
            "select 'service' as kind, id, generation, desired, frozen_at, frozen_by, frozen_why
             from services where cluster_id = $1 and deleted_at is null
             union all
             select 'project', id, generation, desired, null, null, null
             from projects where cluster_id = $1 and deleted_at is null",
        )
        .bind(cluster.uuid())
        .fetch_all(self.pool())
        .await?;
        rows.iter()
            .map(|row| {
                let mark = OrderMark {
                    generation: row.try_get("generation")?,
                    desired: read("desired state", row.try_get("desired")?)?,
                    freeze: freeze(row, FreezeScope::Service)?,
                };
                Ok((unit(row.try_get("kind")?, row.try_get("id")?)?, mark))
            })
            .collect()
    }

    /// Wakes these units of a cluster, except those that have a wake; returns how many.
    ///
    /// # Errors
    /// The database cannot be reached, or the lease was lost.
    pub async fn wake_units(
        &self,
        lease: Lease,
        units: &[Unit],
        now: Timestamp,
    ) -> Result<u64, Error> {
        let mut tx = self.begin().await?;
        fence(&mut tx, lease).await?;
        let ids = units.iter().map(|unit| unit_uuid(*unit)).collect();
        let woken = wake::repair(&mut tx, lease.scope, Some(ids), now).await?;
        tx.commit().await?;
        Ok(woken)
    }
}
