//! The charges of a billing period, read from the ledger for exports.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use trueup_model::billing::BillingSettings;
use trueup_model::id::{OrgId, ProjectId, ServiceId};
use trueup_model::usage::Span;
use trueup_rules::rate::charge::{Charge, ChargeKind, periods, share_quantities};
use trueup_rules::rate::focus::{Dataset, ServicePlace};
use trueup_rules::rate::period::month;
use uuid::Uuid;

use crate::db::clock::sql;
use crate::db::pool::Tx;
use crate::db::row::read_json;
use crate::{App, Error, billing, ledger, price, usage};

/// The charges of an org in one billing period.
#[derive(Debug, Clone)]
pub struct BillingExport {
    /// What they have in common.
    pub dataset: Dataset,
    /// The charges, by line, service and invoice.
    pub charges: Vec<Charge>,
}

impl App {
    /// The charges of an org in the billing period around a moment, as they are posted.
    ///
    /// What an invoice has belongs to the period of that invoice; what none has, to its own period,
    /// or, once that was invoiced, to the period in which it was posted.
    ///
    /// # Errors
    /// The database cannot be reached, or a price cannot be computed with.
    pub async fn billing_export(
        &self,
        org: OrgId,
        around: Timestamp,
        settings: &BillingSettings,
    ) -> Result<BillingExport, Error> {
        let mut tx = self.begin(org).await?;
        let account = billing::account(&mut tx, org, settings.currency).await?;
        let period = month(&account.zone(), around).unwrap_or(Span { from: around, until: around });
        let mut charges = charges(&mut tx, org, period).await?;
        let heard = match ledger::last_accrual(&mut tx, org).await? {
            Some((_, heard)) => heard,
            None => usage::watermarks(&mut *tx, None).await?,
        };
        let mut rated = Vec::new();
        for period in periods(&charges) {
            let inputs =
                billing::inputs(&mut tx, org, account.clone(), period.from, &heard, None).await?;
            rated.extend(inputs.rate(settings.charge_simulated)?.lines);
        }
        share_quantities(&mut charges, &rated);
        let dataset = Dataset {
            org,
            org_name: name(&mut tx, org).await?,
            account,
            seller: settings.seller.clone(),
            period,
            prices: price::for_org(&mut tx, org).await?,
            places: places(&mut tx, org).await?,
        };
        Ok(BillingExport { dataset, charges })
    }
}

async fn charges(tx: &mut Tx, org: OrgId, period: Span) -> Result<Vec<Charge>, Error> {
    let rows = sqlx::query(
        "with entries as (
             select e.seq, e.kind, e.line_key, e.line, e.quantity,
                    coalesce(i.number, b.number) as invoice
             from ledger_entries e
             left join invoice_entries ie on ie.org_id = e.org_id and ie.seq = e.seq and not ie.released
             left join invoices i on i.id = ie.invoice_id
             left join invoices b on e.kind in ('invoice', 'credit') and b.org_id = e.org_id
                                 and b.number = split_part(e.reference, ' ', 1)
             where e.org_id = $1 and e.kind <> 'payment'
               and case when i.id is not null then i.period_from = $2
                        when e.kind <> 'usage' then b.period_from = $2
                        when e.line ->> 'class' <> 'charged' then false
                        when exists (select from invoices l where l.org_id = $1 and l.state <> 'void'
                                       and l.period_from >= e.period_from)
                        then e.posted_at >= $2 and e.posted_at < $3
                        else e.period_from = $2 end),
         lines as (
             select line_key, invoice, sum(quantity)::text as quantity, min(line::text)::jsonb as line
             from entries where line_key is not null group by 1, 2)
         select e.line_key, e.invoice, p.service_id, l.line, l.quantity,
                case when e.kind = 'invoice' then 'tax' when e.kind = 'credit' then 'credit'
                     when p.account = 'rounding' then 'rounding' else 'usage' end as what,
                min(e.seq) as first, max(e.seq) as last, (-sum(p.micros))::bigint as micros
         from entries e
         join ledger_postings p on p.org_id = $1 and p.seq = e.seq and p.account not like 'receivable:%'
         left join lines l on l.line_key = e.line_key and l.invoice is not distinct from e.invoice
         where e.kind = 'usage' or exists (
             select from ledger_postings r
             where r.org_id = $1 and r.seq = e.seq and r.account like 'receivable:%')
         group by e.line_key, e.invoice, p.service_id, l.line, l.quantity, what
         having sum(p.micros) <> 0
         order by e.invoice nulls last, e.line_key nulls last, what desc, p.service_id",
    )
    .bind(org.uuid())
    .bind(sql(period.from))
    .bind(sql(period.until))
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(charge).collect()
}

fn charge(row: &PgRow) -> Result<Charge, Error> {
    let what: String = row.try_get("what")?;
    let line: Option<Json<Value>> = row.try_get("line")?;
    let quantity: Option<String> = row.try_get("quantity")?;
    let service: Option<Uuid> = row.try_get("service_id")?;
    let parsed = quantity.as_deref().unwrap_or("0").parse::<i128>();
    Ok(Charge {
        kind: match what.as_str() {
            "tax" => ChargeKind::Tax,
            "credit" => ChargeKind::Credit,
            "rounding" => ChargeKind::Rounding,
            _ => ChargeKind::Usage,
        },
        line: line.map(|line| read_json("line", line)).transpose()?,
        service: service.map(ServiceId::from_uuid),
        invoice: row.try_get("invoice")?,
        micros: row.try_get("micros")?,
        quantity_micros: parsed.map_err(|source| Error::corrupt("quantity", source))?,
        entries: (row.try_get("first")?, row.try_get("last")?),
    })
}

async fn name(tx: &mut Tx, org: OrgId) -> Result<String, Error> {
    let name = sqlx::query_scalar("select name from orgs where id = $1").bind(org.uuid());
    Ok(name.fetch_one(&mut **tx).await?)
}

async fn places(tx: &mut Tx, org: OrgId) -> Result<BTreeMap<ServiceId, ServicePlace>, Error> {
    let rows: Vec<(Uuid, String, Uuid, String, String)> = sqlx::query_as(
        "select s.id, s.name, p.id, p.name, c.name
         from services s join projects p on p.id = s.project_id join clusters c on c.id = s.cluster_id
         where s.org_id = $1",
    )
    .bind(org.uuid())
    .fetch_all(&mut **tx)
    .await?;
    let place = |(id, name, project, project_name, cluster)| {
        let project = ProjectId::from_uuid(project);
        (ServiceId::from_uuid(id), ServicePlace { name, project, project_name, cluster })
    };
    Ok(rows.into_iter().map(place).collect())
}
