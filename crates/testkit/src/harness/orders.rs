//! Orders as a driver would give them: with all permitted keys, and with fixed ids.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trueup_model::domain::{Route, Tls};
use trueup_model::drift::DriftOrder;
use trueup_model::id::{Id, Noun};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, DeletionPermit, Order, SecretValue, ServiceBody, Unit};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_model::{OrgId, ProjectId, ServiceId};
use trueup_rules::render;
use trueup_rules::render::names;

/// The names of the services.
const SERVICES: [&str; 2] = ["it", "other"];
/// The salts of their ids.
const SALTS: [u8; 2] = [2, 20];

/// The name of a service.
pub(super) const fn service_name(service: usize) -> &'static str {
    SERVICES[service]
}

/// The keys of the project, the same in every run.
pub(super) fn project_keys() -> BTreeSet<ResourceKey> {
    render::keys(&project())
}

/// The project's policies, which must exist before any workload is created.
pub(super) fn policies() -> impl Iterator<Item = ResourceKey> {
    let kinds = [Kind::NetworkPolicy, Kind::ResourceQuota, Kind::LimitRange];
    project_keys().into_iter().filter(move |key| kinds.contains(&key.kind))
}

/// The order that creates the project.
pub(super) fn project() -> Order {
    let project: ProjectId = id(1);
    recorded(Order {
        unit: Unit::Project(project),
        org: OrgId::from_uuid(project.uuid()),
        project,
        namespace: names::namespace(&name("plan"), project),
        generation: 1,
        desired: DesiredState::Active,
        body: Body::Project,
        freeze: None,
        drift: DriftOrder::default(),
        recorded: BTreeMap::new(),
        permit: DeletionPermit::default(),
    })
}

/// The order that deletes the project; it waits for these services.
pub(super) fn delete_project(mut order: Order, tenants: BTreeSet<String>) -> Order {
    order.generation += 1;
    order.desired = DesiredState::Deleted;
    order.permit.tenants = tenants;
    order
}

/// Routes exactly these hosts to the service.
pub(super) fn set_routes(order: &mut Order, hosts: &[&str]) {
    if let Body::Service(body) = &mut order.body {
        let routes = (3..).zip(hosts).map(|(salt, host)| Route {
            id: id(salt),
            host: host.parse().expect("a workload's hosts should be valid"),
            tls: Tls::Auto,
        });
        body.routes = routes.collect();
    }
}

/// The first order for a service.
pub(super) fn first(project: &Order, number: usize, spec: Spec) -> Order {
    let service: ServiceId = id(SALTS[number]);
    recorded(Order {
        unit: Unit::Service(service),
        generation: 1,
        body: Body::Service(Box::new(ServiceBody {
            object_name: names::object_name(&name(SERVICES[number]), service),
            template: "web@1".parse().expect("the template reference should be valid"),
            endpoints: Vec::new(),
            routes: Vec::new(),
            routing: trueup_model::cluster::Routing::default(),
            sealed: BTreeMap::new(),
            secrets: secrets(&spec),
            declared_variables: spec.variables.clone(),
            spec,
        })),
        freeze: None,
        recorded: BTreeMap::new(),
        permit: DeletionPermit::default(),
        ..project.clone()
    })
}

pub(super) fn secrets(spec: &Spec) -> BTreeMap<String, SecretValue> {
    let generated = spec.generated_secrets.iter();
    generated.map(|name| (name.clone(), SecretValue::new(format!("value of {name}")))).collect()
}

/// The order with every permitted key, as the driver records them.
pub(super) fn recorded(mut order: Order) -> Order {
    for key in render::keys(&order) {
        order.recorded.entry(key).or_insert(None);
    }
    for key in render::unwanted(&order) {
        order.permit.unwanted.entry(key).or_insert(order.generation);
    }
    order
}

fn name(text: &str) -> trueup_model::name::Name {
    text.parse().expect("a name should be valid")
}

/// An id that is the same in every run, so that runs can be compared.
pub(super) fn id<N: Noun>(salt: u8) -> Id<N> {
    let at = Timestamp::from_second(1_700_000_000).expect("should be a valid timestamp");
    Id::from_parts(at, [salt; 10])
}
