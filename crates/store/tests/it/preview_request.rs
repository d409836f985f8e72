//! Preview requests: requested, filled by the lease holder, and used as a precondition.

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

/// A preview that changes one object.
pub(crate) fn exact_preview() -> ExactPreview {
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
    /// Requests a preview of a web service of this image.
    pub(crate) async fn request(
        &self,
        image: &str,
        seconds: i64,
    ) -> Result<Accepted<PreviewRequest>, Refusal> {
        self.request_as(&web(image), &self.context(), seconds).await
    }

    async fn request_as(
        &self,
        request: &AdmissionRequest,
        context: &RequestContext<'_>,
        seconds: i64,
    ) -> Result<Accepted<PreviewRequest>, Refusal> {
        let name = name("web");
        let wanted = ServiceRequest::declare(PROJECT, &name, request);
        self.db.app.request_preview(self.db.org, &wanted, context, at(seconds)).await
    }

    async fn requested(&self, image: &str, seconds: i64) -> PreviewRequestId {
        self.request(image, seconds).await.unwrap().row.id
    }

    pub(crate) async fn fill(&self, lease: Lease, id: PreviewRequestId, seconds: i64) {
        let end = PreviewResult::Filled(exact_preview());
        self.db.worker.finish_preview(lease, id, &end, at(seconds)).await.unwrap();
    }

    /// The request as it is shown at this time.
    async fn seen(&self, id: PreviewRequestId, seconds: i64) -> PreviewRequest {
        let app = &self.db.app;
        let id = id.to_string();
        let found = app.find_preview_request(self.db.org, PROJECT, "web", &id, at(seconds)).await;
        found.unwrap().unwrap()
    }

    /// Declares a web service of this image on the condition of that preview.
    async fn apply(
        &self,
        image: &str,
        preview: PreviewRequestId,
        seconds: i64,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let (name, request) = (name("web"), web(image));
        let wanted = ServiceRequest {
            preview: Some(preview),
            ..ServiceRequest::declare(PROJECT, &name, &request)
        };
        self.db.app.accept_service(self.db.org, &wanted, &self.context(), at(seconds)).await
    }
}

fn void(outcome: Result<Accepted<ServiceRow>, Refusal>) -> String {
    match outcome {
        Err(Refusal::PreviewVoid(why)) => why,
        other => panic!("expected a void preview: {other:?}"),
    }
}

fn unready(outcome: Result<Accepted<ServiceRow>, Refusal>) -> String {
    match outcome {
        Err(Refusal::PreviewNotReady(why)) => why,
        other => panic!("expected an unready preview: {other:?}"),
    }
}

#[tokio::test]
async fn a_preview_request_records_nothing_else() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let before = stage.rows().await;
    let accepted = stage.request("nginx:2", 5).await.unwrap();
    assert!(accepted.changed);
    assert_eq!((accepted.row.state, accepted.row.generation), (PreviewState::Waiting, 2));
    assert_eq!(stage.grown(&before).await, [("preview_requests".to_owned(), 1)]);
    assert_eq!(stage.find("web").await.unwrap().service.generation, 1);
    // An invalid declaration is refused as usual and records nothing.
    let nameless = AdmissionRequest { parameters: serde_json::Map::new(), ..web("nginx:1") };
    let refused = stage.request_as(&nameless, &stage.context(), 6).await;
    assert!(matches!(refused, Err(Refusal::Refused(_))), "{refused:?}");
    assert_eq!(stage.grown(&before).await, [("preview_requests".to_owned(), 1)]);
}

#[tokio::test]
async fn the_same_key_requests_once() {
    let stage = Stage::new().await;
    let repeat = |body: &[u8]| Some(IdempotencyKey::new("plan".to_owned(), "key".to_owned(), body));
    let context = RequestContext { idempotency_key: repeat(b"1"), ..stage.context() };
    let first = stage.request_as(&web("nginx:1"), &context, 1).await.unwrap();
    let again = stage.request_as(&web("nginx:1"), &context, 2).await.unwrap();
    assert_eq!((again.changed, again.row.id), (false, first.row.id));
    let other = RequestContext { idempotency_key: repeat(b"2"), ..stage.context() };
    let other = stage.request_as(&web("nginx:2"), &other, 3).await;
    assert!(matches!(other, Err(Refusal::KeyReused)), "{other:?}");
    // A dry run records no request.
    let dry_run = stage.db.app.dry_run();
    let (name, request) = (name("web"), web("nginx:1"));
    let wanted = ServiceRequest::declare(PROJECT, &name, &request);
    let app = dry_run.app();
    let dry = app.request_preview(stage.db.org, &wanted, &stage.context(), at(4)).await.unwrap();
    assert_eq!(stage.one::<i64>("select count(*) from preview_requests").await, 1);
    assert_ne!(dry.row.id, first.row.id);
}

