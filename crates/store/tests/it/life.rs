//! A representative database of an install. The fixtures of `upgrade.rs` are made from it, so each
//! table has rows here and each column a value.

use std::collections::BTreeSet;

use serde_json::{Map, json};
use trueup_model::cluster::{Freshness, Routing};
use trueup_model::domain::Tls;
use trueup_model::key::Kind;
use trueup_model::observation::{
    Cause, Observation, PodProblem, PodSeen, Run, Runs, Sighting, WorkloadSeen,
};
use trueup_model::org::PLATFORM;
use trueup_model::plan::Plan;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_model::quota::Amounts;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::template::Template;
use trueup_model::token::TokenSpec;
use trueup_model::transition::ObjectUpdate;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{DomainRequest, EndpointRequest, RequestContext};
use trueup_store::{FreezeRequest, Observer, ServiceRow};
use trueup_testkit::report_batch::RecordReports as _;
use trueup_testkit::test_db::name;

use crate::finding::candidate;
use crate::receipt::forced;
use crate::stage::{PROJECT, Stage, at, converged, seen, unit, web};
use crate::tenant::two_orgs;
use crate::transition::{pod, present};

/// The value of the secret `KEY` of the service `shop/web`.
pub(crate) const SECRET: &str = "the value of a fixture";
/// A token of the org `acme`.
pub(crate) const TOKEN: &str = "ours";

/// Two orgs that have used every feature. Some events are not sealed yet.
pub(crate) async fn life() -> Stage {
    let (stage, ..) = two_orgs().await;
    platform(&stage).await;
    tokens(&stage).await;
    services(&stage).await;
    actions(&stage).await;
    forced_end(&stage).await;
    config(&stage).await;
    domains(&stage).await;
    wakes(&stage).await;
    findings(&stage).await;
    transitions(&stage).await;
    newer(&stage).await;
    stage.seal().await;
    stage.declare("web", "nginx:unsealed").await;
    let lease = stage.lease().await;
    stage.db.worker.claim_orders(lease, 3, at(1000)).await.unwrap();
    stage
}

/// Data of newer schema versions: fixtures of older ones are made without it.
async fn newer(stage: &Stage) {
    crate::life_newer::checks(stage).await;
    crate::life_newer::previews(stage).await;
    crate::life_newer::projects(stage).await;
    crate::life_newer::identity(stage).await;
    crate::life_newer::org_deletion(stage).await;
    crate::life_newer::prices(stage).await;
    crate::life_newer::drift(stage).await;
    crate::life_newer::money(stage).await;
    crate::life_newer::subscriptions(stage).await;
    crate::life_newer::project_limits(stage).await;
    crate::life_people::people(stage).await;
    crate::life_newer::hours(stage).await;
}

pub(crate) fn operator(stage: &Stage) -> Principal {
    Principal { role: Role::Operator, org: None, ..stage.principal.clone() }
}

/// Settings of operators for all orgs.
async fn platform(stage: &Stage) {
    let (app, worker, operator) = (&stage.db.app, &stage.db.worker, operator(stage));
    let context = RequestContext::new(&operator, None);
    for workload in ["job", "deployment"] {
        let spec = json!({"workload": workload, "image": "", "replicas": 1,
                          "resources": {"cpu_millis": 100, "memory_mib": 64}});
        let image = json!({"type": "string", "description": "The image.", "sets": "/image"});
        let template = json!({"name": workload, "version": 1, "summary": "One image.",
                              "parameters": {"image": image}, "spec": spec});
        let template: Template = serde_json::from_value(template).unwrap();
        app.publish_template(&template, &context, at(9)).await.unwrap();
    }
    let deprecated = "deployment@1".parse().unwrap();
    app.deprecate_template(&deprecated, "use web@1", &context, at(10)).await.unwrap();
    let sold: Vec<Plan> = app.list_plans(at(10)).await.unwrap();
    let old = Plan { name: name("old"), retired: true, ..sold[0].clone() };
    assert!(app.put_plan(&old, None, &context, at(10)).await.unwrap().changed);
    let limit = Amounts {
        services: 50,
        cpu_millis: 50_000,
        memory_mib: 90_000,
        storage_gib: 500,
        gpus: 1,
        projects: 20,
        endpoints: 30,
    };
    app.put_quota(stage.db.org, limit, &context, at(10)).await.unwrap();
    let cluster = &app.list_clusters().await.unwrap()[0];
    let routing = Routing { issuer: Some("ca".to_owned()), ..Routing::default() };
    assert!(app.put_routing(cluster, &routing, &context, at(10)).await.unwrap());
    worker.note_cluster(stage.db.cluster, Some("it was built")).await.unwrap();
    worker.record_watches(stage.lease().await, &Freshness::all_at(at(10))).await.unwrap();
    let freeze = FreezeRequest { reason: Some("an audit") };
    for cluster in [None, Some("test")] {
        app.freeze_platform(cluster, freeze, &context, at(11)).await.unwrap();
    }
    app.freeze_service(stage.db.org, (PROJECT, "more"), freeze, &context, at(11)).await.unwrap();
    app.create_org(&name("fresh"), &context, at(12)).await.unwrap();
}

