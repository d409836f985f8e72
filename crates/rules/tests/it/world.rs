//! One service or project with its cluster: plans and runs passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use trueup_model::drift::Divergence;
use trueup_model::key::Kind;
use trueup_model::observation::{Absent, Observation};
use trueup_model::order::{Body, Order};
use trueup_model::report::Outcome;
use trueup_model::service::{DesiredState, Service};
use trueup_model::status::{Inputs, Status};
use trueup_model::template::Template;
use trueup_rules::admit::{AdmissionContext, AdmissionRequest, Admitted, Refused, admit};
use trueup_rules::plan::{Action, ActionPlan, Observed, Ownership, held, ownership, plan};
use trueup_rules::render::proof::ProofKey;
use trueup_rules::status::observe::observe;
use trueup_rules::{render, status};

use crate::given;
use crate::server::Server;

/// No scenario needs more rounds than this; one that does is a loop.
pub(crate) const ROUNDS: usize = 8;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) order: Order,
    pub(crate) project_ready: bool,
    pub(crate) missing: BTreeMap<Kind, Absent>,
    pub(crate) status: Status,
    accepted: Option<(Template, Service)>,
    proofs: ProofKey,
    seconds: i64,
}

/// What a reconcile did, round by round, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pass {
    pub(crate) rounds: Vec<Vec<Action>>,
    pub(crate) outcome: Outcome,
    pub(crate) absent: bool,
    /// What stands after the last round.
    pub(crate) standing: Vec<Divergence>,
}

impl World {
    /// A project of which nothing is created yet.
    pub(crate) fn project() -> Self {
        Self::of(given::project_order(), None)
    }

    /// A service that was just accepted, in a project that is ready for it.
    pub(crate) fn service(template: Template, parameters: Value) -> Self {
        let accepted = given::accepted(&template, parameters);
        Self::of(given::order(&accepted), Some((template, accepted)))
    }

    fn of(order: Order, accepted: Option<(Template, Service)>) -> Self {
        Self {
            server: Server::default(),
            order,
            project_ready: true,
            missing: BTreeMap::new(),
            status: Status::accepted(given::at(0)),
            accepted,
            proofs: given::proofs(),
            seconds: 0,
        }
    }

    /// Requests other parameters; if admitted, they become the next generation.
    pub(crate) fn change(&mut self, given: Map<String, Value>) -> Result<Admitted, Refused> {
        let (template, service) = self.accepted.as_mut().expect("a service");
        let mut parameters = service.parameters.clone();
        parameters.extend(given);
        let request = AdmissionRequest { parameters, ..AdmissionRequest::again(service) };
        let context =
            AdmissionContext { template: Some(template), plan: None, current: Some(service) };
        let admitted = admit(&request, context)?;
        if let Admitted::Changed(release) = &admitted {
            service.spec = release.spec.clone();
            service.parameters = request.parameters;
            service.generation += 1;
            self.reissue();
        }
        Ok(admitted)
    }

    /// A new generation with this desired state.
    pub(crate) fn desire(&mut self, desired: DesiredState) {
        if let Some((_, service)) = &mut self.accepted {
            service.desired = desired;
            service.generation += 1;
        } else {
            self.order.desired = desired;
        }
        self.reissue();
    }

    /// The driver issues the order again; all recorded keys stay recorded.
    pub(crate) fn reissue(&mut self) {
        let recorded = self.order.recorded.clone();
        let (freeze, drift) = (self.order.freeze.clone(), self.order.drift.clone());
        if let Some((_, service)) = &self.accepted {
            self.order = given::order(service);
        }
        self.order.recorded.extend(recorded);
        (self.order.freeze, self.order.drift) = (freeze, drift);
        self.order = given::recorded(self.order.clone());
    }

