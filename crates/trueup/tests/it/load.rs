//! A load generator that sends changes to two replicas and records what was acknowledged.

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

/// The number of services.
pub(crate) const SERVICES: usize = 6;
/// The interval between changes.
const PACE: Duration = Duration::from_millis(250);
/// The timeout of a request: a stopped process does not respond.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends changes until it is stopped.
pub(crate) struct Load {
    acknowledged: Arc<Mutex<Acknowledged>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Load {
    /// Continues after the changes acknowledged before.
    pub(crate) fn start(pair: &Pair, before: Acknowledged) -> Self {
        let clients = [pair.client(0), pair.client(1)];
        let first = before.count();
        let (acknowledged, stop) = (Arc::new(Mutex::new(before)), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let sending = send_changes(clients, first, Arc::clone(&acknowledged));
        let stopped = stop.clone();
        tasks.spawn(async move {
            // Each change is retried until it is acknowledged.
            tokio::select! {
                () = sending => {}
                () = stopped.cancelled() => {}
            }
        });
        Self { acknowledged, stop, tasks }
    }

    /// The number of acknowledged changes.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().count()
    }

    /// Waits until this many more changes were acknowledged.
    pub(crate) async fn wait_for(&self, more: usize) {
        let wanted = self.count() + more;
        eventually("more changes to be acknowledged", SOON, || async {
            (self.count() >= wanted).then_some(())
        })
        .await;
    }

    /// Stops and returns what was acknowledged.
    pub(crate) async fn stop(mut self) -> Acknowledged {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.acknowledged.lock().unwrap().clone()
    }
}

/// Sends changes to both replicas in turn, for one service after the other.
async fn send_changes(clients: [Client; 2], first: usize, acknowledged: Arc<Mutex<Acknowledged>>) {
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

/// The next change of a service. Its content is unique, so that a lost change is not mistaken for
/// another; in the cluster only the number of pods changes, no object is created or deleted.
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

/// Sends a change; `None` if it was not acknowledged.
pub(crate) async fn put(
    client: &Client,
    name: &str,
    manifest: &ServiceManifest,
) -> Option<Accepted> {
    let request = client.service_put(PROJECT, name, manifest, &Terms::PLAIN);
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await.ok()? {
        Ok(answer) => Some(answer),
        Err(error) if is_retryable(&error) => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Whether to retry. A 412 means that an earlier, timed-out request changed the service meanwhile.
fn is_retryable(error: &ClientError) -> bool {
    let overtaken = matches!(error, ClientError::Problem(problem) if problem.status == 412);
    error.is_transient() || overtaken
}
