//! List prices of plans: reading their versions, and appending one.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::id::{OrgId, PriceVersionId};
use trueup_model::money::Money;
use trueup_model::name::Name;
use trueup_model::org::PLATFORM;
use trueup_model::plan::{Plan, PlanPrice};
use trueup_model::price::{PriceItem, PriceVersion, Scheme};

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{json, maybe_time, read, read_json, time};
use crate::{App, Error};

/// A price of a plan that is not one per hour.
#[derive(Debug, thiserror::Error)]
#[error("it is not a price per hour")]
struct NotHourly;

impl App {
    /// Every list price of a plan, newest first; `None` if there is no such plan.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_plan_prices(&self, plan: &str) -> Result<Option<Vec<PlanPrice>>, Error> {
        // Text that is not a valid name matches nothing, and Postgres does not accept all of it.
        let Ok(plan) = plan.parse::<Name>() else { return Ok(None) };
        let mut tx = self.begin(PLATFORM).await?;
        let prices = of_plan(&mut tx, &plan).await?;
        Ok(Some(prices).filter(|prices| !prices.is_empty()))
    }
}

/// Every list price of a plan, newest first.
pub(crate) async fn of_plan(tx: &mut Tx, plan: &Name) -> Result<Vec<PlanPrice>, Error> {
    let [pod, disk] = items(plan);
    let rows = sqlx::query(
        "select p.id, p.currency, p.valid_from, p.valid_until, p.created_at, p.created_by, p.scheme,
                d.scheme as disk_scheme
         from price_versions p
         join price_versions d on d.item = $2 and d.org_id is null
              and d.currency = p.currency and d.valid_from = p.valid_from
         where p.item = $1 and p.org_id is null order by p.valid_from desc",
    )
    .bind(pod)
    .bind(disk)
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(plan_price).collect()
}

/// Every list price, and every price of an org.
pub(crate) async fn for_org(tx: &mut Tx, org: OrgId) -> Result<Vec<PriceVersion>, Error> {
    let rows = sqlx::query(
        "select id, item, org_id, currency, valid_from, valid_until, scheme from price_versions
         where org_id is null or org_id = $1 order by item, valid_from",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    rows.iter()
        .map(|row| {
            let own: Option<uuid::Uuid> = row.try_get("org_id")?;
            Ok(PriceVersion {
                id: PriceVersionId::from_uuid(row.try_get("id")?),
                item: read("item", row.try_get("item")?)?,
                org: own.map(OrgId::from_uuid),
                currency: read("currency", row.try_get("currency")?)?,
                from: time(row, "valid_from")?,
                until: maybe_time(row, "valid_until")?,
                scheme: read_json("price", row.try_get("scheme")?)?,
            })
        })
        .collect()
}

/// Appends the prices of a plan from a moment on, and ends those before.
///
/// The caller has locked the plan's row, so that no two prices begin at once.
pub(crate) async fn append(
    tx: &mut Tx,
    plan: &Plan,
    from: Timestamp,
    created_at: Timestamp,
    created_by: &str,
) -> Result<PriceVersionId, Error> {
    let [pod, disk] = items(&plan.name);
    sqlx::query(
        "update price_versions set valid_until = $3
         where item in ($1, $2) and org_id is null and valid_until is null",
    )
    .bind(&pod)
    .bind(&disk)
    .bind(sql(from))
    .execute(&mut **tx)
    .await?;
    let version: PriceVersionId = new_id(created_at);
    let prices = [
        (version, pod, plan.hourly.micros),
        (new_id(created_at), disk, plan.disk_gib_hourly_micros),
    ];
    for (id, item, micros) in prices {
        sqlx::query(
            "insert into price_versions (id, item, currency, valid_from, scheme, created_at, created_by)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(id.uuid())
        .bind(item)
        .bind(plan.hourly.currency.to_string())
        .bind(sql(from))
        .bind(json(&Scheme::per_hour(micros)))
        .bind(sql(created_at))
        .bind(created_by)
        .execute(&mut **tx)
        .await?;
    }
    Ok(version)
}

/// The items that a plan has prices of, as they are stored: a pod, and a GiB of disk.
fn items(plan: &Name) -> [String; 2] {
    let (pod, disk) =
        (PriceItem::Pod { plan: plan.clone() }, PriceItem::DiskGib { plan: plan.clone() });
    [pod.to_string(), disk.to_string()]
}

fn plan_price(row: &PgRow) -> Result<PlanPrice, Error> {
    let currency = read("currency", row.try_get("currency")?)?;
    Ok(PlanPrice {
        version: PriceVersionId::from_uuid(row.try_get("id")?),
        hourly: Money { micros: hourly(row.try_get("scheme")?)?, currency },
        disk_gib_hourly_micros: hourly(row.try_get("disk_scheme")?)?,
        from: time(row, "valid_from")?,
        until: maybe_time(row, "valid_until")?,
        created_at: time(row, "created_at")?,
        created_by: row.try_get("created_by")?,
    })
}

fn hourly(scheme: Json<Value>) -> Result<i64, Error> {
    let scheme: Scheme = read_json("price", scheme)?;
    scheme.hourly_micros().ok_or_else(|| Error::corrupt("price", NotHourly))
}
