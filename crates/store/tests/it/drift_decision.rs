//! Decisions about drift: policies, and proposals that are adopted, rejected or expire; and how they
//! come back with orders.

use serde_json::json;
use trueup_model::drift::{
    AdoptMode, DivergenceState, DriftOrder, DriftPolicy, DriftRule, FieldDecision, FieldRef,
    PROPOSAL_LIFETIME, Verdict,
};
use trueup_model::event::{DriftAdopted, Fact};
use trueup_model::template::Template;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, RequestContext};
use trueup_store::{IdempotencyKey, ServiceRow, WaitingProposal};
use trueup_testkit::test_db::name;

use crate::door_config::fields;
use crate::drift::{reverted, standing, workload};
use crate::life::operator;
use crate::stage::{PROJECT, Stage, at, converged, unit, web};

/// A day, in seconds.
const DAY: i64 = 24 * 3600;

/// The number of pods of a service.
pub(crate) fn field(row: &ServiceRow) -> FieldRef {
    FieldRef { key: workload(row), field: "spec.replicas".to_owned() }
}

fn ignore(path: &str) -> DriftPolicy {
    let rule = DriftRule { kind: None, path: Some(path.to_owned()), verdict: Verdict::Ignore };
    DriftPolicy { rules: vec![rule], ..DriftPolicy::default() }
}

impl Stage {
    /// What the next order of a service says about drift.
    pub(crate) async fn drift_order(&self, row: &ServiceRow, seconds: i64) -> DriftOrder {
        let (lease, worker) = (self.lease().await, &self.db.worker);
        worker.wake_units(lease, &[unit(row)], at(seconds)).await.unwrap();
        let orders = worker.claim_orders(lease, 100, at(seconds)).await.unwrap();
        let order = orders.into_iter().find(|(_, order)| order.unit == unit(row));
        order.expect("the service should have a wake").1.drift
    }

    /// Whether a service is to be reconciled again.
    pub(crate) async fn is_woken(&self, row: &ServiceRow) -> bool {
        let id = row.service.id.uuid();
        let woken = format!(
            "select count(*) from wakes
             where subject_id = '{id}' and claimed_seq is distinct from requested_seq"
        );
        self.one::<i64>(&woken).await == 1
    }

    async fn kept_proposals(&self) -> Vec<WaitingProposal> {
        self.db.worker.waiting_proposals(self.db.cluster, None, 9).await.unwrap()
    }
}

#[tokio::test]
async fn an_adopted_value_is_a_new_generation_that_says_how_to_undo_it() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(reverted(&row, 5, Verdict::Adopt), 10).await;
    let id = stage.divergence().await.record.id;
    let context = stage.context();

    // A dry run shows the change and records nothing.
    let (before, dry_run) = (stage.rows().await, app.dry_run());
    dry_run.app().adopt_divergence(org, id, None, None, &context, at(19)).await.unwrap();
    assert_eq!(dry_run.seen().units[0].name, "shop/web");
    assert_eq!(stage.grown(&before).await, []);

    let other = app.adopt_divergence(org, id, Some(7), None, &context, at(20)).await;
    assert!(matches!(other, Err(Refusal::Changed { current: 1 })), "{other:?}");
    let key = Some(IdempotencyKey::new("adopt".to_owned(), "key".to_owned(), b"{}"));
    let keyed = RequestContext { idempotency_key: key, ..stage.context() };
    let (looked_at, live) = (json!(4), json!(5));
    let changed = app.adopt_divergence(org, id, None, Some(&looked_at), &context, at(20)).await;
    assert_eq!(fields(changed.unwrap_err()), ["live"]);
    let adopted =
        app.adopt_divergence(org, id, Some(1), Some(&live), &keyed, at(20)).await.unwrap();
    assert!(adopted.changed);
    let record = adopted.row.record;
    assert_eq!(record.divergence.state, DivergenceState::Adopted);
    assert_eq!((record.ended_at, record.decided_by.as_deref()), (Some(at(20)), Some("owner")));
    let now = stage.find("web").await.unwrap().service;
    assert_eq!((now.generation, now.spec.replicas), (2, 5));
    assert_eq!(now.parameters["replicas"], json!(5));
    let body: serde_json::Value =
        stage.one("select body from events where type = 'DriftAdopted'").await;
    let expected = Fact::DriftAdopted(DriftAdopted {
        divergence: id,
        key: workload(&row),
        field: "spec.replicas".to_owned(),
        parameter: "replicas".to_owned(),
        undo: 1,
        principal: stage.principal.id.to_string(),
    });
    assert_eq!(serde_json::from_value::<Fact>(body).unwrap(), expected);
    let actions: Vec<String> = stage.all("select action from releases order by generation").await;
    assert_eq!(actions, ["declare", "adopt"]);
    let used: i64 = stage
        .one(&format!("select cpu_millis_used from quotas where org_id = '{}'", org.uuid()))
        .await;
    assert_eq!(used, 5 * 250, "the quota is reserved");

    let repeated = app.adopt_divergence(org, id, Some(1), None, &keyed, at(21)).await.unwrap();
    assert!(!repeated.changed);
    let late = app.adopt_divergence(org, id, None, None, &context, at(30)).await;
    match late {
        Err(Refusal::Decided { decision, by, at: when, .. }) => {
            assert_eq!(
                (decision.as_str(), by.as_deref(), when),
                ("adopted", Some("owner"), at(20))
            );
        }
        other => panic!("expected who decided, not {other:?}"),
    }
    let undone = stage.act("web", &ServiceOperation::Rollback { to: Some(1) }).await.unwrap();
    assert_eq!(undone.row.service.spec.replicas, 1);
}

