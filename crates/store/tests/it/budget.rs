//! Budgets: never exceeded by racing requests, and spent by what was posted.

use futures::future::join_all;
use trueup_model::billing::BillingSettings;
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::money::{Currency, Money};
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{BudgetRequest, Refusal, ServiceRequest};
use trueup_testkit::test_db::name;
use trueup_testkit::usage::store_hours;

use crate::stage::{PROJECT, Stage, at, web};

/// A second on which the month has this many hours left.
const HOURS_LEFT: i64 = 400;

impl Stage {
    async fn budget(&self, micros: i64, at_limit: AtLimit) -> Result<Option<Budget>, Refusal> {
        let limit = Money { micros, currency: Currency::EUR };
        let wanted = Some(BudgetRequest { limit, at_limit });
        let settings = BillingSettings::default();
        let (app, org) = (&self.db.app, self.db.org);
        Ok(app.put_budget((org, None), wanted, &settings, &self.context(), at(0)).await?.0)
    }

    async fn spending(&self) -> Budget {
        let settings = BillingSettings::default();
        self.db.app.find_budget(self.db.org, &settings, at(0)).await.unwrap().unwrap()
    }
}

/// S18, S19: 200 concurrent requests get exactly what the budget has room for.
#[tokio::test]
async fn two_hundred_concurrent_requests_stay_within_the_budget() {
    let stage = Stage::new().await;
    // A pod costs 6,000 millionths an hour.
    stage.budget(7 * 6000 * HOURS_LEFT, AtLimit::Refuse).await.unwrap();
    let request = web("shop:1");
    let names: Vec<_> = (0..200).map(|number| name(&format!("web-{number}"))).collect();
    let requests = names.iter().map(|name| async {
        let wanted = ServiceRequest::declare(PROJECT, name, &request);
        stage.db.app.accept_service(stage.db.org, &wanted, &stage.context(), at(0)).await
    });
    let answers = join_all(requests).await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    let over = |answer: &&Result<_, Refusal>| matches!(answer, Err(Refusal::OverSpending { .. }));
    assert_eq!((accepted, answers.iter().filter(over).count()), (7, 193));
    let budget = stage.spending().await;
    assert_eq!(budget.held_micros, budget.limit_micros);
    let rows: i64 = stage.one("select count(*) from services").await;
    assert_eq!(rows, 7, "a refusal leaves nothing behind");
    // What costs less is always accepted, and makes room.
    stage.act("web-0", &ServiceOperation::Pause).await.ok();
}

#[tokio::test]
async fn a_limit_below_what_is_held_is_refused_unless_it_only_warns() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    let limit = 6000 * HOURS_LEFT - 1;
    assert!(matches!(stage.budget(limit, AtLimit::Refuse).await, Err(Refusal::Refused(_))));
    assert!(stage.budget(limit, AtLimit::Warn).await.unwrap().is_some());
    let scaled = stage.act("web", &ServiceOperation::Scale { replicas: 3 }).await;
    assert!(scaled.is_ok(), "a warning refuses nothing");
}

#[tokio::test]
async fn spending_reaches_thresholds_once_and_ends_in_a_pause() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    stage.budget(10_000_000, AtLimit::Pause).await.unwrap();
    let settings = BillingSettings::default();
    let (worker, org) = (&stage.db.worker, stage.db.org);
    let post = async || worker.accrue(org, &settings, at(60)).await.unwrap().paused == [None];
    let reached = async || -> i64 {
        stage.one("select count(*) from events where type = 'BudgetReached'").await
    };
    // 400 hours of four pods are 9.60 EUR.
    for (pods, events, is_spent) in
        [(1, 0, false), (2, 0, false), (3, 1, false), (4, 2, false), (5, 3, true)]
    {
        let (object, service) = (format!("pod-{pods}"), (org, "web"));
        store_hours(&stage.owner, service, &object, at(0), HOURS_LEFT).await;
        assert_eq!(post().await, is_spent, "{pods}");
        assert_eq!(post().await, is_spent, "{pods}: posted again");
        assert_eq!(reached().await, events, "{pods}");
    }
    let running = worker.running_services(org, None).await.unwrap();
    assert_eq!(running, [(PROJECT.to_owned(), "web".to_owned())]);
    assert!(stage.db.app.pause_over_budget(org, (PROJECT, "web"), at(61)).await.unwrap());
    assert!(worker.running_services(org, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn services_that_were_accepted_before_count_from_the_moment_a_budget_is_set() {
    let stage = Stage::new().await;
    stage.declare("web", "shop:1").await;
    // As those that were accepted before prices were stored.
    sqlx::query("update reservations set hourly_micros = 0").execute(&stage.owner).await.unwrap();
    let held = 6000 * HOURS_LEFT;
    assert!(matches!(stage.budget(held - 1, AtLimit::Refuse).await, Err(Refusal::Refused(_))));
    let budget = stage.budget(held, AtLimit::Refuse).await.unwrap().unwrap();
    assert_eq!(budget.held_micros, held);
}
