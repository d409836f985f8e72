//! A service on its way to a desired state, move by move.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use trueup_model::drift::{
    AdoptMode, DivergenceState, DriftPolicy, DriftRule, FIGHT_WINDOW, Verdict,
};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Body, Order};
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::service::DesiredState;
use trueup_model::spec::Spec;
use trueup_rules::render::names;

use super::writer::Writer;
use crate::rig::{Rig, converged, healthy, key, spec};

const REPLICAS: &str = "spec.replicas";
const HOUR: Duration = Duration::from_secs(3600);

/// Something that happens to the service, after which it is as desired again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Move {
    /// Its owner changes image, variables and pods.
    Change,
    /// It gets another version of its template: other ports, another command, fewer pods.
    Upgrade,
    /// Its owner pauses it.
    Pause,
    /// Another writer edits fields that Trueup sets.
    Edit,
    /// Another writer adds to what only Trueup may write.
    Add,
    /// Another writer deletes its workload and its variables.
    Delete,
    /// Another writer removes Trueup's marks from its workload.
    Relabel,
    /// A value of another writer is adopted, and then rolled back.
    Adopt,
    /// A value of another writer is ignored through a change, until the policy ends.
    Ignore,
    /// It is frozen while another writer edits and deletes.
    Freeze,
    /// The executor is restarted.
    Restart,
}

impl Move {
    pub(crate) const ALL: [Self; 11] = [
        Self::Change,
        Self::Upgrade,
        Self::Pause,
        Self::Edit,
        Self::Add,
        Self::Delete,
        Self::Relabel,
        Self::Adopt,
        Self::Ignore,
        Self::Freeze,
        Self::Restart,
    ];
}

/// The desired state that every route ends with.
pub(crate) fn target() -> Spec {
    spec(&json!({ "workload": "deployment", "replicas": 2 }))
}

pub(crate) struct Journey {
    rig: Rig,
    writer: Writer,
    pub(crate) order: Order,
    spec: Spec,
    /// The last report that was awaited, or received while resting.
    last: Option<Report>,
}

impl Journey {
    /// Declares the service.
    pub(crate) async fn start(mut rig: Rig, writer: Writer) -> Self {
        rig.order_until(rig.project(), converged).await;
        let order = rig.service(1, target());
        let mut journey = Self { rig, writer, order, spec: target(), last: None };
        journey.send().await;
        journey.settle().await;
        journey
    }

    /// Makes a move, and waits until the service is as desired.
    pub(crate) async fn go(mut self, to: Move) -> Self {
        match to {
            Move::Change => self.declare(changed()).await,
            Move::Upgrade => self.upgrade().await,
            Move::Pause => self.renew(|order| order.desired = DesiredState::Paused).await,
            Move::Edit => self.edit().await,
            Move::Add => self.add().await,
            Move::Delete => self.delete().await,
            Move::Relabel => self.relabel().await,
            Move::Adopt => self.adopt_and_roll_back().await,
            Move::Ignore => self.ignore_for_a_while().await,
            Move::Freeze => self.freeze_for_a_while().await,
            Move::Restart => return self.restart().await,
        }
        self
    }

    /// Declares this spec as the next generation.
    pub(crate) async fn declare(&mut self, spec: Spec) {
        self.spec = spec;
        self.renew(|_| ()).await;
    }

    /// Lets the time pass after which reverts are no fight, and checks that nothing changes.
    pub(crate) async fn rest(&mut self) {
        self.rig.fence.open(self.rig.clock.monotonic(), HOUR);
        let window = Duration::try_from(FIGHT_WINDOW).expect("a window should be a duration");
        let mut over = self.rig.clock.sleep(window);
        loop {
            let report = tokio::select! {
                biased;
                report = self.rig.reports.recv() => report.expect("the executor should run"),
                () = &mut over => break,
            };
            if report.unit == self.order.unit {
                self.last = Some(report);
            }
        }
        let last = self.last.as_ref();
        assert!(last.is_some_and(|last| self.is_settled(last)), "after a rest: {last:#?}");
    }

    /// Runs one more pass, which should have nothing to do.
    pub(crate) async fn pass(&self) {
        let passed = self.rig.executor.order(self.order.clone()).await.await;
        assert_eq!(passed, Ok(Outcome::Converged));
    }

