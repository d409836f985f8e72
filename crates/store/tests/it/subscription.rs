//! Subscriptions: limits, fees and included units, by what held when.

use futures::future::join_all;
use trueup_model::billing::BillingAccount;
use trueup_model::budget::AtLimit;
use trueup_model::invoice::Invoice;
use trueup_model::money::{Currency, Money};
use trueup_model::offer::Offer;
use trueup_model::quota::LimitSource;
use trueup_rules::admit::Refused;
use trueup_rules::rate::subscription::held_at;
use trueup_store::Verification;
use trueup_store::door::{
    Accepted, CreditRequest, InvoiceRequest, Refusal, SubscriptionChange, SubscriptionRequest,
};
use trueup_testkit::test_db::name;
use trueup_testkit::usage::store_hours;

use crate::life::operator;
use crate::stage::at;
use crate::usage::MeterRig;

const HOUR: i64 = 3600;
/// The first second of the next month: 400 hours of this one are left.
const NEXT_MONTH: i64 = 400 * HOUR;

const NOW: bool = false;
const LATER: bool = true;

impl MeterRig {
    async fn subscribe(
        &self,
        offer: &str,
        next_period: bool,
        second: i64,
    ) -> Result<Accepted<SubscriptionChange>, Refusal> {
        let (db, context) = (&self.stage.db, self.stage.context());
        let wanted = SubscriptionRequest { offer, version: None, next_period };
        db.app.put_subscription(db.org, wanted, &self.settings, &context, at(second)).await
    }

    async fn publish(&self, change: impl Fn(&mut Offer)) -> Result<Accepted<Offer>, Refusal> {
        let app = &self.stage.db.app;
        let mut terms = self.offer("team").await;
        change(&mut terms);
        let principal = operator(&self.stage);
        let context = trueup_store::door::RequestContext::new(&principal, None);
        app.put_offer(&terms, &context, at(0)).await
    }

    async fn offer(&self, wanted: &str) -> Offer {
        let offers = self.stage.db.app.list_offers().await.unwrap();
        offers.into_iter().find(|offer| offer.name == name(wanted)).unwrap()
    }

    async fn holds(&self, second: i64) -> Option<(String, u32)> {
        let db = &self.stage.db;
        let inputs = db.app.cost_inputs(db.org, at(second), &self.settings).await.unwrap();
        let held = held_at(&inputs.subscriptions, at(second));
        held.map(|held| (held.offer.name.to_string(), held.offer.version))
    }

    async fn limits(&self) -> (i64, LimitSource) {
        let quota = self.stage.db.app.find_quota(self.stage.db.org).await.unwrap();
        (quota.limit.services, quota.source)
    }

    /// Posts what was used until a second; returns the entries, and whether the org is paused.
    pub(crate) async fn post(&self, second: i64) -> (usize, bool) {
        let db = &self.stage.db;
        let accrued = db.worker.accrue(db.org, &self.settings, at(second)).await.unwrap();
        (accrued.entries, accrued.paused == [None])
    }

    async fn check(&self, second: i64) -> Verification {
        let db = &self.stage.db;
        db.app.verify_ledger(db.org, &self.settings, at(second)).await.unwrap()
    }

    async fn invoice(&self, second: i64) -> Invoice {
        let (db, context) = (&self.stage.db, self.stage.context());
        let wanted = InvoiceRequest { around: at(second), early: true };
        let issued = db.app.issue_invoice(db.org, wanted, &self.settings, &context, at(second));
        issued.await.unwrap().row
    }

    async fn refused(&self, statement: &'static str) -> bool {
        sqlx::query(statement).execute(&self.stage.owner).await.is_err()
    }
}

fn refusal_at(result: Result<Accepted<SubscriptionChange>, Refusal>) -> String {
    let Err(Refusal::Refused(Refused::Invalid(errors))) = result else {
        panic!("it should be refused for a field: {result:?}")
    };
    format!("{} {}", errors[0].field, errors[0].message)
}

