//! List and watch.
//!
//! No call makes a real server compact its history, but no server keeps the history from its start.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::json;
use trueup_cluster::{CallError, Scope, WatchEvent};
use trueup_model::key::Kind;

use super::place::text;
use super::{Check, Place};

/// More than one page, so that a list needs several requests.
const MANY: usize = 510;
/// Longer than a watch stays open.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("list_of_ours_has_only_labelled_objects", |at| {
        Box::pin(list_of_ours_has_only_labelled_objects(at))
    }),
    ("list_over_one_page_is_complete", |at| Box::pin(list_over_one_page_is_complete(at))),
    ("watch_from_list_version_misses_nothing", |at| {
        Box::pin(watch_from_list_version_misses_nothing(at))
    }),
    ("watch_reports_gone_when_object_loses_our_label", |at| {
        Box::pin(watch_reports_gone_when_object_loses_our_label(at))
    }),
    ("watch_reports_terminating_object_then_gone", |at| {
        Box::pin(watch_reports_terminating_object_then_gone(at))
    }),
    ("watch_from_compacted_version_expires", |at| {
        Box::pin(watch_from_compacted_version_expires(at))
    }),
    ("watch_ends_and_can_be_resumed", |at| Box::pin(watch_ends_and_can_be_resumed(at))),
];

async fn list_of_ours_has_only_labelled_objects(at: &Place) {
    let (key, object) = at.config("ours", &json!({ "a": "1" }));
    let ours = at.apply(&key, &object).await;
    let (key, mut object) = at.config("theirs", &json!({}));
    object["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "another-writer" });
    at.apply(&key, &object).await;
    assert_eq!(at.listed(Kind::ConfigMap).await, [ours]);
    let all = at.cluster.list(Kind::ConfigMap, Scope::All).await.expect("should list").objects;
    let here = all.iter().filter(|object| text(object, "namespace") == at.namespace);
    let names: Vec<_> = here.map(|object| text(object, "name")).collect();
    assert!(
        names.contains(&"ours".to_owned()) && names.contains(&"theirs".to_owned()),
        "{names:?}"
    );
}

async fn list_over_one_page_is_complete(at: &Place) {
    stream::iter(0..MANY)
        .for_each_concurrent(32, |number| async move {
            let (key, object) = at.config(&format!("n{number}"), &json!({}));
            at.apply(&key, &object).await;
        })
        .await;
    let mut names: Vec<_> =
        at.listed(Kind::ConfigMap).await.iter().map(|object| text(object, "name")).collect();
    names.sort_unstable();
    let mut expected: Vec<_> = (0..MANY).map(|number| format!("n{number}")).collect();
    expected.sort_unstable();
    assert!(names == expected, "each should be listed once: {} of {MANY}", names.len());
}

async fn watch_from_list_version_misses_nothing(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let created = at.apply(&key, &object).await;
    let changed = at.patch(&key, &json!({ "data": { "a": "2" } })).await;
    // Opened late on purpose: earlier events must arrive, too.
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    assert_eq!(watch.next(at).await, WatchEvent::Present(created));
    assert_eq!(watch.next(at).await, WatchEvent::Present(changed.clone()));
    at.delete(&key).await;
    let WatchEvent::Gone(last) = watch.next(at).await else { unreachable!("should be gone") };
    assert_eq!(text(&last, "uid"), text(&changed, "uid"));
    assert_eq!(last["kind"], "ConfigMap");
}

async fn watch_reports_gone_when_object_loses_our_label(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    at.apply(&key, &object).await;
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    at.patch(&key, &json!({ "metadata": { "labels": null } })).await;
    assert!(matches!(watch.next(at).await, WatchEvent::Gone(_)));
    let back = at.apply(&key, &object).await;
    assert_eq!(watch.next(at).await, WatchEvent::Present(back));
}

async fn watch_reports_terminating_object_then_gone(at: &Place) {
    let (key, mut object) = at.config("one", &json!({}));
    object["metadata"]["finalizers"] = json!(["trueup.dev/contract"]);
    at.apply(&key, &object).await;
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    at.delete(&key).await;
    let WatchEvent::Present(terminating) = watch.next(at).await else {
        unreachable!("should be terminating")
    };
    assert!(super::place::is_terminating(&terminating));
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    assert!(matches!(watch.next(at).await, WatchEvent::Gone(_)));
}

async fn watch_from_compacted_version_expires(at: &Place) {
    // Its CRD was installed into a server that had already stored objects.
    let mut watch = at.cluster.watch(Kind::ServiceMonitor, "1".to_owned());
    let event = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("should answer");
    assert_eq!(event, Some(Err(CallError::Expired)));
    assert_eq!(watch.next().await, None, "a watch should end after an error");
}

async fn watch_ends_and_can_be_resumed(at: &Place) {
    let from = at.cluster.list(Kind::Secret, Scope::Ours).await.expect("should list").version;
    let drained = async {
        let mut position = from.clone();
        let mut watch = at.cluster.watch(Kind::Secret, from);
        while let Some(event) = watch.next().await {
            position = match event.expect("should end without an error") {
                WatchEvent::Bookmark(version) => version,
                WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                    text(&object, "resourceVersion")
                }
            };
        }
        position
    };
    let position = tokio::time::timeout(TIMEOUT, drained).await.expect("should end by itself");
    let key = at.key(Kind::Secret, "one");
    let created = at.apply(&key, &super::place::labelled(&key)).await;
    let mut watch = Listener::open(at, Kind::Secret, position);
    assert_eq!(watch.next(at).await, WatchEvent::Present(created));
}

/// A watch of one namespace, because checks run concurrently.
///
/// On a busy machine the server may end it before the check does; then it resumes.
struct Listener {
    kind: Kind,
    position: String,
    stream: stream::BoxStream<'static, Result<WatchEvent, CallError>>,
}

impl Listener {
    fn open(at: &Place, kind: Kind, from: String) -> Self {
        Self { kind, position: from.clone(), stream: at.cluster.watch(kind, from) }
    }

    async fn next(&mut self, at: &Place) -> WatchEvent {
        let event = async {
            loop {
                let Some(event) = self.stream.next().await else {
                    self.stream = at.cluster.watch(self.kind, self.position.clone());
                    continue;
                };
                let event = event.expect("should watch");
                self.position = match &event {
                    WatchEvent::Bookmark(version) => version.clone(),
                    WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                        text(object, "resourceVersion")
                    }
                };
                match event {
                    WatchEvent::Present(object) | WatchEvent::Gone(object)
                        if text(&object, "namespace") != at.namespace => {}
                    WatchEvent::Bookmark(_) => {}
                    event => return event,
                }
            }
        };
        tokio::time::timeout(TIMEOUT, event).await.expect("an event should arrive in time")
    }
}
