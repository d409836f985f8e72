//! The ledger: reading it, and appending balanced entries to it.

mod verify;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json as object};
use sqlx::Row;
use sqlx::types::Json;
use trueup_model::id::{OrgId, ServiceId};
use trueup_model::money::{Currency, Money};
use trueup_model::usage::{EvidenceHash, Span};
use trueup_rules::rate::account::Account;
use trueup_rules::rate::line::LineKey;
use trueup_rules::rate::posting::{Balances, JournalEntry, Posted, Posting};
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::{json, read, read_json, time};
use crate::usage::Heard;
use crate::{App, Error};

pub use verify::Verification;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A line of usage.
    Usage,
    /// Credit that is granted, used or given back.
    Credit,
    /// The tax of an invoice, or of one that is voided.
    Invoice,
    /// A payment.
    Payment,
}

impl EntryKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Credit => "credit",
            Self::Invoice => "invoice",
            Self::Payment => "payment",
        }
    }
}

/// A posted entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Its place in the org's ledger.
    pub seq: i64,
    /// What it is about: usage, credit, an invoice or a payment.
    pub kind: String,
    /// The line of usage, if it is about one.
    pub line: Option<LineKey>,
    /// What it refers to, such as the number of an invoice.
    pub reference: Option<String>,
    /// The hash of what it was computed from.
    pub evidence: EvidenceHash,
    /// The currency of its amounts.
    pub currency: Currency,
    /// When it was posted.
    pub posted_at: Timestamp,
    /// Its postings, which sum to zero.
    pub postings: Vec<LedgerPosting>,
}

/// One debit or credit, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPosting {
    /// The account.
    pub account: Account,
    /// The service it is about, if it is about one.
    pub service: Option<ServiceId>,
    /// The amount: a debit if it is positive.
    pub micros: i64,
}

/// The sum of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountBalance {
    /// The account.
    pub account: Account,
    /// Its sum: a debit if it is positive.
    pub sum: Money,
}

impl App {
    /// The entries of an org after one of them, oldest first.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn list_ledger(
        &self,
        org: OrgId,
        after: i64,
        limit: i64,
    ) -> Result<Vec<LedgerEntry>, Error> {
        let mut tx = self.begin(org).await?;
        let rows = sqlx::query(
            "select seq from ledger_entries where org_id = $1 and seq > $2 order by seq limit $3",
        )
        .bind(org.uuid())
        .bind(after)
        .bind(limit)
        .fetch_all(&mut *tx)
        .await?;
        let seqs: Vec<i64> = rows.iter().map(|row| row.try_get("seq")).collect::<Result<_, _>>()?;
        entries(&mut tx, org, &seqs).await
    }

    /// The sum of every account of an org.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn account_balances(&self, org: OrgId) -> Result<Vec<AccountBalance>, Error> {
        let mut tx = self.begin(org).await?;
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "select p.account, e.currency, sum(p.micros)::bigint
             from ledger_postings p join ledger_entries e on e.org_id = p.org_id and e.seq = p.seq
             where p.org_id = $1 group by 1, 2 order by 1, 2",
        )
        .bind(org.uuid())
        .fetch_all(&mut *tx)
        .await?;
        rows.into_iter()
            .map(|(account, currency, micros)| {
                let sum = Money { micros, currency: read("currency", currency)? };
                Ok(AccountBalance { account: parse(&account)?, sum })
            })
            .collect()
    }
}

