//! Verdicts about drift in the executor: what it reverts, what it keeps, and what it reports as
//! standing.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use trueup_cluster::CallError;
use trueup_model::drift::{
    AdoptMode, Divergence, DivergenceState, DriftPolicy, DriftRule, FieldDecision, FieldRef,
    Verdict,
};
use trueup_model::freeze::{Freeze, FreezeScope};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::Order;
use trueup_model::report::{ObjectChange, Outcome, Report};
use trueup_model::spec::Spec;
use trueup_rules::render::names;
use trueup_testkit::fake_cluster::{FOREIGN_MANAGER, FakeCluster, Then, Verb};

use crate::rig::{Rig, converged, healthy, key, reverted, web};

pub(crate) const REPLICAS: &str = "spec.replicas";
pub(crate) const DEADLINE: &str = "spec.progressDeadlineSeconds";

pub(crate) fn workload(order: &Order) -> ResourceKey {
    key(order, Kind::Deployment, str::to_owned)
}

/// This verdict for the number of pods.
fn replicas(verdict: Verdict, adopt: Option<AdoptMode>) -> DriftPolicy {
    let rule = DriftRule { kind: None, path: Some(REPLICAS.to_owned()), verdict };
    DriftPolicy { verdict: None, adopt, rules: vec![rule] }
}

/// What stands after a pass: fields with their state.
pub(crate) fn standing(report: &Report) -> Vec<(&str, DivergenceState)> {
    let seen = report.observation.iter().flat_map(|seen| &seen.divergences);
    seen.map(|one| (one.field.as_str(), one.state)).collect()
}

/// The live value of the only field that stands in this state.
pub(crate) fn kept(report: &Report, state: DivergenceState) -> Option<&Value> {
    let seen = report.observation.as_ref()?;
    match seen.divergences.as_slice() {
        [one] if one.state == state && one.field == REPLICAS => Some(&one.live),
        _ => None,
    }
}

pub(crate) fn scale(fake: &FakeCluster, order: &Order, pods: u32) {
    fake.edit(&workload(order), |live| live["spec"]["replicas"] = pods.into());
}

pub(crate) fn spec_of(fake: &FakeCluster, order: &Order) -> Value {
    fake.find(&workload(order)).expect("the Deployment should be there")["spec"].clone()
}

fn with_image(pods: u32, image: &str) -> Spec {
    Spec { image: image.to_owned(), ..web(pods) }
}

/// A healthy service of two pods under this policy.
pub(crate) async fn started(rig: &mut Rig, policy: DriftPolicy) -> Order {
    rig.order_until(rig.project(), converged).await;
    let mut order = rig.service(1, web(2));
    order.drift.policies = vec![policy];
    rig.order_until(order.clone(), healthy).await;
    order
}

/// The next generation, under the same policies.
pub(crate) fn next(rig: &Rig, order: &Order, spec: Spec) -> Order {
    let next = Rig::after(order, rig.service(order.generation + 1, spec));
    Order { drift: order.drift.clone(), ..next }
}

#[tokio::test(start_paused = true)]
async fn every_edited_field_is_reverted_by_one_write_and_reported() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    let deployment = workload(&order);
    let before = spec_of(&fake, &order);
    let writes = fake.journal().len();
    fake.edit(&deployment, |live| {
        live["spec"]["replicas"] = json!(5);
        live["spec"]["progressDeadlineSeconds"] = json!(9);
        live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil:1");
    });
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    let by = Some(FOREIGN_MANAGER);
    let image = "spec.template.spec.containers.main.image";
    assert_eq!(reverted(&report, &deployment), [(DEADLINE, by), (REPLICAS, by), (image, by)]);
    let [ObjectChange::ModifiedExternally { fields, .. }] = report.changes.as_slice() else {
        unreachable!("one object was changed: {:?}", report.changes)
    };
    let Divergence { wanted, live, state, .. } = &fields[1];
    assert_eq!((wanted, live, *state), (&json!(2), &json!(5), DivergenceState::Reverted));
    assert_eq!(standing(&report), []);
    assert_eq!(spec_of(&fake, &order), before);
    assert_eq!(fake.journal()[writes..].len(), 1, "one write reverts them");
}

