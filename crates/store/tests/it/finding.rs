//! Findings: opened once, closed when the object is gone, removed only on a confirmed request.

use std::collections::BTreeMap;
use trueup_testkit::report_batch::RecordReports as _;

use trueup_model::finding::{Finding, FindingClass, OrphanCandidate, SweepResult};
use trueup_model::key::{Kind, ResourceKey};
use trueup_store::door::Refusal;

use crate::drift::pods;
use crate::stage::{Stage, at, gone};

pub(crate) fn candidate(name: &str, proved: bool) -> OrphanCandidate {
    OrphanCandidate {
        key: ResourceKey::new(Kind::ConfigMap, "shop", name),
        uid: format!("uid-of-{name}"),
        resource_version: "7".to_owned(),
        unit: None,
        proved,
    }
}

impl Stage {
    pub(crate) async fn sweep(&self, candidates: Vec<OrphanCandidate>, seconds: i64) -> usize {
        let (lease, swept) =
            (self.lease().await, SweepResult { kind: Kind::ConfigMap, candidates });
        self.db.worker.note_findings(lease, &swept, at(seconds)).await.unwrap()
    }

    async fn findings(&self, closed: bool) -> Vec<Finding> {
        let mut found = self.db.app.list_findings(closed, None, 100).await.unwrap();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    async fn finding_events(&self) -> Vec<String> {
        self.all("select type from events where type like 'Finding%' order by id").await
    }

    async fn remove_found(&self, of: &Finding, confirm: Option<u64>) -> Result<bool, Refusal> {
        let context = self.context();
        let removed = self.db.app.remove_finding(of.id, confirm, &context, at(50)).await;
        removed.map(|(_, changed)| changed)
    }
}

#[tokio::test]
async fn an_unrecorded_object_is_found_once_and_closed_when_it_is_gone() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let lease = stage.lease().await;
    let orders = stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    let mut keys = orders.iter().flat_map(|(_, order)| order.recorded.keys());
    let recorded = keys.find(|key| key.kind == Kind::ConfigMap).expect("a recorded key").clone();
    let known = OrphanCandidate { key: recorded, ..candidate("known", true) };

    let all = || vec![known.clone(), candidate("left", true), candidate("copied", false)];
    assert_eq!(stage.sweep(all(), 10).await, 2);
    assert_eq!(stage.sweep(all(), 20).await, 0, "the same is found once");
    let found = stage.findings(false).await;
    let classes: Vec<_> = found.iter().map(|one| (one.key.name.as_str(), one.class)).collect();
    assert_eq!(classes, [("copied", FindingClass::Unproved), ("left", FindingClass::Orphan)]);
    assert_eq!((found[0].found_at, found[0].seen_at), (at(10), at(20)));

    assert_eq!(stage.sweep(vec![known, candidate("copied", false)], 30).await, 1);
    assert_eq!(stage.findings(false).await.len(), 1);
    assert_eq!(stage.findings(true).await.len(), 2, "closed findings are kept");
    assert_eq!(stage.finding_events().await, ["FindingOpened", "FindingOpened", "FindingClosed"]);
    let tenants = "select count(*) from events e where type like 'Finding%' and exists (select from projects p where p.org_id = e.org_id)";
    assert_eq!(stage.one::<i64>(tenants).await, 0, "their events are in the platform's log");
}

#[tokio::test]
async fn an_object_recorded_only_by_a_deleted_service_is_found() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let lease = stage.lease().await;
    let orders = stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    let of_service = orders.iter().find(|(_, order)| order.unit.kind() == "service");
    let recorded = &of_service.expect("an order of a service").1.recorded;
    let key = recorded.keys().find(|key| key.kind == Kind::ConfigMap).expect("a key").clone();
    let left = || vec![OrphanCandidate { key: key.clone(), ..candidate("left", true) }];
    assert_eq!(stage.sweep(left(), 10).await, 0, "the service is active");
    stage.delete("web").await.unwrap();
    assert_eq!(stage.sweep(left(), 11).await, 0, "the deletion is not complete");
    let lease = stage.lease().await;
    stage.db.worker.record_reports(lease, &[gone(&row, 2)], at(12)).await.unwrap();
    assert_eq!(stage.sweep(left(), 13).await, 1, "the object outlived its service");
}

