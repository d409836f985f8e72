//! Data for `life.rs` that schema 15 cannot store. The fixture of that version was made without it.

use trueup_model::OrgId;
use trueup_model::billing::{BillingAccount, BillingSettings};
use trueup_model::budget::AtLimit;
use trueup_model::cluster::Freshness;
use trueup_model::domain::DnsResult;
use trueup_model::drift::{ConflictDecision, DivergenceState, DriftPolicy, DriftRule, Verdict};
use trueup_model::finding::{OrphanCandidate, SweepResult};
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::offer::Offer;
use trueup_model::plan::Plan;
use trueup_model::report::{NamespaceSurvey, Outcome, Report};
use trueup_model::survey::Survey;
use trueup_model::usage::GapPolicy;
use trueup_rules::admit::AdmissionRequest;
use trueup_store::door::{
    BudgetRequest, CreditRequest, DomainRequest, InvoiceRequest, ProjectForce, RequestContext,
    ServiceRequest, SubscriptionRequest,
};
use trueup_store::{DivergenceFilter, Observer, PreviewResult, Recognised};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;
use trueup_testkit::usage::store_hours;

use crate::drift::{reverted, standing, workload};
use crate::finding::candidate;
use crate::life::operator;
use crate::preview_request::exact_preview;
use crate::price::override_price;
use crate::project::proof;
use crate::stage::{PROJECT, Stage, at, web};

/// DNS checks that verified nothing, and a requested one.
pub(crate) async fn checks(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let due = worker.claim_dns_checks(8, 8, &[], at(60)).await.unwrap();
    let check = due.iter().find(|check| check.org == org).unwrap();
    worker.record_dns_check(check, DnsResult::OtherTexts, "one TXT record", at(61)).await.unwrap();
    let other = due.iter().find(|check| check.org != org).unwrap();
    assert!(worker.note_contested(other, at(61)).await.unwrap());
    let wanted =
        DomainRequest { project: PROJECT, service: "web", host: &check.host, if_generation: None };
    app.request_domain_check(org, &wanted, &stage.context(), at(62)).await.unwrap();
}

/// Preview requests that are filled, failed, void or waiting.
pub(crate) async fn previews(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    let lease = stage.lease().await;
    let (web_name, request) = (name("web"), web("nginx:9"));
    let mut ids = Vec::new();
    for _ in 0..4 {
        let wanted = ServiceRequest::declare(PROJECT, &web_name, &request);
        let accepted = app.request_preview(org, &wanted, &stage.context(), at(70)).await.unwrap();
        ids.push(accepted.row.id);
    }
    for id in &ids[..2] {
        worker
            .finish_preview(lease, *id, &PreviewResult::Filled(exact_preview()), at(71))
            .await
            .unwrap();
    }
    let broken = [(ids[1], "another spec.replicas now".to_owned())];
    worker.record_preview_checks(lease, &ids[..1], &broken, at(72)).await.unwrap();
    let failed = PreviewResult::Failed("the cluster is frozen".to_owned());
    worker.finish_preview(lease, ids[2], &failed, at(72)).await.unwrap();
    let waits = PreviewResult::Waits("the cluster does not answer".to_owned());
    worker.finish_preview(lease, ids[3], &waits, at(72)).await.unwrap();
}

/// A project being deleted whose namespace is empty, and one whose deletion is forced.
pub(crate) async fn projects(stage: &Stage) {
    let (app, worker, org) = (&stage.db.app, &stage.db.worker, stage.db.org);
    for project in ["going", "stuck"] {
        app.accept_project(org, &name(project), &DriftPolicy::default(), &stage.context(), at(80))
            .await
            .unwrap();
        let row = app.delete_project(org, project, &stage.context(), at(81)).await.unwrap().row;
        let survey = Survey { at: at(82), kinds: ["Secret".to_owned()].into() };
        let report = Report {
            receipt: None,
            outcome: Outcome::Waiting { on: "the survey to be on record".to_owned() },
            survey: Some(NamespaceSurvey::Clear(survey)),
            ..proof(&row)
        };
        worker.record_reports(stage.lease().await, &[report], at(83)).await.unwrap();
    }
    let force = ProjectForce { project: "stuck", reason: "nobody runs it", generation: 2 };
    assert!(app.force_project(org, &force, &stage.context(), at(84)).await.unwrap().changed);
}

/// A recorded cluster identity that was replaced once.
pub(crate) async fn identity(stage: &Stage) {
    for (identity, replaced) in [("first", false), ("second", true)] {
        let cluster = stage.db.cluster;
        let known = stage.db.worker.recognise_cluster(cluster, identity, replaced, at(90)).await;
        assert_eq!(known.unwrap(), Recognised::Ours);
    }
}

