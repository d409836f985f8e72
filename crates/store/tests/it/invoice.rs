//! Invoices: cut by the ledger's sequence, so that every entry is on one of them, once.

use std::collections::BTreeSet;

use trueup_model::invoice::Invoice;
use trueup_store::door::{InvoiceRequest, Refusal};
use trueup_testkit::usage::store_hours;

use crate::stage::at;
use crate::usage::MeterRig;

/// A moment in the month after that of the usage.
const NEXT_MONTH: i64 = 40 * 86_400;
const HOUR: i64 = 3600;

impl MeterRig {
    async fn used(&self, object: &str, hours: i64) {
        let stage = &self.stage;
        store_hours(&stage.owner, (stage.db.org, "web"), object, at(0), hours).await;
    }

    async fn close(&self, second: i64) -> Result<Invoice, Refusal> {
        let db = &self.stage.db;
        let wanted = InvoiceRequest { around: at(0), early: false };
        let closed = db.app.close_period(db.org, wanted, &self.settings, at(second)).await?;
        Ok(closed.row)
    }

    /// What the org owes by the ledger.
    async fn receivable(&self) -> i64 {
        let db = &self.stage.db;
        let balances = db.app.account_balances(db.org).await.unwrap();
        let owed = balances.iter().filter(|it| it.account.to_string().starts_with("receivable"));
        owed.map(|it| it.sum.micros).sum()
    }
}

#[tokio::test]
async fn f71_racing_closers_issue_one_invoice_with_every_entry() {
    let rig = MeterRig::new().await;
    rig.used("a", 300).await;
    let closers = futures::future::join_all((0..6).map(|_| rig.close(NEXT_MONTH)));
    let posting = async {
        let db = &rig.stage.db;
        db.worker.accrue(db.org, &rig.settings, at(NEXT_MONTH)).await.unwrap();
    };
    let (closed, ()) = tokio::join!(closers, posting);
    let issued: Vec<&Invoice> = closed.iter().filter_map(|it| it.as_ref().ok()).collect();
    assert_eq!(issued.len(), 1);
    assert_eq!(issued[0].document.number, "ACME-0001");
    let refused = closed.iter().filter(|it| matches!(it, Err(Refusal::Refused(_)))).count();
    assert_eq!(refused, 5, "{closed:?}");

    // Late usage is a correction on the next invoice, and nothing is on both.
    rig.used("b", 200).await;
    let late = rig.close(NEXT_MONTH + HOUR).await.unwrap();
    assert_eq!(late.document.number, "ACME-0002");
    let seqs = |invoice: &Invoice| -> BTreeSet<i64> {
        invoice.document.lines.iter().flat_map(|line| line.entries.clone()).collect()
    };
    assert!(seqs(issued[0]).is_disjoint(&seqs(&late)));
    let due = issued[0].document.due_micros + late.document.due_micros;
    assert_eq!(due, rig.receivable().await);
    let db = &rig.stage.db;
    let found = db.app.verify_ledger(db.org, &rig.settings, at(NEXT_MONTH + HOUR)).await.unwrap();
    assert!(found.difference.is_some(), "usage without transitions is named");
}

#[tokio::test]
async fn an_ended_period_is_found_until_it_is_invoiced() {
    let rig = MeterRig::new().await;
    rig.used("a", 300).await;
    let db = &rig.stage.db;
    let post = async |second| db.worker.accrue(db.org, &rig.settings, at(second)).await.unwrap();
    let waiting = async |second| db.worker.periods_to_close(at(second)).await.unwrap().len();
    post(HOUR).await;
    assert_eq!(waiting(HOUR).await, 0, "the month is not over");
    assert_eq!(waiting(NEXT_MONTH).await, 1);
    rig.close(NEXT_MONTH).await.unwrap();
    assert_eq!(waiting(NEXT_MONTH).await, 0);
    rig.used("b", 200).await;
    post(NEXT_MONTH).await;
    assert_eq!(waiting(NEXT_MONTH).await, 0, "late usage waits for the next month");
}

#[tokio::test]
async fn an_invoice_cannot_be_changed_by_anyone() {
    let rig = MeterRig::new().await;
    rig.used("a", 300).await;
    rig.close(NEXT_MONTH).await.unwrap();
    for statement in [
        "update invoices set due_micros = 0",
        "update invoices set document = '{}'",
        "update invoices set state = 'paid'",
        "delete from invoices",
    ] {
        let changed = sqlx::query(statement).execute(&rig.stage.owner).await;
        assert!(changed.is_err(), "{statement}");
    }
}

#[tokio::test]
async fn a_negative_invoice_is_a_credit_note_that_pays_the_next_one() {
    let rig = MeterRig::new().await;
    rig.used("a", 300).await;
    let first = rig.close(NEXT_MONTH).await.unwrap();
    // It had not run at all.
    sqlx::query("update usage_intervals set superseded_at = recorded_at where object = 'a'")
        .execute(&rig.stage.owner)
        .await
        .unwrap();
    let note = rig.close(NEXT_MONTH + HOUR).await.unwrap();
    assert_eq!(note.document.due_micros, -first.document.due_micros);
    assert_eq!(note.reason.as_deref(), Some("granted as credit"));
    let db = &rig.stage.db;
    let credits = db.app.list_credits(db.org).await.unwrap();
    assert_eq!(credits[0].left_micros(), first.document.due_micros);
    rig.used("b", 300).await;
    let paid = rig.close(NEXT_MONTH + 2 * HOUR).await.unwrap();
    assert_eq!(
        (paid.document.due_micros, paid.document.credit_micros),
        (0, first.document.due_micros)
    );
    assert_eq!(rig.receivable().await, first.document.due_micros, "only the first one is unpaid");
}

#[tokio::test]
async fn a_line_still_explains_what_it_charged_after_its_usage_went_on() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(HOUR).await;
    rig.meter(HOUR).await;
    let db = &rig.stage.db;
    let wanted = InvoiceRequest { around: at(0), early: true };
    let early = db.app.close_period(db.org, wanted, &rig.settings, at(HOUR)).await.unwrap().row;
    let line = early.document.lines.iter().find(|line| line.item.to_string().starts_with("pod"));
    let line = line.unwrap();
    let explain = async || {
        let wanted = (early.document.number.as_str(), line.id.as_str());
        db.app.explain_line(db.org, wanted, &rig.settings).await.unwrap().unwrap()
    };
    // It goes on, and then it ends: neither is on this invoice.
    rig.hear(2 * HOUR).await;
    let grown = explain().await;
    rig.run("a", 10, Some(3 * HOUR)).await;
    rig.hear(4 * HOUR).await;
    rig.meter(4 * HOUR).await;
    let ended = explain().await;
    for found in [grown, ended] {
        assert!(found.unchanged);
        let spans: Vec<_> =
            found.intervals.iter().map(|it| (it.span.from, it.span.until)).collect();
        assert_eq!(spans, [(at(10), at(HOUR))]);
    }
}