#[tokio::test]
async fn an_orphan_costs_what_the_service_on_its_label_is_sold_for() {
    let stage = Stage::new().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let left = |name: &str, proved: bool| OrphanCandidate {
        key: ResourceKey::new(Kind::Deployment, "shop", name),
        unit: Some(row.service.id.to_string()),
        ..candidate(name, proved)
    };
    let unknown = OrphanCandidate {
        unit: Some("svc_01h455vb4pex5vsknk084sn02q".to_owned()),
        ..left("unknown", true)
    };
    let candidates = vec![left("web", true), left("copied", false), unknown];
    let swept = SweepResult { kind: Kind::Deployment, candidates };
    let lease = stage.lease().await;
    stage.db.worker.note_findings(lease, &swept, at(10)).await.unwrap();
    let found = stage.findings(false).await;
    let ids: Vec<_> = found.iter().map(|one| one.id).collect();
    let prices = stage.db.app.find_finding_prices(&ids).await.unwrap();
    let orphan = found.iter().find(|one| one.key.name == "web").unwrap().id;
    let expected = BTreeMap::from([(orphan, pods(1))]);
    assert_eq!(prices, expected, "only of an object that Trueup created");
}

#[tokio::test]
async fn an_object_recorded_after_its_removal_request_is_reported_as_recorded() {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    let lease = stage.lease().await;
    stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    assert_eq!(stage.sweep(vec![candidate("left", true)], 10).await, 1);
    let found = stage.findings(false).await;
    assert!(stage.remove_found(&found[0], None).await.unwrap());
    let requested = || stage.db.worker.requested_removals(stage.db.cluster);
    assert!(!requested().await.unwrap()[0].recorded);
    let recorded = "update resources set namespace = 'shop', name = 'left'
                    where kind = 'ConfigMap' and name = (select min(name) from resources
                        where kind = 'ConfigMap' and subject_kind = 'service') returning 1";
    assert_eq!(stage.all::<i32>(recorded).await, [1]);
    assert!(requested().await.unwrap()[0].recorded);
}

#[tokio::test]
async fn removals_are_requested_singly_and_many_need_confirmation() {
    let stage = Stage::new().await;
    stage
        .sweep(vec![candidate("a", true), candidate("b", true), candidate("copied", false)], 10)
        .await;
    let found = stage.findings(false).await;
    let (first, second, copied) = (&found[0], &found[1], &found[2]);
    assert!(matches!(stage.remove_found(copied, Some(1)).await, Err(Refusal::Kept(_))));
    assert!(stage.remove_found(first, None).await.unwrap());
    assert!(!stage.remove_found(first, None).await.unwrap(), "a repeated request changes nothing");
    let many = stage.remove_found(second, None).await;
    assert!(matches!(many, Err(Refusal::OverBudget { number: 2 })), "{many:?}");
    assert!(stage.remove_found(second, Some(3)).await.is_err(), "another number confirms nothing");
    assert!(stage.remove_found(second, Some(2)).await.unwrap());

    let worker = &stage.db.worker;
    let mut requested = worker.requested_removals(stage.db.cluster).await.unwrap();
    requested.sort_by(|a, b| a.found.key.cmp(&b.found.key));
    assert_eq!(requested.len(), 2);
    let lease = stage.lease().await;
    worker.end_removal(lease, &requested[0].found, None, at(60)).await.unwrap();
    worker.end_removal(lease, &requested[1].found, Some("it changed"), at(62)).await.unwrap();
    worker.end_removal(lease, &requested[0].found, None, at(61)).await.unwrap();
    assert!(worker.requested_removals(stage.db.cluster).await.unwrap().is_empty());
    let left = stage.findings(false).await;
    let names = left.iter().map(|one| (one.key.name.as_str(), one.kept_why.as_deref()));
    assert_eq!(names.collect::<Vec<_>>(), [("b", Some("it changed")), ("copied", None)]);
    let events = stage.finding_events().await;
    assert_eq!(
        events[3..],
        ["FindingRemovalRequested", "FindingRemovalRequested", "FindingClosed", "FindingKept"]
    );
}
