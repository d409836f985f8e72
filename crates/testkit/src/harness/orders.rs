//! Orders as a driver would give them: with every key that they may touch, and the same ids in each run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use trueup_model::domain::{Route, Tls};
use trueup_model::id::{Id, Noun};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, DeletionPermit, Order, SecretValue, ServiceBody, Unit};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_model::{OrgId, ProjectId, ServiceId};
use trueup_rules::render;
use trueup_rules::render::names;

/// What the services are called.
const SERVICES: [&str; 2] = ["it", "other"];
/// What their ids are made from.
const SALTS: [u8; 2] = [2, 20];

/// What a service is called.
pub(super) const fn service_name(service: usize) -> &'static str {
    SERVICES[service]
}

/// The keys of the project, which is the same in every run.
pub(super) fn project_keys() -> BTreeSet<ResourceKey> {
    render::keys(&project())
}

/// What limits the pods of the project: all of it must stand before any workload is made.
pub(super) fn policies() -> impl Iterator<Item = ResourceKey> {
    let kinds = [Kind::NetworkPolicy, Kind::ResourceQuota, Kind::LimitRange];
    project_keys().into_iter().filter(move |key| kinds.contains(&key.kind))
}

/// The order for the project.
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
        recorded: BTreeMap::new(),
        permit: DeletionPermit::default(),
    })
}

/// The order for its end; it waits for these services.
pub(super) fn end_of_project(mut order: Order, tenants: BTreeSet<String>) -> Order {
    order.generation += 1;
    order.desired = DesiredState::Deleted;
    order.permit.tenants = tenants;
    order
}

/// Leads these hosts to the service, and no others.
pub(super) fn lead(order: &mut Order, hosts: &[&str]) {
    if let Body::Service(body) = &mut order.body {
        let routes = (3..).zip(hosts).map(|(salt, host)| Route {
            id: id(salt),
            host: host.parse().expect("a workload's hosts should be right"),
            tls: Tls::Auto,
        });
        body.routes = routes.collect();
    }
}

/// The order for a service that was never ordered before.
pub(super) fn first(project: &Order, number: usize, spec: Spec) -> Order {
    let service: ServiceId = id(SALTS[number]);
    recorded(Order {
        unit: Unit::Service(service),
        generation: 1,
        body: Body::Service(Box::new(ServiceBody {
            object_name: names::object_name(&name(SERVICES[number]), service),
            template: "web@1".parse().expect("a template should be named"),
            endpoints: Vec::new(),
            routes: Vec::new(),
            routing: trueup_model::cluster::Routing::default(),
            sealed: BTreeMap::new(),
            secrets: secrets(&spec),
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

/// The order with every key that it may touch, as the driver records them.
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

/// The same ids in every run, so that runs can be compared.
pub(super) fn id<N: Noun>(salt: u8) -> Id<N> {
    let at = Timestamp::from_second(1_700_000_000).expect("this should be a time");
    Id::from_parts(at, [salt; 10])
}
