//! Preview requests through the loops: filled and checked by the lease holder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, json};
use trueup_cluster::Cluster;
use trueup_model::drift::DriftPolicy;
use trueup_model::id::PreviewRequestId;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::preview_request::{ExactVerb, PreviewRequest, PreviewState};
use trueup_rules::admit::AdmissionRequest;
use trueup_store::door::{Accepted, Refusal, RequestContext, ServiceRequest};
use trueup_store::{FreezeRequest, ServiceDetail, ServiceRow};
use trueup_testkit::test_db::name;

use crate::poison::Poisoned;
use crate::rig::{LONG, Rig, running};

fn web(image: &str) -> AdmissionRequest {
    let parameters = Map::from_iter([("image".to_owned(), json!(image))]);
    AdmissionRequest {
        template: "web@1".parse().expect("a template should be named"),
        plan: None,
        parameters,
        drift: DriftPolicy::default(),
        active: None,
    }
}

impl Rig {
    /// Starts the loops and waits until a service has converged.
    async fn with_web(&mut self) -> ServiceDetail {
        self.with_web_on(Arc::new(self.fake.clone())).await
    }

    /// The same, with this cluster client.
    async fn with_web_on(&mut self, cluster: Arc<dyn Cluster>) -> ServiceDetail {
        self.start_on("one", cluster);
        self.declare_project().await;
        self.declare("web", "web:1").await;
        let detail = self.until_running("web").await;
        self.until_wakes(0).await;
        detail
    }

    async fn request(&self, service: &str, image: &str) -> PreviewRequestId {
        let owner = self.db.owner();
        let (context, name, request) =
            (RequestContext::new(&owner, None), name(service), web(image));
        let wanted = ServiceRequest::declare("shop", &name, &request);
        let now = self.clock.now();
        let requested = self.db.app.request_preview(self.db.org, &wanted, &context, now).await;
        requested.expect("a preview should be requested").row.id
    }

    async fn apply(
        &self,
        service: &str,
        image: &str,
        preview: PreviewRequestId,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let owner = self.db.owner();
        let (context, name, request) =
            (RequestContext::new(&owner, None), name(service), web(image));
        let wanted = ServiceRequest {
            preview: Some(preview),
            ..ServiceRequest::declare("shop", &name, &request)
        };
        let accepted = self.db.app.accept_service(self.db.org, &wanted, &context, self.clock.now());
        let accepted = accepted.await;
        self.signals.wake();
        accepted
    }

    async fn preview_request(&self, service: &str, id: PreviewRequestId) -> PreviewRequest {
        let (app, now) = (&self.db.app, self.clock.now());
        let id = id.to_string();
        let found = app.find_preview_request(self.db.org, "shop", service, &id, now).await;
        found.expect("the database should answer").expect("the request should be there")
    }

    async fn until_preview(
        &self,
        service: &str,
        id: PreviewRequestId,
        wanted: impl Fn(&PreviewRequest) -> bool,
    ) -> PreviewRequest {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let preview = self.preview_request(service, id).await;
                if wanted(&preview) {
                    return preview;
                }
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        reached.await.expect("the preview should reach the expected state")
    }
}

fn is(state: PreviewState) -> impl Fn(&PreviewRequest) -> bool {
    move |preview| preview.state == state
}

fn verbs(preview: &PreviewRequest) -> Vec<(Kind, ExactVerb)> {
    let objects = preview.preview.iter().flat_map(|preview| &preview.objects);
    objects.map(|object| (object.key.kind, object.verb)).collect()
}

#[tokio::test]
async fn change_is_previewed_without_writes_and_accepted_with_the_preview() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let writes = rig.fake.journal().len();
    let id = rig.request("web", "web:2").await;
    let preview = rig.until_preview("web", id, is(PreviewState::Filled)).await;
    assert_eq!(rig.fake.journal().len(), writes, "nothing may be written");
    assert!(verbs(&preview).contains(&(Kind::Deployment, ExactVerb::Update)), "{preview:#?}");
    assert!(preview.hash.is_some());
    assert!(rig.apply("web", "web:2", id).await.expect("it should be accepted").changed);
    let detail = rig.until("web", |detail| running(detail) && detail.row.service.generation == 2);
    detail.await;
    // The accepted change makes its own preview void.
    let after = rig.until_preview("web", id, is(PreviewState::Void)).await;
    assert!(after.why.is_some_and(|why| why.contains("has another value")));
}

