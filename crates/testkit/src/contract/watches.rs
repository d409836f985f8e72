//! List and watch.
//!
//! No call makes a real server forget what it just said; but none remembers the beginning of all things.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::json;
use trueup_cluster::{CallError, Scope, WatchEvent};
use trueup_model::key::Kind;

use super::place::text;
use super::{Check, Place};

/// More than a page, so that a list has to be put together.
const MANY: usize = 510;
/// Longer than a watch stays open.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("a_list_holds_only_what_carries_our_label", |at| {
        Box::pin(a_list_holds_only_what_carries_our_label(at))
    }),
    ("a_long_list_is_whole", |at| Box::pin(a_long_list_is_whole(at))),
    ("a_watch_from_a_list_misses_nothing", |at| Box::pin(a_watch_from_a_list_misses_nothing(at))),
    ("a_watch_tells_when_an_object_loses_our_label", |at| {
        Box::pin(a_watch_tells_when_an_object_loses_our_label(at))
    }),
    ("a_watch_tells_that_an_object_is_held_and_then_gone", |at| {
        Box::pin(a_watch_tells_that_an_object_is_held_and_then_gone(at))
    }),
    ("a_watch_from_before_all_history_expires", |at| {
        Box::pin(a_watch_from_before_all_history_expires(at))
    }),
    ("a_watch_ends_and_can_be_resumed", |at| Box::pin(a_watch_ends_and_can_be_resumed(at))),
];

async fn a_list_holds_only_what_carries_our_label(at: &Place) {
    let (key, object) = at.config("ours", &json!({ "a": "1" }));
    let ours = at.apply(&key, &object).await;
    let (key, mut object) = at.config("theirs", &json!({}));
    object["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "somebody" });
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

async fn a_long_list_is_whole(at: &Place) {
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

async fn a_watch_from_a_list_misses_nothing(at: &Place) {
    let (key, object) = at.config("one", &json!({ "a": "1" }));
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let made = at.apply(&key, &object).await;
    let changed = at.patch(&key, &json!({ "data": { "a": "2" } })).await;
    // Opened late on purpose: what happened before must come too.
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    assert_eq!(watch.next(at).await, WatchEvent::Present(made));
    assert_eq!(watch.next(at).await, WatchEvent::Present(changed.clone()));
    at.delete(&key).await;
    let WatchEvent::Gone(last) = watch.next(at).await else { unreachable!("should be gone") };
    assert_eq!(text(&last, "uid"), text(&changed, "uid"));
    assert_eq!(last["kind"], "ConfigMap");
}

async fn a_watch_tells_when_an_object_loses_our_label(at: &Place) {
    let (key, object) = at.config("one", &json!({}));
    at.apply(&key, &object).await;
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    at.patch(&key, &json!({ "metadata": { "labels": null } })).await;
    assert!(matches!(watch.next(at).await, WatchEvent::Gone(_)));
    let back = at.apply(&key, &object).await;
    assert_eq!(watch.next(at).await, WatchEvent::Present(back));
}

async fn a_watch_tells_that_an_object_is_held_and_then_gone(at: &Place) {
    let (key, mut object) = at.config("one", &json!({}));
    object["metadata"]["finalizers"] = json!(["trueup.dev/contract"]);
    at.apply(&key, &object).await;
    let from = at.cluster.list(Kind::ConfigMap, Scope::Ours).await.expect("should list").version;
    let mut watch = Listener::open(at, Kind::ConfigMap, from);
    at.delete(&key).await;
    let WatchEvent::Present(dying) = watch.next(at).await else { unreachable!("should be held") };
    assert!(super::place::is_dying(&dying));
    at.patch(&key, &json!({ "metadata": { "finalizers": null } })).await;
    assert!(matches!(watch.next(at).await, WatchEvent::Gone(_)));
}

async fn a_watch_from_before_all_history_expires(at: &Place) {
    // Its definition was installed into a server that had already stored something.
    let mut watch = at.cluster.watch(Kind::ServiceMonitor, "1".to_owned());
    let heard = tokio::time::timeout(PATIENCE, watch.next()).await.expect("should answer");
    assert_eq!(heard, Some(Err(CallError::Expired)));
    assert_eq!(watch.next().await, None, "an error is the last thing that a watch says");
}

async fn a_watch_ends_and_can_be_resumed(at: &Place) {
    let from = at.cluster.list(Kind::Secret, Scope::Ours).await.expect("should list").version;
    let drained = async {
        let mut position = from.clone();
        let mut watch = at.cluster.watch(Kind::Secret, from);
        while let Some(heard) = watch.next().await {
            position = match heard.expect("should end without an error") {
                WatchEvent::Bookmark(version) => version,
                WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                    text(&object, "resourceVersion")
                }
            };
        }
        position
    };
    let position = tokio::time::timeout(PATIENCE, drained).await.expect("should end by itself");
    let key = at.key(Kind::Secret, "one");
    let made = at.apply(&key, &super::place::labelled(&key)).await;
    let mut watch = Listener::open(at, Kind::Secret, position);
    assert_eq!(watch.next(at).await, WatchEvent::Present(made));
}

/// A watch that hears only what happens in one namespace, because checks run side by side. On a busy
/// machine it may come to its end before a check does; it goes on where it was.
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
        let heard = async {
            loop {
                let Some(heard) = self.stream.next().await else {
                    self.stream = at.cluster.watch(self.kind, self.position.clone());
                    continue;
                };
                let heard = heard.expect("should watch");
                self.position = match &heard {
                    WatchEvent::Bookmark(version) => version.clone(),
                    WatchEvent::Present(object) | WatchEvent::Gone(object) => {
                        text(object, "resourceVersion")
                    }
                };
                match heard {
                    WatchEvent::Present(object) | WatchEvent::Gone(object)
                        if text(&object, "namespace") != at.namespace => {}
                    WatchEvent::Bookmark(_) => {}
                    heard => return heard,
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.expect("should hear something")
    }
}
