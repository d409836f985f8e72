//! Checks deletion receipts: every key, the last uid of each, and the times of the reads.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use trueup_cluster::InFlightWindow;
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::order::{Order, Unit};
use trueup_model::receipt::{ProofLevel, Receipt};

use super::journal::{Call, Target};
use crate::fake_cluster::{FakeCluster, Verb};

/// What a receipt is checked against.
pub(super) struct Facts<'a> {
    pub(super) order: &'a Order,
    pub(super) fake: &'a FakeCluster,
    /// Writes to objects of the unit, with the time of each.
    pub(super) calls: Vec<(Timestamp, Call)>,
    pub(super) observer: &'a str,
    /// When the process started.
    pub(super) started: Timestamp,
    pub(super) in_flight: InFlightWindow,
    pub(super) now: Timestamp,
}

/// Everything that is wrong about a receipt.
pub(super) fn wrong(receipt: &Receipt, facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = keys(receipt, facts);
    wrong.extend(times(receipt, facts));
    if receipt.observer != facts.observer {
        wrong.push(format!("wrong observer {:?}", receipt.observer));
    }
    let level = if receipt.unconfirmed.is_empty() {
        ProofLevel::ApiAbsence
    } else {
        ProofLevel::ProcessesUnconfirmed
    };
    if receipt.level != level || receipt.force.is_some() || !receipt.unproven.is_empty() {
        wrong.push(format!("wrong level {:?}, unproven {:?}", receipt.level, receipt.unproven));
    }
    let deleted_namespace = facts.calls.iter().any(|(_, call)| {
        (call.verb, call.key.kind) == (Verb::Delete, Kind::Namespace) && call.effect.is_some()
    });
    if deleted_namespace && receipt.survey.is_none() {
        wrong.push("the namespace was deleted, but the receipt has no survey".to_owned());
    }
    let unit = facts.order.unit;
    wrong.into_iter().map(|what| format!("O12: receipt of {unit}: {what}")).collect()
}

/// The receipt must list each recorded key once, with the uid of the last created object.
fn keys(receipt: &Receipt, facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let absent: BTreeMap<&ResourceKey, Option<&str>> =
        receipt.absent.iter().map(|it| (&it.key, it.uid.as_deref())).collect();
    if absent.len() != receipt.absent.len() || absent.is_empty() {
        wrong.push(format!("{} keys, but {} distinct", receipt.absent.len(), absent.len()));
    }
    if !absent.keys().copied().eq(facts.order.recorded.keys()) {
        let keys = (absent.keys(), facts.order.recorded.keys());
        wrong.push(format!("absent and recorded keys differ: {keys:?}"));
    }
    for key in absent.keys() {
        if Target::of(facts.fake.find(key).as_ref()) != Target::Absent {
            wrong.push(format!("{key} still exists"));
        }
    }
    let effects = facts.calls.iter().filter_map(|(_, call)| call.effect.as_ref());
    let created = effects.filter(|effect| effect.created);
    let created: BTreeMap<&ResourceKey, &str> =
        created.map(|effect| (&effect.key, effect.uid.as_str())).collect();
    for (key, uid) in created {
        match absent.get(key) {
            None => wrong.push(format!("{key} was created but is not listed")),
            Some(listed) if *listed != Some(uid) => {
                wrong.push(format!("{key} was created with uid {uid}, listed with {listed:?}"));
            }
            Some(_) => {}
        }
    }
    wrong
}

/// The last read must begin after every write that could still take effect, and have ended.
fn times(receipt: &Receipt, facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let (Some(first), Some(last)) = (receipt.reads.first(), receipt.reads.last()) else {
        return vec!["the receipt has no read".to_owned()];
    };
    let in_order = receipt.reads.iter().all(|read| read.began_at <= read.ended_at)
        && receipt.reads.windows(2).all(|two| two[0].ended_at <= two[1].began_at)
        && last.ended_at <= facts.now;
    let matches = (receipt.began_at, receipt.verified_at) == (first.began_at, last.ended_at);
    if !in_order || !matches {
        wrong.push(format!(
            "wrong times {:?}, reads {:?}",
            (receipt.began_at, receipt.verified_at),
            receipt.reads
        ));
    }
    let in_flight = SignedDuration::try_from(facts.in_flight.lasts).unwrap_or_default();
    let mut after: Vec<(Timestamp, String)> = Vec::new();
    for (at, call) in &facts.calls {
        if call.effect.is_some() {
            after.push((*at, call.title()));
        }
        // Calls of an earlier process are covered by `inherited` below.
        if *at >= facts.started && ["unanswered", "server"].contains(&call.heard) {
            let what = format!("{}, unanswered, could no longer take effect", call.title());
            after.push((*at + in_flight, what));
        }
    }
    if facts.in_flight.inherited {
        let what = "calls of an earlier process could no longer take effect".to_owned();
        after.push((facts.started + in_flight, what));
    }
    let early = after.into_iter().filter(|(at, _)| last.began_at < *at);
    wrong.extend(early.map(|(_, what)| format!("the last read began before {what}")));
    wrong
}

