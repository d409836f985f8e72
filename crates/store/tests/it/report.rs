//! Recording reports: each becomes rows and events once, and a report without news writes nothing.

use trueup_model::key::{Kind, ResourceKey};
use trueup_model::observation::Observation;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::status::{Health, Phase};
use trueup_store::{Lease, ServiceRow};
use trueup_testkit::report_batch::{RecordReports as _, next_batch};

use crate::stage::{PROJECT, Stage, at, converged, seen};

impl Stage {
    async fn record_reports(&self, lease: Lease, report: Report, seconds: i64) -> usize {
        let worker = &self.db.worker;
        worker.record_reports(lease, &[report], at(seconds)).await.unwrap()
    }
}

fn key(row: &ServiceRow) -> ResourceKey {
    ResourceKey::new(Kind::Deployment, &row.namespace, &row.service.object_name)
}

/// Some objects exist, but the generation is not fully applied.
fn half_made(row: &ServiceRow) -> Report {
    let observation = Observation { applied: false, ..seen(row, 1, 0) };
    Report {
        observation: Some(observation),
        outcome: Outcome::Waiting { on: "its pods".to_owned() },
        changes: vec![ObjectChange::Created { key: key(row) }],
        ..converged(row, 1)
    }
}

#[tokio::test]
async fn each_change_of_phase_is_stored_with_its_events() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let degraded = Report { observation: Some(seen(&row, 1, 0)), ..converged(&row, 1) };
    let steps = [
        (
            half_made(&row),
            (Phase::Creating, Health::Progressing),
            vec!["ReconcileStarted", "ResourceCreated", "ServicePhaseChanged"],
        ),
        (
            converged(&row, 1),
            (Phase::Running, Health::Healthy),
            vec!["ReconcileSucceeded", "ServicePhaseChanged"],
        ),
        (degraded, (Phase::Running, Health::Progressing), vec!["ServicePhaseChanged"]),
        (converged(&row, 1), (Phase::Running, Health::Healthy), vec!["ServicePhaseChanged"]),
    ];
    let mut expected = vec!["ServiceQueued".to_owned()];
    for (seconds, (report, edge, events)) in (10..).zip(steps) {
        assert_eq!(stage.record_reports(lease, report, seconds).await, 1);
        let now = stage.find("web").await.unwrap();
        assert_eq!((now.status.phase, now.status.health), edge);
        let columns: String = stage
            .one(
                "select concat_ws(' ', phase, health) from statuses where subject_kind = 'service'",
            )
            .await;
        assert_eq!(columns, format!("{} {}", edge.0.into_str(), edge.1.into_str()));
        expected.extend(events.into_iter().map(str::to_owned));
        assert_eq!(stage.events_of(row.service.id.uuid()).await, expected);
    }
    let now = stage.find("web").await.unwrap();
    assert_eq!((now.status.since, now.projection), (at(11), 5));
}

#[tokio::test]
async fn a_report_without_news_writes_nothing() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.record_reports(lease, converged(&row, 1), 10).await;
    let before = stage.rows().await;
    let versions = "select string_agg(xmin::text || projection::text, ' ') from statuses";
    let written: String = stage.one(versions).await;

    let mut later = seen(&row, 1, 1);
    later.as_of = at(20);
    later.objects[0].resource_version = "8".to_owned();
    let again = Report { observation: Some(later), ..converged(&row, 1) };
    let blind = Report { observation: None, ..converged(&row, 1) };
    for report in [converged(&row, 1), again, blind] {
        assert_eq!(stage.record_reports(lease, report, 20).await, 0);
    }
    assert_eq!(stage.db.worker.record_reports(lease, &[], at(20)).await.unwrap(), 0);
    assert_eq!(stage.grown(&before).await, []);
    assert_eq!(stage.one::<String>(versions).await, written);
}

