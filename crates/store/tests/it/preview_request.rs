//! Plan requests: asked for, filled by who holds the lease, and insisted on.

use trueup_model::id::PreviewRequestId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::preview_request::{
    ExactObject, ExactPreview, ExactVerb, PreviewRequest, PreviewState, Standing,
};
use trueup_rules::admit::AdmissionRequest;
use trueup_store::door::{Accepted, Refusal, RequestContext, ServiceRequest};
use trueup_store::{Error, FreezeRequest, IdempotencyKey, Lease, PreviewResult, ServiceRow};
use trueup_testkit::test_db::name;

use crate::secret::set_variable_for;
use crate::stage::{PROJECT, Stage, at, web};

/// A plan that changes one object.
pub(crate) fn plan() -> ExactPreview {
    let key = ResourceKey::new(Kind::Deployment, "shop-1", "web-1");
    let uid = Some("u1".to_owned());
    let fields = vec![(vec!["spec".to_owned(), "replicas".to_owned()], "digest".to_owned())];
    ExactPreview {
        objects: vec![ExactObject {
            key: key.clone(),
            verb: ExactVerb::Update,
            fields: Vec::new(),
            refused: None,
        }],
        stops: None,
        footing: vec![Standing { key, uid, fields }],
    }
}

impl Stage {
    /// Asks what a web service of this image would do.
    pub(crate) async fn request(
        &self,
        image: &str,
        seconds: i64,
    ) -> Result<Accepted<PreviewRequest>, Refusal> {
        self.request_as(&web(image), &self.context(), seconds).await
    }

    async fn request_as(
        &self,
        ask: &AdmissionRequest,
        context: &RequestContext<'_>,
        seconds: i64,
    ) -> Result<Accepted<PreviewRequest>, Refusal> {
        let name = name("web");
        let wanted = ServiceRequest::declare(PROJECT, &name, ask);
        self.db.app.request_plan(self.db.org, &wanted, context, at(seconds)).await
    }

    async fn requested(&self, image: &str, seconds: i64) -> PreviewRequestId {
        self.request(image, seconds).await.unwrap().row.id
    }

    pub(crate) async fn fill(&self, lease: Lease, id: PreviewRequestId, seconds: i64) {
        let end = PreviewResult::Filled(plan());
        self.db.worker.end_plan(lease, id, &end, at(seconds)).await.unwrap();
    }

    /// The request as it is shown at this time.
    async fn seen(&self, id: PreviewRequestId, seconds: i64) -> PreviewRequest {
        let app = &self.db.app;
        let id = id.to_string();
        let found = app.find_preview_request(self.db.org, PROJECT, "web", &id, at(seconds)).await;
        found.unwrap().unwrap()
    }

    /// Declares a web service of this image by that plan.
    async fn apply(
        &self,
        image: &str,
        plan: PreviewRequestId,
        seconds: i64,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let (name, ask) = (name("web"), web(image));
        let wanted =
            ServiceRequest { preview: Some(plan), ..ServiceRequest::declare(PROJECT, &name, &ask) };
        self.db.app.accept_service(self.db.org, &wanted, &self.context(), at(seconds)).await
    }
}

fn void(outcome: Result<Accepted<ServiceRow>, Refusal>) -> String {
    match outcome {
        Err(Refusal::PlanVoid(why)) => why,
        other => panic!("it should be void: {other:?}"),
    }
}

fn unready(outcome: Result<Accepted<ServiceRow>, Refusal>) -> String {
    match outcome {
        Err(Refusal::PlanUnready(why)) => why,
        other => panic!("it should not be ready: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_leaves_nothing_but_itself() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let before = stage.rows().await;
    let asked = stage.request("nginx:2", 5).await.unwrap();
    assert!(asked.changed);
    assert_eq!((asked.row.state, asked.row.generation), (PreviewState::Waiting, 2));
    assert_eq!(stage.grown(&before).await, [("preview_requests".to_owned(), 1)]);
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1);
    // What would be refused is refused as always, and leaves nothing.
    let nameless = AdmissionRequest { parameters: serde_json::Map::new(), ..web("nginx:1") };
    let refused = stage.request_as(&nameless, &stage.context(), 6).await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
    assert_eq!(stage.grown(&before).await, [("preview_requests".to_owned(), 1)]);
}

#[tokio::test]
async fn the_same_key_asks_once() {
    let stage = Stage::new().await;
    let repeat = |body: &[u8]| Some(IdempotencyKey::new("plan".to_owned(), "key".to_owned(), body));
    let context = RequestContext { repeat: repeat(b"1"), ..stage.context() };
    let first = stage.request_as(&web("nginx:1"), &context, 1).await.unwrap();
    let again = stage.request_as(&web("nginx:1"), &context, 2).await.unwrap();
    assert_eq!((again.changed, again.row.id), (false, first.row.id));
    let other = RequestContext { repeat: repeat(b"2"), ..stage.context() };
    let other = stage.request_as(&web("nginx:2"), &other, 3).await;
    assert!(matches!(other, Err(Refusal::KeyReused)), "{other:?}");
    // A rehearsed request is not made.
    let rehearsal = stage.db.app.dry_run();
    let (name, ask) = (name("web"), web("nginx:1"));
    let wanted = ServiceRequest::declare(PROJECT, &name, &ask);
    let app = rehearsal.app();
    let dry = app.request_plan(stage.db.org, &wanted, &stage.context(), at(4)).await.unwrap();
    assert_eq!(stage.one::<i64>("select count(*) from preview_requests").await, 1);
    assert_ne!(dry.row.id, first.row.id);
}

#[tokio::test]
async fn an_order_is_what_the_driver_would_make_of_it() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    set_variable_for(&stage, stage.db.org).await;
    let asked = stage.requested("nginx:2", 5).await;
    let orders = worker.asked_plans(lease.cluster, 9, at(6)).await.unwrap();
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].id, asked);
    let planned = orders[0].order.clone().unwrap();
    stage.declare("web", "nginx:2").await;
    let claimed = worker.claim_orders(lease, 9, at(7)).await.unwrap();
    let unit = planned.unit;
    let real = claimed.into_iter().find(|(claimed, _)| claimed.unit == unit).unwrap().1;
    assert_eq!(*planned, real);
}

