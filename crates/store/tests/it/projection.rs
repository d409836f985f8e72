//! Projections can be rebuilt: the stored inputs and time give the stored status, byte for byte.

use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::report::{Outcome, Report};
use trueup_model::status::Health;
use trueup_store::{Comparison, Error, Reprojected, ServiceFilter, ServiceOrder};
use trueup_testkit::report_batch::RecordReports as _;

use crate::stage::{Stage, at, converged, gone, seen, unit};

impl Stage {
    /// Rebuilds every stored status and compares; returns how many were computed and equal.
    async fn assert_rebuildable(&self) -> usize {
        let rebuilt = self.db.app.rebuild_projections(self.db.org, None, 1000).await.unwrap();
        let different: Vec<_> = rebuilt
            .iter()
            .filter(|one| !matches!(one.comparison, Comparison::Same | Comparison::Unobserved))
            .collect();
        assert!(different.is_empty(), "{different:#?}");
        rebuilt.iter().filter(|one| one.comparison == Comparison::Same).count()
    }
}

#[tokio::test]
async fn every_stored_status_can_be_rebuilt_from_its_inputs() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    // Nothing was observed yet, so nothing is computed.
    assert_eq!(stage.assert_rebuildable().await, 0);

    let outcome = |outcome: Outcome, ready: u32| Report {
        observation: Some(seen(&row, 1, ready)),
        outcome,
        ..converged(&row, 1)
    };
    let why = "a sentence".to_owned();
    let life = [
        outcome(Outcome::Waiting { on: why.clone() }, 0),
        outcome(Outcome::Converged, 1),
        outcome(Outcome::Failed { why: why.clone() }, 0),
        outcome(Outcome::Deferred { why: why.clone() }, 0),
        outcome(Outcome::Blocked { why }, 1),
        outcome(Outcome::Converged, 1),
    ];
    let worker = &stage.db.worker;
    for (seconds, report) in (10..).zip(life) {
        assert_eq!(worker.record_reports(lease, &[report], at(seconds)).await.unwrap(), 1);
        assert_eq!(stage.assert_rebuildable().await, 1);
    }
    stage.delete("web").await.unwrap();
    worker.record_reports(lease, &[converged(&row, 1)], at(30)).await.unwrap();
    assert_eq!(stage.assert_rebuildable().await, 1);
    worker.record_reports(lease, &[gone(&row, 2)], at(31)).await.unwrap();
    assert_eq!(stage.assert_rebuildable().await, 1);
}

#[tokio::test]
async fn a_status_changed_by_hand_is_detected() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.db.worker.record_reports(lease, &[converged(&row, 1)], at(10)).await.unwrap();
    assert_eq!(stage.assert_rebuildable().await, 1);
    let forge = "update statuses set status = jsonb_set(status, '{health}', '\"error\"') where subject_kind = 'service'";
    sqlx::query(forge).execute(&stage.owner).await.unwrap();
    let rebuilt = stage.db.app.rebuild_projections(stage.db.org, None, 1000).await.unwrap();
    let found = rebuilt.iter().find_map(|one| match &one.comparison {
        Comparison::Different { stored, rebuilt } => {
            Some((stored["health"].clone(), rebuilt["health"].clone()))
        }
        Comparison::Same | Comparison::Older(_) | Comparison::Unobserved => None,
    });
    assert_eq!(found, Some(("error".into(), "healthy".into())));
    // Results of older rules are not compared with those of newer ones.
    sqlx::query("update statuses set rules_version = 1").execute(&stage.owner).await.unwrap();
    let rebuilt = stage.db.app.rebuild_projections(stage.db.org, None, 1000).await.unwrap();
    assert!(rebuilt.iter().any(|one| one.comparison == Comparison::Older(1)));
}

