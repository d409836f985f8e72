//! Somebody who asks two replicas for changes all the time, whatever happens to them, and remembers what
//! was accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trueup_api::Client;
use trueup_api::client::{ClientError, Terms};
use trueup_api::service::ServiceManifest;

use crate::install::SOON;
use crate::pair::{PROJECT, Pair};
use crate::wait::eventually;

/// How many services there are.
pub(crate) const SERVICES: usize = 6;
/// How much is asked for: a change this often.
const PACE: Duration = Duration::from_millis(250);
/// For how long an answer is waited for: one who is stopped gives none.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which generations of which service were accepted.
pub(crate) type Accepted = BTreeMap<String, BTreeSet<i64>>;

/// Asks until it is told to stop.
pub(crate) struct Load {
    accepted: Arc<Mutex<Accepted>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Load {
    /// Goes on from what was accepted before.
    pub(crate) fn start(pair: &Pair, before: Accepted) -> Self {
        let clients = [pair.client(0), pair.client(1)];
        let first = before.values().map(BTreeSet::len).sum();
        let (accepted, stop) = (Arc::new(Mutex::new(before)), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let asking = ask(clients, first, Arc::clone(&accepted));
        let stopped = stop.clone();
        tasks.spawn(async move {
            // A change that is being asked for is asked for until it is accepted.
            tokio::select! {
                () = asking => {}
                () = stopped.cancelled() => {}
            }
        });
        Self { accepted, stop, tasks }
    }

    /// How many changes were accepted.
    pub(crate) fn count(&self) -> usize {
        self.accepted.lock().unwrap().values().map(BTreeSet::len).sum()
    }

    /// Waits until so many more were accepted.
    pub(crate) async fn goes_on(&self, more: usize) {
        let wanted = self.count() + more;
        eventually("more changes to be accepted", SOON, || async {
            (self.count() >= wanted).then_some(())
        })
        .await;
    }

    /// Stops asking and says what was accepted.
    pub(crate) async fn stop(mut self) -> Accepted {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.accepted.lock().unwrap().clone()
    }
}

/// Asks the two in turn, for one service after the other.
async fn ask(clients: [Client; 2], first: usize, accepted: Arc<Mutex<Accepted>>) {
    let mut pace = tokio::time::interval(PACE);
    for turn in first.. {
        pace.tick().await;
        let name = format!("web-{}", turn % SERVICES);
        // Each change of a service differs from the one before, and none makes or takes an object.
        let replicas = 2 + turn / SERVICES % 2;
        for attempt in turn.. {
            if let Some(generation) = put(&clients[attempt % 2], &name, replicas).await {
                accepted.lock().unwrap().entry(name).or_default().insert(generation);
                break;
            }
            pace.tick().await;
        }
    }
}

/// The generation that was accepted; nothing when nobody said so.
async fn put(client: &Client, name: &str, replicas: usize) -> Option<i64> {
    let parameters = json!({ "image": "web:1", "replicas": replicas });
    let manifest = json!({ "template": "web@1", "parameters": parameters });
    let manifest: ServiceManifest = serde_json::from_value(manifest).unwrap();
    let asked = client.service_put(PROJECT, name, &manifest, &Terms::PLAIN);
    match tokio::time::timeout(PATIENCE, asked).await.ok()? {
        Ok(answer) => Some(answer.service.generation),
        Err(error) if passes(&error) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Somebody else may have changed it at the same moment: the answer that was not waited for.
fn passes(error: &ClientError) -> bool {
    let overtaken = matches!(error, ClientError::Problem(problem) if problem.status == 412);
    error.is_passing() || overtaken
}
