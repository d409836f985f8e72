//! From rows to what is shown. Unknown is decided here, when somebody reads.

use jiff::Timestamp;
use serde_json::Value;
use trueup_api::plan::{self as api_plan, Amount};
use trueup_api::{
    cluster, event, org, project, quota as api_quota, release as api_release, service, template,
    token,
};
use trueup_model::cluster::{Reachability, is_stale};
use trueup_model::event::{wire_source, wire_type};
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::org::Org;
use trueup_model::plan::Plan;
use trueup_model::quota::{Amounts, Quota};
use trueup_model::release::Release;
use trueup_model::status::{Condition, Status};
use trueup_model::template::Template;
use trueup_rules::access::granted;
use trueup_rules::admit::template::schema;
use trueup_rules::preview::cost;
use trueup_rules::status::{aged, freshness, reconciliation};
use trueup_store::{
    ClusterRow, CreatedToken, ProjectRow, SealedEvent, ServiceDetail, ServiceRow, TokenRow,
};

/// The text of an enum as it stands on the wire.
pub(crate) fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

pub(crate) fn project(row: &ProjectRow, now: Timestamp) -> project::Project {
    let silent = row.watches.silent(&freshness::PROJECT, now);
    let settled = reconciliation(&row.status, row.project.generation, !silent.is_empty());
    project::Project {
        id: row.project.id.to_string(),
        name: row.project.name.to_string(),
        cluster: row.cluster_name.clone(),
        namespace: row.project.namespace.clone(),
        desired: word(&row.desired),
        generation: row.project.generation,
        reconciliation: word(&settled),
        status: status(row.status.clone(), &silent),
        receipt: row.receipt.as_ref().and_then(|receipt| serde_json::to_value(receipt).ok()),
    }
}

pub(crate) fn service(row: &ServiceRow, now: Timestamp) -> service::Service {
    let promise = &row.service;
    let silent = row.watches.silent(&freshness::evidence(&promise.spec), now);
    let unheard = row.watches.silent(&freshness::objects(&promise.spec), now);
    let settled = reconciliation(&row.status, promise.generation, !unheard.is_empty());
    service::Service {
        id: promise.id.to_string(),
        name: promise.name.to_string(),
        project: row.project_name.clone(),
        template: promise.template.to_string(),
        plan: promise.spec.plan.as_ref().map(ToString::to_string),
        monthly: row
            .plan
            .as_ref()
            .map(|plan| money(cost::monthly(cost::hourly(&promise.spec, promise.desired, plan)))),
        parameters: promise.parameters.clone(),
        replicas: promise.spec.replicas,
        autoscale: promise.spec.autoscale.as_ref().map(|autoscale| service::AutoscaleBody {
            min: autoscale.min,
            max: autoscale.max,
            cpu_percent: Some(autoscale.cpu_percent),
        }),
        desired: word(&promise.desired),
        generation: promise.generation,
        accepted_at: promise.accepted_at,
        created_at: promise.created_at,
        cluster: row.cluster_name.clone(),
        namespace: row.namespace.clone(),
        object_name: promise.object_name.clone(),
        reconciliation: word(&settled),
        status: status(row.status.clone(), &silent),
        objects: Vec::new(),
        receipt: None,
        frozen: row.frozen.as_ref().map(crate::freeze::view),
        watch: format!("/v1/projects/{}/services/{}/watch", row.project_name, promise.id),
    }
}

fn status(status: Status, silent: &[Kind]) -> service::ServiceStatus {
    let (status, last_known) = aged(status, silent);
    service::ServiceStatus {
        phase: word(&status.phase),
        since: status.since,
        health: word(&status.health),
        last_known_health: last_known.map(|health| word(&health)),
        applied_generation: status.applied_generation,
        conditions: status.conditions.into_iter().map(condition).collect(),
        observed_at: status.evidence.as_ref().map(|evidence| evidence.observed_at),
        uid: status.evidence.as_ref().and_then(|evidence| evidence.uid.clone()),
        resource_version: status
            .evidence
            .as_ref()
            .and_then(|evidence| evidence.resource_version.clone()),
        simulated: status.evidence.is_some_and(|evidence| evidence.simulated),
    }
}

fn condition(condition: Condition) -> service::ServiceCondition {
    let seen = condition.cause;
    service::ServiceCondition {
        reason: word(&condition.reason),
        message: condition.message,
        cause: seen.as_ref().map(|seen| word(&seen.cause)),
        object: seen.as_ref().map(|seen| seen.object.clone()),
        uid: seen.and_then(|seen| seen.uid),
    }
}

