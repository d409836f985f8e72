//! Freezes hold everything that is to be done and nothing that is to be seen; looking afresh sees what
//! no watch has told.

use trueup_model::key::Kind;
use trueup_model::order::Unit;
use trueup_model::status::{Health, Phase, Reason, Reconciliation};
use trueup_model::why::LinkStep;
use trueup_rules::status::reconciliation;
use trueup_rules::status::why::explain;
use trueup_store::door::RequestContext;
use trueup_store::{EventQuery, FreezeRequest, ServiceDetail};

use crate::rig::{Rig, deleted};

/// What a switch is turned for.
#[derive(Debug, Clone, Copy)]
enum What {
    Service,
    Cluster,
    Platform,
}

impl Rig {
    async fn turn(&self, what: What, reason: Option<&str>) {
        let owner = self.db.owner();
        let context =
            RequestContext::new(&owner, Some("0af7651916cd43dd8448eb211c80319c".to_owned()));
        let ask = FreezeRequest { reason };
        let (app, now) = (&self.db.app, self.clock.now());
        let turned = match what {
            What::Service => {
                let of = ("shop", "web");
                let turned = app.freeze_service(self.db.org, of, ask, &context, now).await;
                turned.map(|answer| answer.changed)
            }
            What::Cluster => {
                let turned = app.freeze_platform(Some("test"), ask, &context, now).await;
                turned.map(|answer| answer.changed)
            }
            What::Platform => {
                let turned = app.freeze_platform(None, ask, &context, now).await;
                turned.map(|answer| answer.changed)
            }
        };
        let changed = turned.expect("a switch should turn");
        assert!(changed, "{what:?} {reason:?}");
        self.signals.wake();
        self.signals.freeze();
    }

    async fn until_writes_end(&self) -> usize {
        self.until_wakes(0).await;
        self.fake.journal().len()
    }
}

fn held(detail: &ServiceDetail) -> bool {
    detail.row.status.conditions.iter().any(|condition| condition.reason == Reason::Frozen)
}

fn shown(detail: &ServiceDetail) -> Reconciliation {
    reconciliation(&detail.row.status, detail.row.service.generation, false)
}

#[tokio::test]
async fn what_is_frozen_is_observed_and_not_touched_until_it_is_let_go() {
    for what in [What::Service, What::Cluster, What::Platform] {
        let mut rig = Rig::new().await;
        rig.start("one");
        rig.declare_project().await;
        rig.declare("web", "web:1").await;
        rig.until_running("web").await;
        let writes = rig.until_writes_end().await;

        rig.turn(what, Some("we look into it")).await;
        let frozen = rig.until("web", |detail| detail.row.frozen.is_some()).await;
        assert_eq!(shown(&frozen), Reconciliation::Settled, "{what:?}: nothing differs yet");
        // A change is accepted, and waits.
        rig.declare("web", "web:2").await;
        let waits = rig.until("web", held).await;
        assert_eq!(shown(&waits), Reconciliation::Pending, "{what:?}");
        assert_eq!(waits.row.status.phase, Phase::Updating, "{what:?}");
        let told = &waits.row.status.conditions[0].message;
        assert!(told.contains("we look into it") && told.contains(" waits"), "{told}");
        rig.until_wakes(0).await;
        assert_eq!(rig.fake.journal().len(), writes, "{what:?}: nothing was written");

        rig.turn(what, None).await;
        let done = rig.until_running("web").await;
        assert_eq!((done.row.service.generation, done.row.frozen), (2, None), "{what:?}");
    }
}

#[tokio::test]
async fn drift_and_deletion_are_held_too_and_both_are_told_truthfully() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    rig.until_writes_end().await;
    rig.turn(What::Service, Some("an audit")).await;
    rig.until("web", |detail| detail.row.frozen.is_some()).await;
    rig.until_wakes(0).await;

    let key = |kind| {
        let found = detail.resources.iter().find(|(key, _)| key.kind == kind);
        found.expect("the key should be recorded").0.clone()
    };
    rig.fake.remove(&key(Kind::Service));
    let seen = rig.until("web", held).await;
    assert_eq!(shown(&seen), Reconciliation::Diverged);
    assert_eq!((seen.row.status.phase, seen.row.status.health), (Phase::Running, Health::Healthy));
    assert!(rig.fake.objects(Kind::Service).is_empty(), "it is not made again");

    // What makes its pods goes, too: nobody is told that it runs.
    rig.fake.remove(&key(Kind::Deployment));
    let lost = rig.until("web", |detail| detail.row.status.phase == Phase::Blocked).await;
    assert_eq!(lost.row.status.health, Health::Error);
    let told = &lost.row.status.conditions[0].message;
    assert!(
        told.contains("frozen since") && told.ends_with("until somebody unfreezes it"),
        "{told}"
    );
    assert!(rig.fake.objects(Kind::Deployment).is_empty(), "it is not made again");
    let facts = rig.db.app.find_why(rig.db.org, ("shop", "web"), rig.clock.now()).await.unwrap();
    let why = explain(&facts.expect("the service should be there"));
    assert!(why.links.iter().any(|link| link.step == LinkStep::Frozen), "{why:#?}");
    assert!(why.unblock.is_some_and(|it| it.contains("`trueup unfreeze`")), "it says how");

    let id = rig.delete("web").await;
    rig.until(&id, |detail| detail.row.status.phase == Phase::Deleting).await;
    rig.until_wakes(0).await;
    assert!(!rig.fake.objects(Kind::ConfigMap).is_empty(), "it is not taken down");
    let owner = rig.db.owner();
    let ask = FreezeRequest { reason: None };
    let context = RequestContext::new(&owner, None);
    let now = rig.clock.now();
    rig.db.app.freeze_service(rig.db.org, ("shop", &id), ask, &context, now).await.unwrap();
    rig.signals.wake();
    rig.until(&id, deleted).await;
}

#[tokio::test]
async fn who_asks_for_a_look_is_told_how_it_ended() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    let writes = rig.until_writes_end().await;
    let owner = rig.db.owner();
    let context = RequestContext::new(&owner, Some("0af7651916cd43dd8448eb211c80319c".to_owned()));
    let now = rig.clock.now();
    let app = &rig.db.app;
    app.reconcile_service(rig.db.org, ("shop", "web"), &context, now).await.unwrap();
    rig.signals.wake();
    let query = EventQuery {
        of: Some(Unit::Service(detail.row.service.id)),
        kind: Some("ReconcileChecked".to_owned()),
        limit: 10,
        ..EventQuery::default()
    };
    let told = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            let found = app.list_events(rig.db.org, &query).await.unwrap();
            if let Some(first) = found.into_iter().next() {
                return first;
            }
            tokio::time::sleep(crate::rig::LOOK).await;
        }
    });
    let told = told.await.expect("it should be told");
    assert_eq!(told.body["outcome"], "converged");
    assert_eq!(told.trace.as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(rig.fake.journal().len(), writes, "looking writes nothing");
}