#[tokio::test]
async fn a_change_at_once_sets_the_limits_and_keeps_what_held_before() {
    let rig = MeterRig::new().await;
    assert_eq!(rig.limits().await, (200, LimitSource::Default));
    let first = rig.subscribe("starter", NOW, 10).await.unwrap().row;
    assert!(first.before.is_none());
    assert_eq!(rig.limits().await, (10, LimitSource::Subscription));
    let second = rig.subscribe("enterprise", NOW, 20).await.unwrap().row;
    assert_eq!(second.before.map(|it| it.offer.name), Some(name("starter")));
    assert_eq!(rig.limits().await, (5000, LimitSource::Subscription));
    assert!(!rig.subscribe("enterprise", NOW, 30).await.unwrap().changed, "it has it already");
    assert_eq!(rig.holds(9).await, None);
    assert_eq!(rig.holds(15).await, Some(("starter".to_owned(), 1)));
    assert_eq!(rig.holds(20).await, Some(("enterprise".to_owned(), 1)));
    let changes: i64 =
        rig.stage.one("select count(*) from events where type = 'SubscriptionChanged'").await;
    assert_eq!(changes, 2);
}

#[tokio::test]
async fn a_later_change_begins_with_the_month_for_requests_and_for_the_loop() {
    let rig = MeterRig::new().await;
    rig.subscribe("team", NOW, 10).await.unwrap();
    let change = rig.subscribe("starter", LATER, 20).await.unwrap().row;
    assert_eq!(change.after.from, at(NEXT_MONTH));
    let worker = &rig.stage.db.worker;
    assert!(worker.orgs_to_limit(at(NEXT_MONTH - 1)).await.unwrap().is_empty());
    assert_eq!(rig.limits().await.0, 200);
    // One of the ten services exists. Nothing has applied the limits when the month begins.
    let accepted = async |number: i64| {
        let wanted = (format!("web-{number}"), NEXT_MONTH + number);
        rig.stage
            .try_declare(&wanted.0, &crate::stage::web("nginx:1"), None, wanted.1)
            .await
            .is_ok()
    };
    for number in 1..10 {
        assert!(accepted(number).await, "{number}");
    }
    assert!(!accepted(10).await, "the eleventh service");
    assert_eq!(rig.limits().await, (10, LimitSource::Subscription));
    assert!(worker.orgs_to_limit(at(NEXT_MONTH)).await.unwrap().is_empty(), "applied before");
}

#[tokio::test]
async fn the_loop_applies_limits_once_and_what_an_operator_sets_stays() {
    let rig = MeterRig::new().await;
    rig.subscribe("starter", LATER, 10).await.unwrap();
    let (db, principal) = (&rig.stage.db, operator(&rig.stage));
    let context = trueup_store::door::RequestContext::new(&principal, None);
    assert_eq!(db.worker.orgs_to_limit(at(NEXT_MONTH)).await.unwrap(), [db.org]);
    assert!(db.worker.apply_limits(db.org, at(NEXT_MONTH)).await.unwrap());
    assert!(!db.worker.apply_limits(db.org, at(NEXT_MONTH)).await.unwrap());
    assert_eq!(rig.limits().await, (10, LimitSource::Subscription));
    let mut limit = db.app.find_quota(db.org).await.unwrap().limit;
    limit.services = 12;
    db.app.put_quota(db.org, limit, &context, at(NEXT_MONTH)).await.unwrap();
    assert!(!db.worker.apply_limits(db.org, at(NEXT_MONTH + 9)).await.unwrap());
    assert_eq!(rig.limits().await, (12, LimitSource::Operator));
}

#[tokio::test]
async fn more_use_than_an_offer_allows_is_refused_now_and_stated_for_later() {
    let rig = MeterRig::new().await;
    for number in 1..=10 {
        rig.stage.declare(&format!("web-{number}"), "nginx:1").await;
    }
    let refused = rig.subscribe("starter", NOW, 10).await;
    let Err(Refusal::BelowUse(exceeded)) = refused else { panic!("{refused:?}") };
    assert_eq!((exceeded[0].used, exceeded[0].limit), (11, 10));
    assert_eq!(rig.limits().await, (200, LimitSource::Default), "nothing is half done");
    let later = rig.subscribe("starter", LATER, 20).await.unwrap().row;
    assert_eq!(later.exceeded.len(), 1, "it is said");
}