#[tokio::test]
async fn the_same_report_is_recorded_again_for_a_new_generation() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.record_reports(lease, converged(&row, 1), 10).await;
    stage.declare("web", "nginx:2").await;
    assert_eq!(stage.record_reports(lease, converged(&row, 1), 11).await, 1);
    let now = stage.find("web").await.unwrap();
    assert_eq!(now.status.phase, Phase::Updating);
    assert_eq!(now.status.applied_generation, Some(1));
    assert_eq!(stage.record_reports(lease, converged(&row, 2), 12).await, 1);
    let now = stage.find("web").await.unwrap();
    assert_eq!((now.status.phase, now.status.applied_generation), (Phase::Running, Some(2)));
}

#[tokio::test]
async fn an_unreachable_cluster_defers_once_and_keeps_the_last_evidence() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.record_reports(lease, converged(&row, 1), 10).await;
    let evidence = stage.find("web").await.unwrap().status.evidence;
    let unreachable = Report {
        observation: None,
        outcome: Outcome::Deferred { why: "the cluster does not answer".to_owned() },
        ..converged(&row, 1)
    };
    assert_eq!(stage.record_reports(lease, unreachable.clone(), 11).await, 1);
    assert_eq!(stage.record_reports(lease, unreachable, 12).await, 0);
    let now = stage.find("web").await.unwrap();
    assert_eq!((now.status.phase, now.status.health), (Phase::Running, Health::Unknown));
    assert_eq!(now.status.evidence, evidence);
    let events = stage.events_of(row.service.id.uuid()).await;
    let deferred = events.iter().filter(|event| *event == "ReconcileDeferred").count();
    assert_eq!(deferred, 1, "{events:?}");
}

#[tokio::test]
async fn a_failure_is_an_event_each_time_its_reason_changes() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    for why in ["quota", "quota", "webhook"] {
        let failed = Report { outcome: Outcome::Failed { why: why.to_owned() }, ..half_made(&row) };
        let quiet = Report { changes: Vec::new(), ..failed };
        stage.record_reports(lease, quiet, 10).await;
    }
    let whys: Vec<String> = stage
        .all("select body->>'why' from events where type = 'ReconcileFailed' order by id")
        .await;
    assert_eq!(whys.len(), 2, "{whys:?}");
}

#[tokio::test]
async fn a_uid_is_recorded_when_it_is_first_seen_and_when_it_changes() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    let uids = "select concat_ws(' ', kind, uid, extract(epoch from seen_at)::bigint - 1800000000)
                from resources where uid is not null";
    assert!(stage.all::<String>(uids).await.is_empty());
    stage.record_reports(lease, converged(&row, 1), 10).await;
    assert_eq!(stage.all::<String>(uids).await, ["Deployment uid-1 3"], "when it was observed");

    let mut other = Observation { as_of: at(19), ..seen(&row, 1, 1) };
    other.objects[0].uid = "uid-2".to_owned();
    let remade = Report {
        observation: Some(other),
        changes: vec![ObjectChange::DeletedExternally { key: key(&row) }],
        ..converged(&row, 1)
    };
    stage.record_reports(lease, remade, 20).await;
    assert_eq!(stage.all::<String>(uids).await, ["Deployment uid-2 19"]);
    let events = stage.events_of(row.service.id.uuid()).await;
    assert!(events.contains(&"ResourceDeletedExternally".to_owned()), "{events:?}");
}

#[tokio::test]
async fn an_idle_object_is_seen_as_long_as_its_watch_is_heard_and_costs_no_write() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    let last_seen = async || {
        let found = stage.db.app.find_service(stage.db.org, PROJECT, "web").await.unwrap().unwrap();
        let workload = found.resources.into_iter().find(|one| one.key.kind == Kind::Deployment);
        workload.unwrap().last_seen_at
    };
    stage.db.record_heartbeat(at(2)).await;
    assert_eq!(last_seen().await, None, "its watch was heard, but it was never seen");
    stage.record_reports(lease, converged(&row, 1), 10).await;
    assert_eq!(last_seen().await, Some(at(3)));

    // Idle: the watch is heard, and the same report is recorded again.
    let version = "select string_agg(xmin::text, ' ' order by kind, name) from resources";
    let before = stage.one::<String>(version).await;
    stage.db.record_heartbeat(at(500)).await;
    let same = Observation { as_of: at(501), ..seen(&row, 1, 1) };
    let same = Report { observation: Some(same), ..converged(&row, 1) };
    assert_eq!(stage.record_reports(lease, same, 502).await, 0);
    assert_eq!(last_seen().await, Some(at(500)));
    assert_eq!(stage.one::<String>(version).await, before, "no row of an object was written");

    // A changed observation is written, with its time.
    let changed = Observation { as_of: at(510), ..seen(&row, 1, 0) };
    let changed = Report { observation: Some(changed), ..converged(&row, 1) };
    assert_eq!(stage.record_reports(lease, changed, 511).await, 1);
    assert_eq!(last_seen().await, Some(at(510)));

    // Without the object, its watch says nothing about it.
    let without = Observation { objects: Vec::new(), as_of: at(520), ..seen(&row, 1, 0) };
    let without = Report { observation: Some(without), ..converged(&row, 1) };
    assert_eq!(stage.record_reports(lease, without, 521).await, 1);
    stage.db.record_heartbeat(at(600)).await;
    assert_eq!(last_seen().await, Some(at(510)));
}

