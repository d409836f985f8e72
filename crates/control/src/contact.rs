//! A wrapper that remembers when something was last heard of a cluster, and the last failure.
//!
//! Anything counts that the cluster itself sent: a watch event, a result, a rejection. Resync lists a
//! kind every few seconds, so a reachable cluster is never silent for long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use serde_json::Value;
use trueup_cluster::verbs::Answer;
use trueup_cluster::{CallError, Cluster, Draft, List, Scope, WatchEvent};
use trueup_model::Clock;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::survey::Contents;

/// What is known about the contact with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    /// When something was last heard, by any lease holder.
    pub(crate) at: Timestamp,
    /// The same by the monotonic clock; before the first contact, when this holder started.
    pub(crate) since: Duration,
    /// Whether this holder has heard anything.
    pub(crate) answered: bool,
    /// Why the last call got no answer; none after an answer.
    pub(crate) failure: Option<String>,
}

/// The last contact with a cluster. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Contact {
    clock: Arc<dyn Clock>,
    heard: Arc<Mutex<Heard>>,
}

impl Contact {
    /// No contact yet; the previous holder had its last one at `before`.
    pub(crate) fn new(clock: Arc<dyn Clock>, before: Option<Timestamp>) -> Self {
        let at = before.unwrap_or_else(|| clock.now());
        let heard = Heard { at, since: clock.monotonic(), answered: false, failure: None };
        Self { clock, heard: Arc::new(Mutex::new(heard)) }
    }

    /// What is known now.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the end of a call, or an event of a watch.
    fn note(&self, error: Option<&CallError>) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match error.filter(|error| is_silence(error)) {
            Some(error) => heard.failure = Some(error.to_string()),
            None => {
                let (at, since) = (self.clock.now(), self.clock.monotonic());
                *heard = Heard { at, since, answered: true, failure: None };
            }
        }
    }
}

/// Whether the error says that the cluster sent nothing.
const fn is_silence(error: &CallError) -> bool {
    match error {
        CallError::Unreachable(_) | CallError::Unanswered(_) => true,
        CallError::Expired
        | CallError::Conflict(_)
        | CallError::Forbidden(_)
        | CallError::UnknownKind(_)
        | CallError::Refused(_)
        | CallError::Throttled { .. }
        | CallError::Server(_) => false,
    }
}

/// Notes the contact of each call to the cluster inside.
#[derive(Debug)]
pub(crate) struct Contacted {
    inside: Arc<dyn Cluster>,
    contact: Contact,
}

impl Contacted {
    pub(crate) fn new(inside: Arc<dyn Cluster>, contact: Contact) -> Self {
        Self { inside, contact }
    }

    fn noted<'a, T: Send + 'a>(&'a self, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let answer = call.await;
            self.contact.note(answer.as_ref().err());
            answer
        })
    }
}

impl Cluster for Contacted {
    fn get<'a>(&'a self, key: &'a ResourceKey) -> Answer<'a, Option<Value>> {
        self.noted(self.inside.get(key))
    }

    fn list(&self, kind: Kind, scope: Scope) -> Answer<'_, List> {
        self.noted(self.inside.list(kind, scope))
    }

    fn versions(&self, kind: Kind) -> Answer<'_, List> {
        self.noted(self.inside.versions(kind))
    }

    fn versions_in<'a>(&'a self, kind: Kind, namespace: &'a str) -> Answer<'a, List> {
        self.noted(self.inside.versions_in(kind, namespace))
    }

    fn watch(&self, kind: Kind, from: String) -> BoxStream<'static, Result<WatchEvent, CallError>> {
        let contact = self.contact.clone();
        let events = self.inside.watch(kind, from);
        events.inspect(move |event| contact.note(event.as_ref().err())).boxed()
    }

    fn apply<'a>(&'a self, key: &'a ResourceKey, object: &'a Value) -> Answer<'a, Value> {
        self.noted(self.inside.apply(key, object))
    }

    fn patch<'a>(&'a self, key: &'a ResourceKey, patch: &'a Value) -> Answer<'a, Value> {
        self.noted(self.inside.patch(key, patch))
    }

    fn delete<'a>(
        &'a self,
        key: &'a ResourceKey,
        uid: &'a str,
        version: &'a str,
    ) -> Answer<'a, ()> {
        self.noted(self.inside.delete(key, uid, version))
    }

    fn dry_run<'a>(&'a self, key: &'a ResourceKey, draft: Draft<'a>) -> Answer<'a, Value> {
        self.noted(self.inside.dry_run(key, draft))
    }

    fn warnings<'a>(&'a self, key: &'a ResourceKey, uid: &'a str) -> Answer<'a, Vec<Value>> {
        self.noted(self.inside.warnings(key, uid))
    }

    fn contents<'a>(&'a self, namespace: &'a str) -> Answer<'a, Contents> {
        self.noted(self.inside.contents(namespace))
    }
}

#[cfg(test)]
mod tests {
    use trueup_testkit::fake_cluster::FakeCluster;
    use trueup_testkit::manual_clock::ManualClock;

    use super::*;

    #[tokio::test]
    async fn answers_and_watch_events_count_as_contact_and_failures_do_not() {
        let (clock, fake) = (ManualClock::new(), FakeCluster::new());
        let contact = Contact::new(Arc::new(clock.clone()), Some(Timestamp::UNIX_EPOCH));
        let cluster = Contacted::new(Arc::new(fake.clone()), contact.clone());
        let started = contact.heard();
        assert_eq!((started.at, started.answered), (Timestamp::UNIX_EPOCH, false));

        fake.set_reachable(false);
        clock.advance(Duration::from_secs(5));
        assert!(cluster.list(Kind::Pod, Scope::Ours).await.is_err());
        let failed = contact.heard();
        assert!(failed.failure.is_some() && !failed.answered, "{failed:?}");
        assert_eq!((failed.at, failed.since), (started.at, started.since));

        fake.set_reachable(true);
        assert!(cluster.list(Kind::Pod, Scope::Ours).await.is_ok());
        let expected =
            Heard { at: clock.now(), since: clock.monotonic(), answered: true, failure: None };
        assert_eq!(contact.heard(), expected);

        // The watch fails at once when it is opened.
        fake.set_reachable(false);
        let mut events = cluster.watch(Kind::Pod, "0".to_owned());
        assert!(matches!(events.next().await, Some(Err(_))));
        assert!(contact.heard().failure.is_some());
    }

    #[test]
    fn rejection_is_an_answer() {
        let clock = ManualClock::new();
        let contact = Contact::new(Arc::new(clock), None);
        contact.note(Some(&CallError::Forbidden("no".to_owned())));
        assert!(contact.heard().answered);
    }
}
