//! Projections can be rebuilt: the stored inputs and time give the stored status, byte for byte.

use trueup_model::cluster::Freshness;
use trueup_model::key::Kind;
use trueup_model::report::{Outcome, Report};
use trueup_model::status::Health;
use trueup_store::{Comparison, ServiceFilter};

use crate::stage::{Stage, at, converged, gone, seen};

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
        app.list_services(stage.db.org, &healthy, None, 10, at(seconds)).await.unwrap().len()
    };
    assert_eq!(shown(10).await, 0, "no watch event was ever received");
    stage.db.worker.record_heartbeat(stage.db.cluster, at(10)).await.unwrap();
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