#[tokio::test]
async fn status_of_older_rules_is_projected_again() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let worker = &stage.db.worker;
    let stale = stage.declare("stale", "nginx:1").await.row;
    let right = stage.declare("right", "nginx:1").await.row;
    stage.declare("unobserved", "nginx:1").await;
    for row in [&stale, &right] {
        worker.record_reports(lease, &[converged(row, 1)], at(10)).await.unwrap();
    }
    let projection = stage.find("right").await.unwrap().projection;
    // Older rules computed all of them, and another health for one.
    sqlx::query("update statuses set rules_version = 1").execute(&stage.owner).await.unwrap();
    let forge =
        "update statuses set health = 'error', status = jsonb_set(status, '{health}', '\"error\"')
                 where subject_id = $1";
    sqlx::query(forge).bind(stale.service.id.uuid()).execute(&stage.owner).await.unwrap();
    let events = stage.events_of(stale.service.id.uuid()).await.len();
    let others = stage.events_of(right.service.id.uuid()).await;

    let (mut after, mut changed) = (None, 0);
    loop {
        let batch = worker.reproject_statuses(lease, after, 2, at(20)).await.unwrap();
        assert_eq!(batch.unreadable, []);
        changed += batch.changed;
        match batch.last {
            Some(_) => after = batch.last,
            None => break,
        }
    }
    assert_eq!(changed, 1);
    assert_eq!(stage.find("stale").await.unwrap().status.health, Health::Healthy);
    assert_eq!(stage.find("right").await.unwrap().projection, projection, "it is not rewritten");
    assert_eq!(stage.assert_rebuildable().await, 2);
    let of_stale = stage.events_of(stale.service.id.uuid()).await;
    assert_eq!(of_stale.get(events..), Some(&["ServicePhaseChanged".to_owned()][..]));
    let sources = "select source from events order by at desc, id desc limit 1";
    assert_eq!(stage.one::<String>(sources).await, "system");
    assert_eq!(stage.events_of(right.service.id.uuid()).await, others);

    // The second time nothing is left to do.
    let again = worker.reproject_statuses(lease, None, 100, at(30)).await.unwrap();
    assert_eq!(again, Reprojected::default());
    assert_eq!(stage.events_of(stale.service.id.uuid()).await, of_stale);
}

#[tokio::test]
async fn status_is_not_projected_again_without_the_lease_or_its_inputs() {
    let stage = Stage::new().await;
    let lost = stage.lease().await;
    let worker = &stage.db.worker;
    let row = stage.declare("web", "nginx:1").await.row;
    worker.record_reports(lost, &[converged(&row, 1)], at(10)).await.unwrap();
    let lease = stage.lease().await;
    let refused = worker.reproject_statuses(lost, None, 10, at(11)).await;
    assert!(matches!(refused, Err(Error::Fenced)), "{refused:?}");

    let forge = "update statuses set rules_version = 1, inputs = '{}' where subject_id = $1";
    sqlx::query(forge).bind(row.service.id.uuid()).execute(&stage.owner).await.unwrap();
    let batch = worker.reproject_statuses(lease, None, 10, at(12)).await.unwrap();
    assert_eq!((batch.unreadable, batch.changed), (vec![unit(&row)], 0));
    // The next batch continues behind it, and newer rules are never replaced by older ones.
    let next = worker.reproject_statuses(lease, batch.last, 10, at(13)).await.unwrap();
    assert_eq!(next, Reprojected::default());
    let newer = "update statuses set rules_version = 1000000 where subject_id = $1";
    sqlx::query(newer).bind(row.service.id.uuid()).execute(&stage.owner).await.unwrap();
    let none = worker.reproject_statuses(lease, None, 10, at(14)).await.unwrap();
    assert_eq!(none, Reprojected::default());
}

/// A stale watch of pods is not hidden by fresh watches of other kinds.
#[tokio::test]
async fn freshness_is_tracked_per_kind() {
    let stage = Stage::new().await;
    let lease = stage.lease().await;
    let row = stage.declare("web", "nginx:1").await.row;
    stage.db.worker.record_reports(lease, &[converged(&row, 1)], at(10)).await.unwrap();
    let healthy = ServiceFilter { health: Some(Health::Healthy), ..ServiceFilter::default() };
    let shown = async |seconds: i64| {
        let app = &stage.db.app;
        app.list_services(stage.db.org, &healthy, (ServiceOrder::default(), None), 10, at(seconds))
            .await
            .unwrap()
            .len()
    };
    assert_eq!(shown(10).await, 0, "no watch event was ever received");
    stage.db.record_heartbeat(at(10)).await;
    assert_eq!(shown(20).await, 1);
    let mut heard = Freshness::all_at(at(100));
    heard.heard.insert(Kind::Pod, at(10));
    stage.db.worker.record_watches(lease, &heard).await.unwrap();
    assert_eq!(shown(100).await, 0, "the watch of pods is stale");
    heard.heard.insert(Kind::Pod, at(99));
    heard.heard.insert(Kind::PersistentVolumeClaim, at(10));
    stage.db.worker.record_watches(lease, &heard).await.unwrap();
    assert_eq!(shown(100).await, 1, "it has no disk");
    let silent = stage.find("web").await.unwrap().watches.silent(&Kind::WATCHED, at(100));
    assert_eq!(silent, [Kind::PersistentVolumeClaim]);
}
