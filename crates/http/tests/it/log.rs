//! Live logs through a test port.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use trueup_http::{Lines, LiveLogs, LogSource, Streams};

use crate::front::{Front, STRANGER, VIEWER, WEB};

/// Returns two lines for `web-1`, fails within `web-2`, and cannot read other pods.
#[derive(Debug, Default)]
struct Port {
    sources: Mutex<Vec<LogSource>>,
}

impl LiveLogs for Port {
    fn read(&self, of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        let lines: Result<Vec<Result<String, String>>, String> = match of.pod.as_str() {
            "web-1" => Ok(vec![Ok("started".to_owned()), Ok("\u{1b}[31mred".to_owned())]),
            "web-2" => Ok(vec![Ok("one".to_owned()), Err("the node went away".to_owned())]),
            _ => Err("no such pod".to_owned()),
        };
        self.sources.lock().unwrap().push(of);
        async move { lines.map(|lines| futures::stream::iter(lines).boxed()) }.boxed()
    }
}

async fn with_pods(pods: Value) -> (Front, Arc<Port>) {
    let port = Arc::new(Port::default());
    let logs = Arc::<Port>::clone(&port);
    (with_logs(pods, logs).await, port)
}

/// The service `web` with these pods, whose logs come from this port.
pub(crate) async fn with_logs(pods: Value, logs: Arc<dyn LiveLogs>) -> Front {
    let mut front = Front::with_web().await;
    front.rebuild(|state| state.logs = logs);
    let inputs = json!({"observation": {"pods": pods}});
    sqlx::query("update statuses set inputs = $1 where subject_kind = 'service'")
        .bind(inputs)
        .execute(&front.owner)
        .await
        .unwrap();
    front
}

pub(crate) fn pod(name: &str, simulated: bool) -> Value {
    json!({"name": name, "uid": "u", "ready": true, "problem": null, "simulated": simulated})
}

async fn lines(front: &Front, query: &str) -> Vec<Value> {
    let reply = front.get(&format!("{WEB}/logs{query}")).token(VIEWER).send().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let text = reply.text().lines().filter(|line| !line.is_empty());
    text.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn logs_of_each_pod_are_returned_and_errors_are_notices() {
    let pods =
        json!([pod("web-1", false), pod("web-2", false), pod("web-3", true), pod("web-4", false)]);
    let (front, port) = with_pods(pods).await;
    let all = lines(&front, "?tail=7").await;
    let of =
        |name: &str| -> Vec<&Value> { all.iter().filter(|line| line["pod"] == name).collect() };
    assert_eq!(of("web-1").len(), 2);
    assert_eq!(
        of("web-1")[1]["line"],
        "\u{1b}[31mred",
        "control characters are escaped in the JSON"
    );
    assert_eq!(of("web-2")[0]["line"], "one");
    assert_eq!(of("web-2")[1]["notice"], "log ended: the node went away");
    assert_eq!(of("web-3")[0]["notice"], "simulated pod: it has no logs");
    assert_eq!(of("web-4")[0]["notice"], "cannot read the log: no such pod");
    let sources = port.sources.lock().unwrap();
    assert!(sources.iter().all(|of| of.tail == 7 && !of.follow), "{sources:?}");
    assert!(sources.iter().all(|of| of.pod != "web-3"), "a simulated pod is not read");
}

#[tokio::test]
async fn pod_filter_accepts_only_pods_of_the_service() {
    let (front, port) = with_pods(json!([pod("web-1", false), pod("web-2", false)])).await;
    assert_eq!(lines(&front, "?pod=web-1").await.len(), 2);
    assert_eq!(port.sources.lock().unwrap().len(), 1);
    front.get(&format!("{WEB}/logs?pod=kube-apiserver")).send().await.must_be(404, "TU1003");
    front.get(&format!("{WEB}/logs?tail=10001")).send().await.must_be(400, "TU1103");
    front.get(&format!("{WEB}/logs")).token(STRANGER).send().await.must_be(404, "TU1003");
    assert_eq!(port.sources.lock().unwrap().len(), 1, "a refused request reads no log");
}

#[tokio::test]
async fn service_without_pods_returns_a_notice() {
    let (front, _) = with_pods(json!([])).await;
    assert_eq!(lines(&front, "").await[0]["notice"], "no pods observed; see `trueup describe`");
}

/// M3: a log stream weighs what it opens.
#[tokio::test]
async fn log_streams_count_by_the_pods_that_they_read() {
    let pods: Vec<Value> = (0..4).map(|number| pod(&format!("web-{number}"), false)).collect();
    let mut front = with_logs(json!(pods), Arc::new(Endless)).await;
    front.rebuild(|state| state.streams = Streams::new(6, 20));
    let open = |query: &str| front.get(&format!("{WEB}/logs?follow=true{query}")).open();
    let (status, _, four) = open("").await;
    assert_eq!(status, StatusCode::OK);
    let refused = front.get(&format!("{WEB}/logs?follow=true")).send().await;
    let problem = refused.must_be(429, "TU1501");
    assert!(problem["detail"].as_str().unwrap().contains("4 of 6"), "{problem}");
    let one_pod = open("&pod=web-1").await;
    assert_eq!(one_pod.0, StatusCode::OK, "one pod weighs less");
    drop(four);
    assert_eq!(open("").await.0, StatusCode::OK, "its weight is free again");
}

/// Logs that never end.
#[derive(Debug)]
struct Endless;

impl LiveLogs for Endless {
    fn read(&self, _of: LogSource) -> BoxFuture<'static, Result<Lines, String>> {
        async { Ok(futures::stream::pending().boxed()) }.boxed()
    }
}
