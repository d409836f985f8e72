//! Scratch space: what a pod may write besides its volume, bounded and gone with the pod.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume, VolumeMount};
use trueup_model::spec::Spec;

use super::quantity;

/// The name of the scratch space at this place in the spec.
fn name(index: usize) -> String {
    format!("scratch-{index}")
}

pub(super) fn volumes(spec: &Spec) -> Vec<Volume> {
    spec.scratch
        .iter()
        .enumerate()
        .map(|(index, scratch)| Volume {
            name: name(index),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(quantity::memory(scratch.size_mib)),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        })
        .collect()
}

pub(super) fn mounts(spec: &Spec) -> impl Iterator<Item = VolumeMount> {
    spec.scratch.iter().enumerate().map(|(index, scratch)| VolumeMount {
        name: name(index),
        mount_path: scratch.path.clone(),
        ..VolumeMount::default()
    })
}
