//! Transitions are recorded while the loops run, across a restart and a gap.

use serde_json::Value;
use trueup_model::key::Kind;

use crate::rig::{Rig, deleted};

impl Rig {
    async fn history(&self, service: &str) -> Vec<String> {
        let app = &self.db.app;
        let rows = app.list_transitions(self.db.org, ("shop", service), None, 1000).await;
        let rows = rows.expect("the database should answer").expect("the service should be there");
        rows.into_iter()
            .map(|row| {
                let what = serde_json::to_value(&row.what).expect("should be JSON");
                let what = what["is"].as_str().unwrap_or_default().to_owned();
                format!("{} {what}", row.kind)
            })
            .collect()
    }

    async fn until_history(&self, service: &str, wanted: &str, times: usize) -> Vec<String> {
        let count = |history: &[String]| history.iter().filter(|line| *line == wanted).count();
        let reached = tokio::time::timeout(crate::rig::LONG, async {
            loop {
                let history = self.history(service).await;
                if count(&history) >= times {
                    return history;
                }
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        match reached.await {
            Ok(history) => history,
            Err(_) => unreachable!("no {times} × {wanted}: {:#?}", self.history(service).await),
        }
    }
}

#[tokio::test]
async fn pod_lifecycle_is_recorded_and_restart_duplicates_nothing() {
    let mut rig = Rig::new().await;
    let stop = rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    let history = rig.until_history("web", "Pod ready", 1).await;
    let seen = |history: &[String]| -> Vec<String> {
        history.iter().filter(|line| !line.ends_with("unobserved")).cloned().collect()
    };
    let steps = seen(&history);
    assert_eq!(
        steps,
        [
            "Pod appeared",
            "Pod sized",
            "Pod scheduled",
            "Pod started",
            "Pod container_started",
            "Pod phase",
            "Pod ready"
        ]
    );

    // Another process takes over: it records the gap, and no transition twice.
    stop.cancel();
    rig.ended().await;
    rig.start("two");
    let gaps = history.iter().filter(|line| *line == "Pod unobserved").count();
    let history = rig.until_history("web", "Pod unobserved", gaps + 1).await;
    assert_eq!(seen(&history), steps);

    // A pod deleted during a gap is recorded as gone later, and one deleted while watched at once.
    rig.crash().await;
    let pod = rig.fake.objects(Kind::Pod).remove(0);
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    rig.fake.remove(&trueup_model::key::ResourceKey::new(Kind::Pod, &namespace, &name(&pod)));
    rig.start("three");
    rig.until_history("web", "Pod gone", 1).await;
    rig.until_history("web", "Pod ready", 2).await;
    let id = rig.delete("web").await;
    rig.until(&id, deleted).await;
    rig.until_history(&id, "Pod gone", 2).await;
}