#[tokio::test]
async fn an_offer_in_another_currency_retired_or_unknown_is_refused() {
    let rig = MeterRig::new().await;
    let unknown = rig.subscribe("gold", NOW, 10).await;
    assert!(matches!(unknown, Err(Refusal::NotFound("offer"))), "{unknown:?}");
    let dollars = |offer: &mut Offer| {
        offer.currency = "USD".parse().unwrap();
        offer.name = name("dollars");
    };
    rig.publish(dollars).await.unwrap();
    let said = refusal_at(rig.subscribe("dollars", NOW, 10).await);
    assert!(
        said.starts_with("offer has its prices in USD, and the org is billed in EUR"),
        "{said}"
    );
    rig.publish(|offer| offer.retired = true).await.unwrap();
    let said = refusal_at(rig.subscribe("team", NOW, 10).await);
    assert!(said.starts_with("offer is no longer offered"), "{said}");
}

#[tokio::test]
async fn another_version_changes_nothing_for_those_who_have_the_former_one() {
    let rig = MeterRig::new().await;
    rig.subscribe("team", NOW, 10).await.unwrap();
    assert!(!rig.publish(|_| ()).await.unwrap().changed, "the same terms");
    let next = rig.publish(|offer| offer.fee_micros = 1).await.unwrap();
    assert_eq!((next.row.version, next.changed), (2, true));
    assert_eq!(rig.holds(20).await, Some(("team".to_owned(), 1)));
    rig.subscribe("team", NOW, 30).await.unwrap();
    assert_eq!(rig.holds(40).await, Some(("team".to_owned(), 2)));
    let euros = rig.publish(|offer| offer.currency = "USD".parse().unwrap()).await;
    assert!(matches!(euros, Err(Refusal::Refused(_))), "the currency of an offer stays");
    for statement in [
        "update offers set body = '{}'",
        "delete from offers",
        "update subscriptions set valid_from = valid_from + interval '1 day'",
        "delete from subscriptions",
        "truncate subscriptions",
    ] {
        assert!(rig.refused(statement).await, "{statement}");
    }
}

#[tokio::test]
async fn racing_changes_are_recorded_one_after_the_other() {
    let rig = MeterRig::new().await;
    let offers = ["team", "enterprise", "team", "enterprise", "team", "enterprise"];
    let changes = join_all(offers.map(|offer| rig.subscribe(offer, NOW, 10))).await;
    assert!(changes.iter().all(Result::is_ok), "{changes:?}");
    let changed = changes.iter().flatten().filter(|change| change.changed).count();
    let numbers: i64 = rig.stage.one("select max(number)::bigint from subscriptions").await;
    assert_eq!(usize::try_from(numbers).unwrap(), changed);
}

#[tokio::test]
async fn a_fee_is_invoiced_and_a_later_change_is_a_correction() {
    let rig = MeterRig::new().await;
    rig.subscribe("team", NOW, 0).await.unwrap();
    assert_eq!(rig.post(HOUR).await, (1, false));
    assert_eq!(rig.post(HOUR + 1).await.0, 0, "posted once");
    assert_eq!(rig.check(HOUR + 60).await.difference, None);
    let first = rig.invoice(2 * HOUR).await;
    let line = &first.document.lines[0];
    assert_eq!(
        (line.item.to_string().as_str(), line.amount_micros),
        ("subscription:team", 26_340_000)
    );
    assert_eq!(line.quantity, "0.537635");

    // After 200 of the 400 hours everything costs something else; nothing that was issued changes.
    rig.subscribe("enterprise", NOW, 200 * HOUR).await.unwrap();
    assert_eq!(rig.check(200 * HOUR + 60).await.pending, 2, "both parts");
    rig.post(201 * HOUR).await;
    assert_eq!(rig.check(201 * HOUR).await.difference, None);
    let (db, number) = (&rig.stage.db, first.document.number.as_str());
    let again = db.app.find_invoice(db.org, number).await.unwrap().unwrap();
    assert_eq!((&again.document, &again.hash), (&first.document, &first.hash));
    let explained = db.app.explain_line(db.org, (number, &line.id), &rig.settings).await.unwrap();
    assert!(explained.unwrap().unchanged, "rated again as it was known then");

    let second = rig.invoice(202 * HOUR).await;
    let amounts: Vec<(String, i64)> = second
        .document
        .lines
        .iter()
        .map(|line| (line.item.to_string(), line.amount_micros))
        .collect();
    // 49 and 999 EUR for 200 of 744 hours each; the first part was charged for 400 hours.
    let expected =
        [("subscription:team", 13_170_000 - 26_340_000), ("subscription:enterprise", 268_550_000)];
    let mut expected = expected.map(|(item, amount)| (item.to_owned(), amount)).to_vec();
    expected.sort();
    assert_eq!(amounts, expected);
}

