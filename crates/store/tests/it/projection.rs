//! Projections can be rebuilt: the stored inputs and time give the stored status, byte for byte.

use serde_json::Value;
use sqlx::types::Json;
use trueup_model::report::{Outcome, Report};
use trueup_model::status::{Inputs, Status};
use trueup_rules::{RULES_VERSION, status};

use crate::stage::{Stage, at, converged, gone, seen};

impl Stage {
    /// Computes every stored status again and compares.
    async fn assert_rebuildable(&self) -> usize {
        let rows: Vec<(Json<Value>, Json<Value>, jiff_sqlx::Timestamp, i32)> = sqlx::query_as(
            "select status, inputs, as_of, rules_version from statuses where inputs is not null",
        )
        .fetch_all(&self.owner)
        .await
        .unwrap();
        for (stored, inputs, as_of, version) in &rows {
            assert_eq!(*version, RULES_VERSION);
            let inputs: Inputs = serde_json::from_value(inputs.0.clone()).unwrap();
            let rebuilt: Status = status::project(&inputs, as_of.to_jiff());
            let rebuilt = serde_json::to_value(&rebuilt).unwrap();
            assert_eq!(
                serde_json::to_string(&rebuilt).unwrap(),
                serde_json::to_string(&stored.0).unwrap()
            );
        }
        rows.len()
    }
}

#[tokio::test]
async fn every_status_of_a_life_can_be_computed_again_from_what_is_stored() {
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
        assert_eq!(worker.settle(lease, &[report], at(seconds)).await.unwrap(), 1);
        assert_eq!(stage.assert_rebuildable().await, 1);
    }
    stage.delete("web").await.unwrap();
    worker.settle(lease, &[converged(&row, 1)], at(30)).await.unwrap();
    assert_eq!(stage.assert_rebuildable().await, 1);
    worker.settle(lease, &[gone(&row, 2)], at(31)).await.unwrap();
    assert_eq!(stage.assert_rebuildable().await, 1);
}