#[tokio::test]
async fn new_service_gets_the_object_names_of_its_preview() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let id = rig.request("fresh", "web:1").await;
    let preview = rig.until_preview("fresh", id, is(PreviewState::Filled)).await;
    assert!(verbs(&preview).iter().all(|(_, verb)| *verb == ExactVerb::Create), "{preview:#?}");
    let made = rig.apply("fresh", "web:1", id).await.expect("it should be accepted");
    assert_eq!(made.row.service.id, preview.service);
    rig.until_running("fresh").await;
    for object in preview.preview.expect("it is filled").objects {
        assert!(rig.fake.find(&object.key).is_some(), "{} was planned", object.key);
    }
}

#[tokio::test]
async fn preview_is_void_after_a_change_to_its_objects() {
    let mut rig = Rig::new().await;
    let detail = rig.with_web().await;
    let id = rig.request("web", "web:2").await;
    rig.until_preview("web", id, is(PreviewState::Filled)).await;
    let row = &detail.row;
    let object_name = &row.service.object_name;
    let deployment = ResourceKey::new(Kind::Deployment, &row.namespace, object_name);
    rig.fake.remove(&deployment);
    let void = rig.until_preview("web", id, is(PreviewState::Void)).await;
    let why = void.why.expect("it should say why");
    assert!(why.starts_with(&deployment.to_string()), "{why}");
    let refused = rig.apply("web", "web:2", id).await;
    assert!(matches!(&refused, Err(Refusal::PreviewVoid(_))), "{refused:?}");
    assert_eq!(rig.get("web").await.row.service.generation, 1);
}

#[tokio::test]
async fn preview_request_waits_for_the_next_lease_holder() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    rig.crash().await;
    let id = rig.request("web", "web:2").await;
    assert_eq!(rig.preview_request("web", id).await.state, PreviewState::Waiting);
    rig.start("one");
    let preview = rig.until_preview("web", id, is(PreviewState::Filled)).await;
    // A crash during a dry run leaves nothing behind; the next process gets the same result.
    let second = rig.request("web", "web:2").await;
    rig.crash().await;
    rig.start("one");
    let again = rig.until_preview("web", second, is(PreviewState::Filled)).await;
    assert_eq!((&again.hash, verbs(&again)), (&preview.hash, verbs(&preview)));
    // The first preview is still checked.
    let seen = rig.preview_request("web", id).await.checked_at;
    rig.until_preview("web", id, |preview| preview.checked_at > seen).await;
}

#[tokio::test]
async fn failed_dry_run_gives_a_reason_and_is_retried() {
    let mut rig = Rig::new().await;
    let fixed = Arc::new(AtomicBool::new(true));
    let inside = rig.fake.clone();
    let cluster = Poisoned { inside, prefix: "web-", fixed: Arc::clone(&fixed) };
    rig.with_web_on(Arc::new(cluster)).await;
    fixed.store(false, Ordering::SeqCst);
    let id = rig.request("web", "web:2").await;
    let waits = rig.until_preview("web", id, |preview| preview.why.is_some()).await;
    assert_eq!(waits.state, PreviewState::Waiting);
    assert!(waits.why.is_some_and(|why| why.contains("no response")));
    fixed.store(true, Ordering::SeqCst);
    rig.until_preview("web", id, is(PreviewState::Filled)).await;
}

#[tokio::test]
async fn preview_of_a_frozen_service_fails() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let owner = rig.db.owner();
    let context = RequestContext::new(&owner, None);
    let (app, request) = (&rig.db.app, FreezeRequest { reason: Some("an audit") });
    let frozen =
        app.freeze_service(rig.db.org, ("shop", "web"), request, &context, rig.clock.now()).await;
    assert!(frozen.expect("the freeze should be accepted").changed);
    let id = rig.request("web", "web:2").await;
    let failed = rig.until_preview("web", id, is(PreviewState::Failed)).await;
    assert!(failed.why.is_some_and(|why| why.contains("an audit")));
    let refused = rig.apply("web", "web:2", id).await;
    assert!(matches!(&refused, Err(Refusal::PreviewNotReady(_))), "{refused:?}");
}