#[tokio::test]
async fn it_is_filled_once_and_by_who_holds_the_lease() {
    let stage = Stage::new().await;
    let (stale, worker) = (stage.lease().await, &stage.db.worker);
    let id = stage.requested("nginx:1", 1).await;
    let lease = stage.lease().await;
    let late = worker.end_plan(stale, id, &PreviewResult::Filled(plan()), at(3)).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    assert_eq!(stage.seen(id, 3).await.state, PreviewState::Waiting);

    let waits = PreviewResult::Waits("the cluster does not answer".to_owned());
    worker.end_plan(lease, id, &waits, at(4)).await.unwrap();
    let seen = stage.seen(id, 4).await;
    assert_eq!(
        (seen.state, seen.why.as_deref()),
        (PreviewState::Waiting, Some("the cluster does not answer"))
    );
    stage.fill(lease, id, 5).await;
    let filled = stage.seen(id, 5).await;
    assert_eq!(
        (filled.state, filled.why.clone(), filled.checked_at),
        (PreviewState::Filled, None, Some(at(5)))
    );
    assert_eq!(filled.preview, Some(plan()));
    // Whoever comes later changes nothing.
    let other = PreviewResult::Filled(ExactPreview::default());
    worker.end_plan(lease, id, &other, at(6)).await.unwrap();
    worker.end_plan(lease, id, &PreviewResult::Failed("no".to_owned()), at(6)).await.unwrap();
    assert_eq!(stage.seen(id, 6).await, filled);
    assert!(worker.asked_plans(lease.cluster, 9, at(6)).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_nobody_fills_has_failed_after_a_minute_and_says_why() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    let id = stage.requested("nginx:1", 0).await;
    assert_eq!(stage.seen(id, 59).await.state, PreviewState::Waiting);
    let failed = stage.seen(id, 60).await;
    assert_eq!(failed.state, PreviewState::Failed);
    let why = failed.why.unwrap();
    assert!(
        why.contains("no process works on the cluster test now, it was never heard of"),
        "{why}"
    );
    assert!(worker.asked_plans(lease.cluster, 9, at(60)).await.unwrap().is_empty());
    let waits = PreviewResult::Waits("the cluster does not answer: gone".to_owned());
    worker.end_plan(lease, id, &waits, at(59)).await.unwrap();
    let why = stage.seen(id, 60).await.why.unwrap();
    assert_eq!(why, "nobody could fill it in a minute: the cluster does not answer: gone");
    assert_eq!(stage.seen(id, 900).await.state, PreviewState::Expired);
}

#[tokio::test]
async fn a_plan_that_holds_is_accepted_and_its_event_names_it() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    // A new service gets the id that was planned for it.
    let id = stage.requested("nginx:1", 1).await;
    stage.fill(lease, id, 2).await;
    let planned = stage.seen(id, 2).await;
    let made = stage.apply("nginx:1", id, 3).await.unwrap();
    assert!(made.changed);
    assert_eq!(made.row.service.id, planned.service);
    let told: Vec<String> =
        stage.all("select body->>'plan' from events where type = 'ServiceQueued'").await;
    assert_eq!(told, [id.to_string()]);
    // The same again is no change, as always.
    assert!(!stage.apply("nginx:1", id, 4).await.unwrap().changed);
    let next = stage.requested("nginx:2", 5).await;
    stage.fill(lease, next, 6).await;
    assert_eq!(stage.apply("nginx:2", next, 7).await.unwrap().row.service.generation, 2);
}