#[tokio::test]
async fn a_value_out_of_bounds_is_not_adopted_and_nothing_is_recorded() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 99, DivergenceState::Ignored), 10).await;
    let id = stage.divergence().await.record.id;
    let before = stage.rows().await;
    let (org, context) = (stage.db.org, stage.context());
    let refused = stage.db.app.adopt_divergence(org, id, None, None, &context, at(20)).await;
    assert_eq!(fields(refused.unwrap_err()), ["parameters.replicas"]);
    assert_eq!(stage.grown(&before).await, []);
    let not_proposed = stage.db.app.reject_divergence(org, id, &context, at(20)).await;
    assert_eq!(fields(not_proposed.unwrap_err()), ["divergence"]);
}

#[tokio::test]
async fn a_kept_value_stays_until_it_is_rejected_and_is_then_reverted_once() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 10).await;
    let id = stage.divergence().await.record.id;
    let until = at(10) + PROPOSAL_LIFETIME;
    let order = stage.drift_order(&row, 11).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::Proposed { until });

    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    assert!(app.reject_divergence(org, id, &context, at(20)).await.unwrap().changed);
    let again = app.reject_divergence(org, id, &context, at(21)).await;
    assert!(matches!(again, Err(Refusal::Decided { .. })), "{again:?}");
    let rejected = stage.divergence().await;
    assert_eq!(rejected.record.divergence.state, DivergenceState::Rejected);
    assert_eq!((rejected.record.ended_at, rejected.gone_at), (Some(at(20)), None));
    let order = stage.drift_order(&row, 22).await;
    assert_eq!(order.fields[&field(&row)], FieldDecision::Proposed { until: at(20) });

    // A pass from before the decision adds nothing.
    stage.pass(standing(&row, 6, DivergenceState::Proposed), 23).await;
    assert_eq!(stage.divergence().await.record.last_seen_at, at(23));
    stage.pass(reverted(&row, 6, Verdict::Enforce), 24).await;
    assert_eq!(stage.divergence().await.gone_at, Some(at(24)));
    let order = stage.drift_order(&row, 25).await;
    assert_eq!(order.fields.get(&field(&row)), None);
    assert_eq!(order.rounds[&field(&row)], [at(24)]);
}

#[tokio::test]
async fn a_proposal_expires_after_a_day_and_its_value_is_reverted() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 10).await;
    stage.drift_order(&row, 11).await;
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    assert_eq!(worker.expire_proposals(lease, at(DAY + 9)).await.unwrap(), 0);
    assert_eq!(worker.expire_proposals(lease, at(DAY + 10)).await.unwrap(), 1);
    assert_eq!(worker.expire_proposals(lease, at(DAY + 11)).await.unwrap(), 0);
    let expired = stage.divergence().await;
    assert_eq!(expired.record.divergence.state, DivergenceState::Expired);
    assert_eq!((expired.gone_at, expired.record.decided_by), (None, None));
    assert!(stage.is_woken(&row).await, "the value is to be reverted");
    assert_eq!(stage.count_events("DriftEnded").await, 1);

    // The executor may be first.
    stage.pass(reverted(&row, 5, Verdict::Enforce), DAY + 20).await;
    stage.pass(standing(&row, 5, DivergenceState::Proposed), DAY + 30).await;
    stage.pass(reverted(&row, 5, Verdict::Enforce), 3 * DAY).await;
    let states: Vec<_> =
        stage.divergences().await.iter().map(|row| row.record.divergence.state).collect();
    assert_eq!(states, [DivergenceState::Expired; 2]);
}

