//! Quotas and budgets of projects: below those of their org, and never exceeded by racing requests.

use futures::future::join_all;
use trueup_model::billing::BillingSettings;
use trueup_model::budget::{AtLimit, Budget};
use trueup_model::drift::DriftPolicy;
use trueup_model::id::ProjectId;
use trueup_model::money::{Currency, Money};
use trueup_model::quota::{Amounts, LimitSource, Quota};
use trueup_store::door::{BudgetRequest, Refusal, ServiceRequest};
use trueup_testkit::test_db::name;
use trueup_testkit::usage::store_hours;
use uuid::Uuid;

use crate::stage::{PROJECT, Stage, at, web};

/// A second on which the month has this many hours left.
const HOURS_LEFT: i64 = 400;
const OTHER: &str = "other";

impl Stage {
    async fn with_two_projects() -> Self {
        let stage = Self::new().await;
        let (policy, other, context) = (DriftPolicy::default(), name(OTHER), stage.context());
        let made = stage.db.app.accept_project(stage.db.org, &other, &policy, &context, at(0));
        assert!(made.await.unwrap().changed);
        stage
    }

    async fn limit_project(&self, limit: Option<Amounts>) -> Result<(Quota, bool), Refusal> {
        let (app, org) = (&self.db.app, self.db.org);
        app.put_project_quota(org, PROJECT, limit, &self.context(), at(0)).await
    }

    async fn project_budget(&self, micros: i64, at_limit: AtLimit) -> Result<(), Refusal> {
        let limit = Money { micros, currency: Currency::EUR };
        let wanted = Some(BudgetRequest { limit, at_limit });
        let (app, scope) = (&self.db.app, (self.db.org, Some(PROJECT)));
        app.put_budget(scope, wanted, &BillingSettings::default(), &self.context(), at(0)).await?;
        Ok(())
    }

    async fn project_spending(&self) -> Budget {
        let (app, settings) = (&self.db.app, BillingSettings::default());
        let found = app.find_project_budget(self.db.org, PROJECT, &settings, at(0)).await.unwrap();
        found.unwrap().unwrap()
    }

    /// So many services at once; returns how many were accepted, and the refusals.
    async fn race(&self, project: &str, services: usize) -> (usize, Vec<Refusal>) {
        let request = web("shop:1");
        let names: Vec<_> = (0..services).map(|number| name(&format!("web-{number}"))).collect();
        let requests = names.iter().map(|name| async {
            let wanted = ServiceRequest::declare(project, name, &request);
            self.db.app.accept_service(self.db.org, &wanted, &self.context(), at(0)).await
        });
        let answers = join_all(requests).await;
        let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
        (accepted, answers.into_iter().filter_map(Result::err).collect())
    }
}

fn limits(services: i64) -> Amounts {
    Amounts {
        services,
        cpu_millis: 50_000,
        memory_mib: 90_000,
        storage_gib: 500,
        gpus: 1,
        ..Amounts::default()
    }
}

/// S18, S19: the budget of a project holds under 200 concurrent requests, and the refusal names it.
#[tokio::test]
async fn two_hundred_concurrent_requests_stay_within_the_budget_of_their_project() {
    let stage = Stage::with_two_projects().await;
    // A pod costs 6,000 millionths an hour.
    stage.project_budget(7 * 6000 * HOURS_LEFT, AtLimit::Refuse).await.unwrap();
    let (accepted, refused) = stage.race(PROJECT, 200).await;
    assert_eq!((accepted, refused.len()), (7, 193));
    let named = |one: &&Refusal| matches!(one, Refusal::OverSpending { project: Some(of), .. } if *of == name(PROJECT));
    assert_eq!(refused.iter().filter(named).count(), 193);
    let budget = stage.project_spending().await;
    assert_eq!(budget.held_micros, budget.limit_micros);
    assert_eq!(stage.race(OTHER, 3).await.0, 3, "another project has no budget");
}

