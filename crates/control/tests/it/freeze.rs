//! Freezes stop all writes and no observation; a requested reconcile uses live reads.

use trueup_model::key::Kind;
use trueup_model::status::{Health, Phase, Reason, Reconciliation};
use trueup_model::subject::Subject;
use trueup_model::why::LinkStep;
use trueup_rules::status::reconciliation;
use trueup_rules::status::why::explain;
use trueup_store::door::RequestContext;
use trueup_store::{EventQuery, FreezeRequest, ServiceDetail};

use crate::rig::{Rig, deleted};

/// The scope of a freeze.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Service,
    Cluster,
    Platform,
}

impl Rig {
    async fn set_freeze(&self, scope: Scope, reason: Option<&str>) {
        let owner = self.db.owner();
        let context =
            RequestContext::new(&owner, Some("0af7651916cd43dd8448eb211c80319c".to_owned()));
        let request = FreezeRequest { reason };
        let (app, now) = (&self.db.app, self.clock.now());
        let changed = match scope {
            Scope::Service => {
                let of = ("shop", "web");
                let changed = app.freeze_service(self.db.org, of, request, &context, now).await;
                changed.map(|answer| answer.changed)
            }
            Scope::Cluster => {
                let changed = app.freeze_platform(Some("test"), request, &context, now).await;
                changed.map(|answer| answer.changed)
            }
            Scope::Platform => {
                let changed = app.freeze_platform(None, request, &context, now).await;
                changed.map(|answer| answer.changed)
            }
        };
        let changed = changed.expect("the freeze should change");
        assert!(changed, "{scope:?} {reason:?}");
        self.signals.wake();
        self.signals.freeze();
    }

    async fn until_writes_end(&self) -> usize {
        self.until_wakes(0).await;
        self.fake.journal().len()
    }
}

fn is_frozen(detail: &ServiceDetail) -> bool {
    detail.row.status.conditions.iter().any(|condition| condition.reason == Reason::Frozen)
}

fn reconciliation_of(detail: &ServiceDetail) -> Reconciliation {
    reconciliation(&detail.row.status, detail.row.service.generation, false)
}

#[tokio::test]
async fn frozen_service_is_observed_and_not_written_until_unfrozen() {
    for scope in [Scope::Service, Scope::Cluster, Scope::Platform] {
        let mut rig = Rig::new().await;
        rig.start("one");
        rig.declare_project().await;
        rig.declare("web", "web:1").await;
        rig.until_running("web").await;
        let writes = rig.until_writes_end().await;

        rig.set_freeze(scope, Some("an incident")).await;
        let frozen = rig.until("web", |detail| detail.row.frozen.is_some()).await;
        assert_eq!(
            reconciliation_of(&frozen),
            Reconciliation::Settled,
            "{scope:?}: nothing differs yet"
        );
        // A change is accepted, and waits.
        rig.declare("web", "web:2").await;
        let waits = rig.until("web", is_frozen).await;
        assert_eq!(reconciliation_of(&waits), Reconciliation::Pending, "{scope:?}");
        assert_eq!(waits.row.status.phase, Phase::Updating, "{scope:?}");
        let message = &waits.row.status.conditions[0].message;
        assert!(message.contains("an incident") && message.contains(" waits"), "{message}");
        rig.until_wakes(0).await;
        assert_eq!(rig.fake.journal().len(), writes, "{scope:?}: nothing was written");

        rig.set_freeze(scope, None).await;
        let done = rig.until_running("web").await;
        assert_eq!((done.row.service.generation, done.row.frozen), (2, None), "{scope:?}");
    }
}

#[tokio::test]
async fn drift_and_deletion_wait_while_frozen_and_status_reports_them() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    let detail = rig.until_running("web").await;
    rig.until_writes_end().await;
    rig.set_freeze(Scope::Service, Some("an audit")).await;
    rig.until("web", |detail| detail.row.frozen.is_some()).await;
    rig.until_wakes(0).await;

    let key = |kind| {
        let found = detail.resources.iter().find(|object| object.key.kind == kind);
        found.expect("the key should be recorded").key.clone()
    };
    rig.fake.remove(&key(Kind::Service));
    let seen = rig.until("web", is_frozen).await;
    assert_eq!(reconciliation_of(&seen), Reconciliation::Diverged);
    assert_eq!((seen.row.status.phase, seen.row.status.health), (Phase::Running, Health::Healthy));
    assert!(rig.fake.objects(Kind::Service).is_empty(), "it is not created again");

    // The Deployment is deleted, too: the service is not reported as running.
    rig.fake.remove(&key(Kind::Deployment));
    let lost = rig.until("web", |detail| detail.row.status.phase == Phase::Blocked).await;
    assert_eq!(lost.row.status.health, Health::Error);
    let message = &lost.row.status.conditions[0].message;
    assert!(
        message.contains("frozen since") && message.ends_with("until it is unfrozen"),
        "{message}"
    );
    assert!(rig.fake.objects(Kind::Deployment).is_empty(), "it is not created again");
    let facts = rig.db.app.find_why(rig.db.org, ("shop", "web"), rig.clock.now()).await.unwrap();
    let why = explain(&facts.expect("the service should be there"));
    assert!(why.links.iter().any(|link| link.step == LinkStep::Frozen), "{why:#?}");
    assert!(
        why.unblock.is_some_and(|it| it.contains("`trueup unfreeze`")),
        "it should say how to unfreeze"
    );

    let id = rig.delete("web").await;
    rig.until(&id, |detail| detail.row.status.phase == Phase::Deleting).await;
    rig.until_wakes(0).await;
    assert!(!rig.fake.objects(Kind::ConfigMap).is_empty(), "it is not deleted");
    let owner = rig.db.owner();
    let request = FreezeRequest { reason: None };
    let context = RequestContext::new(&owner, None);
    let now = rig.clock.now();
    rig.db.app.freeze_service(rig.db.org, ("shop", &id), request, &context, now).await.unwrap();
    rig.signals.wake();
    rig.until(&id, deleted).await;
}

#[tokio::test]
async fn requested_reconcile_reports_its_outcome_as_an_event() {
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
        of: Some(Subject::Service(detail.row.service.id)),
        kind: Some("ReconcileChecked".to_owned()),
        limit: 10,
        ..EventQuery::default()
    };
    let event = tokio::time::timeout(crate::rig::LONG, async {
        loop {
            let found = app.list_events(rig.db.org, &query).await.unwrap();
            if let Some(first) = found.into_iter().next() {
                return first;
            }
            tokio::time::sleep(crate::rig::POLL).await;
        }
    });
    let event = event.await.expect("an event should be recorded");
    assert_eq!(event.body["outcome"], "converged");
    assert_eq!(event.trace.as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(
        rig.fake.journal().len(),
        writes,
        "a reconcile of a converged service writes nothing"
    );
}
