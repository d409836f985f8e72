//! Offers: reading their versions, and appending one.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row};
use trueup_model::offer::Offer;
use trueup_model::org::PLATFORM;

use crate::db::clock::sql;
use crate::db::new_id::new_id;
use crate::db::pool::Tx;
use crate::db::row::{json, read_json};
use crate::{App, Error};

impl App {
    /// The newest version of every offer, by fee and name; retired ones come last.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_offers(&self) -> Result<Vec<Offer>, Error> {
        let mut tx = self.begin(PLATFORM).await?;
        let rows =
            sqlx::query("select distinct on (name) body from offers order by name, version desc")
                .fetch_all(&mut *tx)
                .await?;
        let mut offers: Vec<Offer> = rows.iter().map(offer).collect::<Result<_, _>>()?;
        offers.sort_by_key(|one| (one.retired, one.fee_micros, one.name.clone()));
        Ok(offers)
    }
}

/// A version of an offer, or its newest one.
pub(crate) async fn find(
    tx: &mut Tx,
    name: &str,
    version: Option<u32>,
) -> Result<Option<Offer>, Error> {
    let row = sqlx::query(
        "select body from offers where name = $1 and ($2::integer is null or version = $2)
         order by version desc limit 1",
    )
    .bind(name)
    .bind(version.map(|version| i32::try_from(version).unwrap_or(i32::MAX)))
    .fetch_optional(&mut **tx)
    .await?;
    row.as_ref().map(offer).transpose()
}

/// Reads an offer from its column `body`.
pub(crate) fn offer(row: &PgRow) -> Result<Offer, Error> {
    let body: Json<Value> = row.try_get("body")?;
    read_json("offer", body)
}

/// Appends a version, with ids for what ledger lines may name; returns it as it is stored.
pub(crate) async fn append(
    connection: &mut PgConnection,
    terms: &Offer,
    version: u32,
    created_at: Timestamp,
    created_by: &str,
) -> Result<Offer, Error> {
    let mut offer = Offer { version, fee: new_id(created_at), ..terms.clone() };
    for price in &mut offer.prices {
        price.id = new_id(created_at);
    }
    for discount in &mut offer.discounts {
        discount.id = new_id(created_at);
    }
    sqlx::query(
        "insert into offers (name, version, body, created_at, created_by) values ($1, $2, $3, $4, $5)",
    )
    .bind(offer.name.as_str())
    .bind(i32::try_from(version).unwrap_or(i32::MAX))
    .bind(json(&offer))
    .bind(sql(created_at))
    .bind(created_by)
    .execute(connection)
    .await?;
    Ok(offer)
}
