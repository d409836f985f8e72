//! Serving workloads: Deployment or StatefulSet, and the Service in front.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapEnvSource, Container, ContainerPort, EnvFromSource,
    PersistentVolumeClaim, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ResourceRequirements, SeccompProfile, SecretEnvSource, SecurityContext, Service, ServicePort,
    ServiceSpec, TCPSocketAction, Toleration, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::name::Name;
use trueup_model::order::{Order, ServiceBody};
use trueup_model::service::DesiredState;
use trueup_model::spec::{self, Protocol, Workload};

use super::{Rendered, child_metadata, config, finish, quantity, runs, scratch, stated, volume};
use crate::render::names;
use crate::render::proof::ProofKey;

/// The user and group that containers run as: never root, and able to write their own volume.
const USER: i64 = 1000;

const fn kind(body: &ServiceBody) -> Kind {
    match body.spec.workload {
        Workload::Deployment => Kind::Deployment,
        Workload::StatefulSet => Kind::StatefulSet,
        Workload::CronJob => Kind::CronJob,
        Workload::Job => Kind::Job,
    }
}

/// The key of the workload.
pub(super) fn key(order: &Order, body: &ServiceBody) -> ResourceKey {
    let name = match body.spec.workload {
        Workload::Deployment | Workload::StatefulSet | Workload::CronJob => {
            body.object_name.clone()
        }
        Workload::Job => runs::job_name(order, body),
    };
    ResourceKey::new(kind(body), &order.namespace, &name)
}

pub(super) fn object(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Rendered {
    let key = key(order, body);
    let metadata = child_metadata(order, &key, owner, proofs);
    let replicas = match order.desired {
        // The autoscaler sets the number; the plan keeps the live value.
        DesiredState::Active if body.spec.autoscale.is_some() => None,
        DesiredState::Active => Some(i32::try_from(body.spec.replicas).unwrap_or(i32::MAX)),
        DesiredState::Paused | DesiredState::Deleted => Some(0),
    };
    let selector =
        LabelSelector { match_labels: Some(pod_labels(body)), ..LabelSelector::default() };
    match body.spec.workload {
        Workload::Deployment => finish(
            key,
            &Deployment {
                metadata,
                spec: Some(DeploymentSpec {
                    replicas,
                    selector,
                    template: pod(order, body, proofs),
                    strategy: Some(stated::rollout()),
                    progress_deadline_seconds: Some(stated::PROGRESS_DEADLINE_S),
                    ..DeploymentSpec::default()
                }),
                ..Deployment::default()
            },
        ),
        Workload::StatefulSet => finish(
            key,
            &StatefulSet {
                metadata,
                spec: Some(StatefulSetSpec {
                    replicas,
                    selector,
                    service_name: has_address(body).then(|| body.object_name.clone()),
                    template: pod(order, body, proofs),
                    volume_claim_templates: body.spec.volume.as_ref().map(|v| vec![claim(v)]),
                    update_strategy: Some(stated::stateful_rollout()),
                    pod_management_policy: Some(stated::POD_MANAGEMENT.to_owned()),
                    persistent_volume_claim_retention_policy: Some(stated::retention()),
                    ..StatefulSetSpec::default()
                }),
                ..StatefulSet::default()
            },
        ),
        Workload::CronJob => runs::cron(order, body, owner, proofs),
        Workload::Job => runs::job(order, body, owner, proofs),
    }
}

/// Whether the workload has a Service: only with ports.
pub(super) const fn has_address(body: &ServiceBody) -> bool {
    !body.spec.ports.is_empty()
}

pub(super) fn address(
    order: &Order,
    body: &ServiceBody,
    owner: &OwnerReference,
    proofs: &ProofKey,
) -> Option<Rendered> {
    if !has_address(body) {
        return None;
    }
    let key = ResourceKey::new(Kind::Service, &order.namespace, &body.object_name);
    let ports = body
        .spec
        .ports
        .iter()
        .map(|port| ServicePort {
            name: Some(port.name.clone()),
            port: i32::from(port.port),
            target_port: Some(IntOrString::String(port.name.clone())),
            protocol: Some(protocol(port.protocol)),
            ..ServicePort::default()
        })
        .collect();
    let service = Service {
        metadata: child_metadata(order, &key, owner, proofs),
        spec: Some(ServiceSpec {
            selector: Some(pod_labels(body)),
            ports: Some(ports),
            ..stated::cluster_ip()
        }),
        ..Service::default()
    };
    Some(finish(key, &service))
}

pub(super) fn pod_labels(body: &ServiceBody) -> BTreeMap<String, String> {
    BTreeMap::from([(names::POD_LABEL.to_owned(), body.object_name.clone())])
}

/// The restart annotation: raising the counter replaces every pod.
pub(super) fn restart(body: &ServiceBody) -> BTreeMap<String, String> {
    let number = Some(body.spec.restart).filter(|number| *number > 0);
    number.map(|n| (names::RESTART_ANNOTATION.to_owned(), n.to_string())).into_iter().collect()
}

fn pod(order: &Order, body: &ServiceBody, proofs: &ProofKey) -> PodTemplateSpec {
    let mut annotations = restart(body);
    annotations
        .insert(names::CONFIG_ANNOTATION.to_owned(), config::fingerprint(order, body, proofs));
    pod_with(body, annotations)
}

/// The pod template of this service, with these annotations.
pub(super) fn pod_with(
    body: &ServiceBody,
    annotations: BTreeMap<String, String>,
) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(body)),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(names::SERVICE_ACCOUNT.to_owned()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(USER),
                run_as_group: Some(USER),
                fs_group: Some(USER),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    ..SeccompProfile::default()
                }),
                ..PodSecurityContext::default()
            }),
            containers: vec![container(body)],
            volumes: (!body.spec.scratch.is_empty()).then(|| scratch::volumes(&body.spec)),
            node_selector: body
                .spec
                .nodes
                .as_ref()
                .map(|class| BTreeMap::from([(names::NODE_CLASS.to_owned(), class.to_string())])),
            tolerations: body.spec.nodes.as_ref().map(|class| vec![toleration(class)]),
            ..stated::pod()
        }),
    }
}