    /// The input of a plan; uids of owned objects are recorded, as an executor does.
    pub(crate) fn observe(&mut self) -> Observed {
        let objects: BTreeMap<_, _> = self
            .server
            .objects
            .iter()
            .filter(|(key, _)| self.order.recorded.contains_key(*key))
            .map(|(key, object)| (key.clone(), Arc::new(object.clone())))
            .collect();
        for (key, object) in &objects {
            if ownership(&self.order, key, object, &self.proofs) == Ownership::Ours {
                let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
                self.order.recorded.insert(key.clone(), uid);
            }
        }
        Observed {
            objects,
            pods: self.server.pods.iter().cloned().map(Arc::new).collect(),
            missing: self.missing.clone(),
            nodes: (!self.server.nodes.is_empty()).then(|| {
                let nodes = self.server.nodes.iter();
                nodes.map(|(name, node)| (name.clone(), Arc::new(node.clone()))).collect()
            }),
            project_ready: self.project_ready || matches!(self.order.body, Body::Project),
            as_of: given::at(self.seconds),
            namespace_ending: self.server.namespace_ending,
        }
    }

    /// The next plan.
    pub(crate) fn plan(&mut self) -> ActionPlan {
        let observed = self.observe();
        plan(&self.order, &observed, &self.proofs)
    }

    /// Plans and acts until a plan has no actions.
    pub(crate) fn reconcile(&mut self) -> Pass {
        let mut rounds = Vec::new();
        let mut absent = false;
        let mut standing;
        let outcome = loop {
            let plan = self.plan();
            standing = plan.standing;
            if plan.actions.is_empty() {
                break plan.outcome;
            }
            if let Some(freeze) = &self.order.freeze {
                break held(freeze, &plan.actions);
            }
            assert!(rounds.len() < ROUNDS, "no end after {rounds:#?}");
            for action in &plan.actions {
                self.act(action);
            }
            absent = plan.actions == [Action::VerifyAbsence];
            rounds.push(plan.actions);
            if absent {
                break Outcome::Converged;
            }
        };
        self.project_status(&outcome, absent);
        Pass { rounds, outcome, absent, standing }
    }

    /// Executes one action, and fails for one that no executor would send.
    pub(crate) fn act(&mut self, action: &Action) {
        match action {
            Action::Apply { key, object, .. } => {
                self.allow(key);
                self.server.apply(key, object);
            }
            Action::Prune { key, patch, .. } => {
                self.allow(key);
                self.server.guarded_patch(key, patch);
            }
            Action::Delete { key, uid, version } => {
                self.allow(key);
                self.server.guarded_delete(key, uid, version);
                // Our own delete is not an external deletion.
                if self.order.desired != DesiredState::Deleted {
                    self.order.recorded.insert(key.clone(), None);
                }
            }
            Action::ReleaseAnchor { key, version, finalizers, .. } => {
                self.allow(key);
                self.server.release(key, version, finalizers);
            }
            Action::VerifyAbsence => {
                let left = self.observe().objects;
                for (key, object) in &left {
                    let whose = ownership(&self.order, key, object, &self.proofs);
                    assert_eq!(whose, Ownership::Foreign, "{key} is ours and still exists");
                }
            }
        }
    }

    fn allow(&self, key: &trueup_model::key::ResourceKey) {
        let allowed = render::keys(&self.order);
        assert!(
            allowed.contains(key) || self.order.recorded.contains_key(key),
            "{key} is not part of the order"
        );
        if let Some(object) = self.server.objects.get(key) {
            let whose = ownership(&self.order, key, object, &self.proofs);
            assert_eq!(whose, Ownership::Ours, "{key} is foreign");
        }
    }

    /// The observation now.
    pub(crate) fn observation(&mut self, applied: bool) -> Observation {
        let observed = self.observe();
        let as_of = given::at(self.seconds);
        let standing = plan(&self.order, &observed, &self.proofs).standing;
        observe(&self.order, &observed, applied, standing, &self.proofs, as_of)
    }

    /// Projects the status from the result of a pass.
    fn project_status(&mut self, outcome: &Outcome, absent: bool) {
        self.seconds += 1;
        let desired = self.order.desired;
        let applied = *outcome == Outcome::Converged && desired != DesiredState::Deleted;
        let inputs = Inputs {
            desired,
            generation: self.order.generation,
            cluster: given::cluster(),
            previous: self.status.clone(),
            observation: self.observation(applied),
            outcome: outcome.clone(),
            absent,
        };
        self.status = status::project(&inputs, given::at(self.seconds));
    }
}