#[tokio::test]
async fn a_plan_that_does_not_hold_is_refused_and_nothing_is_recorded() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    let id = stage.requested("nginx:2", 1).await;
    assert!(unready(stage.apply("nginx:2", id, 2).await).contains("not filled yet"));
    stage.fill(lease, id, 2).await;

    // Another manifest than what was planned.
    let why = void(stage.apply("nginx:3", id, 3).await);
    assert!(why.contains("makes other objects"), "{why}");
    // Nobody looked for a while.
    assert!(unready(stage.apply("nginx:2", id, 30).await).contains("nobody can say now"));
    worker.note_plans(lease, &[id], &[], at(29)).await.unwrap();
    // A variable changed.
    set_variable_for(&stage, stage.db.org).await;
    let why = void(stage.apply("nginx:2", id, 30).await);
    assert!(why.contains("this would be generation 3, and generation 2 was planned"), "{why}");
    assert_eq!(stage.find("web").await.unwrap().service.generation, 2);

    // Something in the cluster changed.
    let next = stage.requested("nginx:2", 31).await;
    stage.fill(lease, next, 32).await;
    let broken = [(next, "Deployment/shop-1/web-1 has another spec.replicas now".to_owned())];
    worker.note_plans(lease, &[], &broken, at(33)).await.unwrap();
    let why = void(stage.apply("nginx:2", next, 33).await);
    assert_eq!(why, "Deployment/shop-1/web-1 has another spec.replicas now");
    assert_eq!(stage.seen(next, 33).await.state, PreviewState::Void);
    // What is void stays so.
    worker.note_plans(lease, &[next], &[], at(34)).await.unwrap();
    assert_eq!(stage.seen(next, 34).await.state, PreviewState::Void);
    assert!(unready(stage.apply("nginx:2", next, 31 + 900).await).contains("quarter of an hour"));

    let failed = stage.requested("nginx:4", 40).await;
    let end = PreviewResult::Failed("the cluster is frozen".to_owned());
    worker.end_plan(lease, failed, &end, at(41)).await.unwrap();
    assert_eq!(unready(stage.apply("nginx:4", failed, 42).await), "the cluster is frozen");
}

#[tokio::test]
async fn a_plan_for_a_new_service_does_not_hold_for_its_namesake() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let id = stage.requested("nginx:1", 1).await;
    stage.fill(lease, id, 2).await;
    stage.declare("web", "nginx:9").await;
    let why = void(stage.apply("nginx:1", id, 3).await);
    assert_eq!(why, "another service has this name now");
    // Nor for another service, nor for one that nobody asked about.
    let (other, ask) = (name("other"), web("nginx:1"));
    let wanted =
        ServiceRequest { preview: Some(id), ..ServiceRequest::declare(PROJECT, &other, &ask) };
    let app = &stage.db.app;
    let refused = app.accept_service(stage.db.org, &wanted, &stage.context(), at(3)).await;
    assert!(matches!(refused, Err(Refusal::NotFound(_))), "{refused:?}");
    let unknown = PreviewRequestId::from_uuid(uuid::Uuid::from_u128(7));
    assert!(matches!(stage.apply("nginx:1", unknown, 3).await, Err(Refusal::NotFound(_))));
}

#[tokio::test]
async fn a_request_whose_order_became_another_one_says_so() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    stage.requested("nginx:2", 1).await;
    set_variable_for(&stage, stage.db.org).await;
    let asked = worker.asked_plans(lease.cluster, 9, at(3)).await.unwrap();
    let why = asked[0].order.clone().unwrap_err();
    assert!(why.contains("changed since it was asked for; ask again"), "{why}");
    // A freeze of the service travels with its order.
    let (app, of) = (&stage.db.app, (PROJECT, "web"));
    let freeze = FreezeRequest { reason: Some("an audit") };
    app.freeze_service(stage.db.org, of, freeze, &stage.context(), at(4)).await.unwrap();
    let id = stage.requested("nginx:3", 5).await;
    let asked = worker.asked_plans(lease.cluster, 9, at(6)).await.unwrap();
    let order = asked.into_iter().find(|asked| asked.id == id).unwrap().order.unwrap();
    assert_eq!(order.freeze.unwrap().why, "an audit");
}

#[tokio::test]
async fn the_table_stays_small() {
    let stage = Stage::new().await;
    let worker = &stage.db.worker;
    for _ in 0..100 {
        stage.requested("nginx:1", 0).await;
    }
    assert!(matches!(stage.request("nginx:1", 899).await, Err(Refusal::TooManyPlans)));
    stage.requested("nginx:1", 900).await;
    assert_eq!(worker.forget_plans(at(900 + 3599)).await.unwrap(), 0, "they are shown for a while");
    assert_eq!(worker.forget_plans(at(900 + 3600)).await.unwrap(), 100);
    assert_eq!(stage.one::<i64>("select count(*) from preview_requests").await, 1);
}
