//! Exports: their costs are those of the ledger, to the millionth, in whatever state invoices are.

use std::collections::BTreeMap;

use trueup_model::billing::BillingAccount;
use trueup_model::money::Money;
use trueup_rules::rate::focus::header;
use trueup_store::BillingExport;
use trueup_store::door::{CreditRequest, InvoiceRequest};
use trueup_testkit::usage::store_hours;

use crate::stage::at;
use crate::usage::MeterRig;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const NEXT_MONTH: i64 = 40 * DAY;

/// A row by the names of its columns.
type Row = BTreeMap<String, String>;

impl MeterRig {
    async fn hours(&self, service: &str, object: &str, from: i64, hours: i64) {
        let stage = &self.stage;
        store_hours(&stage.owner, (stage.db.org, service), object, at(from), hours).await;
    }

    async fn export(&self, around: i64) -> BillingExport {
        let db = &self.stage.db;
        db.app.billing_export(db.org, at(around), &self.settings).await.unwrap()
    }

    async fn taxed(&self) {
        let (db, context) = (&self.stage.db, self.stage.context());
        let account = BillingAccount {
            tax_ppm: 190_000,
            ..BillingAccount::default_in(self.settings.currency)
        };
        db.app
            .put_billing_account(db.org, &account, &self.settings, &context, at(0))
            .await
            .unwrap();
    }

    async fn cut(&self, around: i64, now: i64) -> String {
        let db = &self.stage.db;
        let wanted = InvoiceRequest { around: at(around), early: true };
        let issued = db.app.close_period(db.org, wanted, &self.settings, at(now)).await.unwrap();
        issued.row.document.number
    }

    async fn void(&self, number: &str, second: i64) {
        let (db, context) = (&self.stage.db, self.stage.context());
        db.app.void_invoice(db.org, number, "wrong address", &context, at(second)).await.unwrap();
    }

    async fn grant(&self, micros: i64) {
        let (db, context) = (&self.stage.db, self.stage.context());
        let amount = Money { micros, currency: self.settings.currency };
        let wanted = CreditRequest { amount, reason: "welcome".to_owned(), expires_at: None };
        db.app.grant_credit(db.org, &wanted, &self.settings, &context, at(1)).await.unwrap();
    }

    /// The exports of both months add up to the ledger; returns their rows.
    async fn reconciled(&self) -> [Vec<Row>; 2] {
        let months = [rows(&self.export(0).await), rows(&self.export(NEXT_MONTH).await)];
        let total = |column: &str| -> i64 { months.iter().map(|rows| sum(rows, column)).sum() };
        let charged = self.charged().await;
        assert_eq!((total("BilledCost"), total("EffectiveCost")), (charged, charged));
        months
    }

    /// What the org owes and paid, by the ledger.
    async fn charged(&self) -> i64 {
        sqlx::query_scalar(
            "select coalesce(sum(p.micros), 0)::bigint
             from ledger_postings p join ledger_entries e on e.org_id = p.org_id and e.seq = p.seq
             where p.account like 'receivable:%' and e.kind <> 'payment'",
        )
        .fetch_one(&self.stage.owner)
        .await
        .unwrap()
    }
}

fn rows(export: &BillingExport) -> Vec<Row> {
    let names = header();
    let row = |fields: Vec<String>| names.iter().cloned().zip(fields).collect();
    export.charges.iter().map(|charge| row(export.dataset.row(charge))).collect()
}

/// The sum of a column of costs, in millionths, read from the text as a cost tool would.
fn sum(rows: &[Row], column: &str) -> i64 {
    let micros = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap();
        assert_eq!(fraction.len(), 6, "{text}");
        format!("{whole}{fraction}").parse::<i64>().unwrap()
    };
    rows.iter().map(|row| micros(&row[column])).sum()
}

fn of<'a>(rows: &'a [Row], column: &str, value: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row[column] == value).collect()
}

#[tokio::test]
async fn an_export_adds_up_to_the_ledger_in_every_state_of_invoices() {
    let rig = MeterRig::new().await;
    rig.stage.declare("api", "nginx:1").await;
    rig.taxed().await;
    rig.grant(500_000).await;
    rig.hours("web", "a", 0, 100).await;
    rig.hours("api", "b", 0, 33).await;
    assert_eq!(rig.reconciled().await.map(|rows| rows.len()), [0, 0], "nothing is posted yet");

    rig.post(10 * DAY).await;
    let [january, _] = rig.reconciled().await;
    let quantities: Vec<&str> = of(&january, "ChargeCategory", "Usage")
        .iter()
        .map(|row| row["PricingQuantity"].as_str())
        .collect();
    assert_eq!(quantities.len(), 2);
    assert!(quantities.contains(&"100.0") && quantities.contains(&"33.0"), "{quantities:?}");
    // 133 hours at 0.006 EUR are 0.798 EUR, of which 0.80 EUR can be paid.
    assert_eq!(of(&january, "ChargeCategory", "Adjustment")[0]["BilledCost"], "0.002000");
    assert!(january.iter().all(|row| row["InvoiceId"].is_empty()));

    let first = rig.cut(0, NEXT_MONTH).await;
    let [january, _] = rig.reconciled().await;
    // 0.80 EUR with 19 % tax are 0.95 EUR, and credit pays 0.50 EUR of it.
    assert_eq!(sum(&january, "BilledCost"), 450_000, "what is left to pay of {first}");
    assert!(january.iter().all(|row| row["InvoiceId"] == first));

    // Late usage of January is a correction, billed in February.
    rig.hours("web", "c", 5 * DAY, 10).await;
    rig.hours("web", "d", 30 * DAY, 20).await;
    rig.post(NEXT_MONTH).await;
    let [frozen, february] = rig.reconciled().await;
    assert_eq!(frozen, january, "the rows of an issued invoice never change");
    let corrections = of(&february, "ChargeClass", "Correction");
    assert!(!corrections.is_empty());
    assert!(corrections.iter().all(|row| row["ChargePeriodStart"].starts_with("2027-01-01")));

    let second = rig.cut(NEXT_MONTH, NEXT_MONTH + HOUR).await;
    let [_, february] = rig.reconciled().await;
    assert_eq!(of(&february, "InvoiceId", &second).len(), february.len());
    rig.void(&second, NEXT_MONTH + HOUR).await;
    let [_, february] = rig.reconciled().await;
    assert!(of(&february, "InvoiceId", &second).is_empty(), "its usage is on no invoice again");

    // What was never used becomes a credit note, which is kept as credit.
    sqlx::query("update usage_intervals set superseded_at = recorded_at")
        .execute(&rig.stage.owner)
        .await
        .unwrap();
    let note = rig.cut(NEXT_MONTH, NEXT_MONTH + 2 * HOUR).await;
    let [_, february] = rig.reconciled().await;
    let kept = of(&february, "InvoiceId", &note);
    assert!(kept.iter().any(|row| row["ChargeCategory"] == "Credit"), "{february:?}");
}