/// The entries with these numbers, oldest first.
pub(crate) async fn entries(
    tx: &mut Tx,
    org: OrgId,
    seqs: &[i64],
) -> Result<Vec<LedgerEntry>, Error> {
    let rows = sqlx::query(
        "select seq, kind, line, reference, evidence, currency, posted_at from ledger_entries
         where org_id = $1 and seq = any($2) order by seq",
    )
    .bind(org.uuid())
    .bind(seqs)
    .fetch_all(&mut **tx)
    .await?;
    let mut postings = postings(tx, org, seqs).await?;
    rows.iter()
        .map(|row| {
            let seq = row.try_get("seq")?;
            let line: Option<Json<Value>> = row.try_get("line")?;
            let evidence: Vec<u8> = row.try_get("evidence")?;
            Ok(LedgerEntry {
                seq,
                kind: row.try_get("kind")?,
                line: line.map(|line| read_json("line", line)).transpose()?,
                reference: row.try_get("reference")?,
                evidence: EvidenceHash::from_bytes(&evidence).unwrap_or(EvidenceHash::new([0; 32])),
                currency: read("currency", row.try_get("currency")?)?,
                posted_at: time(row, "posted_at")?,
                postings: postings.remove(&seq).unwrap_or_default(),
            })
        })
        .collect()
}

async fn postings(
    tx: &mut Tx,
    org: OrgId,
    seqs: &[i64],
) -> Result<BTreeMap<i64, Vec<LedgerPosting>>, Error> {
    let rows: Vec<(i64, String, Option<Uuid>, i64)> = sqlx::query_as(
        "select seq, account, service_id, micros from ledger_postings
         where org_id = $1 and seq = any($2) order by seq, place",
    )
    .bind(org.uuid())
    .bind(seqs)
    .fetch_all(&mut **tx)
    .await?;
    let mut postings: BTreeMap<i64, Vec<LedgerPosting>> = BTreeMap::new();
    for (seq, account, service, micros) in rows {
        let (account, service) = (parse(&account)?, service.map(ServiceId::from_uuid));
        postings.entry(seq).or_default().push(LedgerPosting { account, service, micros });
    }
    Ok(postings)
}

/// What the ledger has about each line of an org's period.
pub(crate) async fn posted(tx: &mut Tx, org: OrgId, period: Span) -> Result<Vec<Posted>, Error> {
    let rows = sqlx::query(
        "with entries as (
             select seq, line_key, line, currency, quantity from ledger_entries
             where org_id = $1 and kind = 'usage' and period_from = $2 and period_until = $3),
         sums as (
             select e.line_key, p.account, p.service_id, sum(p.micros)::bigint as micros
             from entries e join ledger_postings p on p.org_id = $1 and p.seq = e.seq
             group by 1, 2, 3)
         select l.line_key, l.line, l.currency, l.entries, l.quantity, s.account, s.service_id, s.micros
         from (select line_key, min(line::text)::jsonb as line, min(currency) as currency,
                      count(*) as entries, sum(quantity)::text as quantity
               from entries group by line_key) l
         join sums s on s.line_key = l.line_key order by l.line_key",
    )
    .bind(org.uuid())
    .bind(sql(period.from))
    .bind(sql(period.until))
    .fetch_all(&mut **tx)
    .await?;
    let mut lines: BTreeMap<Vec<u8>, Posted> = BTreeMap::new();
    for row in &rows {
        let key: Vec<u8> = row.try_get("line_key")?;
        if !lines.contains_key(&key) {
            let entries: i64 = row.try_get("entries")?;
            let quantity: String = row.try_get("quantity")?;
            let posted = Posted {
                line: read_json("line", row.try_get("line")?)?,
                currency: read("currency", row.try_get("currency")?)?,
                entries: u64::try_from(entries).unwrap_or(0),
                quantity_micros: quantity
                    .parse::<i128>()
                    .map_err(|source| Error::corrupt("quantity", source))?,
                balances: Balances::new(),
            };
            lines.insert(key.clone(), posted);
        }
        let account: String = row.try_get("account")?;
        let service: Option<Uuid> = row.try_get("service_id")?;
        if let Some(posted) = lines.get_mut(&key) {
            let of = (parse(&account)?, service.map(ServiceId::from_uuid));
            posted.balances.insert(of, row.try_get("micros")?);
        }
    }
    Ok(lines.into_values().collect())
}