/// Tolerates the taint with which nodes of a class keep other pods away.
fn toleration(class: &Name) -> Toleration {
    Toleration {
        key: Some(names::NODE_CLASS.to_owned()),
        operator: Some("Equal".to_owned()),
        value: Some(class.to_string()),
        ..Toleration::default()
    }
}

fn container(body: &ServiceBody) -> Container {
    let spec = &body.spec;
    let mut amounts = BTreeMap::from([
        ("cpu".to_owned(), quantity::cpu(spec.resources.cpu_millis)),
        ("memory".to_owned(), quantity::memory(spec.resources.memory_mib)),
    ]);
    if spec.resources.gpus > 0 {
        amounts.insert(names::GPU_RESOURCE.to_owned(), quantity::count(spec.resources.gpus));
    }
    if spec.resources.ephemeral_mib > 0 {
        let amount = quantity::memory(spec.resources.ephemeral_mib);
        amounts.insert("ephemeral-storage".to_owned(), amount);
    }
    Container {
        name: "main".to_owned(),
        command: (!spec.command.is_empty()).then(|| spec.command.clone()),
        args: (!spec.args.is_empty()).then(|| spec.args.clone()),
        env_from: Some(environment(body)),
        ports: has_address(body).then(|| spec.ports.iter().map(container_port).collect()),
        readiness_probe: readiness(spec),
        resources: Some(ResourceRequirements {
            requests: Some(amounts.clone()),
            limits: Some(amounts),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            read_only_root_filesystem: spec.read_only_root.then_some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: mounts(spec),
        ..stated::container(&spec.image)
    }
}

fn mounts(spec: &spec::Spec) -> Option<Vec<VolumeMount>> {
    let volume = spec.volume.as_ref().map(|volume| VolumeMount {
        name: names::VOLUME.to_owned(),
        mount_path: volume.path.clone(),
        ..VolumeMount::default()
    });
    let all: Vec<VolumeMount> = volume.into_iter().chain(scratch::mounts(spec)).collect();
    (!all.is_empty()).then_some(all)
}

fn environment(body: &ServiceBody) -> Vec<EnvFromSource> {
    let mut sources = vec![EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource {
            name: names::config(&body.object_name),
            optional: None,
        }),
        ..EnvFromSource::default()
    }];
    if body.has_secrets() {
        sources.push(EnvFromSource {
            secret_ref: Some(SecretEnvSource {
                name: names::secret(&body.object_name),
                optional: None,
            }),
            ..EnvFromSource::default()
        });
    }
    sources
}

fn container_port(port: &spec::Port) -> ContainerPort {
    ContainerPort {
        name: Some(port.name.clone()),
        container_port: i32::from(port.port),
        protocol: Some(protocol(port.protocol)),
        ..ContainerPort::default()
    }
}

fn readiness(spec: &spec::Spec) -> Option<Probe> {
    let port = IntOrString::String(spec.ports.first()?.name.clone());
    let probe = match spec.probe.as_ref()? {
        spec::Probe::Http { path } => {
            Probe { http_get: Some(stated::http_get(path, port)), ..stated::probe() }
        }
        spec::Probe::Tcp => Probe {
            tcp_socket: Some(TCPSocketAction { port, ..TCPSocketAction::default() }),
            ..stated::probe()
        },
    };
    Some(probe)
}

fn claim(volume: &spec::Volume) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta { name: Some(names::VOLUME.to_owned()), ..ObjectMeta::default() },
        spec: Some(volume::spec(volume)),
        ..PersistentVolumeClaim::default()
    }
}

fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => "TCP".to_owned(),
        Protocol::Udp => "UDP".to_owned(),
    }
}