#[tokio::test]
async fn a_previewed_order_equals_the_drivers_order() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    set_variable_for(&stage, stage.db.org).await;
    let id = stage.requested("nginx:2", 5).await;
    let orders = worker.pending_previews(lease.scope, 9, at(6)).await.unwrap();
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].id, id);
    let previewed = orders[0].order.clone().unwrap();
    stage.declare("web", "nginx:2").await;
    let claimed = worker.claim_orders(lease, 9, at(7)).await.unwrap();
    let unit = previewed.unit;
    let real = claimed.into_iter().find(|(claimed, _)| claimed.unit == unit).unwrap().1;
    assert_eq!(*previewed, real);
}

#[tokio::test]
async fn a_request_is_filled_once_and_only_by_the_lease_holder() {
    let stage = Stage::new().await;
    let (stale, worker) = (stage.lease().await, &stage.db.worker);
    let id = stage.requested("nginx:1", 1).await;
    let lease = stage.lease().await;
    let late =
        worker.finish_preview(stale, id, &PreviewResult::Filled(exact_preview()), at(3)).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    assert_eq!(stage.seen(id, 3).await.state, PreviewState::Waiting);

    let waits = PreviewResult::Waits("the cluster does not answer".to_owned());
    worker.finish_preview(lease, id, &waits, at(4)).await.unwrap();
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
    assert_eq!(filled.preview, Some(exact_preview()));
    // Later results change nothing.
    let other = PreviewResult::Filled(ExactPreview::default());
    worker.finish_preview(lease, id, &other, at(6)).await.unwrap();
    worker.finish_preview(lease, id, &PreviewResult::Failed("no".to_owned()), at(6)).await.unwrap();
    assert_eq!(stage.seen(id, 6).await, filled);
    assert!(worker.pending_previews(lease.scope, 9, at(6)).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_unfilled_request_times_out_after_a_minute_and_says_why() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    let id = stage.requested("nginx:1", 0).await;
    assert_eq!(stage.seen(id, 59).await.state, PreviewState::Waiting);
    let failed = stage.seen(id, 60).await;
    assert_eq!(failed.state, PreviewState::Failed);
    let why = failed.why.unwrap();
    assert!(
        why.contains("no process works on cluster test now, no watch event was ever received"),
        "{why}"
    );
    assert!(worker.pending_previews(lease.scope, 9, at(60)).await.unwrap().is_empty());
    let waits = PreviewResult::Waits("the cluster does not answer: gone".to_owned());
    worker.finish_preview(lease, id, &waits, at(59)).await.unwrap();
    let why = stage.seen(id, 60).await.why.unwrap();
    assert_eq!(why, "preview timed out after 60 s: the cluster does not answer: gone");
    assert_eq!(stage.seen(id, 900).await.state, PreviewState::Expired);
}

#[tokio::test]
async fn a_valid_preview_is_accepted_and_named_in_the_event() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    // A new service gets the id from its preview.
    let id = stage.requested("nginx:1", 1).await;
    stage.fill(lease, id, 2).await;
    let previewed = stage.seen(id, 2).await;
    let made = stage.apply("nginx:1", id, 3).await.unwrap();
    assert!(made.changed);
    assert_eq!(made.row.service.id, previewed.service);
    let named: Vec<String> =
        stage.all("select body->>'preview' from events where type = 'ServiceQueued'").await;
    assert_eq!(named, [id.to_string()]);
    // The same declaration again is no change, as usual.
    assert!(!stage.apply("nginx:1", id, 4).await.unwrap().changed);
    let next = stage.requested("nginx:2", 5).await;
    stage.fill(lease, next, 6).await;
    assert_eq!(stage.apply("nginx:2", next, 7).await.unwrap().row.service.generation, 2);
}