    /// The next generation of the order, with this change.
    async fn renew(&mut self, change: impl FnOnce(&mut Order)) {
        let next = self.rig.service(self.order.generation + 1, self.spec.clone());
        let drift = self.order.drift.clone();
        let mut next = Order { drift, ..Rig::after(&self.order, next) };
        change(&mut next);
        self.order = next;
        self.send().await;
        self.settle().await;
    }

    async fn send(&mut self) {
        self.last = None;
        let _passed = self.rig.executor.order(self.order.clone()).await;
    }

    async fn until(&mut self, wanted: impl Fn(&Report) -> bool) {
        self.last = Some(self.rig.until(self.order.unit, wanted).await);
    }

    /// Waits until the service is as desired.
    async fn settle(&mut self) {
        while !self.last.as_ref().is_some_and(|last| self.is_settled(last)) {
            self.until(|_| true).await;
        }
    }

    /// Whether a report shows this order, completely applied, and nothing that differs.
    fn is_settled(&self, report: &Report) -> bool {
        let stands = report.observation.iter().any(|seen| !seen.divergences.is_empty());
        report.generation == self.order.generation
            && converged(report)
            && healthy(report)
            && !stands
    }

    /// Waits until the changes of these objects are reported as reverted.
    async fn repaired(&mut self, keys: &[ResourceKey]) {
        let mut left: BTreeSet<&ResourceKey> = keys.iter().collect();
        while !left.is_empty() {
            self.until(|report| !report.changes.is_empty()).await;
            for change in self.last.iter().flat_map(|last| &last.changes) {
                left.remove(changed_object(change));
            }
        }
        self.settle().await;
    }

    fn deployment(&self) -> ResourceKey {
        key(&self.order, Kind::Deployment, str::to_owned)
    }

    fn config(&self) -> ResourceKey {
        key(&self.order, Kind::ConfigMap, names::config)
    }

    async fn replicas(&self) -> Value {
        let live = self.writer.get(&self.deployment()).await.expect("it should be there");
        live["spec"]["replicas"].clone()
    }

    async fn scale(&self, replicas: u32) {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.writer.patch(&self.deployment(), &patch).await;
    }

    async fn upgrade(&mut self) {
        self.spec = upgraded();
        let version = "web@2".parse().expect("a template version");
        self.renew(|order| {
            if let Body::Service(body) = &mut order.body {
                body.template = version;
            }
        })
        .await;
    }

    async fn edit(&mut self) {
        let (deployment, config) = (self.deployment(), self.config());
        let replicas = self.spec.replicas + 4;
        let containers = json!([{ "name": "main", "image": "evil:1" }]);
        let pods = json!({ "spec": { "containers": containers } });
        let patch = json!({ "spec": { "replicas": replicas, "template": pods } });
        self.writer.patch(&deployment, &patch).await;
        self.writer.patch(&config, &json!({ "data": { "GREETING": "theirs" } })).await;
        self.repaired(&[deployment, config]).await;
    }

    async fn add(&mut self) {
        let (deployment, config) = (self.deployment(), self.config());
        let env = json!([{ "name": "THEIRS", "value": "1" }]);
        let pods = json!({ "spec": { "containers": [{ "name": "main", "env": env }] } });
        self.writer.patch(&deployment, &json!({ "spec": { "template": pods } })).await;
        self.writer.patch(&config, &json!({ "data": { "THEIRS": "1" } })).await;
        self.repaired(&[deployment, config]).await;
    }

    async fn delete(&mut self) {
        let keys = [self.deployment(), self.config()];
        for key in &keys {
            self.writer.delete(key).await;
        }
        self.repaired(&keys).await;
    }

    async fn relabel(&mut self) {
        let labels = json!({ names::MANAGED_BY: null, names::SERVICE_LABEL: "theirs" });
        let annotations =
            json!({ names::PROOF_ANNOTATION: "theirs", names::DIGEST_ANNOTATION: null });
        let marks = json!({ "metadata": { "labels": labels, "annotations": annotations } });
        let deployment = self.deployment();
        self.writer.patch(&deployment, &marks).await;
        self.repaired(&[deployment]).await;
    }

