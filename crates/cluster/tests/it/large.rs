//! F40: the largest service that admission accepts, on a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use trueup_cluster::kube::Kube;
use trueup_model::order::{Body, Order, SecretValue};
use trueup_model::report::{Outcome, Report};
use trueup_rules::admit::variable::{MOST_ENTRIES, MOST_IN_SPEC, MOST_TOGETHER};
use trueup_testkit::real_kube;

use crate::rig::{Rig, converged, web};

/// The limits of a manifest, a project and a service together.
const ALL: usize = MOST_IN_SPEC + 2 * MOST_TOGETHER;
const NAMES: usize = 3 * MOST_ENTRIES;

/// This many bytes, spread over the maximum number of names of maximum length.
fn values(bytes: usize) -> BTreeMap<String, String> {
    let (each, rest) = (bytes / NAMES, bytes % NAMES);
    let name = |number: usize| format!("{}{number:04}", "V".repeat(59));
    let length = |number: usize| if number == 0 { each + rest } else { each };
    (0..NAMES).map(|number| (name(number), "x".repeat(length(number)))).collect()
}

fn with(mut order: Order, bytes: usize) -> Order {
    if let Body::Service(body) = &mut order.body {
        body.spec.variables = values(bytes);
        let secret = |(name, value)| (format!("S{name}"), SecretValue::new(value));
        body.secrets = values(bytes).into_iter().map(secret).collect();
    }
    order
}

fn is_refused(report: &Report) -> bool {
    matches!(&report.outcome, Outcome::Refused { why } if why.contains("ConfigMap/"))
}

#[tokio::test]
async fn f40_largest_admitted_service_is_applied_and_a_larger_one_is_rejected() {
    let path = real_kube::shared().await;
    let kube = Kube::from_kubeconfig(&path).expect("should be a kubeconfig");
    let mut rig = Rig::start(Arc::new(kube));
    rig.order_until(rig.project(), converged).await;
    rig.order_until(with(rig.service(1, web(1)), ALL), converged).await;
    rig.order_until(with(rig.service(2, web(1)), ALL + 1), is_refused).await;
}