/// Tokens that are limited, expire, were used and were revoked.
async fn tokens(stage: &Stage) {
    let (app, org) = (&stage.db.app, stage.db.org);
    let narrow = |name: &str| TokenSpec {
        name: name.to_owned(),
        role: Role::Developer,
        project: None,
        permissions: Some(BTreeSet::from([Permission::Read])),
        expires_at: Some(at(86_400)),
    };
    for token in ["ci", "lost"] {
        app.create_token(org, &narrow(token), &stage.context(), at(12)).await.unwrap();
    }
    app.revoke_token(org, "lost", &stage.context(), at(13)).await.unwrap();
    assert!(app.authenticate(TOKEN, at(13)).await.unwrap().is_some());
    let powerful = TokenSpec {
        name: "op".to_owned(),
        role: Role::Operator,
        project: None,
        permissions: None,
        expires_at: None,
    };
    let principal = operator(stage);
    let context = RequestContext::new(&principal, None);
    app.create_token(PLATFORM, &powerful, &context, at(13)).await.unwrap();
}

fn of(template: &str, parameters: Map<String, serde_json::Value>) -> AdmissionRequest {
    AdmissionRequest { template: template.parse().unwrap(), parameters, ..web("nginx:1") }
}

/// A service in each phase, and with each outcome of a pass.
async fn services(stage: &Stage) {
    let waits = || Outcome::Waiting { on: "its pods".to_owned() };
    let why = || "the fixture says so".to_owned();
    let starting = |row: &ServiceRow, outcome| Report {
        observation: Some(Observation { applied: false, ..unready(row, 1) }),
        outcome,
        ..converged(row, 1)
    };
    let outcomes = [
        ("creating", waits()),
        ("blocked", Outcome::Blocked { why: why() }),
        ("failing", Outcome::Failed { why: why() }),
        ("refused", Outcome::Refused { why: why() }),
        ("deferred", Outcome::Deferred { why: why() }),
        ("broken", Outcome::Broken { why: why() }),
        ("held", Outcome::Frozen { why: why() }),
    ];
    for (service, outcome) in outcomes {
        let row = stage.declare(service, "nginx:1").await.row;
        record_reports(stage, starting(&row, outcome)).await;
    }
    let row = stage.declare("updating", "nginx:1").await.row;
    record_reports(stage, converged(&row, 1)).await;
    let row = stage.declare("updating", "nginx:2").await.row;
    let rolling = Some(Observation { applied: false, ..unready(&row, 2) });
    record_reports(stage, Report { observation: rolling, outcome: waits(), ..converged(&row, 2) })
        .await;
    let row = stage.declare("paused", "nginx:1").await.row;
    record_reports(stage, converged(&row, 1)).await;
    stage.act("paused", &ServiceOperation::Pause).await.unwrap();
    let rests = WorkloadSeen { current: true, ..WorkloadSeen::default() };
    let resting = Some(Observation { workload: Some(rests), ..seen(&row, 2, 0) });
    record_reports(stage, Report { observation: resting, ..converged(&row, 2) }).await;
    let row = stage.declare("deleting", "nginx:1").await.row;
    record_reports(stage, converged(&row, 1)).await;
    stage.delete("deleting").await.unwrap();
    record_reports(stage, Report { outcome: waits(), ..converged(&row, 2) }).await;
    let image = Map::from_iter([("image".to_owned(), json!("migrate:1"))]);
    let row = stage.try_declare("completed", &of("job@1", image), None, 14).await.unwrap().row;
    let runs = Some(Runs { repeats: false, last: Run::Succeeded, job: None });
    let workload = Some(WorkloadSeen { runs, current: true, ..WorkloadSeen::default() });
    let ended = Some(Observation { workload, ..seen(&row, 1, 0) });
    record_reports(stage, Report { observation: ended, ..converged(&row, 1) }).await;
    disk(stage).await;
}