pub(crate) fn detail(detail: &ServiceDetail, now: Timestamp) -> service::Service {
    let objects = detail
        .resources
        .iter()
        .map(|(key, uid)| service::ServiceObject {
            kind: key.kind.to_string(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: uid.clone(),
        })
        .collect();
    let receipt = detail.receipt.as_ref().and_then(|receipt| serde_json::to_value(receipt).ok());
    service::Service { objects, receipt, ..service(&detail.row, now) }
}

pub(crate) fn release(release: &Release) -> api_release::Release {
    api_release::Release {
        id: release.id.to_string(),
        generation: release.generation,
        action: release.action.clone(),
        principal: release.principal.clone(),
        accepted_at: release.accepted_at,
        template: release.template.to_string(),
        plan: release.spec.plan.as_ref().map(ToString::to_string),
        parameters: release.parameters.clone(),
        desired: word(&release.desired),
        spec: serde_json::to_value(&release.spec).unwrap_or_default(),
    }
}

pub(crate) fn money(money: Money) -> Amount {
    Amount { micros: money.micros, currency: money.currency.to_string(), text: money.to_string() }
}

pub(crate) fn plan(plan: &Plan) -> api_plan::Plan {
    let disk = Money { micros: plan.disk_gib_hourly_micros, ..plan.hourly };
    api_plan::Plan {
        name: plan.name.to_string(),
        summary: plan.summary.clone(),
        cpu_millis: plan.resources.cpu_millis,
        memory_mib: plan.resources.memory_mib,
        gpus: plan.resources.gpus,
        nodes: plan.nodes.as_ref().map(ToString::to_string),
        hourly: money(plan.hourly),
        monthly: money(cost::monthly(plan.hourly)),
        disk_gib_hourly: money(disk),
        retired: plan.retired,
    }
}

pub(crate) fn quota(quota: &Quota) -> api_quota::Quota {
    let amounts = |amounts: Amounts| api_quota::Amounts {
        services: amounts.services,
        cpu_millis: amounts.cpu_millis,
        memory_mib: amounts.memory_mib,
        storage_gib: amounts.storage_gib,
        gpus: amounts.gpus,
    };
    api_quota::Quota {
        limit: amounts(quota.limit),
        used: amounts(quota.used),
        left: amounts(quota.limit.less(quota.used)),
    }
}

pub(crate) fn cluster(row: &ClusterRow, now: Timestamp) -> cluster::Cluster {
    let reachability = if is_stale(row.heard_at, now) {
        Reachability::Unreachable
    } else {
        Reachability::Reachable
    };
    cluster::Cluster {
        id: row.id.to_string(),
        name: row.name.clone(),
        reachability: word(&reachability),
        heard_at: row.heard_at,
        note: row.note.clone(),
        created_at: row.created_at,
        frozen: row.frozen.as_ref().map(crate::freeze::view),
        projects: None,
        services: None,
    }
}

pub(crate) fn template(template: &Template) -> template::Template {
    template::Template {
        name: format!("{}@{}", template.name, template.version),
        summary: template.summary.clone(),
        plan: template.plan.as_ref().map(ToString::to_string),
        parameters: serde_json::to_value(&template.parameters).unwrap_or_default(),
        images: template.images.as_ref().map(|policy| template::TemplateImages {
            allow: policy.allow.clone(),
            require_digest: policy.require_digest,
        }),
        deprecated: template.deprecated.as_ref().map(|deprecated| template::TemplateDeprecated {
            at: deprecated.at,
            instead: deprecated.instead.clone(),
        }),
        spec: None,
        schema: None,
    }
}

/// One version with what a list leaves out.
pub(crate) fn template_detail(shown: &Template) -> template::Template {
    template::Template {
        spec: Some(shown.spec.clone()),
        schema: Some(schema(shown)),
        ..template(shown)
    }
}

pub(crate) fn event(event: &SealedEvent) -> event::CloudEvent {
    event::CloudEvent {
        specversion: "1.0".to_owned(),
        id: event.id.to_string(),
        source: wire_source(&event.source),
        kind: wire_type(&event.kind, event.version),
        subject: event.unit.to_string(),
        time: event.at,
        datacontenttype: "application/json".to_owned(),
        sequence: event.position.to_string(),
        generation: event.generation,
        orgid: event.org.to_string(),
        traceid: event.trace.clone(),
        causeid: event.cause.map(|cause| cause.to_string()),
        hash: event.hash.to_string(),
        data: event.body.clone(),
    }
}

pub(crate) fn org(org: &Org) -> org::Org {
    org::Org { id: org.id.to_string(), name: org.name.clone(), created_at: org.created_at }
}

pub(crate) fn token(row: &TokenRow) -> token::Token {
    let permissions = granted(row.role, row.permissions.as_ref());
    token::Token {
        id: row.id.to_string(),
        name: row.name.clone(),
        role: row.role.as_str().to_owned(),
        permissions: permissions.iter().map(|one| one.as_str().to_owned()).collect(),
        created_at: row.created_at,
        expires_at: row.expires_at,
        last_used_at: row.used_at,
    }
}

/// The one place where a token's secret is put into an answer.
pub(crate) fn new_token(minted: &CreatedToken) -> token::NewToken {
    let secret = minted.text.as_ref().map(|text| text.reveal().to_owned());
    token::NewToken { token: token(&minted.row), secret }
}
