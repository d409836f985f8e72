//! The demo on a real node: its web service serves requests and logs them.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use trueup_cluster::{Cluster, Scope};
use trueup_local::kube::node;
use trueup_model::key::Kind;
use trueup_testkit::left_out::left_out;

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

#[tokio::test]
async fn demo_serves_on_a_real_node_or_reports_simulation() {
    let install = shared().await;
    install.trueup(&["watch", "storefront", "--until", "healthy"]).await.succeeded();
    let shown = install.trueup(&["get", "services", "storefront", "-o", "json"]).await.succeeded();
    let simulated = &shown.json()[0]["status"]["simulated"];
    if let Some(missing) = node::missing() {
        assert_eq!(simulated, &Value::Bool(true), "{shown:#?}");
        left_out(&format!("the demo on a real node: {missing}"));
        return;
    }
    assert_eq!(simulated, &Value::Bool(false), "{shown:#?}");

    // Other installs on this cluster have a demo, too, and simulate it.
    let namespace = shown.json()[0]["namespace"].as_str().unwrap().to_owned();
    let response =
        eventually("a demo pod to respond", SOON, || response(install, &namespace)).await;
    assert!(response.contains("welcome from storefront-"), "{response}");

    let log = eventually("the request to be in the log", SOON, || async {
        let log = install.trueup(&["logs", "storefront"]).await.succeeded();
        log.out.contains("GET \"/cart\"").then_some(log)
    })
    .await;
    assert!(log.out.contains("serving on port 8080"), "{log:#?}");
}

/// The response of a demo pod; `None` while none listens.
async fn response(install: &Install, namespace: &str) -> Option<String> {
    let address = address_of(install, namespace).await?;
    let mut stream = TcpStream::connect((address.as_str(), 8080)).await.ok()?;
    stream.write_all(b"GET /cart HTTP/1.0\r\n\r\n").await.ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok()?;
    Some(response)
}

/// The address of a running demo pod.
async fn address_of(install: &Install, namespace: &str) -> Option<String> {
    let pods = install.kube().list(Kind::Pod, Scope::Ours).await.ok()?;
    pods.objects.iter().find_map(|pod| {
        let name = pod["metadata"]["name"].as_str()?;
        let ready = pod["status"]["phase"] == "Running";
        let address = pod["status"]["podIP"].as_str()?;
        let own = pod["metadata"]["namespace"] == namespace;
        (own && name.starts_with("storefront-") && ready).then(|| address.to_owned())
    })
}
