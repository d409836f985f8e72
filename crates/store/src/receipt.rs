//! Receipts: the proof that a subject is gone. Stored once, kept for ever.

use trueup_model::id::OrgId;
use trueup_model::receipt::Receipt;
use trueup_model::subject::Subject;

use crate::Error;
use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::json;

/// Stores the receipt of a subject; the first one stays.
pub(crate) async fn insert(
    tx: &mut Tx,
    of: Subject,
    org: OrgId,
    receipt: &Receipt,
) -> Result<(), Error> {
    sqlx::query(
        "insert into receipts (subject_kind, subject_id, org_id, receipt, verified_at)
         values ($1, $2, $3, $4, $5) on conflict (subject_kind, subject_id) do nothing",
    )
    .bind(of.kind())
    .bind(of.uuid())
    .bind(org.uuid())
    .bind(json(receipt))
    .bind(sql(receipt.verified_at))
    .execute(&mut **tx)
    .await?;
    Ok(())
}
