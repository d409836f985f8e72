//! The ledger: balanced, append-only, posted once, and verified from transitions.

use trueup_model::billing::BillingAccount;
use trueup_model::money::Currency;
use trueup_rules::rate::account::Account;
use trueup_store::Verification;
use trueup_store::door::Refusal;

use crate::stage::at;
use crate::usage::MeterRig;

impl MeterRig {
    async fn accrue(&self, second: i64) -> usize {
        let db = &self.stage.db;
        db.worker.accrue(db.org, &self.settings, at(second)).await.unwrap().entries
    }

    async fn verify(&self, second: i64) -> Verification {
        let db = &self.stage.db;
        db.app.verify_ledger(db.org, &self.settings, at(second)).await.unwrap()
    }

    async fn as_owner(&self, statement: &'static str) -> Result<(), sqlx::Error> {
        sqlx::query(statement).execute(&self.stage.owner).await.map(drop)
    }

    /// A pod ran for an hour, which is metered.
    async fn with_an_hour() -> Self {
        let rig = Self::new().await;
        rig.run("a", 10, Some(3610)).await;
        rig.hear(3700).await;
        rig.meter(3700).await;
        rig
    }
}

#[tokio::test]
async fn usage_is_posted_once_and_only_the_difference_later() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(3610).await;
    rig.meter(3610).await;
    assert_eq!(rig.accrue(3610).await, 1);
    assert_eq!(rig.accrue(3611).await, 0, "nothing changed");
    rig.hear(7210).await;
    assert_eq!(rig.accrue(7210).await, 1);
    let db = &rig.stage.db;
    let entries = db.app.list_ledger(db.org, 0, 10).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    let revenue = |index: usize| -> i64 {
        let of = |account: &Account| matches!(account, Account::Revenue(_));
        let postings = entries[index].postings.iter();
        postings.filter(|it| of(&it.account)).map(|it| it.micros).sum()
    };
    // The plan of the template costs 6000 millionths an hour.
    assert_eq!((revenue(0), revenue(1)), (-6000, -6000));
    let balances = db.app.account_balances(db.org).await.unwrap();
    assert_eq!(balances.iter().map(|it| it.sum.micros).sum::<i64>(), 0);
}

#[tokio::test]
async fn racing_accruals_post_each_step_once() {
    let rig = MeterRig::with_an_hour().await;
    let db = &rig.stage.db;
    let accrue = || db.worker.accrue(db.org, &rig.settings, at(3700));
    let posted = futures::future::join_all((0..8).map(|_| accrue())).await;
    let entries: usize = posted.into_iter().map(|it| it.unwrap().entries).sum();
    assert_eq!(entries, 1);
}

#[tokio::test]
async fn the_ledger_cannot_be_changed_or_unbalanced() {
    let rig = MeterRig::with_an_hour().await;
    rig.accrue(3700).await;
    for statement in [
        "update ledger_postings set micros = micros + 1",
        "delete from ledger_postings",
        "truncate ledger_postings",
        "update ledger_entries set posted_at = now()",
        "delete from ledger_entries",
        "insert into ledger_postings select org_id, seq, 9, 'rounding', null, 5 from ledger_entries",
        "insert into ledger_entries
         select (copy.it).* from (select jsonb_populate_record(e,
             jsonb_build_object('seq', 7, 'key', '\\x' || repeat('ab', 32))) as it from ledger_entries e) copy",
    ] {
        assert!(rig.as_owner(statement).await.is_err(), "{statement}");
    }
    assert_eq!(rig.verify(3800).await.difference, None);
}

#[tokio::test]
async fn verification_names_the_first_difference() {
    let rig = MeterRig::with_an_hour().await;
    rig.accrue(3700).await;
    let found = rig.verify(3800).await;
    assert_eq!((found.entries, found.objects, found.pending), (1, 1, 0));
    assert_eq!((found.lines, found.difference), (1, None));

    // Someone with all rights changes an amount, and keeps it balanced.
    rig.as_owner("alter table ledger_postings disable trigger user").await.unwrap();
    rig.as_owner("update ledger_postings set micros = micros * 2").await.unwrap();
    let difference = rig.verify(3800).await.difference.unwrap();
    assert!(difference.contains("costs something else than what is posted"), "{difference}");
    rig.as_owner("update ledger_postings set micros = micros / 2").await.unwrap();
    assert_eq!(rig.verify(3800).await.difference, None);

    // Someone changes the usage that it was computed from.
    rig.as_owner("alter table usage_intervals disable trigger user").await.unwrap();
    rig.as_owner("update usage_intervals set ends_at = ends_at + interval '1 hour'").await.unwrap();
    let difference = rig.verify(3800).await.difference.unwrap();
    assert!(
        difference.contains("is stored, and no") || difference.contains("differently"),
        "{difference}"
    );
}

#[tokio::test]
async fn late_truth_is_a_correction_and_nothing_is_deleted() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(7210).await;
    rig.meter(7210).await;
    rig.accrue(7210).await;
    // It had ended an hour ago.
    rig.run("a", 10, Some(3610)).await;
    rig.meter(7220).await;
    assert_eq!(rig.verify(7300).await.pending, 1);
    assert_eq!(rig.accrue(7300).await, 1);
    let db = &rig.stage.db;
    let entries = db.app.list_ledger(db.org, 0, 10).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].line, entries[1].line, "on the period of its own line");
    assert_eq!(rig.verify(7400).await.difference, None);
}

#[tokio::test]
async fn currency_and_time_zone_stay_once_something_is_posted() {
    let rig = MeterRig::with_an_hour().await;
    let (db, context) = (&rig.stage.db, rig.stage.context());
    let mut account = BillingAccount::default_in(Currency::EUR);
    account.time_zone = "Europe/Berlin".to_owned();
    let put = |account: BillingAccount| {
        let (context, settings) = (&context, &rig.settings);
        async move { db.app.put_billing_account(db.org, &account, settings, context, at(3800)).await }
    };
    assert!(put(account.clone()).await.unwrap().1);
    assert!(!put(account.clone()).await.unwrap().1, "unchanged");
    rig.accrue(3900).await;
    for change in [
        |account: &mut BillingAccount| account.currency = "USD".parse().unwrap(),
        |account: &mut BillingAccount| account.time_zone = "UTC".to_owned(),
    ] {
        let mut changed = account.clone();
        change(&mut changed);
        assert!(matches!(put(changed).await, Err(Refusal::Refused(_))));
    }
    account.tax_ppm = 190_000;
    assert!(put(account).await.unwrap().1, "the tax may change");
}