/// An org that is being deleted.
pub(crate) async fn org_deletion(stage: &Stage) {
    let (app, operator) = (&stage.db.app, operator(stage));
    let context = RequestContext::new(&operator, None);
    let (org, _) = app.create_org(&name("leaving"), &context, at(91)).await.unwrap();
    assert!(app.delete_org(org.id, &context, at(92)).await.unwrap().changed);
}

/// Drift policies, divergences in several states, a settled conflict and a finding with a price.
pub(crate) async fn drift(stage: &Stage) {
    let (app, worker, org, context) =
        (&stage.db.app, &stage.db.worker, stage.db.org, stage.context());
    let path = Some("spec.replicas".to_owned());
    let rule = DriftRule { kind: Some(Kind::Deployment), path, verdict: Verdict::Adopt };
    let policy = DriftPolicy { rules: vec![rule], ..DriftPolicy::default() };
    app.accept_project(org, &name(PROJECT), &policy, &context, at(93)).await.unwrap();
    let request = AdmissionRequest { drift: policy, ..web("nginx:1") };
    let row = stage.try_declare("drifting", &request, None, 93).await.unwrap().row;
    stage.pass(reverted(&row, 5, Verdict::Enforce), 94).await;
    stage.pass(reverted(&row, 3, Verdict::Adopt), 95).await;
    let filter = DivergenceFilter {
        state: Some(DivergenceState::Proposed),
        service: Some(row.service.id),
        ..DivergenceFilter::default()
    };
    let proposed = app.list_divergences(org, &filter, None, 9).await.unwrap();
    app.adopt_divergence(org, proposed[0].record.id, None, None, &context, at(96)).await.unwrap();
    let row = stage.find("drifting").await.unwrap();
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 97).await;
    let waiting = worker.waiting_proposals(stage.db.cluster, None, 9).await.unwrap();
    let lease = stage.lease().await;
    assert!(worker.reject_proposal(lease, &waiting[0], "too many", at(98)).await.unwrap());
    let conflict = app.list_conflicts(org, false, None, 9).await.unwrap()[0].conflict.id;
    let (ours, until) = (ConflictDecision::Ours, Some(at(3600)));
    app.settle_conflict(org, conflict, ours, until, None, &context, at(99)).await.unwrap();
    let key = workload(&row);
    let unit = Some(row.service.id.to_string());
    let candidates = vec![OrphanCandidate { key, unit, ..candidate("priced", true) }];
    let swept = SweepResult { kind: Kind::Deployment, candidates };
    worker.note_findings(lease, &swept, at(99)).await.unwrap();
}

/// Former, present and later prices of a plan, and the price of one org.
pub(crate) async fn prices(stage: &Stage) {
    let (app, operator) = (&stage.db.app, operator(stage));
    let context = RequestContext::new(&operator, None);
    let sold = app.list_plans(at(93)).await.unwrap();
    let plan = sold.into_iter().find(|plan| plan.name == name("medium")).unwrap();
    for (more, from) in [(1, None), (2, Some(at(90_000)))] {
        let hourly = Money { micros: plan.hourly.micros + more, ..plan.hourly };
        let plan = Plan { hourly, ..plan.clone() };
        assert!(app.put_plan(&plan, from, &context, at(93)).await.unwrap().changed);
    }
    override_price(stage, stage.db.org).await;
}

/// Usage of the recorded transitions, and what was posted for it.
pub(crate) async fn money(stage: &Stage) {
    let (worker, org) = (&stage.db.worker, stage.db.org);
    let settings = BillingSettings::default();
    let lease = stage.lease().await;
    let observer =
        Observer { lease, name: "executor/one".to_owned(), before: Freshness::default() };
    let kinds = [Kind::Pod, Kind::Node, Kind::PersistentVolumeClaim];
    let heard = kinds.into_iter().map(|kind| (kind, at(91))).collect();
    worker.record_watermarks(&observer, &Freshness { heard }).await.unwrap();
    assert!(worker.meter(lease, 2, GapPolicy::Free, at(92)).await.unwrap().marks > 0);
    assert!(worker.accrue(org, &settings, at(93)).await.unwrap().entries > 0);
    assert!(worker.balance_capacity(lease, at(94)).await.unwrap().computed > 0);
    // What a gap of a day cost, which these transitions do not have.
    let cost = "insert into capacity_costs (cluster_id, day, why, currency, micros)
                select cluster_id, day, 'gap', 'EUR', 6000 from capacity_days limit 1";
    sqlx::query(cost).execute(&stage.owner).await.unwrap();
}