/// Locks the ledger of an org; returns the number of its last entry.
pub(crate) async fn lock(tx: &mut Tx, org: OrgId) -> Result<i64, Error> {
    sqlx::query("insert into ledger_heads (org_id) values ($1) on conflict do nothing")
        .bind(org.uuid())
        .execute(&mut **tx)
        .await?;
    let (seq,): (i64,) =
        sqlx::query_as("select seq from ledger_heads where org_id = $1 for update")
            .bind(org.uuid())
            .fetch_one(&mut **tx)
            .await?;
    Ok(seq)
}

/// When usage was last posted, and how far sources were heard by then.
pub(crate) async fn last_accrual(
    tx: &mut Tx,
    org: OrgId,
) -> Result<Option<(Timestamp, Heard)>, Error> {
    let head: Option<(jiff_sqlx::Timestamp, Json<Value>)> = sqlx::query_as(
        "select accrued_at, heard from ledger_heads where org_id = $1 and accrued_at is not null",
    )
    .bind(org.uuid())
    .fetch_optional(&mut **tx)
    .await?;
    head.map(|(at, heard)| Ok((at.to_jiff(), read_json("watermarks", heard)?))).transpose()
}

/// Appends entries to a locked ledger, whose last entry is `seq`; returns the new last one.
pub(crate) async fn append(
    tx: &mut Tx,
    org: OrgId,
    (kind, reference): (EntryKind, Option<&str>),
    seq: i64,
    entries: &[JournalEntry],
    now: Timestamp,
) -> Result<i64, Error> {
    if entries.is_empty() {
        return Ok(seq);
    }
    let numbered: Vec<(i64, &JournalEntry)> = (seq.saturating_add(1)..).zip(entries).collect();
    let rows: Vec<Value> =
        numbered.iter().map(|(seq, entry)| row(org, (kind, reference), *seq, entry, now)).collect();
    sqlx::query("insert into ledger_entries select * from jsonb_populate_recordset(null::ledger_entries, $1)")
        .bind(json(&rows))
        .execute(&mut **tx)
        .await?;
    let postings: Vec<Value> = numbered
        .iter()
        .flat_map(|(seq, entry)| entry.postings.iter().zip(1..).map(|it| posting(org, *seq, it)))
        .collect();
    sqlx::query("insert into ledger_postings select * from jsonb_populate_recordset(null::ledger_postings, $1)")
        .bind(json(&postings))
        .execute(&mut **tx)
        .await?;
    let last = numbered.last().map_or(seq, |(seq, _)| *seq);
    sqlx::query("update ledger_heads set seq = $2 where org_id = $1")
        .bind(org.uuid())
        .bind(last)
        .execute(&mut **tx)
        .await?;
    Ok(last)
}

fn row(
    org: OrgId,
    (kind, reference): (EntryKind, Option<&str>),
    seq: i64,
    entry: &JournalEntry,
    now: Timestamp,
) -> Value {
    object!({
        "org_id": org.uuid(),
        "seq": seq,
        "key": format!("\\x{}", entry.key),
        "kind": kind.as_str(),
        "line": entry.line,
        "line_key": entry.line.as_ref().map(|line| format!("\\x{}", line.hash())),
        "period_from": entry.line.as_ref().map(|line| line.period.from),
        "period_until": entry.line.as_ref().map(|line| line.period.until),
        "evidence": format!("\\x{}", entry.evidence),
        "quantity": entry.quantity_micros.to_string(),
        "currency": entry.currency,
        "reference": reference,
        "posted_at": now,
    })
}

fn posting(org: OrgId, seq: i64, (posting, place): (&Posting, i32)) -> Value {
    object!({
        "org_id": org.uuid(),
        "seq": seq,
        "place": place,
        "account": posting.account.to_string(),
        "service_id": posting.service.map(ServiceId::uuid),
        "micros": posting.micros,
    })
}

fn parse(account: &str) -> Result<Account, Error> {
    account.parse().map_err(|source| Error::corrupt("account", source))
}