#[tokio::test]
async fn of_two_budgets_the_one_without_room_is_named() {
    let stage = Stage::with_two_projects().await;
    stage.project_budget(5 * 6000 * HOURS_LEFT, AtLimit::Refuse).await.unwrap();
    let limit = Money { micros: 3 * 6000 * HOURS_LEFT, currency: Currency::EUR };
    let wanted = Some(BudgetRequest { limit, at_limit: AtLimit::Refuse });
    let (app, settings) = (&stage.db.app, BillingSettings::default());
    let scope = (stage.db.org, None);
    app.put_budget(scope, wanted, &settings, &stage.context(), at(0)).await.unwrap();
    let (accepted, refused) = stage.race(PROJECT, 8).await;
    assert_eq!(accepted, 3);
    let of_org = |one: &&Refusal| matches!(one, Refusal::OverSpending { project: None, .. });
    assert_eq!(refused.iter().filter(of_org).count(), 5);
}

/// S18: the quota of a project holds under 200 concurrent requests, and the refusal names it.
#[tokio::test]
async fn two_hundred_concurrent_requests_stay_within_the_quota_of_their_project() {
    let stage = Stage::with_two_projects().await;
    let (quota, changed) = stage.limit_project(Some(limits(6))).await.unwrap();
    assert_eq!((quota.limit.services, quota.source, changed), (6, LimitSource::Project, true));
    let (accepted, refused) = stage.race(PROJECT, 200).await;
    assert_eq!(accepted, 6);
    let named = |one: &&Refusal| {
        matches!(one, Refusal::OverQuota { project: Some(of), quota, .. }
            if *of == name(PROJECT) && quota.used.services == 6)
    };
    assert_eq!(refused.iter().filter(named).count(), 194);
    assert_eq!(stage.race(OTHER, 3).await.0, 3);
    let used = stage.db.app.find_quota(stage.db.org).await.unwrap().used;
    assert_eq!(used.services, 9, "a refusal reserves nothing of the org's quota");

    // Without a quota of its own that of the org holds.
    let (quota, changed) = stage.limit_project(None).await.unwrap();
    assert_eq!((quota.source, quota.used.services, changed), (LimitSource::Default, 6, true));
    assert!(!stage.limit_project(None).await.unwrap().1, "it has none already");
    stage.declare("more", "shop:1").await;
}

#[tokio::test]
async fn a_project_gets_no_more_than_its_org_has() {
    let stage = Stage::new().await;
    for wrong in [limits(201), limits(-1)] {
        let refused = stage.limit_project(Some(wrong)).await;
        assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
    }
    let (app, org) = (&stage.db.app, stage.db.org);
    let unknown = app.put_project_quota(org, "none", None, &stage.context(), at(0)).await;
    assert!(matches!(unknown, Err(Refusal::NotFound("project"))), "{unknown:?}");
    assert_eq!(app.find_project_quota(org, "none").await.unwrap(), None);
    let settings = BillingSettings::default();
    assert_eq!(app.find_project_budget(org, "none", &settings, at(0)).await.unwrap(), None);
}

#[tokio::test]
async fn a_spent_budget_of_a_project_pauses_its_services_only() {
    let stage = Stage::with_two_projects().await;
    stage.declare("web", "shop:1").await;
    assert_eq!(stage.race(OTHER, 1).await.0, 1);
    let settings = BillingSettings::default();
    let (worker, org) = (&stage.db.worker, stage.db.org);
    stage.project_budget(6000 * HOURS_LEFT, AtLimit::Pause).await.unwrap();
    // 100 hours of another project's service are not in its budget.
    store_hours(&stage.owner, (org, "web-0"), "other", at(0), 100).await;
    assert_eq!(worker.accrue(org, &settings, at(60)).await.unwrap().paused, []);
    assert_eq!(stage.project_spending().await.spent_micros, 0);
    store_hours(&stage.owner, (org, "web"), "mine", at(0), HOURS_LEFT).await;
    let project: Uuid = stage.one("select id from projects where name = 'shop'").await;
    let scope = Some(ProjectId::from_uuid(project));
    assert_eq!(worker.accrue(org, &settings, at(60)).await.unwrap().paused, [scope]);
    assert_eq!(stage.project_spending().await.spent_micros, 6000 * HOURS_LEFT);
    let running = worker.running_services(org, scope).await.unwrap();
    assert_eq!(running, [(PROJECT.to_owned(), "web".to_owned())]);
    let reached: i64 = stage
        .one(
            "select count(*) from events where type = 'BudgetReached' and subject_kind = 'project'",
        )
        .await;
    assert_eq!(reached, 1);
}
