//! Stand-ins for kinds that do not come with every cluster: the right group and name, any content.
//!
//! The API server is shared by all tests, so they are installed once and never removed.

use std::path::Path;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use trueup_cluster::kube::Kube;
use trueup_cluster::{CallError, Cluster, Scope};
use trueup_model::key::Kind;

const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Makes sure that the server serves every kind.
pub(crate) async fn ensure(kubeconfig: &Path) {
    let config = Kubeconfig::read_from(kubeconfig).expect("should be a kubeconfig");
    let config = kube::Config::try_from(config).expect("should be a usable kubeconfig");
    let client = kube::Client::try_from(config).expect("should make a client");
    let cluster = Kube::from_kubeconfig(kubeconfig).expect("should be a kubeconfig");
    for kind in Kind::ALL.into_iter().filter(|kind| kind.comes_with().is_some()) {
        install(&client, kind).await;
        let served = async {
            while let Err(CallError::UnknownKind(_)) = cluster.list(kind, Scope::Ours).await {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, served).await.expect("the kind should be served");
    }
}

async fn install(client: &kube::Client, kind: Kind) {
    let name = format!("{}.{}", kind.plural(), kind.group());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::patch(format!("{definitions}/{name}?fieldManager=test&force=true"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml")
        .body(definition(kind, &name).to_string().into_bytes())
        .expect("should be a request");
    client.request_text(request).await.expect("the definition should be accepted");
}

fn definition(kind: Kind, name: &str) -> Value {
    let text = kind.as_str();
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "annotations": { "api-approved.kubernetes.io": "unapproved, a stand-in for tests" },
        },
        "spec": {
            "group": kind.group(),
            "scope": "Namespaced",
            "names": {
                "kind": text, "listKind": format!("{text}List"), "plural": kind.plural(),
                "singular": text.to_lowercase(),
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": open },
            }],
        },
    })
}
