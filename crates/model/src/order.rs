//! An order: the desired state of a unit, and the only keys an executor may touch for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cluster::Routing;
use crate::domain::Route;
use crate::drift::DriftOrder;
use crate::endpoint::OpenPort;
use crate::freeze::Freeze;
use crate::id::{OrgId, ProjectId, ServiceId};
use crate::key::ResourceKey;
use crate::project::Project;
use crate::receipt::Force;
use crate::secret::EncryptedSecret;
pub use crate::secret::SecretValue;
use crate::service::{DesiredState, Service};
use crate::spec::Spec;
use crate::survey::Survey;
use crate::template::TemplateRef;

/// What is converged as one: a project's namespace with its policies, or one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Unit {
    /// A project.
    Project(ProjectId),
    /// A service.
    Service(ServiceId),
}

impl Unit {
    /// The text of its kind in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Service(_) => "service",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project(id) => id.fmt(f),
            Self::Service(id) => id.fmt(f),
        }
    }
}

/// The desired state of a unit and the keys an executor may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The project or service.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The project, whose namespace and policies are applied first.
    pub project: ProjectId,
    /// The namespace of the project in this cluster.
    pub namespace: String,
    /// The generation this order was made from.
    pub generation: i64,
    /// Whether the unit is to run, to be paused or to be deleted.
    pub desired: DesiredState,
    /// The objects to apply.
    pub body: Body,
    /// The freeze in force: the unit is then only observed.
    pub freeze: Option<Freeze>,
    /// What is decided about drift.
    pub drift: DriftOrder,
    /// Every key ever recorded for this unit, with the uid last seen under it.
    pub recorded: BTreeMap<ResourceKey, Option<String>>,
    /// What the executor may delete or leave behind.
    pub permit: DeletionPermit,
}

/// Authorization for destructive actions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletionPermit {
    /// Objects that an active unit no longer needs, with the generation since; no other is pruned.
    pub unwanted: BTreeMap<ResourceKey, i64>,
    /// The deletion was forced: nothing more is deleted, and what remains is listed in the receipt.
    pub force: Option<Force>,
    /// The services that still exist in a project: while there is one, its namespace is kept.
    pub tenants: BTreeSet<String>,
    /// The recorded survey of a project's namespace. Without one the namespace is not deleted, so
    /// that the receipt can list what was surveyed.
    pub survey: Option<Survey>,
}

impl Order {
    /// The order for a project, without recorded keys.
    #[must_use]
    pub fn of_project(project: &Project) -> Self {
        Self {
            unit: Unit::Project(project.id),
            org: project.org,
            project: project.id,
            namespace: project.namespace.clone(),
            generation: project.generation,
            desired: DesiredState::Active,
            body: Body::Project,
            freeze: None,
            drift: DriftOrder::default(),
            recorded: BTreeMap::new(),
            permit: DeletionPermit::default(),
        }
    }

    /// The order for a service's accepted spec, without secrets and without recorded keys.
    #[must_use]
    pub fn of_service(service: Service, namespace: String) -> Self {
        Self {
            unit: Unit::Service(service.id),
            org: service.org,
            project: service.project,
            namespace,
            generation: service.generation,
            desired: service.desired,
            body: Body::Service(Box::new(ServiceBody {
                object_name: service.object_name,
                template: service.template,
                declared_variables: service.spec.variables.clone(),
                spec: service.spec,
                endpoints: Vec::new(),
                routes: Vec::new(),
                routing: Routing::default(),
                sealed: BTreeMap::new(),
                secrets: BTreeMap::new(),
            })),
            freeze: None,
            drift: DriftOrder::default(),
            recorded: BTreeMap::new(),
            permit: DeletionPermit::default(),
        }
    }
}

/// What an order asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The namespace and its policies.
    Project,
    /// A service's objects.
    Service(Box<ServiceBody>),
}

/// A service's part of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceBody {
    /// The name its objects have in this cluster.
    pub object_name: String,
    /// The template version, for a label.
    pub template: TemplateRef,
    /// The resolved spec; its variables include those of the project and the service.
    pub spec: Spec,
    /// The variables of the spec as it was declared. Only these identify a run.
    pub declared_variables: BTreeMap<String, String>,
    /// Node ports that route to it.
    pub endpoints: Vec<OpenPort>,
    /// Hosts that route to it.
    pub routes: Vec<Route>,
    /// How its cluster routes hosts.
    pub routing: Routing,
    /// Encrypted user secrets, until the driver decrypts them: an order with any is not executed.
    pub sealed: BTreeMap<String, EncryptedSecret>,
    /// Values of the secret variables.
    pub secrets: BTreeMap<String, SecretValue>,
}

impl ServiceBody {
    /// Whether its containers read any secret.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        let generated = !self.spec.generated_secrets.is_empty();
        generated || !self.sealed.is_empty() || !self.secrets.is_empty()
    }
}