#[tokio::test]
async fn included_units_are_free_and_verified() {
    let rig = MeterRig::new().await;
    rig.run("a", 10, None).await;
    rig.hear(HOUR).await;
    rig.meter(HOUR).await;
    rig.post(HOUR).await;
    let charged = async || {
        let sum = "select coalesce(sum(micros), 0)::bigint from ledger_postings where account = 'revenue:pod_seconds'";
        -rig.stage.one::<i64>(sum).await
    };
    assert_eq!(charged().await, 5983, "3590 seconds of a plan that costs 6000 an hour");
    // One pod is included from now on; what was used before stays as it was.
    rig.subscribe("starter", NOW, HOUR).await.unwrap();
    rig.hear(10 * HOUR).await;
    rig.post(10 * HOUR).await;
    assert_eq!(charged().await, 5983);
    assert_eq!(rig.check(10 * HOUR + 120).await.difference, None);
}

#[tokio::test]
async fn without_balance_nothing_more_is_accepted_until_credit_is_granted() {
    let rig = MeterRig::new().await;
    rig.subscribe("starter", NOW, 0).await.unwrap();
    // 800 hours, of which 400 of a month's one pod are included.
    store_hours(&rig.stage.owner, (rig.stage.db.org, "web"), "a", at(0), 200).await;
    assert_eq!(rig.post(HOUR).await, (0, false));
    let events = async || -> i64 {
        rig.stage.one("select count(*) from events where type = 'BalanceExhausted'").await
    };
    assert_eq!(events().await, 0, "all of it is included");
    for object in ["b", "c", "d"] {
        store_hours(&rig.stage.owner, (rig.stage.db.org, "web"), object, at(0), 200).await;
    }
    rig.post(HOUR).await;
    rig.post(HOUR).await;
    assert_eq!(events().await, 1, "said once");
    let more = rig.stage.try_declare("more", &crate::stage::web("nginx:1"), None, HOUR).await;
    assert!(matches!(more, Err(Refusal::NoBalance)), "{more:?}");
    let (db, context) = (&rig.stage.db, rig.stage.context());
    let balance = db.app.find_balance(db.org, &rig.settings).await.unwrap();
    assert_eq!(balance.micros, -2_400_000);
    let amount = Money { micros: 2_400_001, currency: Currency::EUR };
    let credit = CreditRequest { amount, reason: "paid".to_owned(), expires_at: None };
    db.app.grant_credit(db.org, &credit, &rig.settings, &context, at(HOUR)).await.unwrap();
    assert!(rig.stage.try_declare("more", &crate::stage::web("nginx:1"), None, HOUR).await.is_ok());
}

#[tokio::test]
async fn an_offer_that_pauses_says_so_when_the_balance_is_spent() {
    let rig = MeterRig::new().await;
    let pauses = |offer: &mut Offer| {
        offer.at_zero = Some(AtLimit::Pause);
        offer.fee_micros = 0;
    };
    rig.publish(pauses).await.unwrap();
    rig.subscribe("team", NOW, 0).await.unwrap();
    store_hours(&rig.stage.owner, (rig.stage.db.org, "web"), "a", at(0), 200).await;
    assert_eq!(rig.post(HOUR).await, (1, true));
}

#[tokio::test]
async fn what_has_no_price_in_the_currency_of_the_org_is_refused() {
    let rig = MeterRig::new().await;
    let (db, context) = (&rig.stage.db, rig.stage.context());
    let dollars = BillingAccount::default_in("USD".parse().unwrap());
    let put =
        async || db.app.put_billing_account(db.org, &dollars, &rig.settings, &context, at(5)).await;
    rig.subscribe("team", NOW, 1).await.unwrap();
    let refused = put().await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "the subscription is in EUR: {refused:?}");

    let rig = MeterRig::new().await;
    let (db, context) = (&rig.stage.db, rig.stage.context());
    db.app.put_billing_account(db.org, &dollars, &rig.settings, &context, at(5)).await.unwrap();
    let more = rig.stage.try_declare("more", &crate::stage::web("nginx:1"), None, 10).await;
    let Err(Refusal::Refused(Refused::Invalid(errors))) = more else { panic!("{more:?}") };
    assert_eq!(
        (errors[0].field.as_str(), errors[0].message.as_str()),
        ("plan", "has its price in EUR, and the org is billed in USD; choose another plan")
    );
}
