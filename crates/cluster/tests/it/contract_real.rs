//! The contract on a real API server with its real controllers.

use std::sync::Arc;

use trueup_cluster::kube::Kube;
use trueup_testkit::{contract, real_kube};

#[tokio::test]
async fn a_real_cluster_keeps_the_contract() {
    let kubeconfig = real_kube::shared().await;
    crate::executor::definitions::ensure(&kubeconfig).await;
    let cluster = Kube::from_kubeconfig(&kubeconfig).expect("should be a kubeconfig");
    let failures = contract::failures(Arc::new(cluster)).await;
    assert!(failures.is_empty(), "{failures:#?}");
}
