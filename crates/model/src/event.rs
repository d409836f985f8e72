//! Events: typed facts, written in the transaction of their cause, never changed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::Routing;
use crate::finding::FindingClass;
use crate::id::{EventId, OrgId, PreviewRequestId, TokenId};
use crate::key::ResourceKey;
use crate::name::Name;
use crate::order::Unit;
use crate::principal::Role;
use crate::quota::Amounts;
use crate::status::{Health, Phase};
use crate::template::TemplateRef;

/// Who or what an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Somebody asked.
    User,
    /// The loop did or decided something.
    Reconciler,
    /// The cluster reported something.
    K8sWatch,
    /// Trueup itself.
    System,
}

impl Source {
    /// The text in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Reconciler => "reconciler",
            Self::K8sWatch => "k8s_watch",
            Self::System => "system",
        }
    }
}

/// A fact, before it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Its id, made by the writer.
    pub id: EventId,
    /// The tenant it belongs to.
    pub org: OrgId,
    /// Who or what it comes from.
    pub source: Source,
    /// What it is about.
    pub unit: Unit,
    /// The generation it speaks of.
    pub generation: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The fact itself.
    pub fact: Fact,
    /// The trace that caused it.
    pub trace: Option<String>,
    /// The event that caused it, where one did.
    pub cause: Option<EventId>,
}

/// How a source reads outside of the database: the CloudEvents `source`.
#[must_use]
pub fn wire_source(source: &str) -> String {
    format!("/trueup/{source}")
}

/// How a type and its version read outside of the database: the CloudEvents `type`.
#[must_use]
pub fn wire_type(kind: &str, version: i32) -> String {
    format!("dev.trueup.{kind}.v{version}")
}