/// An object that Trueup removed from an active service is later created by Trueup, not externally.
///
/// Objects removed by a deletion keep their uid for the receipt.
#[tokio::test]
async fn the_uid_of_a_removed_object_is_cleared_unless_the_service_is_deleted() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.db.worker.claim_orders(lease, 10, at(1)).await.unwrap();
    stage.record_reports(lease, converged(&row, 1), 10).await;
    let uid = "select coalesce(uid, 'none') from resources where kind = 'Deployment'";
    assert_eq!(stage.one::<String>(uid).await, "uid-1");

    let without = || Observation { objects: Vec::new(), ..seen(&row, 1, 1) };
    let removed = |generation| Report {
        generation,
        observation: Some(without()),
        changes: vec![ObjectChange::Removed { key: key(&row) }],
        ..converged(&row, 1)
    };
    stage.record_reports(lease, removed(1), 11).await;
    assert_eq!(stage.one::<String>(uid).await, "none");

    stage.record_reports(lease, converged(&row, 1), 12).await;
    assert_eq!(stage.one::<String>(uid).await, "uid-1");
    stage.delete("web").await.unwrap();
    stage.record_reports(lease, removed(2), 14).await;
    assert_eq!(stage.one::<String>(uid).await, "uid-1", "the receipt needs the uid");
}

#[tokio::test]
async fn one_batch_records_many_reports_and_skips_unknown_units() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let mut reports = Vec::new();
    for number in 0..20 {
        let row = stage.declare(&format!("web-{number}"), "nginx:1").await.row;
        reports.push(converged(&row, 1));
    }
    let mut stranger = reports[0].clone();
    stranger.unit =
        trueup_model::order::Unit::Service(trueup_model::ServiceId::from_parts(at(0), [7; 10]));
    reports.push(stranger);
    let settled = stage.db.worker.record_reports(lease, &reports, at(10)).await.unwrap();
    assert_eq!(settled, 20);
    let running: i64 = stage.one("select count(*) from statuses where phase = 'running'").await;
    assert_eq!(running, 20);
}

#[tokio::test]
async fn a_resent_batch_is_recorded_once() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    let worker = &stage.db.worker;
    let (batch, number) = ([half_made(&row)], next_batch());
    assert_eq!(worker.record_reports_once(lease, number, &batch, at(10)).await.unwrap(), 1);
    let before = stage.rows().await;
    assert_eq!(worker.record_reports_once(lease, number, &batch, at(11)).await.unwrap(), 0);
    assert_eq!(stage.grown(&before).await, []);
    // The same reports in another batch are recorded, and so are those of the next holder.
    assert_eq!(worker.record_reports_once(lease, number + 1, &batch, at(12)).await.unwrap(), 1);
    let next =
        worker.acquire_lease(stage.db.cluster, "one", None, at(13)).await.unwrap().ours().unwrap();
    assert_eq!(worker.record_reports_once(next, 1, &batch, at(14)).await.unwrap(), 1);
    let created = stage.events_of(row.service.id.uuid()).await;
    assert_eq!(created.iter().filter(|kind| *kind == "ResourceCreated").count(), 3);
}
