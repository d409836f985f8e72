//! Plan requests on their way through the loops: filled by the holder of the lease, and watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, json};
use trueup_cluster::Cluster;
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
    }
}

impl Rig {
    /// A service that runs, and nothing left to do.
    async fn with_web(&mut self) -> ServiceDetail {
        self.with_web_on(Arc::new(self.fake.clone())).await
    }

    /// The same through this cluster.
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
        let (context, name, ask) = (RequestContext::new(&owner, None), name(service), web(image));
        let wanted = ServiceRequest::declare("shop", &name, &ask);
        let now = self.clock.now();
        let asked = self.db.app.request_plan(self.db.org, &wanted, &context, now).await;
        asked.expect("a plan should be asked for").row.id
    }

    async fn apply(
        &self,
        service: &str,
        image: &str,
        preview: PreviewRequestId,
    ) -> Result<Accepted<ServiceRow>, Refusal> {
        let owner = self.db.owner();
        let (context, name, ask) = (RequestContext::new(&owner, None), name(service), web(image));
        let wanted = ServiceRequest {
            preview: Some(preview),
            ..ServiceRequest::declare("shop", &name, &ask)
        };
        let accepted = self.db.app.accept_service(self.db.org, &wanted, &context, self.clock.now());
        let accepted = accepted.await;
        self.signals.wake();
        accepted
    }

    async fn plan(&self, service: &str, id: PreviewRequestId) -> PreviewRequest {
        let (app, now) = (&self.db.app, self.clock.now());
        let id = id.to_string();
        let found = app.find_preview_request(self.db.org, "shop", service, &id, now).await;
        found.expect("the database should answer").expect("the request should be there")
    }

    async fn until_plan(
        &self,
        service: &str,
        id: PreviewRequestId,
        wanted: impl Fn(&PreviewRequest) -> bool,
    ) -> PreviewRequest {
        let reached = tokio::time::timeout(LONG, async {
            loop {
                let plan = self.plan(service, id).await;
                if wanted(&plan) {
                    return plan;
                }
                tokio::time::sleep(crate::rig::LOOK).await;
            }
        });
        reached.await.expect("the plan should get there")
    }
}

fn is(state: PreviewState) -> impl Fn(&PreviewRequest) -> bool {
    move |plan| plan.state == state
}

fn verbs(plan: &PreviewRequest) -> Vec<(Kind, ExactVerb)> {
    let objects = plan.preview.iter().flat_map(|plan| &plan.objects);
    objects.map(|object| (object.key.kind, object.verb)).collect()
}

#[tokio::test]
async fn a_change_is_planned_without_a_write_and_accepted_as_planned() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let writes = rig.fake.journal().len();
    let id = rig.request("web", "web:2").await;
    let plan = rig.until_plan("web", id, is(PreviewState::Filled)).await;
    assert_eq!(rig.fake.journal().len(), writes, "nothing may be written");
    assert!(verbs(&plan).contains(&(Kind::Deployment, ExactVerb::Update)), "{plan:#?}");
    assert!(plan.hash.is_some());
    assert!(rig.apply("web", "web:2", id).await.expect("it should be accepted").changed);
    let detail = rig.until("web", |detail| running(detail) && detail.row.service.generation == 2);
    detail.await;
    // What it stood on is changed by it.
    let after = rig.until_plan("web", id, is(PreviewState::Void)).await;
    assert!(after.why.is_some_and(|why| why.contains("has another")));
}

#[tokio::test]
async fn a_new_service_is_planned_and_gets_the_names_that_were_planned() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let id = rig.request("fresh", "web:1").await;
    let plan = rig.until_plan("fresh", id, is(PreviewState::Filled)).await;
    assert!(verbs(&plan).iter().all(|(_, verb)| *verb == ExactVerb::Create), "{plan:#?}");
    let made = rig.apply("fresh", "web:1", id).await.expect("it should be accepted");
    assert_eq!(made.row.service.id, plan.service);
    rig.until_running("fresh").await;
    for object in plan.preview.expect("it is filled").objects {
        assert!(rig.fake.find(&object.key).is_some(), "{} was planned", object.key);
    }
}

#[tokio::test]
async fn a_plan_is_void_once_somebody_changes_what_it_stands_on() {
    let mut rig = Rig::new().await;
    let detail = rig.with_web().await;
    let id = rig.request("web", "web:2").await;
    rig.until_plan("web", id, is(PreviewState::Filled)).await;
    let row = &detail.row;
    let object_name = &row.service.object_name;
    let deployment = ResourceKey::new(Kind::Deployment, &row.namespace, object_name);
    rig.fake.remove(&deployment);
    let void = rig.until_plan("web", id, is(PreviewState::Void)).await;
    let why = void.why.expect("it should say why");
    assert!(why.starts_with(&deployment.to_string()), "{why}");
    let refused = rig.apply("web", "web:2", id).await;
    assert!(matches!(&refused, Err(Refusal::PlanVoid(_))), "{refused:?}");
    assert_eq!(rig.get("web").await.row.service.generation, 1);
}

#[tokio::test]
async fn a_request_waits_for_a_holder_and_the_next_one_fills_it() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    rig.crash().await;
    let id = rig.request("web", "web:2").await;
    assert_eq!(rig.plan("web", id).await.state, PreviewState::Waiting);
    rig.start("one");
    let plan = rig.until_plan("web", id, is(PreviewState::Filled)).await;
    // A process that died over it left nothing; the next one does the same again and finds the same.
    let second = rig.request("web", "web:2").await;
    rig.crash().await;
    rig.start("one");
    let again = rig.until_plan("web", second, is(PreviewState::Filled)).await;
    assert_eq!((&again.hash, verbs(&again)), (&plan.hash, verbs(&plan)));
    // And the first is still looked after.
    let seen = rig.plan("web", id).await.checked_at;
    rig.until_plan("web", id, |plan| plan.checked_at > seen).await;
}

#[tokio::test]
async fn what_cannot_be_tried_now_says_why_and_is_tried_again() {
    let mut rig = Rig::new().await;
    let fixed = Arc::new(AtomicBool::new(true));
    let inside = rig.fake.clone();
    let cluster = Poisoned { inside, prefix: "web-", fixed: Arc::clone(&fixed) };
    rig.with_web_on(Arc::new(cluster)).await;
    fixed.store(false, Ordering::SeqCst);
    let id = rig.request("web", "web:2").await;
    let waits = rig.until_plan("web", id, |plan| plan.why.is_some()).await;
    assert_eq!(waits.state, PreviewState::Waiting);
    assert!(waits.why.is_some_and(|why| why.contains("no answer came")));
    fixed.store(true, Ordering::SeqCst);
    rig.until_plan("web", id, is(PreviewState::Filled)).await;
}

#[tokio::test]
async fn what_is_frozen_is_not_planned() {
    let mut rig = Rig::new().await;
    rig.with_web().await;
    let owner = rig.db.owner();
    let context = RequestContext::new(&owner, None);
    let (app, ask) = (&rig.db.app, FreezeRequest { reason: Some("an audit") });
    let frozen =
        app.freeze_service(rig.db.org, ("shop", "web"), ask, &context, rig.clock.now()).await;
    assert!(frozen.expect("it should freeze").changed);
    let id = rig.request("web", "web:2").await;
    let failed = rig.until_plan("web", id, is(PreviewState::Failed)).await;
    assert!(failed.why.is_some_and(|why| why.contains("an audit")));
    let refused = rig.apply("web", "web:2", id).await;
    assert!(matches!(&refused, Err(Refusal::PlanUnready(_))), "{refused:?}");
}
