//! Templates on the wire.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

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
    /// `Template`; may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it is called.
    pub name: String,
    /// Which version this is: one more than the newest that is published.
    pub version: u32,
    /// One sentence for people who choose.
    pub summary: String,
    /// The plan of services that name none; without one, the spec's own resources are what they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Which images its services may run; without a policy, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TemplateImages>,
    /// What may be set, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, TemplateParameter>,
    /// What a service is before its parameters are set. Kept as it is written: what is wrong with it
    /// is told together with everything else.
    #[schema(value_type = TemplateSpec)]
    pub spec: Value,
}

/// What a service is before its parameters are set.
#[derive(Debug, ToSchema)]
pub struct TemplateSpec {
    /// `deployment`, `stateful_set`, `cron_job` or `job`.
    pub workload: String,
    /// The container image; empty where a parameter sets it.
    pub image: String,
    /// How many pods; 1 for what ends.
    pub replicas: u32,
    /// When a cron runs, as five fields in UTC.
    pub schedule: Option<String>,
    /// How often a run that failed is tried again.
    pub retries: Option<u32>,
    /// How many seconds a run may take.
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
    /// What each pod gets where the service has no plan.
    pub resources: TemplateResources,
    /// A disk per pod; the runs of a cron or a job share one.
    pub volume: Option<TemplateVolume>,
    /// How readiness is checked on the first port: `tcp`, or `http` with a `path`. Without one, a
    /// running pod is a ready pod.
    #[schema(value_type = Option<Value>)]
    pub probe: Option<Value>,
}

/// One port.
#[derive(Debug, ToSchema)]
pub struct TemplatePort {
    /// What it is for: at most 15 of a-z, 0-9 and '-'.
    pub name: String,
    /// The number the container listens on.
    pub port: u16,
    /// `TCP`, also when left out, or `UDP`.
    pub protocol: Option<String>,
}

/// What a pod may use.
#[derive(Debug, ToSchema)]
pub struct TemplateResources {
    /// Thousandths of a core.
    pub cpu_millis: u32,
    /// Mebibytes.
    pub memory_mib: u32,
    /// Whole GPUs.
    pub gpus: Option<u32>,
}

/// A disk.
#[derive(Debug, ToSchema)]
pub struct TemplateVolume {
    /// How large.
    pub size_gib: u32,
    /// Where the container sees it.
    pub path: String,
}

/// One thing that may be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TemplateParameter {
    /// `string`, `integer`, `boolean`, `list` (of texts) or `map` (of names with texts).
    #[serde(rename = "type")]
    pub kind: String,
    /// A short name for people, where its own does not say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// One sentence for people.
    pub description: String,
    /// Used when a manifest does not set it; without one, it must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Smallest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// Largest integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// Longest text; for a list, the longest of its texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u32>,
    /// The only texts that are taken.
    #[serde(default, rename = "enum", skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Where in the spec the value goes, as a JSON pointer, such as `/image` or `/variables/LEVEL`.
    pub sets: String,
    /// Whether it may change once the service exists.
    #[serde(default)]
    pub mutable: bool,
}

/// Which images may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateImages {
    /// Repositories, or prefixes of them that end with `/`; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Whether an image must be named by its digest, so that it cannot change behind its name.
    #[serde(default)]
    pub require_digest: bool,
}

/// The body that deprecates a template version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"instead": "use chat-bot@2"}))]
pub struct TemplateDeprecation {
    /// What to use instead, in one sentence.
    pub instead: String,
}

/// A template version as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// Name and version, as a manifest says it: `web@1`.
    pub name: String,
    /// One sentence for people who choose.
    pub summary: String,
    /// The plan of services that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// What may be set, by name, with its constraints.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Which images its services may run; none for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TemplateImages>,
    /// Says that there are no new services of it, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<TemplateDeprecated>,
    /// What a service is before its parameters are set; only where one version is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
    /// A manifest for it as JSON Schema (2020-12), parameters included; only where one version is
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
}

/// That a version takes no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateDeprecated {
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What to use instead.
    pub instead: String,
}

/// A list of template versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateList {
    /// In name order, and then the oldest version first.
    pub items: Vec<Template>,
}
