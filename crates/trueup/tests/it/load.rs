//! A client that asks two replicas for changes all the time, whatever happens to them, and records what
//! was acknowledged.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_api::Client;
use trueup_api::client::{Accepted, ClientError, Terms};
use trueup_api::service::ServiceManifest;

use crate::acknowledged::Acknowledged;
use crate::install::SOON;
use crate::pair::{PROJECT, Pair};
use crate::wait::eventually;

/// How many services there are.
pub(crate) const SERVICES: usize = 6;
/// How much is asked for: a change this often.
const PACE: Duration = Duration::from_millis(250);
/// For how long an answer is waited for: a stopped process gives none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks until it is told to stop.
pub(crate) struct Load {
    acknowledged: Arc<Mutex<Acknowledged>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Load {
    /// Goes on from what was acknowledged before.
    pub(crate) fn start(pair: &Pair, before: Acknowledged) -> Self {
        let clients = [pair.client(0), pair.client(1)];
        let first = before.count();
        let (acknowledged, stop) = (Arc::new(Mutex::new(before)), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let asking = ask(clients, first, Arc::clone(&acknowledged));
        let stopped = stop.clone();
        tasks.spawn(async move {
            // A change that is being asked for is asked for until it is acknowledged.
            tokio::select! {
                () = asking => {}
                () = stopped.cancelled() => {}
            }
        });
        Self { acknowledged, stop, tasks }
    }

    /// How many changes were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().count()
    }

    /// Waits until so many more were acknowledged.
    pub(crate) async fn goes_on(&self, more: usize) {
        let wanted = self.count() + more;
        eventually("more changes to be acknowledged", SOON, || async {
            (self.count() >= wanted).then_some(())
        })
        .await;
    }

    /// Stops asking and says what was acknowledged.
    pub(crate) async fn stop(mut self) -> Acknowledged {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.acknowledged.lock().unwrap().clone()
    }
}

/// Asks the two in turn, for one service after the other.
async fn ask(clients: [Client; 2], first: usize, acknowledged: Arc<Mutex<Acknowledged>>) {
    let mut pace = tokio::time::interval(PACE);
    for turn in first.. {
        pace.tick().await;
        let (name, manifest) = (format!("web-{}", turn % SERVICES), change(turn / SERVICES));
        for attempt in turn.. {
            if let Some(answer) = put(&clients[attempt % 2], &name, &manifest).await {
                acknowledged.lock().unwrap().put(&manifest, &answer);
                break;
            }
            pace.tick().await;
        }
    }
}

/// The next change of a service. Its content is its own, so that a lost change cannot be taken for
/// another one; in the cluster only the number of pods changes, and no object is made or removed.
fn change(number: usize) -> ServiceManifest {
    web(&json!({
        "image": "web:1",
        "replicas": 2 + number % 2,
        // Of no effect without `max_replicas`.
        "cpu_percent": 1 + number % 100,
        "min_replicas": 1 + number / 100 % 20,
    }))
}

/// A declaration with these parameters.
pub(crate) fn web(parameters: &Value) -> ServiceManifest {
    serde_json::from_value(json!({ "template": "web@1", "parameters": parameters })).unwrap()
}

/// The answer to an accepted change; nothing when it was not acknowledged.
pub(crate) async fn put(
    client: &Client,
    name: &str,
    manifest: &ServiceManifest,
) -> Option<Accepted> {
    let asked = client.service_put(PROJECT, name, manifest, &Terms::PLAIN);
    match tokio::time::timeout(PATIENCE, asked).await.ok()? {
        Ok(answer) => Some(answer),
        Err(error) if passes(&error) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Another request may have changed it at the same moment: the one whose answer was not waited for.
fn passes(error: &ClientError) -> bool {
    let overtaken = matches!(error, ClientError::Problem(problem) if problem.status == 412);
    error.is_passing() || overtaken
}