/// A service with a bound disk.
async fn disk(stage: &Stage) {
    let row =
        stage.try_declare("game", &of("minecraft@1", Map::new()), None, 14).await.unwrap().row;
    let lease = stage.lease().await;
    let orders = stage.db.worker.claim_orders(lease, 100, at(14)).await.unwrap();
    let mut keys = orders.iter().flat_map(|(_, order)| order.recorded.keys());
    let claim = keys.find(|key| key.kind == Kind::PersistentVolumeClaim).unwrap().clone();
    let mut there = seen(&row, 1, 1);
    there.objects.push(Sighting {
        key: claim.clone(),
        uid: "disk".to_owned(),
        resource_version: "8".to_owned(),
        terminating: false,
        bound: Some(true),
        route: None,
        certificate: None,
    });
    let changes = vec![ObjectChange::Created { key: claim }];
    record_reports(stage, Report { observation: Some(there), changes, ..converged(&row, 1) }).await;
}

/// A service whose one pod cannot be started.
fn unready(row: &ServiceRow, generation: i64) -> Observation {
    let problem = PodProblem { cause: Cause::ImagePull, detail: "no such image".to_owned() };
    let pod = PodSeen {
        name: "web-1".to_owned(),
        uid: "pod-1".to_owned(),
        ready: false,
        ended: None,
        problem: Some(problem),
        simulated: false,
    };
    Observation { pods: vec![pod], ..seen(row, generation, 0) }
}

async fn record_reports(stage: &Stage, report: Report) {
    let lease = stage.lease().await;
    assert_eq!(stage.db.worker.record_reports(lease, &[report], at(15)).await.unwrap(), 1);
}

/// A release of each kind.
async fn actions(stage: &Stage) {
    stage.declare("busy", "nginx:1").await;
    let actions = [
        ServiceOperation::Scale { replicas: 2 },
        ServiceOperation::Restart,
        ServiceOperation::Resize { plan: name("medium") },
        ServiceOperation::Rollback { to: Some(1) },
        ServiceOperation::Autoscale { min: 1, max: 3, cpu_percent: Some(60) },
        ServiceOperation::Pause,
        ServiceOperation::Resume,
    ];
    for action in actions {
        assert!(stage.act("busy", &action).await.unwrap().changed, "{action:?}");
    }
}

/// A forced deletion.
async fn forced_end(stage: &Stage) {
    let row = stage.declare("burnt", "nginx:1").await.row;
    stage.delete("burnt").await.unwrap();
    stage
        .act("burnt", &ServiceOperation::ForceDelete { reason: "the node burnt".to_owned() })
        .await
        .unwrap();
    let lease = stage.lease().await;
    let orders = stage.db.worker.claim_orders(lease, 100, at(16)).await.unwrap();
    let force = orders.iter().find_map(|(_, order)| order.permit.force.clone()).unwrap();
    record_reports(stage, forced(&row, force)).await;
}

/// Variables, secrets and endpoints that exist, and deleted ones.
async fn config(stage: &Stage) {
    let (app, context) = (&stage.db.app, stage.context());
    stage.set_variable(Some("web"), "GREETING", "hello").await.unwrap();
    stage.set_variable(Some("web"), "FORMER", "bye").await.unwrap();
    stage.delete_variable(Some("web"), "FORMER").await.unwrap();
    stage.set_secret(Some("web"), "KEY", SECRET).await.unwrap();
    stage.set_secret(Some("web"), "FORMER", "another value").await.unwrap();
    stage.delete_secret(Some("web"), "FORMER").await.unwrap();
    for (endpoint, service) in [("closing", "busy"), ("closed", "web")] {
        stage.open(stage.db.org, service, endpoint).await.unwrap();
        stage.order_of(service).await;
        let name = name(endpoint);
        let wanted =
            EndpointRequest { project: PROJECT, service, name: &name, if_generation: None };
        app.close_endpoint(stage.db.org, &wanted, &context, at(17)).await.unwrap();
        // Its key is unwanted from this order on.
        stage.order_of(service).await;
    }
    let row = stage.find("web").await.unwrap();
    record_reports(stage, converged(&row, row.service.generation)).await;
}

/// Hosts in each state.
async fn domains(stage: &Stage) {
    let (app, org, context) = (&stage.db.app, stage.db.org, stage.context());
    for text in ["proved.example.org", "withdrawn.example.org", "removed.example.org"] {
        let host = text.parse().unwrap();
        let wanted =
            DomainRequest { project: PROJECT, service: "web", host: &host, if_generation: None };
        app.add_domain(org, &wanted, Tls::Off, &context, at(18)).await.unwrap();
        app.verify_domain(org, &wanted, true, &context, at(19)).await.unwrap();
        match text {
            "withdrawn.example.org" => {
                app.verify_domain(org, &wanted, false, &context, at(20)).await.unwrap();
            }
            "removed.example.org" => {
                app.remove_domain(org, &wanted, &context, at(20)).await.unwrap();
            }
            _ => {}
        }
    }
}

