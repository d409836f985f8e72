//! Fixtures with fixed ids.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use trueup_model::cluster::Routing;
use trueup_model::drift::{DriftOrder, DriftPolicy};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::id::{ClusterId, OrgId, ProjectId, ServiceId};
use trueup_model::order::{Body, DeletionPermit, Order, ServiceBody, Unit};
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Spec;
use trueup_model::template::{Template, TemplateRef};
use trueup_rules::admit::template;
use trueup_rules::render;
use trueup_rules::render::proof::ProofKey;
use trueup_rules::render::{names, secret};
use uuid::Uuid;

pub(crate) const MASTER: [u8; 32] = [7; 32];

pub(crate) fn cluster() -> ClusterId {
    ClusterId::from_uuid(Uuid::from_u128(1))
}

pub(crate) fn org() -> OrgId {
    OrgId::from_uuid(Uuid::from_u128(2))
}

pub(crate) fn project() -> ProjectId {
    ProjectId::from_uuid(Uuid::from_u128(3))
}

pub(crate) fn service() -> ServiceId {
    ServiceId::from_uuid(Uuid::from_u128(4))
}

pub(crate) fn proofs() -> ProofKey {
    ProofKey::new(&MASTER, cluster())
}

/// A time, in seconds after the start of a test.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_893_456_000 + second).expect("a moment in the year 2030")
}

/// A shipped template without its plan: these tests use its own resources.
pub(crate) fn template(name: &str) -> Template {
    let path = format!("{}/../../templates/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a shipped template");
    let shipped: Template = serde_saphyr::from_str(&text).expect("a template that can be read");
    Template { plan: None, ..shipped }
}

pub(crate) fn reference(template: &Template) -> TemplateRef {
    TemplateRef { name: template.name.clone(), version: template.version }
}

/// Parameters from JSON.
pub(crate) fn parameters(json: Value) -> Map<String, Value> {
    match json {
        Value::Object(map) => map,
        other => unreachable!("parameters are an object, not {other}"),
    }
}

/// The spec that these parameters give.
pub(crate) fn spec(template: &Template, given: &Map<String, Value>) -> Spec {
    template::resolve(template, given).expect("parameters that the template takes")
}

/// A service as accepted in its first generation.
pub(crate) fn accepted(template: &Template, given: Value) -> Service {
    let given = parameters(given);
    let name = template.name.clone();
    Service {
        id: service(),
        org: org(),
        project: project(),
        object_name: names::object_name(&name, service()),
        name,
        cluster: cluster(),
        template: reference(template),
        spec: spec(template, &given),
        parameters: given,
        drift: DriftPolicy::default(),
        active: None,
        scheduled_off: false,
        desired: DesiredState::Active,
        generation: 1,
        accepted_at: at(0),
        created_at: at(0),
    }
}

/// The order of an accepted service, with every key recorded.
pub(crate) fn order(accepted: &Service) -> Order {
    let body = ServiceBody {
        object_name: accepted.object_name.clone(),
        template: accepted.template.clone(),
        spec: accepted.spec.clone(),
        declared_variables: accepted.spec.variables.clone(),
        endpoints: Vec::new(),
        routes: Vec::new(),
        routing: Routing::default(),
        sealed: BTreeMap::new(),
        secrets: secret::generated(&MASTER, accepted.id, &accepted.spec.generated_secrets),
    };
    let order = Order {
        unit: Unit::Service(accepted.id),
        org: accepted.org,
        project: accepted.project,
        namespace: namespace(),
        generation: accepted.generation,
        desired: accepted.desired,
        body: Body::Service(Box::new(body)),
        freeze: None,
        drift: drift(accepted.drift.clone()),
        recorded: BTreeMap::new(),
        permit: DeletionPermit::default(),
    };
    recorded(order)
}

/// What an order says about drift under this policy alone.
pub(crate) fn drift(policy: DriftPolicy) -> DriftOrder {
    DriftOrder { policies: vec![policy], ..DriftOrder::default() }
}

/// The order for the project itself.
pub(crate) fn project_order() -> Order {
    recorded(Order {
        unit: Unit::Project(project()),
        org: org(),
        project: project(),
        namespace: namespace(),
        generation: 1,
        desired: DesiredState::Active,
        body: Body::Project,
        freeze: None,
        drift: DriftOrder::default(),
        recorded: BTreeMap::new(),
        permit: DeletionPermit::default(),
    })
}

/// The same order with every key recorded that it may write.
pub(crate) fn recorded(mut order: Order) -> Order {
    for key in render::keys(&order) {
        order.recorded.entry(key).or_insert(None);
    }
    for key in render::unwanted(&order) {
        order.permit.unwanted.entry(key).or_insert(order.generation);
    }
    order
}

fn namespace() -> String {
    names::namespace(&"shop".parse().expect("a name"), project())
}

/// A freeze of the service.
pub(crate) fn freeze() -> Freeze {
    Freeze {
        scope: FreezeScope::Service,
        by: "an operator".to_owned(),
        why: "an audit".to_owned(),
        since: at(0),
    }
}
