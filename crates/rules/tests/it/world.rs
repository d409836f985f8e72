//! One service or project and the cluster it lives in: plans are made, carried out and made again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
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

/// No story needs more rounds than this; one that does is a loop.
pub(crate) const ROUNDS: usize = 8;

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) order: Order,
    pub(crate) project_ready: bool,
    pub(crate) missing: BTreeMap<Kind, Absent>,
    pub(crate) status: Status,
    promised: Option<(Template, Service)>,
    proofs: ProofKey,
    seconds: i64,
}

/// What a reconcile did, round by round, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pass {
    pub(crate) rounds: Vec<Vec<Action>>,
    pub(crate) outcome: Outcome,
    pub(crate) absent: bool,
}

impl World {
    /// A project of its own, nothing of it made yet.
    pub(crate) fn project() -> Self {
        Self::of(given::project_order(), None)
    }

    /// A service that was just accepted, in a project that is ready for it.
    pub(crate) fn service(template: Template, parameters: Value) -> Self {
        let promised = given::promised(&template, parameters);
        Self::of(given::order(&promised), Some((template, promised)))
    }

    fn of(order: Order, promised: Option<(Template, Service)>) -> Self {
        Self {
            server: Server::default(),
            order,
            project_ready: true,
            missing: BTreeMap::new(),
            status: Status::accepted(given::at(0)),
            promised,
            proofs: given::proofs(),
            seconds: 0,
        }
    }

    /// Asks the door for other parameters; what it admits becomes the next generation.
    pub(crate) fn change(&mut self, given: Map<String, Value>) -> Result<Admitted, Refused> {
        let (template, service) = self.promised.as_mut().expect("a service");
        let mut parameters = service.parameters.clone();
        parameters.extend(given);
        let ask = AdmissionRequest { parameters, ..AdmissionRequest::again(service) };
        let known =
            AdmissionContext { template: Some(template), plan: None, current: Some(service) };
        let admitted = admit(&ask, known)?;
        if let Admitted::Changed(promise) = &admitted {
            service.spec = promise.spec.clone();
            service.parameters = ask.parameters;
            service.generation += 1;
            self.reissue();
        }
        Ok(admitted)
    }

    /// A new promise about whether it shall be there.
    pub(crate) fn desire(&mut self, desired: DesiredState) {
        if let Some((_, service)) = &mut self.promised {
            service.desired = desired;
            service.generation += 1;
        } else {
            self.order.desired = desired;
        }
        self.reissue();
    }

    /// The driver makes the order anew; everything ever recorded stays recorded.
    pub(crate) fn reissue(&mut self) {
        let recorded = self.order.recorded.clone();
        let freeze = self.order.freeze.clone();
        if let Some((_, service)) = &self.promised {
            self.order = given::order(service);
        }
        self.order.recorded.extend(recorded);
        self.order.freeze = freeze;
        self.order = given::recorded(self.order.clone());
    }

    /// What a plan is made from; uids of what is ours are remembered, as an executor does.
    pub(crate) fn look(&mut self) -> Observed {
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

    /// What is left to do.
    pub(crate) fn plan(&mut self) -> ActionPlan {
        let observed = self.look();
        plan(&self.order, &observed, &self.proofs)
    }

    /// Plans and acts until a plan has no actions.
    pub(crate) fn reconcile(&mut self) -> Pass {
        let mut rounds = Vec::new();
        let mut absent = false;
        let outcome = loop {
            let plan = self.plan();
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
        self.settle(&outcome, absent);
        Pass { rounds, outcome, absent }
    }

    /// Carries out one action, and refuses what no executor would send.
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
                // What we take away ourselves and may need again was not taken by somebody else.
                if self.order.desired != DesiredState::Deleted {
                    self.order.recorded.insert(key.clone(), None);
                }
            }
            Action::ReleaseAnchor { key, version, finalizers, .. } => {
                self.allow(key);
                self.server.release(key, version, finalizers);
            }
            Action::VerifyAbsence => {
                let left = self.look().objects;
                for (key, object) in &left {
                    let whose = ownership(&self.order, key, object, &self.proofs);
                    assert_eq!(whose, Ownership::Foreign, "{key} is ours and still there");
                }
            }
        }
    }

    fn allow(&self, key: &trueup_model::key::ResourceKey) {
        let known = render::keys(&self.order);
        assert!(
            known.contains(key) || self.order.recorded.contains_key(key),
            "{key} is not part of the order"
        );
        if let Some(object) = self.server.objects.get(key) {
            let whose = ownership(&self.order, key, object, &self.proofs);
            assert_eq!(whose, Ownership::Ours, "{key} is not ours to write");
        }
    }

    /// What is seen now.
    pub(crate) fn observation(&mut self, applied: bool) -> Observation {
        let observed = self.look();
        let as_of = given::at(self.seconds);
        observe(&self.order, &observed, applied, &self.proofs, as_of)
    }

    /// Projects what people see from what the pass found.
    fn settle(&mut self, outcome: &Outcome, absent: bool) {
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