#[tokio::test]
async fn an_invalid_preview_is_refused_and_nothing_is_recorded() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    let id = stage.requested("nginx:2", 1).await;
    assert!(unready(stage.apply("nginx:2", id, 2).await).contains("not filled yet"));
    stage.fill(lease, id, 2).await;

    // Another manifest than the previewed one.
    let why = void(stage.apply("nginx:3", id, 3).await);
    assert!(why.contains("would differ from the preview"), "{why}");
    // The preview was not checked for a while.
    assert!(unready(stage.apply("nginx:2", id, 30).await).contains("cannot be checked now"));
    worker.record_preview_checks(lease, &[id], &[], at(29)).await.unwrap();
    // A variable changed.
    set_variable_for(&stage, stage.db.org).await;
    let why = void(stage.apply("nginx:2", id, 30).await);
    assert!(why.contains("this would be generation 3, and generation 2 was previewed"), "{why}");
    assert_eq!(stage.find("web").await.unwrap().service.generation, 2);

    // Something in the cluster changed.
    let next = stage.requested("nginx:2", 31).await;
    stage.fill(lease, next, 32).await;
    let broken =
        [(next, "Deployment/shop-1/web-1 changed: spec.replicas has another value".to_owned())];
    worker.record_preview_checks(lease, &[], &broken, at(33)).await.unwrap();
    let why = void(stage.apply("nginx:2", next, 33).await);
    assert_eq!(why, "Deployment/shop-1/web-1 changed: spec.replicas has another value");
    assert_eq!(stage.seen(next, 33).await.state, PreviewState::Void);
    // A void preview stays void.
    worker.record_preview_checks(lease, &[next], &[], at(34)).await.unwrap();
    assert_eq!(stage.seen(next, 34).await.state, PreviewState::Void);
    assert!(
        unready(stage.apply("nginx:2", next, 31 + 900).await).contains("expired after 15 minutes")
    );

    let failed = stage.requested("nginx:4", 40).await;
    let end = PreviewResult::Failed("the cluster is frozen".to_owned());
    worker.finish_preview(lease, failed, &end, at(41)).await.unwrap();
    assert_eq!(unready(stage.apply("nginx:4", failed, 42).await), "the cluster is frozen");
}

#[tokio::test]
async fn a_preview_of_a_new_service_does_not_hold_for_another_of_the_same_name() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let id = stage.requested("nginx:1", 1).await;
    stage.fill(lease, id, 2).await;
    stage.declare("web", "nginx:9").await;
    let why = void(stage.apply("nginx:1", id, 3).await);
    assert_eq!(why, "another service has this name now");
    // Nor for another service, nor does an unknown preview.
    let (other, request) = (name("other"), web("nginx:1"));
    let wanted =
        ServiceRequest { preview: Some(id), ..ServiceRequest::declare(PROJECT, &other, &request) };
    let app = &stage.db.app;
    let refused = app.accept_service(stage.db.org, &wanted, &stage.context(), at(3)).await;
    assert!(matches!(refused, Err(Refusal::NotFound(_))), "{refused:?}");
    let unknown = PreviewRequestId::from_uuid(uuid::Uuid::from_u128(7));
    assert!(matches!(stage.apply("nginx:1", unknown, 3).await, Err(Refusal::NotFound(_))));
}

#[tokio::test]
async fn a_request_whose_order_changed_says_so() {
    let stage = Stage::new().await;
    let (lease, worker) = (stage.lease().await, &stage.db.worker);
    stage.declare("web", "nginx:1").await;
    stage.requested("nginx:2", 1).await;
    set_variable_for(&stage, stage.db.org).await;
    let pending = worker.pending_previews(lease.scope, 9, at(3)).await.unwrap();
    let why = pending[0].order.clone().unwrap_err();
    assert!(why.contains("changed since the preview was requested; request a new one"), "{why}");
    // A freeze of the service is part of its order.
    let (app, of) = (&stage.db.app, (PROJECT, "web"));
    let freeze = FreezeRequest { reason: Some("an audit") };
    app.freeze_service(stage.db.org, of, freeze, &stage.context(), at(4)).await.unwrap();
    let id = stage.requested("nginx:3", 5).await;
    let pending = worker.pending_previews(lease.scope, 9, at(6)).await.unwrap();
    let order = pending.into_iter().find(|pending| pending.id == id).unwrap().order.unwrap();
    assert_eq!(order.freeze.unwrap().why, "an audit");
}

#[tokio::test]
async fn open_requests_are_limited_and_expired_ones_are_deleted() {
    let stage = Stage::new().await;
    let worker = &stage.db.worker;
    for _ in 0..100 {
        stage.requested("nginx:1", 0).await;
    }
    assert!(matches!(stage.request("nginx:1", 899).await, Err(Refusal::TooManyPreviews)));
    stage.requested("nginx:1", 900).await;
    assert_eq!(
        worker.purge_previews(at(900 + 3599)).await.unwrap(),
        0,
        "they are shown as expired for a while"
    );
    assert_eq!(worker.purge_previews(at(900 + 3600)).await.unwrap(), 100);
    assert_eq!(stage.one::<i64>("select count(*) from preview_requests").await, 1);
}
