//! The definitions of kinds that do not come with every cluster, as their projects publish them.
//!
//! So the API server checks our objects with the schemas of real clusters, and fills in their
//! defaults. The files are in the Go modules of the projects, and Go is there anyway: it builds the
//! test cluster. They have no part in that build: a test needs them, and no user does. The
//! controllers behind the kinds do not run here.
//!
//! The API server is shared by all tests, so the definitions are installed once and never removed.

use std::path::Path;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::config::Kubeconfig;
use serde_json::Value;
use tokio::process::Command;
use trueup_cluster::kube::Kube;
use trueup_cluster::{CallError, Cluster, Scope};
use trueup_model::key::Kind;

const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Where the definition of a kind is published.
struct Source {
    kind: Kind,
    /// The Go module and its version.
    module: &'static str,
    /// The checksum of the module, as in a `go.sum`.
    sum: &'static str,
    /// The file in the module.
    file: &'static str,
}

const SOURCES: [Source; 3] = [
    Source {
        kind: Kind::HttpRoute,
        module: "sigs.k8s.io/gateway-api@v1.5.1",
        sum: "h1:RqVRIlkhLhUO8wOHKTLnTJA6o/1un4po4/6M1nRzdd0=",
        file: "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    },
    Source {
        kind: Kind::Certificate,
        module: "github.com/cert-manager/cert-manager@v1.21.2",
        sum: "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        file: "deploy/crds/cert-manager.io_certificates.yaml",
    },
    Source {
        kind: Kind::ServiceMonitor,
        module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        file: "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    },
];

/// Makes sure that the server serves every kind.
pub(crate) async fn ensure(kubeconfig: &Path) {
    let config = Kubeconfig::read_from(kubeconfig).expect("should be a kubeconfig");
    let config = kube::Config::try_from(config).expect("should be a usable kubeconfig");
    let client = kube::Client::try_from(config).expect("should make a client");
    let cluster = Kube::from_kubeconfig(kubeconfig).expect("should be a kubeconfig");
    for source in &SOURCES {
        install(&client, source).await;
        let served = async {
            while !is_served(&client, &cluster, source.kind).await {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, served).await.expect("the kind should be served");
    }
}

async fn install(client: &kube::Client, source: &Source) {
    let name = format!("{}.{}", source.kind.plural(), source.kind.group());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::patch(format!("{definitions}/{name}?fieldManager=test&force=true"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml")
        .body(published(source).await.into_bytes())
        .expect("should be a request");
    client.request_text(request).await.expect("the definition should be accepted");
}

/// Whether the kind is served with its status, which the stand-ins of earlier versions did not have.
async fn is_served(client: &kube::Client, cluster: &Kube, kind: Kind) -> bool {
    let request = Request::get(format!("/apis/{}", kind.api_version())).body(Vec::new());
    let listed = client.request_text(request.expect("should be a request")).await;
    let status = format!("\"{}/status\"", kind.plural());
    let found = cluster.list(kind, Scope::Ours).await;
    listed.is_ok_and(|text| text.contains(&status))
        && !matches!(found, Err(CallError::UnknownKind(_)))
}

/// The definition, from Go's module cache; downloaded the first time.
async fn published(source: &Source) -> String {
    let output = Command::new("go")
        .args(["mod", "download", "-json", source.module])
        // Outside of any module, so that no other version is chosen.
        .current_dir("/")
        .env("GOFLAGS", "")
        .env("GOWORK", "off")
        .output()
        .await
        .expect("Go should be installed: it builds the test cluster");
    let module: Value = serde_json::from_slice(&output.stdout).expect("Go should answer in JSON");
    assert_eq!(module["Sum"], source.sum, "{module}");
    let folder = module["Dir"].as_str().expect("the module should be unpacked");
    let file = Path::new(folder).join(source.file);
    tokio::fs::read_to_string(&file).await.expect("the module should have the definition")
}
