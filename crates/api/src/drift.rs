//! Drift: wire types of policies, divergences and their costs, and client methods.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trueup_model::drift::{AdoptMode, DivergenceClass, DivergenceState, Verdict};
use trueup_model::id::DivergenceId;
use trueup_model::key::Kind;
use utoipa::ToSchema;

use crate::client::{Client, ClientError, query, segment};
use crate::plan::Amount;
use crate::schema::UnitKey;
use crate::service::NoBody;

/// A drift policy in a manifest. Admission checks its words, so that all errors are reported together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rules": [{"path": "spec.replicas", "verdict": "ignore"}]}))]
pub struct DriftManifest {
    /// For all fields without a rule; if omitted, the project, then the template decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Verdict>)]
    pub verdict: Option<String>,
    /// How values are adopted: the default is `propose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AdoptMode>)]
    pub adopt: Option<String>,
    /// For kinds and fields. The longest matching path wins, then a rule with a kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<DriftRuleManifest>,
}

/// The verdict for some fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DriftRuleManifest {
    /// Only for objects of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Kind>)]
    pub kind: Option<String>,
    /// Only for this field and what is inside of it: `spec.replicas`,
    /// `spec.template.spec.containers.main.image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub path: Option<String>,
    /// The verdict.
    #[schema(value_type = Verdict)]
    pub verdict: String,
}

/// A divergence as it is shown: one difference between the cluster and its desired state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Divergence {
    /// `dvg_…`
    #[schema(value_type = DivergenceId)]
    pub id: String,
    /// The service or project that the object belongs to: `svc_…` or `prj_…`.
    #[schema(value_type = UnitKey)]
    pub subject: String,
    /// The project's name.
    pub project: String,
    /// The service's name; absent for an object of the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The difference itself.
    #[serde(flatten)]
    pub difference: Difference,
    /// When it was first seen.
    pub first_seen_at: Timestamp,
    /// When it was last seen.
    pub last_seen_at: Timestamp,
    /// When it ended; absent while it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// When a proposal to adopt the live value expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The name of the token that adopted or rejected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// Why Trueup itself rejected a proposal, though its policy adopts without approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it costs per hour; absent if the service has no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly: Option<Amount>,
    /// What it has cost until it ended, or until now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_so_far: Option<Amount>,
}

/// A difference between an object and what Trueup wrote. Values of Secrets are digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// The object: `Deployment/namespace/name`.
    pub object: String,
    /// The path of the field; empty for the object itself.
    pub field: String,
    /// What kind of difference it is.
    pub class: DivergenceClass,
    /// The desired value; null for none.
    #[schema(value_type = Value)]
    pub wanted: Value,
    /// The live value; null for none.
    #[schema(value_type = Value)]
    pub live: Value,
    /// The field manager that wrote it, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether it is reverted, adopted or left alone.
    pub verdict: Verdict,
    /// What became of it.
    pub state: DivergenceState,
}

/// A list of divergences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DivergenceList {
    /// In the order in which they were first seen.
    pub items: Vec<Divergence>,
    /// The `after` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which divergences to list. Filters that are `None` do not apply.
#[derive(Debug, Clone, Default)]
pub struct DivergenceQuery {
    /// Only those of this project, by name or id.
    pub project: Option<String>,
    /// Only those of this service, by name or id; a name needs the project.
    pub service: Option<String>,
    /// Only those in this state.
    pub state: Option<String>,
    /// Whether to list ended ones, too.
    pub ended: bool,
    /// The `next` of the previous page.
    pub after: Option<String>,
}

/// What drift cost since a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftReport {
    /// Divergences that stood since then are counted, from then on.
    pub since: Timestamp,
    /// The time of the report.
    pub until: Timestamp,
    /// By project, class and field manager, in this order.
    pub items: Vec<DriftSum>,
}

/// The divergences of one project with the same class and field manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DriftSum {
    /// The project's name.
    pub project: String,
    /// What kind of differences they are.
    pub class: DivergenceClass,
    /// The field manager that wrote them, if the server recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many there were.
    pub count: i64,
    /// How long they stood, added up, in seconds.
    pub seconds: i64,
    /// What they cost; absent if none of them has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

/// The body that adopts a live value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"live": 5}))]
pub struct DivergenceAdoptBody {
    /// The live value that was looked at: another one is not adopted. If omitted, whatever is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub live: Option<Value>,
}

impl Client {
    /// A page of divergences: the standing ones, or with `ended` all.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn divergence_list(
        &self,
        wanted: &DivergenceQuery,
    ) -> Result<DivergenceList, ClientError> {
        let parameters = [
            ("project", wanted.project.as_deref()),
            ("service", wanted.service.as_deref()),
            ("state", wanted.state.as_deref()),
            ("ended", wanted.ended.then_some("true")),
            ("after", wanted.after.as_deref()),
        ];
        self.get(&query("/v1/drift", &parameters)).await
    }

    /// One divergence.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn divergence_get(&self, divergence: &str) -> Result<Divergence, ClientError> {
        self.get(&divergence_path(divergence)?).await
    }

    /// Makes the live value of a divergence the desired one, as a new generation of its service.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn divergence_adopt(
        &self,
        divergence: &str,
        body: &DivergenceAdoptBody,
    ) -> Result<Divergence, ClientError> {
        self.post(&format!("{}/adopt", divergence_path(divergence)?), body).await
    }

    /// Rejects the proposal to adopt a value: it is reverted.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn divergence_reject(&self, divergence: &str) -> Result<Divergence, ClientError> {
        self.post(&format!("{}/reject", divergence_path(divergence)?), &NoBody {}).await
    }

    /// What drift cost since a time, by project, class and field manager.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn drift_report(&self, since: Timestamp) -> Result<DriftReport, ClientError> {
        let since = since.to_string();
        self.get(&query("/v1/drift/report", &[("since", Some(since.as_str()))])).await
    }
}

fn divergence_path(divergence: &str) -> Result<String, ClientError> {
    Ok(format!("/v1/drift/{}", segment(divergence)?))
}
