//! Claims and their volumes, as a provisioner with reclaim policy Delete creates them.

use serde_json::{Value, json};
use trueup_model::key::{Kind, ResourceKey};

use super::pods;
use super::state::{CLAIM_PROTECTION, State};

/// Binds a new claim and enlarges a bound one; removes the finalizer of a deleted one once no pod
/// uses it.
pub(super) fn reconcile(state: &mut State, key: &ResourceKey) {
    let Some(claim) = state.get(key).cloned() else {
        return;
    };
    if claim.pointer("/metadata/deletionTimestamp").is_some() {
        let in_use = state
            .in_namespace(Kind::Pod, &key.namespace)
            .any(|(_, pod)| pods::claims_of(pod).contains(&key.name.as_str()));
        if !in_use {
            state.edit(key, |claim| {
                let finalizers =
                    claim.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut);
                if let Some(finalizers) = finalizers {
                    finalizers.retain(|finalizer| finalizer != CLAIM_PROTECTION);
                }
            });
        }
    } else if claim.pointer("/spec/volumeName").is_none() {
        bind(state, key, &claim);
    } else if claim["status"]["capacity"] != claim["spec"]["resources"]["requests"] {
        enlarge(state, key, &claim);
    }
}

/// Gives a claim and its volume the requested size, as a storage driver does.
fn enlarge(state: &mut State, key: &ResourceKey, claim: &Value) {
    let (requests, volume) = (&claim["spec"]["resources"]["requests"], volume_of(claim));
    if state.get(&volume).is_some() {
        state.edit(&volume, |volume| volume["spec"]["capacity"] = requests.clone());
    }
    state.edit(key, |claim| claim["status"]["capacity"] = requests.clone());
}

/// Deletes the volume of a deleted claim, unless its reclaim policy is Retain.
pub(super) fn release(state: &mut State, claim: &Value) {
    let key = volume_of(claim);
    let Some(volume) = state.get(&key) else { return };
    if volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain" {
        state.edit(&key, |volume| volume["status"]["phase"] = "Released".into());
    } else {
        state.delete(&key);
    }
}

fn bind(state: &mut State, key: &ResourceKey, claim: &Value) {
    let (spec, volume) = (&claim["spec"], volume_of(claim));
    let capacity = &spec["resources"]["requests"];
    state.edit(&volume, |object| {
        object["spec"] = json!({
            "capacity": capacity,
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": key.namespace,
                "name": key.name,
                "uid": claim["metadata"]["uid"],
            },
        });
        object["status"]["phase"] = "Bound".into();
    });
    state.edit(key, |claim| {
        claim["spec"]["volumeName"] = volume.name.as_str().into();
        claim["status"] = json!({
            "phase": "Bound",
            "capacity": capacity,
            "accessModes": claim["spec"]["accessModes"],
        });
    });
}

fn volume_of(claim: &Value) -> ResourceKey {
    let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
    ResourceKey::new(Kind::PersistentVolume, "", &format!("pvc-{uid}"))
}