#[tokio::test]
async fn a_waiting_proposal_has_its_policies_and_is_rejected_with_the_reason() {
    let stage = Stage::new().await;
    let automatic = DriftPolicy {
        verdict: Some(Verdict::Adopt),
        adopt: Some(AdoptMode::Automatic),
        rules: Vec::new(),
    };
    let request = AdmissionRequest { drift: automatic.clone(), ..web("nginx:1") };
    let row = stage.try_declare("web", &request, None, 1).await.unwrap().row;
    assert_eq!(row.service.drift, automatic);
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 10).await;
    let waiting = stage.kept_proposals().await;
    assert_eq!((waiting.len(), &waiting[0].policies), (1, &vec![automatic]));
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    let rejected = worker.reject_proposal(lease, &waiting[0], "too many", at(20)).await;
    assert!(rejected.unwrap());
    let row = stage.divergence().await;
    assert_eq!(row.record.divergence.state, DivergenceState::Rejected);
    assert_eq!(row.record.decided_by.as_deref(), Some("drift policy"));
    assert_eq!(row.why.as_deref(), Some("too many"));
    let again = worker.reject_proposal(lease, &waiting[0], "too many", at(21)).await;
    assert!(!again.unwrap());
    assert!(stage.kept_proposals().await.is_empty());
}

#[tokio::test]
async fn a_policy_adopts_only_at_the_generation_that_was_seen() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.pass(standing(&row, 5, DivergenceState::Proposed), 10).await;
    let id = stage.divergence().await.record.id;
    stage.declare("web", "nginx:2").await;
    assert!(stage.kept_proposals().await.is_empty(), "its service changed");
    let app = &stage.db.app;
    let lost = app.adopt_by_policy(stage.db.org, id, 1, at(20)).await;
    assert!(matches!(lost, Err(Refusal::Changed { current: 2 })), "{lost:?}");
    let next = stage.find("web").await.unwrap();
    stage.pass(standing(&next, 5, DivergenceState::Proposed), 30).await;
    app.adopt_by_policy(stage.db.org, id, 2, at(40)).await.unwrap();
    // A pass of the former generation does not open it again.
    stage.pass(standing(&next, 5, DivergenceState::Proposed), 50).await;
    let adopted = stage.divergence().await.record;
    assert_eq!(adopted.decided_by.as_deref(), Some("drift policy"));
    let sources: Vec<String> =
        stage.all("select distinct source from events where generation = 3").await;
    assert_eq!(sources, ["system"]);
}

#[tokio::test]
async fn an_order_has_the_policies_of_service_project_and_template() {
    let stage = Stage::new().await;
    let operator = operator(&stage);
    let context = RequestContext::new(&operator, None);
    let published = stage.db.app.find_template(&"web@1".parse().unwrap()).await.unwrap().unwrap();
    let of_template = ignore("metadata.annotations");
    let template = Template { version: 2, drift: of_template.clone(), ..published };
    stage.db.app.publish_template(&template, &context, at(1)).await.unwrap();
    let of_project = ignore("metadata.labels");
    let set = async |policy: &DriftPolicy, seconds| {
        let (app, project) = (&stage.db.app, name(PROJECT));
        app.accept_project(stage.db.org, &project, policy, &stage.context(), at(seconds)).await
    };
    assert!(set(&of_project, 2).await.unwrap().changed);
    let own = ignore("spec.replicas");
    let template = "web@2".parse().unwrap();
    let request = AdmissionRequest { template, drift: own.clone(), ..web("nginx:1") };
    let row = stage.try_declare("web", &request, None, 3).await.unwrap().row;
    let order = stage.drift_order(&row, 4).await;
    assert_eq!(order.policies, [own.clone(), of_project.clone(), of_template.clone()]);

    // The same policy again is no change; another one wakes the services.
    let again = set(&of_project, 5).await.unwrap();
    assert!(!again.changed);
    assert_eq!((again.row.project.generation, again.row.project.drift), (2, of_project));
    stage.pass(converged(&row, 1), 6).await;
    sqlx::query("delete from wakes").execute(&stage.owner).await.unwrap();
    assert!(set(&DriftPolicy::default(), 7).await.unwrap().changed);
    assert!(stage.is_woken(&row).await);
    assert_eq!(stage.drift_order(&row, 8).await.policies, [own, of_template]);
    let refused = set(&ignore("metadata.ownerReferences"), 9).await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_rollback_keeps_the_present_policy() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let own = ignore("spec.replicas");
    let request = AdmissionRequest { drift: own.clone(), ..web("nginx:2") };
    stage.try_declare("web", &request, None, 2).await.unwrap();
    let back = stage.act("web", &ServiceOperation::Rollback { to: None }).await.unwrap().row;
    assert_eq!((back.service.spec.image.as_str(), back.service.drift), ("nginx:1", own));
}