/// Usage, credit, invoices in every state, a gap and a budget of an org.
pub(crate) async fn billed(stage: &Stage, org: OrgId) {
    let (app, settings) = (&stage.db.app, BillingSettings::default());
    let mut account = BillingAccount::default_in(settings.currency);
    account.legal_name = "Example Games Ltd".to_owned();
    app.put_billing_account(org, &account, &settings, &stage.context(), at(90)).await.unwrap();
    let object = format!("metered by {org}");
    store_hours(&stage.owner, (org, "web"), &object, at(0), 300).await;
    let amount = Money { micros: 10_000, currency: settings.currency };
    let (reason, expires_at) = ("welcome".to_owned(), Some(at(1_000_000)));
    let credit = CreditRequest { amount, reason, expires_at };
    app.grant_credit(org, &credit, &settings, &stage.context(), at(94)).await.unwrap();
    let early = InvoiceRequest { around: at(95), early: true };
    let issue = async |second| {
        app.issue_invoice(org, early, &settings, &stage.context(), at(second)).await.unwrap().row.id
    };
    let id = issue(95).await.to_string();
    app.void_invoice(org, &id, "wrong address", &stage.context(), at(96)).await.unwrap();
    let id = issue(97).await.to_string();
    app.pay_invoice(org, &id, "bank transfer", &stage.context(), at(98)).await.unwrap();
    gap(stage, &object).await;
    let limit = Money { micros: 1_000_000_000, currency: settings.currency };
    let budget = Some(BudgetRequest { limit, at_limit: AtLimit::Warn });
    app.put_budget((org, None), budget, &settings, &stage.context(), at(99)).await.unwrap();
}

/// A gap that was superseded, and an interval that a correction replaced.
async fn gap(stage: &Stage, object: &str) {
    sqlx::query(
        r#"with superseded as (
               update usage_intervals set superseded_at = recorded_at where object = $1)
           insert into usage_gaps (id, org_id, service_id, cluster_id, object, source, starts_at, ends_at, gap,
                                   recorded_at, superseded_at)
           select gen_random_uuid(), u.org_id, u.service_id, u.cluster_id, 'lost by ' || u.org_id, u.source, u.starts_at, u.ends_at,
                  jsonb_build_object(
                      'owner', jsonb_build_object('org', u.org_id, 'project', u.project_id, 'service', u.service_id),
                      'object', 'lost', 'source', u.source,
                      'span', jsonb_build_object('from', u.starts_at, 'until', u.ends_at),
                      'policy', 'free', 'plan', u.plan, 'last_known', '{}'::jsonb, 'delivery', 'delivered',
                      'simulated', false, 'evidence', u.last_evidence),
                  u.recorded_at, u.recorded_at
           from usage_intervals u where u.object = $1"#,
    )
    .bind(object)
    .execute(&stage.owner)
    .await
    .unwrap();
}

/// A service that its active hours paused.
pub(crate) async fn hours(stage: &Stage) {
    let request = AdmissionRequest { active: Some(crate::active_hours::day()), ..web("nginx:1") };
    let row = stage.try_declare("sleeping", &request, None, 99).await.unwrap().row;
    assert!(row.service.scheduled_off);
}

/// Offers in two versions, a subscription that holds, and one that begins later.
pub(crate) async fn subscriptions(stage: &Stage) {
    let (app, org, operator) = (&stage.db.app, stage.db.org, operator(stage));
    let (settings, context) = (BillingSettings::default(), RequestContext::new(&operator, None));
    let offers = app.list_offers().await.unwrap();
    let team = offers.into_iter().find(|offer| offer.name == name("team")).unwrap();
    let terms = Offer { fee_micros: 900_000_000, at_zero: Some(AtLimit::Warn), ..team };
    assert!(app.put_offer(&terms, &context, at(100)).await.unwrap().changed);
    for (offer, next_period) in [("team", false), ("enterprise", true)] {
        let wanted = SubscriptionRequest { offer, version: None, next_period };
        let put = app.put_subscription(org, wanted, &settings, &stage.context(), at(101)).await;
        assert!(put.unwrap().changed);
    }
    assert!(stage.db.worker.accrue(org, &settings, at(102)).await.unwrap().entries > 0);
}

/// The quota and the budget of a project.
pub(crate) async fn project_limits(stage: &Stage) {
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    let limit = app.find_quota(org).await.unwrap().limit;
    let put = app.put_project_quota(org, PROJECT, Some(limit), &context, at(103)).await;
    assert!(put.unwrap().1);
    let settings = BillingSettings::default();
    let limit = Money { micros: 900_000_000, currency: settings.currency };
    let budget = Some(BudgetRequest { limit, at_limit: AtLimit::Warn });
    let put = app.put_budget((org, Some(PROJECT)), budget, &settings, &context, at(103)).await;
    assert!(put.unwrap().1);
}