#[tokio::test(start_paused = true)]
async fn an_ignored_value_stays_through_an_upgrade_and_a_rollback() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let mut order = started(&mut rig, replicas(Verdict::Ignore, None)).await;
    let writes = fake.journal().len();
    scale(&fake, &order, 4);
    let is_ignored = |report: &Report| kept(report, DivergenceState::Ignored) == Some(&json!(4));
    let report = rig.until(order.unit, is_ignored).await;
    assert_eq!((report.changes.as_slice(), report.outcome), (&[][..], Outcome::Converged));
    assert_eq!(fake.journal()[writes..], [], "nothing is written");

    for image in ["example:2", "example:1"] {
        order = next(&rig, &order, with_image(2, image));
        let generation = order.generation;
        let _passed = rig.executor.order(order.clone()).await;
        let is_done = |report: &Report| {
            report.generation == generation && converged(report) && is_ignored(report)
        };
        rig.until(order.unit, is_done).await;
        let live = spec_of(&fake, &order);
        assert_eq!(live["template"]["spec"]["containers"][0]["image"], image);
        assert_eq!(live["replicas"], 4, "{image}");
    }

    // The rest of the object is enforced, and that write keeps the value as well.
    let deployment = workload(&order);
    fake.edit(&deployment, |live| live["spec"]["progressDeadlineSeconds"] = json!(9));
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &deployment), [(DEADLINE, Some(FOREIGN_MANAGER))]);
    assert_eq!(spec_of(&fake, &order)["replicas"], 4);

    // Without the policy the number of pods is ours again.
    order.drift.policies.clear();
    let _passed = rig.executor.order(order.clone()).await;
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &deployment), [(REPLICAS, Some(FOREIGN_MANAGER))]);
    assert_eq!(spec_of(&fake, &order)["replicas"], 2);
}

/// The other writer decides between our read and our write.
#[tokio::test(start_paused = true)]
async fn an_ignored_value_that_is_set_during_an_upgrade_is_not_overwritten() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, replicas(Verdict::Ignore, None)).await;
    let next = next(&rig, &order, with_image(2, "example:2"));
    let (theirs, at) = (fake.clone(), workload(&order));
    fake.on_write(move |_, write| {
        // The anchor is written first: the workload was read, and is not written yet.
        if write.verb == Verb::Apply && write.key.kind == Kind::ConfigMap {
            theirs.edit(&at, |live| live["spec"]["replicas"] = json!(5));
        }
        Then::Answer
    });
    let _passed = rig.executor.order(next.clone()).await;
    let is_done = |report: &Report| {
        report.generation == 2 && kept(report, DivergenceState::Ignored) == Some(&json!(5))
    };
    rig.until(order.unit, is_done).await;
    let live = spec_of(&fake, &order);
    assert_eq!(live["replicas"], 5);
    assert_eq!(live["template"]["spec"]["containers"][0]["image"], "example:2");
}

#[tokio::test(start_paused = true)]
async fn a_value_to_adopt_is_reverted_or_kept_as_the_mode_says() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, replicas(Verdict::Adopt, None)).await;
    scale(&fake, &order, 4);
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    let [ObjectChange::ModifiedExternally { fields, .. }] = report.changes.as_slice() else {
        unreachable!("one object was changed: {:?}", report.changes)
    };
    assert_eq!((fields[0].verdict, &fields[0].live), (Verdict::Adopt, &json!(4)));
    assert_eq!(spec_of(&fake, &order)["replicas"], 2, "it is proposed, and reverted until then");

    let mut order = order;
    order.drift.policies = vec![replicas(Verdict::Adopt, Some(AdoptMode::Keep))];
    assert_eq!(rig.executor.order(order.clone()).await.await, Ok(Outcome::Converged));
    scale(&fake, &order, 5);
    let is_proposed = |report: &Report| kept(report, DivergenceState::Proposed).is_some();
    rig.until(order.unit, is_proposed).await;
    // A new order without a decision changes nothing.
    assert_eq!(rig.executor.order(order.clone()).await.await, Ok(Outcome::Converged));
    assert_eq!(spec_of(&fake, &order)["replicas"], 5);
    // Rejected: the proposal is over.
    let at = FieldRef { key: workload(&order), field: REPLICAS.to_owned() };
    let over = FieldDecision::Proposed { until: rig.clock.now() };
    order.drift.fields.insert(at, over);
    let _passed = rig.executor.order(order.clone()).await;
    rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(spec_of(&fake, &order)["replicas"], 2);
}