    /// Another writer scales it. The number becomes the desired one, and is then rolled back, all
    /// under a policy that adopts what others write.
    async fn adopt_and_roll_back(&mut self) {
        let adopts = on_replicas(Verdict::Adopt, Some(AdoptMode::Keep));
        self.renew(|order| order.drift.policies = vec![adopts]).await;
        let (before, more) = (self.spec.clone(), self.spec.replicas + 2);
        self.scale(more).await;
        self.until(|report| stands(report, DivergenceState::Proposed)).await;
        assert_eq!(self.replicas().await, more, "it stays while it is proposed");
        self.declare(Spec { replicas: more, ..before.clone() }).await;
        assert_eq!(self.replicas().await, more);
        self.declare(before.clone()).await;
        assert_eq!(self.replicas().await, before.replicas, "the adoption is rolled back");
        self.renew(|order| order.drift.policies.clear()).await;
    }

    /// Another writer scales it. The number stays through a change, and is reverted when no policy
    /// ignores it any more.
    async fn ignore_for_a_while(&mut self) {
        let ignores = on_replicas(Verdict::Ignore, None);
        self.renew(|order| order.drift.policies = vec![ignores]).await;
        let theirs = self.spec.replicas + 3;
        self.scale(theirs).await;
        self.until(|report| stands(report, DivergenceState::Ignored)).await;
        let changed = Spec { image: "example:9".to_owned(), ..self.spec.clone() };
        let next = self.rig.service(self.order.generation + 1, changed);
        let drift = self.order.drift.clone();
        self.order = Order { drift, ..Rig::after(&self.order, next) };
        self.send().await;
        let generation = self.order.generation;
        let is_applied = |report: &Report| {
            report.generation == generation
                && converged(report)
                && stands(report, DivergenceState::Ignored)
        };
        self.until(is_applied).await;
        assert_eq!(self.replicas().await, theirs, "it stays through a change");
        self.renew(|order| order.drift.policies.clear()).await;
    }

    async fn freeze_for_a_while(&mut self) {
        let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
        let since = self.rig.clock.now();
        self.order.freeze = Some(Freeze { scope: FreezeScope::Service, by, why, since });
        self.pass().await;
        self.scale(self.spec.replicas + 1).await;
        self.writer.delete(&self.config()).await;
        self.until(|report| matches!(report.outcome, Outcome::Frozen { .. })).await;
        assert_eq!(self.writer.get(&self.config()).await, None, "nothing is repaired");
        self.order.freeze = None;
        self.send().await;
        self.settle().await;
    }

    async fn restart(mut self) -> Self {
        self.rig = self.rig.restart();
        self.rig.order_until(self.rig.project(), converged).await;
        self.send().await;
        self.settle().await;
        self
    }
}

fn changed() -> Spec {
    let variables = json!({ "GREETING": "bye", "MORE": "x" });
    spec(&json!({ "workload": "deployment", "replicas": 3, "image": "example:2",
                  "variables": variables }))
}

fn upgraded() -> Spec {
    let ports = json!([{ "name": "http", "port": 8080 }, { "name": "admin", "port": 9090 }]);
    spec(&json!({ "workload": "deployment", "replicas": 1, "image": "example:3", "ports": ports,
                  "command": ["/bin/web"], "args": ["--all"] }))
}

/// A policy for the number of pods, and nothing else.
fn on_replicas(verdict: Verdict, adopt: Option<AdoptMode>) -> DriftPolicy {
    let (kind, path) = (Some(Kind::Deployment), Some(REPLICAS.to_owned()));
    DriftPolicy { verdict: None, adopt, rules: vec![DriftRule { kind, path, verdict }] }
}

/// Whether the number of pods stands in this state.
fn stands(report: &Report, state: DivergenceState) -> bool {
    let mut all = report.observation.iter().flat_map(|seen| &seen.divergences);
    all.any(|one| one.field == REPLICAS && one.state == state)
}

const fn changed_object(change: &ObjectChange) -> &ResourceKey {
    match change {
        ObjectChange::Created { key }
        | ObjectChange::Updated { key }
        | ObjectChange::Removed { key }
        | ObjectChange::DeletedExternally { key }
        | ObjectChange::ModifiedExternally { key, .. } => key,
    }
}
