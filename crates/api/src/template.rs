//! Templates: wire types and client methods. Operators publish and deprecate them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::drift::DriftPolicy;
use trueup_model::name::Name;
use trueup_model::spec::{Probe, Protocol, Workload};
use trueup_model::template::{ParameterKind, TemplateRef};
use utoipa::ToSchema;

use crate::client::{Client, ClientError, segment};
use crate::drift::DriftManifest;
use crate::schema::{PortName, Sentence};

/// The body that publishes a template version, and its document in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "name": "chat-bot", "version": 1, "summary": "A bot that answers in chat rooms.",
    "plan": "small",
    "parameters": {"image": {"type": "string", "description": "The bot's image.",
                             "sets": "/image", "mutable": true}},
    "spec": {"workload": "deployment", "image": "", "replicas": 1,
             "resources": {"cpu_millis": 100, "memory_mib": 128}}
}))]
pub struct TemplateManifest {
    /// `Template`; may be omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name.
    #[schema(value_type = Name)]
    pub name: String,
    /// The version: one more than the newest published one.
    pub version: u32,
    /// A description in one sentence.
    #[schema(value_type = Sentence)]
    pub summary: String,
    /// The default plan; if omitted, services without a plan get the resources of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    pub plan: Option<String>,
    /// The images that its services may run; if omitted, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TemplateImages>,
    /// The parameters, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, TemplateParameter>,
    /// The spec of a service before its parameters are set. Admission checks it, so that its errors
    /// are reported together with all others.
    #[schema(value_type = TemplateSpec)]
    pub spec: Value,
    /// What happens when other writers change objects of its services, where neither they nor their
    /// project have a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftManifest>,
}

/// The spec of a service before its parameters are set.
#[derive(Debug, ToSchema)]
pub struct TemplateSpec {
    /// The kind of workload.
    pub workload: Workload,
    /// The container image; empty if a parameter sets it.
    pub image: String,
    /// The number of pods; 1 for crons and jobs.
    pub replicas: u32,
    /// The schedule of a cron: five fields, in UTC.
    pub schedule: Option<String>,
    /// The number of retries of a failed run.
    pub retries: Option<u32>,
    /// The time limit of a run, in seconds.
    pub time_limit_s: Option<u32>,
    /// Runs instead of the image's entry point.
    pub command: Option<Vec<String>>,
    /// Arguments for the image's entry point.
    pub args: Option<Vec<String>>,
    /// Ports the container listens on; the first one is probed. Without any there is no address.
    pub ports: Option<Vec<TemplatePort>>,
    /// Plain environment variables.
    pub variables: Option<BTreeMap<String, String>>,
    /// Names of secret variables whose values Trueup generates.
    pub generated_secrets: Option<Vec<String>>,
    /// The resources of each pod of a service without a plan.
    pub resources: TemplateResources,
    /// Whether containers cannot write to their image's files, only to the disk and the scratch space.
    pub read_only_root: Option<bool>,
    /// Folders that can be written to and are empty in each new pod.
    pub scratch: Option<Vec<TemplateScratch>>,
    /// A disk per pod; the runs of a cron or a job share one.
    pub volume: Option<TemplateVolume>,
    /// How readiness is checked on the first port. Without a probe, a running pod is a ready pod.
    pub probe: Option<Probe>,
}

/// One port.
#[derive(Debug, ToSchema)]
pub struct TemplatePort {
    /// The name: at most 15 of a-z, 0-9 and '-'.
    #[schema(value_type = PortName)]
    pub name: String,
    /// The port that the container listens on.
    pub port: u16,
    /// The default is `TCP`.
    pub protocol: Option<Protocol>,
}

/// The resources of a pod.
#[derive(Debug, ToSchema)]
pub struct TemplateResources {
    /// Thousandths of a core.
    pub cpu_millis: u32,
    /// Mebibytes.
    pub memory_mib: u32,
    /// Whole GPUs.
    pub gpus: Option<u32>,
    /// Mebibytes of the node's disk; if left out, the limit of the project's pods.
    pub ephemeral_mib: Option<u32>,
}

/// A folder on the node's disk, as long as the pod lives.
#[derive(Debug, ToSchema)]
pub struct TemplateScratch {
    /// The mount path.
    pub path: String,
    /// How much it may hold, in MiB.
    pub size_mib: u32,
}

/// A disk.
#[derive(Debug, ToSchema)]
pub struct TemplateVolume {
    /// The size in GiB.
    pub size_gib: u32,
    /// The mount path.
    pub path: String,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TemplateParameter {
    /// The type of its values.
    #[serde(rename = "type")]
    #[schema(value_type = ParameterKind)]
    pub kind: String,
    /// A display name, if the name is not clear enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description in one sentence.
    pub description: String,
    /// The default; without one, the parameter is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The smallest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The largest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// The longest text; for a list, of each of its texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// The only allowed texts.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Where in the spec the value goes, as a JSON pointer, such as `/image` or `/variables/LEVEL`.
    pub sets: String,
    /// Whether it may change once the service exists.
    #[serde(default)]
    pub mutable: bool,
}

/// The images that services may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateImages {
    /// Repositories, or prefixes of them that end with `/`; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether an image must have a digest, so that its content cannot change.
    #[serde(default)]
    pub require_digest: bool,
}

/// The body that deprecates a template version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"instead": "use chat-bot@2"}))]
pub struct TemplateDeprecation {
    /// What to use instead, in one sentence.
    #[schema(value_type = Sentence)]
    pub instead: String,
}

/// A template version as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// Name and version: `web@1`.
    #[schema(value_type = TemplateRef)]
    pub name: String,
    /// A description in one sentence.
    pub summary: String,
    /// The default plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The parameters by name, with their constraints.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// The images that its services may run; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TemplateImages>,
    /// The drift policy of its services, where neither they nor their project have one; absent if
    /// there is none.
    #[serde(default, skip_serializing_if = "DriftPolicy::is_empty")]
    pub drift: DriftPolicy,
    /// Set if the version is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<TemplateDeprecated>,
    /// The spec; only in the response for a single version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
    /// The JSON Schema (2020-12) of a manifest, with its parameters; only in the response for a
    /// single version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

/// The deprecation of a version: it accepts no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateDeprecated {
    /// When it was deprecated.
    pub at: Timestamp,
    /// What to use instead.
    pub instead: String,
}

/// A list of template versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateList {
    /// In name order, then oldest version first.
    pub items: Vec<Template>,
}

impl Client {
    /// Every template version.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_list(&self) -> Result<TemplateList, ClientError> {
        self.get("/v1/templates").await
    }

    /// Every version of one template.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_versions(&self, name: &str) -> Result<TemplateList, ClientError> {
        self.get(&format!("/v1/templates/{}", segment(name)?)).await
    }

    /// One template version with its spec and its schema.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_get(&self, name: &str, version: u32) -> Result<Template, ClientError> {
        self.get(&version_path(name, version)?).await
    }

    /// Publishes the next version of a template. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_publish(
        &self,
        manifest: &TemplateManifest,
    ) -> Result<Template, ClientError> {
        self.post("/v1/templates", manifest).await
    }

    /// Deprecates a template version: no new services. For operators.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn template_deprecate(
        &self,
        name: &str,
        version: u32,
        deprecation: &TemplateDeprecation,
    ) -> Result<Template, ClientError> {
        let path = format!("{}/deprecate", version_path(name, version)?);
        self.post(&path, deprecation).await
    }
}

fn version_path(name: &str, version: u32) -> Result<String, ClientError> {
    Ok(format!("/v1/templates/{}/versions/{version}", segment(name)?))
}