/// No event reports that a proposal expires: the unit is queued for that time.
#[tokio::test(start_paused = true)]
async fn a_proposal_that_expires_is_reverted_at_that_time() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let mut order = started(&mut rig, replicas(Verdict::Adopt, Some(AdoptMode::Keep))).await;
    scale(&fake, &order, 5);
    rig.until(order.unit, |report| kept(report, DivergenceState::Proposed).is_some()).await;
    // The database knows when it was proposed.
    let at = FieldRef { key: workload(&order), field: REPLICAS.to_owned() };
    let until = rig.clock.now().checked_add(SignedDuration::from_secs(60)).expect("a time");
    order.drift.fields.insert(at, FieldDecision::Proposed { until });
    assert_eq!(rig.executor.order(order.clone()).await.await, Ok(Outcome::Converged));
    assert_eq!(spec_of(&fake, &order)["replicas"], 5);
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &workload(&order)), [(REPLICAS, Some(FOREIGN_MANAGER))]);
    let late = rig.clock.now().duration_since(until);
    assert!(late >= SignedDuration::ZERO && late < SignedDuration::from_secs(5), "{late:?}");
}

/// After an adoption the other manager still shares the field with us.
#[tokio::test(start_paused = true)]
async fn a_request_to_change_an_adopted_value_is_carried_out() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let automatic = replicas(Verdict::Adopt, Some(AdoptMode::Automatic));
    let mut order = started(&mut rig, automatic).await;
    scale(&fake, &order, 5);
    rig.until(order.unit, |report| kept(report, DivergenceState::Proposed).is_some()).await;
    for pods in [5, 3] {
        order = next(&rig, &order, web(pods));
        let generation = order.generation;
        let _passed = rig.executor.order(order.clone()).await;
        let is_done = |report: &Report| {
            report.generation == generation && healthy(report) && standing(report).is_empty()
        };
        rig.until(order.unit, is_done).await;
        assert_eq!(spec_of(&fake, &order)["replicas"], pods);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_reverted_stands_open() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    let open = [(REPLICAS, DivergenceState::Open)];
    fake.set_webhook(|key, _| match key.kind {
        Kind::Deployment => Err(CallError::Refused("not on Mondays".to_owned())),
        _ => Ok(()),
    });
    scale(&fake, &order, 5);
    let is_refused = |report: &Report| matches!(report.outcome, Outcome::Refused { .. });
    let report = rig.until(order.unit, is_refused).await;
    assert_eq!((standing(&report), report.changes.len()), (open.to_vec(), 0));
    fake.remove_webhook();
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(standing(&report), []);

    let since = rig.clock.now();
    let (by, why) = ("an operator".to_owned(), "an audit".to_owned());
    let freeze = Some(Freeze { scope: FreezeScope::Service, by, why, since });
    let frozen = Order { freeze, ..order.clone() };
    assert_eq!(rig.executor.order(frozen).await.await, Ok(Outcome::Converged));
    scale(&fake, &order, 6);
    // A later stage stands as well, although the Service would be written first.
    fake.remove(&key(&order, Kind::Service, str::to_owned));
    let both = [(REPLICAS, DivergenceState::Open), ("", DivergenceState::Open)];
    let report = rig.until(order.unit, |report| standing(report) == both).await;
    assert!(matches!(report.outcome, Outcome::Frozen { .. }), "{:?}", report.outcome);
    let _passed = rig.executor.order(order.clone()).await;
    rig.until(order.unit, |report| converged(report) && standing(report).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_stands_is_still_reported_while_the_lease_is_lost() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, replicas(Verdict::Ignore, None)).await;
    scale(&fake, &order, 4);
    let is_ignored = |report: &Report| kept(report, DivergenceState::Ignored).is_some();
    rig.until(order.unit, is_ignored).await;
    rig.fence.close();
    fake.edit(&workload(&order), |live| live["spec"]["progressDeadlineSeconds"] = json!(9));
    let report = rig.until(order.unit, |it| matches!(it.outcome, Outcome::Deferred { .. })).await;
    let expected = [(DEADLINE, DivergenceState::Open), (REPLICAS, DivergenceState::Ignored)];
    assert_eq!(standing(&report), expected);
    rig.fence.open(rig.clock.monotonic(), Duration::from_secs(3600));
    rig.until(order.unit, |report| converged(report) && is_ignored(report)).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_is_reported_without_its_values() {
    let fake = FakeCluster::new();
    let mut rig = Rig::fake(&fake);
    let order = started(&mut rig, DriftPolicy::default()).await;
    let secret = key(&order, Kind::Secret, names::secret);
    let ours = fake.find(&secret).expect("it should be there")["data"]["KEY"].clone();
    fake.edit(&secret, |live| live["data"]["KEY"] = json!("aHVudGVyMg=="));
    let report = rig.until(order.unit, |report| !report.changes.is_empty()).await;
    assert_eq!(reverted(&report, &secret), [("data.KEY", Some(FOREIGN_MANAGER))]);
    let text = format!("{report:?}");
    assert!(!text.contains("aHVudGVyMg"), "{text}");
    assert!(!text.contains(ours.as_str().expect("a value")), "{text}");
}
