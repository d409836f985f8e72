//! Invoices: reading them as they were issued, and opening their lines.

mod explain;

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::id::{InvoiceId, OrgId};
use trueup_model::invoice::{Invoice, InvoiceDocument};
use trueup_model::usage::{EvidenceHash, Span};
use trueup_rules::rate::invoice::BilledEntry;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{maybe_time, read, read_json};
use crate::{App, Error};

pub use explain::{Explained, ExplainedInterval};

const COLUMNS: &str = "id, number, state, document, hash, paid_at, voided_at, reason";

impl App {
    /// The invoices of an org after one of them, newest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_invoices(
        &self,
        org: OrgId,
        before: Option<InvoiceId>,
        limit: i64,
    ) -> Result<Vec<Invoice>, Error> {
        let mut tx = self.begin(org).await?;
        let statement = format!(
            "select {COLUMNS} from invoices
             where org_id = $1 and ($2::uuid is null or id < $2) order by id desc limit $3"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(org.uuid())
            .bind(before.map(InvoiceId::uuid))
            .bind(limit)
            .fetch_all(&mut *tx)
            .await?;
        rows.iter().map(invoice).collect()
    }

    /// An invoice of an org, by its number or id.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn find_invoice(&self, org: OrgId, wanted: &str) -> Result<Option<Invoice>, Error> {
        let mut tx = self.begin(org).await?;
        find(&mut tx, wanted, false).await
    }
}

/// An invoice of the transaction's org by its number or id, locked for a writer.
pub(crate) async fn find(
    tx: &mut Tx,
    wanted: &str,
    locked: bool,
) -> Result<Option<Invoice>, Error> {
    let id: Option<InvoiceId> = wanted.parse().ok();
    let statement = format!(
        "select {COLUMNS} from invoices where org_id = trueup_org() and (id = $1 or number = $2) {}",
        if locked { "for update" } else { "" }
    );
    let row = sqlx::query(sqlx::AssertSqlSafe(statement))
        .bind(id.map(InvoiceId::uuid))
        .bind(wanted)
        .fetch_optional(&mut **tx)
        .await?;
    row.as_ref().map(invoice).transpose()
}

/// The posted entries of usage in periods that begin before a moment, which no invoice has.
pub(crate) async fn not_invoiced(
    tx: &mut Tx,
    org: OrgId,
    period: Span,
) -> Result<Vec<BilledEntry>, Error> {
    let rows = sqlx::query(
        "select e.seq, e.line, e.quantity::text as quantity, e.evidence,
                coalesce(sum(p.micros) filter (where p.account like 'receivable:%'), 0)::bigint as micros
         from ledger_entries e join ledger_postings p on p.org_id = e.org_id and p.seq = e.seq
         where e.org_id = $1 and e.kind = 'usage' and e.period_from < $2
           and e.line ->> 'class' = 'charged'
           and not exists (select from invoice_entries i
                           where i.org_id = e.org_id and i.seq = e.seq and not i.released)
         group by e.org_id, e.seq
         order by e.seq",
    )
    .bind(org.uuid())
    .bind(sql(period.until))
    .fetch_all(&mut **tx)
    .await?;
    let entry = |row: &PgRow| {
        let (line, quantity): (Json<Value>, String) =
            (row.try_get("line")?, row.try_get("quantity")?);
        let evidence: Vec<u8> = row.try_get("evidence")?;
        Ok(BilledEntry {
            seq: row.try_get("seq")?,
            line: read_json("line", line)?,
            quantity_micros: quantity
                .parse()
                .map_err(|source: std::num::ParseIntError| Error::corrupt("quantity", source))?,
            receivable_micros: row.try_get("micros")?,
            evidence: EvidenceHash::from_bytes(&evidence).unwrap_or(EvidenceHash::new([0; 32])),
        })
    };
    rows.iter().map(entry).collect()
}

fn invoice(row: &PgRow) -> Result<Invoice, Error> {
    let (document, hash): (String, Vec<u8>) = (row.try_get("document")?, row.try_get("hash")?);
    let document: InvoiceDocument =
        serde_json::from_str(&document).map_err(|source| Error::corrupt("invoice", source))?;
    Ok(Invoice {
        id: InvoiceId::from_uuid(row.try_get("id")?),
        state: read("state", row.try_get("state")?)?,
        document,
        hash: data_encoding::HEXLOWER.encode(&hash),
        paid_at: maybe_time(row, "paid_at")?,
        voided_at: maybe_time(row, "voided_at")?,
        reason: row.try_get("reason")?,
    })
}
