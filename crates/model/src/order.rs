//! An order: what an executor is told to make true, and the only keys it may touch for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cluster::Routing;
use crate::domain::Route;
use crate::endpoint::OpenPort;
use crate::freeze::Freeze;
use crate::id::{OrgId, ProjectId, ServiceId};
use crate::key::ResourceKey;
use crate::project::Project;
use crate::receipt::Force;
use crate::secret::EncryptedSecret;
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
    /// An org itself: events are about it, no wake and no order ever is.
    Org(OrgId),
}

impl Unit {
    /// The text of its kind in the database.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Service(_) => "service",
            Self::Org(_) => "org",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project(id) => id.fmt(f),
            Self::Service(id) => id.fmt(f),
            Self::Org(id) => id.fmt(f),
        }
    }
}

/// A secret on its way into a cluster. It has no text form, so no log and no event can carry it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Wraps a secret.
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The secret itself: for rendering only.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// What an executor is told to make true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What it is about.
    pub unit: Unit,
    /// The tenant.
    pub org: OrgId,
    /// The project, whose namespace and policies come first.
    pub project: ProjectId,
    /// The namespace of the project in this cluster.
    pub namespace: String,
    /// The generation this order carries.
    pub generation: i64,
    /// Whether it shall run, rest or be gone.
    pub desired: DesiredState,
    /// What shall be there.
    pub body: Body,
    /// What forbids to act on it: then it is only observed.
    pub freeze: Option<Freeze>,
    /// Every key ever recorded for this unit, with the uid last seen under it.
    pub recorded: BTreeMap<ResourceKey, Option<String>>,
    /// What it may take away or leave behind beyond that.
    pub permit: DeletionPermit,
}

/// The authority for what cannot be undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletionPermit {
    /// Since which generation a living unit does not want an object any more: no other is pruned.
    pub unwanted: BTreeMap<ResourceKey, i64>,
    /// Somebody ended the deletion: nothing more is deleted, and what is left is only named.
    pub force: Option<Force>,
    /// The services that are still in a project: while there is one, its namespace stays.
    pub tenants: BTreeSet<String>,
    /// The look into a project's namespace that is on record: without one it is not deleted, so that
    /// whoever proves its end knows what was looked at.
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
            recorded: BTreeMap::new(),
            permit: DeletionPermit::default(),
        }
    }

    /// The order for a service as it is promised, without secrets and without recorded keys.
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
                spec: service.spec,
                endpoints: Vec::new(),
                routes: Vec::new(),
                routing: Routing::default(),
                sealed: BTreeMap::new(),
                secrets: BTreeMap::new(),
            })),
            freeze: None,
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
    /// The resolved spec.
    pub spec: Spec,
    /// Ports of the cluster that lead to it.
    pub endpoints: Vec<OpenPort>,
    /// Hosts that lead to it.
    pub routes: Vec<Route>,
    /// How hosts come into its cluster.
    pub routing: Routing,
    /// Secrets that people brought, until the driver opens them: an order with any is not executed.
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