/// Whether an object belongs to a unit, by its name alone.
pub(super) fn belongs(key: &ResourceKey, unit: Unit, own_name: &str, names: &[String]) -> bool {
    match unit {
        Unit::Service(_) => key.name.contains(own_name),
        Unit::Project(_) => !names.iter().any(|name| key.name.contains(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trueup_model::receipt::{Absence, Reading};

    use super::super::orders;
    use super::super::workload::{Workload, WorkloadStep};
    use super::*;
    use crate::fake_cluster::Write;

    fn order() -> Order {
        let web = Workload::named("web").expect("a workload");
        let Some(WorkloadStep::Declare(shape)) = web.steps.first() else {
            return orders::project();
        };
        orders::first(&orders::project(), 0, shape.spec())
    }

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(number).expect("a time")
    }

    /// A call that created an object with this key and the uid `made`.
    fn create_call(key: &ResourceKey) -> Call {
        let effect = Write {
            verb: Verb::Apply,
            key: key.clone(),
            uid: "made".to_owned(),
            created: true,
            effective: true,
        };
        Call {
            verb: Verb::Apply,
            key: key.clone(),
            uid: None,
            step: 0,
            at: Duration::ZERO,
            target: Target::Absent,
            effect: Some(effect),
            heard: "ok",
        }
    }

    #[test]
    fn receipt_with_missing_key_uid_or_read_is_a_violation() {
        let order = order();
        let key = order.recorded.keys().next().expect("a key").clone();
        let call = create_call(&key);
        let reading = |from, to| Reading { began_at: second(from), ended_at: second(to) };
        let absence = |it: &ResourceKey| Absence {
            key: it.clone(),
            uid: (*it == key).then(|| "made".to_owned()),
            resource_version: None,
        };
        let absent: Vec<Absence> = order.recorded.keys().map(absence).collect();
        let right = Receipt::of_absence(absent, "me", vec![reading(50, 51)]);
        let fake = FakeCluster::new();
        let found = |damage: &dyn Fn(&mut Receipt, &mut Facts<'_>)| {
            let mut facts = Facts {
                order: &order,
                fake: &fake,
                calls: vec![(second(10), call.clone())],
                observer: "me",
                started: second(5),
                in_flight: InFlightWindow { lasts: Duration::from_secs(20), inherited: true },
                now: second(60),
            };
            let mut receipt = right.clone();
            damage(&mut receipt, &mut facts);
            wrong(&receipt, &facts).len()
        };
        assert_eq!(found(&|_, _| ()), 0);
        assert!(found(&|receipt, _| _ = receipt.absent.remove(0)) > 0, "a key is missing");
        assert!(found(&|receipt, _| receipt.absent[0].uid = None) > 0, "a uid is missing");
        assert!(
            found(&|receipt, _| receipt.absent.push(receipt.absent[0].clone())) > 0,
            "a key is listed twice"
        );
        assert!(found(&|receipt, _| receipt.reads.clear()) > 0, "no read");
        assert!(found(&|receipt, _| receipt.observer.clear()) > 0, "no observer");
        assert!(found(&|receipt, _| receipt.verified_at = second(52)) > 0, "another end time");
        assert!(found(&|_, facts| facts.now = second(50)) > 0, "the read has not ended");
        assert!(found(&|_, facts| facts.calls[0].0 = second(55)) > 0, "a write after the read");
        assert!(found(&|_, facts| facts.started = second(40)) > 0, "too soon after a start");
        let unanswered = Call { heard: "unanswered", effect: None, ..call.clone() };
        let late = (second(40), unanswered);
        assert!(
            found(&|_, facts| facts.calls.push(late.clone())) > 0,
            "too soon after a lost response"
        );
        fake.edit(&key, |_| ());
        assert!(found(&|_, _| ()) > 0, "the object exists");
    }
}
