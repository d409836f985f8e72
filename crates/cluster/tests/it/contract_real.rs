//! The contract on a real API server with its real controllers.

use std::path::Path;
use std::sync::Arc;

use http::Request;
use kube::client::Body;
use trueup_cluster::kube::Kube;
use trueup_model::key::Kind;
use trueup_testkit::{contract, real_kube};

use crate::wire;

#[tokio::test]
async fn real_cluster_keeps_the_contract() {
    let kubeconfig = real_kube::shared().await;
    crate::executor::definitions::ensure(&kubeconfig).await;
    let cluster = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
    let failures = contract::failures(Arc::new(cluster)).await;
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A real server where requests for this group go to a group that it does not serve.
fn without(kubeconfig: &Path, group: &'static str) -> Kube {
    let inside = wire::client(kubeconfig);
    let send = tower::service_fn(move |mut request: Request<Body>| {
        let inside = inside.clone();
        async move {
            let address = request.uri().to_string().replace(group, "unserved.example.com");
            *request.uri_mut() = address.parse().expect("should be an address");
            inside.send(request).await
        }
    });
    Kube::new(kube::Client::new(send, "default"))
}

/// A real server, with a user without permissions.
fn without_rights(kubeconfig: &Path) -> Kube {
    let mut config = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    for known in &mut config.auth_infos {
        let info = known.auth_info.as_mut().expect("an account");
        info.impersonate = Some("nobody@example.com".to_owned());
    }
    let config = kube::Config::try_from(config).expect("a kubeconfig");
    Kube::new(kube::Client::try_from(config).expect("a client"))
}

#[tokio::test]
async fn real_cluster_tells_unserved_from_forbidden_kinds() {
    let kubeconfig = real_kube::shared().await;
    crate::executor::definitions::ensure(&kubeconfig).await;
    for kind in [Kind::ServiceMonitor, Kind::HorizontalPodAutoscaler] {
        let unserved = without(&kubeconfig, kind.group());
        let other = contract::closed::other_answers(&unserved, kind, "unknown_kind").await;
        assert!(other.is_empty(), "{kind}, not served: {other:#?}");
        let forbidden = without_rights(&kubeconfig);
        let other = contract::closed::other_answers(&forbidden, kind, "forbidden").await;
        assert!(other.is_empty(), "{kind}, forbidden: {other:#?}");
    }
}