/// Wakes that are queued, running, retried and dead.
async fn wakes(stage: &Stage) {
    let worker = &stage.db.worker;
    let lease = stage.lease().await;
    worker.requeue_lost(lease, &BTreeSet::new()).await.unwrap();
    let claimed = worker.claim_orders(lease, 100, at(1000)).await.unwrap();
    let wakes: Vec<_> = claimed.into_iter().map(|(wake, _)| wake).collect();
    let of = async |service: &str| unit(&stage.find(service).await.unwrap());
    let claimed = async |service: &str| {
        let of = of(service).await;
        wakes.iter().find(|wake| wake.unit == of).expect("the wake should be claimed")
    };
    let later = std::time::Duration::from_secs(9);
    worker.retry_wake(claimed("refused").await, later, "later", at(21)).await.unwrap();
    worker.poison_wake(claimed("deferred").await, "a defect", at(21)).await.unwrap();
    worker.finish_wakes(std::slice::from_ref(claimed("broken").await), at(21)).await.unwrap();
    for service in ["blocked", "failing"] {
        worker.mark_wake_dead(of(service).await, "it cannot be read", at(21)).await.unwrap();
    }
    let (app, context, revived) = (&stage.db.app, stage.context(), of("failing").await);
    let (_, changed) = app.requeue_wake(PLATFORM, revived, &context, at(22)).await.unwrap();
    assert!(changed);
}

/// Findings that are open, closed, to be removed and kept.
async fn findings(stage: &Stage) {
    let (app, worker, context) = (&stage.db.app, &stage.db.worker, stage.context());
    let left = |name: &str| trueup_model::finding::OrphanCandidate {
        unit: Some("svc_01h455vb4pex5vsknk084sn02q".to_owned()),
        ..candidate(name, true)
    };
    stage.sweep(vec![left("a"), left("b"), left("gone"), candidate("copied", false)], 30).await;
    stage.sweep(vec![left("a"), left("b"), candidate("copied", false)], 31).await;
    let found = app.list_findings(false, None, 100).await.unwrap();
    let named = |name: &str| found.iter().find(|one| one.key.name == name).unwrap();
    app.remove_finding(named("a").id, None, &context, at(32)).await.unwrap();
    app.remove_finding(named("b").id, Some(2), &context, at(32)).await.unwrap();
    let lease = stage.lease().await;
    worker.end_removal(lease, named("b"), Some("it changed"), at(33)).await.unwrap();
}

/// Transitions of pods, and gaps in observation.
async fn transitions(stage: &Stage) {
    let row = stage.find("web").await.unwrap();
    let lease = stage.lease().await;
    let heard = [(Kind::Pod, at(5))].into_iter().collect();
    let observer = Observer { lease, name: "executor/one".to_owned(), before: Freshness { heard } };
    let listed = |uids: &[&str], since, seen_at| ObjectUpdate::Listed {
        kind: Kind::Pod,
        uids: uids.iter().map(|uid| (*uid).to_owned()).collect(),
        resource_version: "99".to_owned(),
        since,
        seen_at,
    };
    let mut crashed = pod(&row, "b", 9, Some("n1"));
    crashed["status"] = json!({"phase": "Running", "containerStatuses": [{
        "name": "main", "restartCount": 1, "ready": false, "image": "nginx:1", "imageID": "i",
        "state": {"running": {"startedAt": "2027-01-15T08:00:09Z"}},
        "lastState": {"terminated": {"exitCode": 1, "startedAt": "2027-01-15T08:00:01Z",
                                     "finishedAt": "2027-01-15T08:00:08Z"}}}]});
    let node = json!({"metadata": {"uid": "n", "name": "n1", "resourceVersion": "4"},
                      "status": {"capacity": {"cpu": "4"}}});
    let updates = [
        listed(&[], None, at(40)),
        present(Kind::Pod, &pod(&row, "a", 5, None), at(41)),
        present(Kind::Pod, &pod(&row, "a", 7, Some("n1")), at(42)),
        present(Kind::Pod, &crashed, at(43)),
        present(Kind::Node, &node, at(43)),
        listed(&["b"], Some(at(43)), at(50)),
    ];
    assert!(stage.db.worker.note_transitions(&observer, &updates, at(50)).await.unwrap() > 5);
}