/// What happened. Tagged by type, so that a reader can skip what it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Fact {
    /// A project's change was accepted.
    ProjectQueued {},
    /// The end of a project was accepted, with that of everything in it.
    ProjectDeleteQueued {
        /// Who asked.
        principal: String,
        /// How many services go with it that were to stay until then.
        services: usize,
    },
    /// Somebody asked for the end of a project's deletion without proof.
    ProjectForceQueued {
        /// Who asked.
        principal: String,
        /// In their words.
        reason: String,
    },
    /// A service's change was accepted.
    ServiceQueued {
        /// Whether it asks for deletion.
        deletes: bool,
        /// Who asked.
        principal: String,
        /// What was done: `declare`, `pause`, `rollback` …
        #[serde(default)]
        action: String,
        /// The exact preview that it was accepted with.
        #[serde(default, alias = "plan", skip_serializing_if = "Option::is_none")]
        preview: Option<PreviewRequestId>,
    },
    /// The loop has begun to make the generation true, or true again.
    ReconcileStarted {},
    /// Reality carries the generation.
    ReconcileSucceeded {},
    /// The cluster refused or broke.
    ReconcileFailed {
        /// What it said.
        why: String,
    },
    /// The cluster cannot be asked now.
    ReconcileDeferred {
        /// Why.
        why: String,
    },
    /// An owned object was made.
    ResourceCreated {
        /// Which.
        key: ResourceKey,
    },
    /// An owned object was changed to a newer generation.
    ResourceUpdated {
        /// Which.
        key: ResourceKey,
    },
    /// An owned object was removed by Trueup.
    ResourceRemoved {
        /// Which.
        key: ResourceKey,
    },
    /// Somebody else deleted an owned object.
    ResourceDeletedExternally {
        /// Which.
        key: ResourceKey,
    },
    /// Somebody else changed an owned object.
    ResourceModifiedExternally {
        /// Which.
        key: ResourceKey,
        /// The first field that differed.
        field: String,
        /// Who wrote it, as the cluster's record of field managers says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// An owned object is not as it was promised, and nothing newer was.
    DriftDetected {
        /// Which.
        key: ResourceKey,
        /// The first field that differs.
        field: String,
    },
    /// An owned object that had drifted was put right.
    DriftReverted {
        /// Which.
        key: ResourceKey,
        /// The first field that differed.
        field: String,
    },
    /// Phase or health changed.
    ServicePhaseChanged {
        /// Phase now.
        phase: Phase,
        /// Health now.
        health: Health,
        /// Why it is not there yet, in one sentence.
        message: Option<String>,
    },
    /// Nothing of it is left.
    AbsenceVerified {
        /// How many keys were proved absent.
        keys: usize,
    },
    /// Somebody ended a deletion before everything was proved to be gone.
    ServiceDeleteForced {
        /// Who.
        principal: String,
        /// In their words.
        reason: String,
        /// How many keys were not proved absent.
        unproven: usize,
    },
    /// Somebody ended the deletion of a project before everything was proved to be gone.
    ProjectDeleteForced {
        /// Who.
        principal: String,
        /// In their words.
        reason: String,
        /// How many objects were not proved absent, with those of others in its namespace.
        unproven: usize,
    },
    /// What had met a defect too often gets new tries.
    WakeRequeued {
        /// Who asked.
        principal: String,
    },
    /// Somebody asked for everything to be looked at afresh.
    ReconcileRequested {
        /// Who asked.
        principal: String,
    },
    /// What somebody asked to be looked at afresh was looked at.
    ReconcileChecked {
        /// How that ended: `converged`, `waiting`, `held` …
        outcome: String,
    },
    /// A service is observed and no longer touched.
    ServiceFrozen {
        /// Why.
        reason: String,
        /// Who asked.
        principal: String,
    },
    /// A service is worked on again.
    ServiceUnfrozen {
        /// Who asked.
        principal: String,
    },
    /// A cluster, or the whole platform, is observed and no longer touched.
    PlatformFrozen {
        /// Which cluster; none means all of them.
        cluster: Option<String>,
        /// Why.
        reason: String,
        /// Who asked.
        principal: String,
    },
    /// A cluster, or the whole platform, is worked on again.
    PlatformUnfrozen {
        /// Which cluster; none means all of them.
        cluster: Option<String>,
        /// Who asked.
        principal: String,
    },
    /// A sweep found an object that says it is ours and that nothing records.
    FindingOpened {
        /// Which object.
        key: ResourceKey,
        /// What is wrong with it.
        class: FindingClass,
        /// What it says it belongs to.
        of: Option<String>,
    },
    /// It is not there any more, or it is recorded now, or it was removed.
    FindingClosed {
        /// Which object.
        key: ResourceKey,
        /// Which of these.
        why: String,
    },
    /// Somebody asked for an object that was found to be removed.
    #[serde(alias = "FindingRemovalAsked")]
    FindingRemovalRequested {
        /// Which object.
        key: ResourceKey,
        /// Who asked.
        principal: String,
    },
    /// It could not be removed; it stays as it is until somebody asks again.
    FindingKept {
        /// Which object.
        key: ResourceKey,
        /// Why.
        why: String,
    },
    /// An org was made.
    OrgCreated {
        /// What it is called.
        name: String,
        /// Who asked.
        principal: String,
    },
    /// A token was made.
    TokenCreated {
        /// Which.
        token: TokenId,
        /// What it is called.
        name: String,
        /// What it may do.
        role: Role,
        /// Who asked.
        principal: String,
    },
    /// A token was revoked.
    TokenRevoked {
        /// Which.
        token: TokenId,
        /// What it was called.
        name: String,
        /// Who asked.
        principal: String,
    },
    /// A plan is sold, or sold otherwise.
    PlanChanged {
        /// Which.
        plan: Name,
        /// Whether it is no longer sold.
        retired: bool,
        /// Who asked.
        principal: String,
    },
    /// A template version was published.
    TemplatePublished {
        /// Which.
        template: TemplateRef,
        /// Who asked.
        principal: String,
    },
    /// A template version takes no new services any more.
    TemplateDeprecated {
        /// Which.
        template: TemplateRef,
        /// What to use instead.
        instead: String,
        /// Who asked.
        principal: String,
    },
    /// Hosts come into a cluster in another way.
    RoutingChanged {
        /// Which cluster.
        cluster: String,
        /// How, now.
        routing: Routing,
        /// Who asked.
        principal: String,
    },
    /// The org may have more or less than before.
    QuotaChanged {
        /// The most it may have now.
        limit: Amounts,
        /// Who asked.
        principal: String,
    },
    /// A port of the cluster was promised to a service, or led elsewhere.
    EndpointOpened {
        /// Which endpoint.
        name: String,
        /// The port of the service.
        port: String,
        /// The port of the nodes.
        node_port: u16,
        /// Who asked.
        principal: String,
    },
    /// An endpoint's end was asked for.
    EndpointClosed {
        /// Which endpoint.
        name: String,
        /// The port of the nodes.
        node_port: u16,
        /// Who asked.
        principal: String,
    },
    /// A host shall lead to a service once it is proved to be the org's.
    DomainAdded {
        /// Which host.
        host: String,
        /// Who asked.
        principal: String,
    },
    /// A host was proved to be the org's, or that was taken back.
    DomainVerified {
        /// Which host.
        host: String,
        /// Whether it counts as proved now.
        verified: bool,
        /// Who said so.
        principal: String,
    },
    /// Somebody asked for DNS to be looked into now for the proof of a host.
    #[serde(alias = "DomainLookAsked")]
    DomainCheckRequested {
        /// Which host.
        host: String,
        /// Who asked.
        principal: String,
    },
    /// An operator said that a cluster was replaced by another one.
    ClusterReplaced {
        /// What it is called here.
        cluster: String,
        /// Which one it was, as that one said.
        before: String,
        /// Which one it is.
        now: String,
    },
    /// An org proved a host that is another org's. Nothing was changed; operators decide.
    DomainContested {
        /// Which host.
        host: String,
        /// Who proved it now.
        claimant: OrgId,
    },
    /// A host no longer leads to a service.
    DomainRemoved {
        /// Which host.
        host: String,
        /// Who asked.
        principal: String,
    },
    /// A variable was set, for a project or for a service.
    VariableSet {
        /// Which.
        name: String,
        /// Its version from now on.
        version: i64,
        /// Who set it.
        principal: String,
    },
    /// A variable was taken away.
    VariableDeleted {
        /// Which.
        name: String,
        /// The version that says so.
        version: i64,
        /// Who took it away.
        principal: String,
    },
    /// A secret was set. Its value is in no event.
    SecretSet {
        /// Which.
        name: String,
        /// Its version from now on.
        version: i64,
        /// Who set it.
        principal: String,
    },
    /// A secret was taken away.
    SecretDeleted {
        /// Which.
        name: String,
        /// The version that says so.
        version: i64,
        /// Who took it away.
        principal: String,
    },
}

