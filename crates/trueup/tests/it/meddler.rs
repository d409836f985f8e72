//! A writer outside of Trueup, as kubectl is: it has the administrator's certificate and a field
//! manager of its own. What it reads is what the API server has.

use std::fs;

use reqwest::{Certificate, Identity, Method, StatusCode};
use serde_json::{Value, json};
use trueup_model::key::ResourceKey;

use crate::install::Install;

/// Its field manager.
pub(crate) const MEDDLER: &str = "meddler";

pub(crate) struct Meddler {
    client: reqwest::Client,
    server: String,
}

impl Meddler {
    /// In the cluster of this install.
    pub(crate) fn new(install: &Install) -> Self {
        let kubeconfig = install.kubeconfig();
        let text = fs::read_to_string(&kubeconfig).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        let file = |name: &str| fs::read(kubeconfig.with_file_name("pki").join(name)).unwrap();
        let identity = [file("admin.crt"), file("admin.key")].concat();
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([Certificate::from_pem(&file("ca.crt")).unwrap()])
            .identity(Identity::from_pem(&identity).unwrap());
        Self { client: client.build().unwrap(), server }
    }

    /// The object at this key.
    pub(crate) async fn get(&self, key: &ResourceKey) -> Option<Value> {
        let path = format!("{}/{}", collection(key), key.name);
        let (status, object) = self.send(Method::GET, &path, "application/json", None).await;
        (status != StatusCode::NOT_FOUND).then_some(object)
    }

    /// Patches an object as `kubectl patch` does; returns it as stored.
    pub(crate) async fn patch(&self, key: &ResourceKey, patch: &Value) -> Value {
        let path = format!("{}/{}?fieldManager={MEDDLER}", collection(key), key.name);
        let content = "application/strategic-merge-patch+json";
        let (status, object) = self.send(Method::PATCH, &path, content, Some(patch)).await;
        assert!(status.is_success(), "{status}: {object}");
        object
    }

    /// Creates an object; returns it as stored.
    pub(crate) async fn create(&self, key: &ResourceKey, object: &Value) -> Value {
        let path = format!("{}?fieldManager={MEDDLER}", collection(key));
        let (status, object) =
            self.send(Method::POST, &path, "application/json", Some(object)).await;
        assert!(status.is_success(), "{status}: {object}");
        object
    }

    /// Sets the number of pods of a Deployment.
    pub(crate) async fn scale(&self, deployment: &ResourceKey, replicas: u32) {
        let stored = self.patch(deployment, &json!({ "spec": { "replicas": replicas } })).await;
        assert_eq!(stored["spec"]["replicas"], replicas);
    }

    /// The number of pods that a Deployment asks for.
    pub(crate) async fn replicas(&self, deployment: &ResourceKey) -> Option<u64> {
        self.get(deployment).await?["spec"]["replicas"].as_u64()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> (StatusCode, Value) {
        let url = format!("{}{path}", self.server);
        let request = self.client.request(method, url).header("content-type", content);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let answer = request.body(body).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }
}

/// The path of the objects of a key's kind in its namespace.
fn collection(key: &ResourceKey) -> String {
    let version = key.kind.api_version();
    let root = if version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{version}/namespaces/{}/{}", key.namespace, key.kind.plural())
}
