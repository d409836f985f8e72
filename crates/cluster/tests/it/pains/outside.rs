//! A writer outside of Trueup: another client of the real API server, with a field manager of its
//! own. What it reads is what the server has, whatever the executor believes.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use serde_json::Value;
use trueup_cluster::Cluster;
use trueup_cluster::kube::Kube;
use trueup_model::key::ResourceKey;
use trueup_testkit::real_kube;

use crate::rig::LONG;
use crate::wire;

/// Its field manager.
pub(crate) const MEDDLER: &str = "meddler";

#[derive(Clone)]
pub(crate) struct Outside {
    client: kube::Client,
}

impl Outside {
    /// The shared API server, for an executor and for a writer outside of it.
    pub(crate) async fn real() -> (Arc<dyn Cluster>, Self) {
        let kubeconfig = real_kube::shared().await;
        let kube = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
        (Arc::new(kube), Self { client: wire::client(&kubeconfig) })
    }

    /// The client that it writes with.
    pub(crate) const fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The object at this key, with all its field managers.
    pub(crate) async fn get(&self, key: &ResourceKey) -> Option<Value> {
        let request = Request::get(path(key)).body(Vec::new()).expect("a request");
        match self.client.request(request).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => unreachable!("{key} should be readable: {error}"),
        }
    }

    /// Patches an object as `kubectl patch` does; returns it as stored.
    pub(crate) async fn patch(&self, key: &ResourceKey, patch: &Value) -> Value {
        self.write(key, "application/strategic-merge-patch+json", "", patch).await
    }

    /// Takes over fields by a forced server-side apply; returns the object as stored.
    pub(crate) async fn take_over(&self, key: &ResourceKey, fields: &Value) -> Value {
        let mut object = fields.clone();
        object["apiVersion"] = key.kind.api_version().into();
        object["kind"] = key.kind.as_str().into();
        object["metadata"]["name"] = key.name.as_str().into();
        self.write(key, "application/apply-patch+yaml", "&force=true", &object).await
    }

    /// Creates an object by server-side apply; returns it as stored.
    pub(crate) async fn create(&self, key: &ResourceKey, object: &Value) -> Value {
        assert_eq!(self.get(key).await, None, "{key} should be free");
        self.take_over(key, object).await
    }

    /// Deletes an object and waits until the server has removed it.
    pub(crate) async fn delete(&self, key: &ResourceKey) {
        let before = self.get(key).await.expect("it should exist");
        let request = Request::delete(path(key)).body(Vec::new()).expect("a request");
        self.client.request::<Value>(request).await.expect("it should be deleted");
        let uid = &before["metadata"]["uid"];
        self.until(key, |found| found.is_none_or(|now| now["metadata"]["uid"] != *uid)).await;
    }

    /// Waits until the object at this key is as wanted.
    pub(crate) async fn until(&self, key: &ResourceKey, wanted: impl Fn(Option<&Value>) -> bool) {
        let reached = tokio::time::timeout(LONG, async {
            while !wanted(self.get(key).await.as_ref()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let reached = reached.await.is_ok();
        assert!(reached, "{key} did not become as wanted: {:#?}", self.get(key).await);
    }

    async fn write(&self, key: &ResourceKey, content: &str, more: &str, body: &Value) -> Value {
        let request = Request::patch(format!("{}?fieldManager={MEDDLER}{more}", path(key)))
            .header("content-type", content)
            .body(body.to_string().into_bytes())
            .expect("a request");
        self.client.request(request).await.expect("the write should be accepted")
    }
}

/// The address of one object.
fn path(key: &ResourceKey) -> String {
    let version = key.kind.api_version();
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = key.kind.plural();
    let place = match key.namespace.as_str() {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("/{root}/{version}{place}/{plural}/{}", key.name)
}

/// The managers that own this field in an object, by `metadata.managedFields`; the path as there:
/// `["f:spec", "f:replicas"]`.
pub(crate) fn managers<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owns = |entry: &&Value| {
        let found = path.iter().try_fold(&entry["fieldsV1"], |fields, step| fields.get(*step));
        found.is_some()
    };
    entries.filter(owns).filter_map(|entry| entry["manager"].as_str()).collect()
}