impl Fact {
    /// The type's name, as stored and as part of the CloudEvents type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ProjectQueued {} => "ProjectQueued",
            Self::ProjectDeleteQueued { .. } => "ProjectDeleteQueued",
            Self::ProjectForceQueued { .. } => "ProjectForceQueued",
            Self::ServiceQueued { .. } => "ServiceQueued",
            Self::ReconcileStarted {} => "ReconcileStarted",
            Self::ReconcileSucceeded {} => "ReconcileSucceeded",
            Self::ReconcileFailed { .. } => "ReconcileFailed",
            Self::ReconcileDeferred { .. } => "ReconcileDeferred",
            Self::ResourceCreated { .. } => "ResourceCreated",
            Self::ResourceUpdated { .. } => "ResourceUpdated",
            Self::ResourceRemoved { .. } => "ResourceRemoved",
            Self::ResourceDeletedExternally { .. } => "ResourceDeletedExternally",
            Self::ResourceModifiedExternally { .. } => "ResourceModifiedExternally",
            Self::DriftDetected { .. } => "DriftDetected",
            Self::DriftReverted { .. } => "DriftReverted",
            Self::ServicePhaseChanged { .. } => "ServicePhaseChanged",
            Self::AbsenceVerified { .. } => "AbsenceVerified",
            Self::ServiceDeleteForced { .. } => "ServiceDeleteForced",
            Self::ProjectDeleteForced { .. } => "ProjectDeleteForced",
            Self::WakeRequeued { .. } => "WakeRequeued",
            Self::ReconcileRequested { .. } => "ReconcileRequested",
            Self::ReconcileChecked { .. } => "ReconcileChecked",
            Self::ServiceFrozen { .. } => "ServiceFrozen",
            Self::ServiceUnfrozen { .. } => "ServiceUnfrozen",
            Self::PlatformFrozen { .. } => "PlatformFrozen",
            Self::PlatformUnfrozen { .. } => "PlatformUnfrozen",
            Self::FindingOpened { .. } => "FindingOpened",
            Self::FindingClosed { .. } => "FindingClosed",
            Self::FindingRemovalRequested { .. } => "FindingRemovalRequested",
            Self::FindingKept { .. } => "FindingKept",
            Self::OrgCreated { .. } => "OrgCreated",
            Self::TokenCreated { .. } => "TokenCreated",
            Self::TokenRevoked { .. } => "TokenRevoked",
            Self::PlanChanged { .. } => "PlanChanged",
            Self::RoutingChanged { .. } => "RoutingChanged",
            Self::QuotaChanged { .. } => "QuotaChanged",
            Self::TemplatePublished { .. } => "TemplatePublished",
            Self::TemplateDeprecated { .. } => "TemplateDeprecated",
            Self::EndpointOpened { .. } => "EndpointOpened",
            Self::EndpointClosed { .. } => "EndpointClosed",
            Self::DomainAdded { .. } => "DomainAdded",
            Self::DomainVerified { .. } => "DomainVerified",
            Self::DomainCheckRequested { .. } => "DomainCheckRequested",
            Self::ClusterReplaced { .. } => "ClusterReplaced",
            Self::DomainContested { .. } => "DomainContested",
            Self::DomainRemoved { .. } => "DomainRemoved",
            Self::VariableSet { .. } => "VariableSet",
            Self::VariableDeleted { .. } => "VariableDeleted",
            Self::SecretSet { .. } => "SecretSet",
            Self::SecretDeleted { .. } => "SecretDeleted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_type_is_the_name() {
        let fact = Fact::ReconcileDeferred { why: "the cluster does not answer".to_owned() };
        let stored = serde_json::to_value(&fact).unwrap();
        assert_eq!(stored["type"], fact.name());
        assert_eq!(serde_json::from_value::<Fact>(stored).unwrap(), fact);
    }
}
