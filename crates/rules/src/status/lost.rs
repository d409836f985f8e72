//! Pods that disappear from the API before their processes were seen to end.
//!
//! A kubelet reports every container as terminated before its pod is removed. A pod that is removed
//! while a container was last seen running was force-deleted, or its node was lost: its absence
//! from the API says nothing about the processes.

use serde_json::Value;
use trueup_model::receipt::LostPod;

use crate::render::names;

/// The pod, if it was removed in this state and its processes may still run. An unknown node counts
/// as a real one.
#[must_use]
pub fn lost(pod: &Value, node: Option<&Value>) -> Option<LostPod> {
    let on = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    // Nothing ever runs on a simulated node.
    if node.is_some_and(names::is_simulated) || has_ended(pod) {
        return None;
    }
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
    Some(LostPod { name: text("name"), uid: text("uid"), node: on.to_owned() })
}

/// Whether every container was reported as not running. No report proves nothing.
fn has_ended(pod: &Value) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return true;
    }
    let mut reported = ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .filter_map(|list| pod["status"][list].as_array())
        .flatten()
        .peekable();
    reported.peek().is_some()
        && reported.all(|container| {
            let state = &container["state"];
            state["running"].is_null()
                && (state["terminated"].is_object() || state["waiting"].is_object())
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: Option<&str>, phase: &str, states: &[Value]) -> Value {
        let containers: Vec<Value> = states.iter().map(|state| json!({ "state": state })).collect();
        json!({
            "metadata": { "name": "web-0", "uid": "u" }, "spec": { "nodeName": node },
            "status": { "phase": phase, "containerStatuses": containers },
        })
    }

    #[test]
    fn pods_with_running_containers_are_lost() {
        let (running, done, waiting) =
            (json!({"running": {}}), json!({"terminated": {}}), json!({"waiting": {}}));
        let table = [
            (pod(Some("node-1"), "Running", std::slice::from_ref(&running)), true),
            (pod(Some("node-1"), "Running", &[done.clone(), running.clone()]), true),
            (pod(Some("node-1"), "Pending", &[]), true),
            (pod(Some("node-1"), "Running", std::slice::from_ref(&done)), false),
            (pod(Some("node-1"), "Pending", &[waiting]), false),
            (pod(Some("node-1"), "Failed", std::slice::from_ref(&running)), false),
            (pod(None, "Pending", &[]), false),
        ];
        for (pod, expected) in table {
            assert_eq!(lost(&pod, None).is_some(), expected, "{pod}");
        }
    }

    #[test]
    fn a_node_is_simulated_only_by_its_label() {
        let node = |class: Value| json!({ "metadata": { "labels": { names::NODE_CLASS: class } } });
        let pod = pod(Some("simulated-0"), "Running", &[json!({"running": {}})]);
        assert!(lost(&pod, Some(&node(json!(names::SIMULATED)))).is_none());
        assert!(lost(&pod, Some(&node(json!("real")))).is_some());
        assert!(lost(&pod, None).is_some(), "a name proves nothing");
    }
}
