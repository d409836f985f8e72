//! A fixed sample of all plans, with every workload and every class of fault.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{FaultPlan, Trigger};

/// One in this many plans is in the sample, or more if the classes need it.
const ONE_OF: usize = 16;

/// The sample, ordered by name: one plan of every class, and more up to a fixed share.
#[must_use]
pub fn sample(plans: &[FaultPlan]) -> Vec<FaultPlan> {
    let mut by_hash: Vec<&FaultPlan> = plans.iter().collect();
    by_hash.sort_by_cached_key(|plan| (hash(&plan.name()), plan.name()));
    let mut seen = BTreeSet::new();
    let (mut chosen, rest): (Vec<&FaultPlan>, Vec<&FaultPlan>) =
        by_hash.into_iter().partition(|plan| {
            // The first plan of any class is chosen. All classes of a plan count as seen.
            classes_of(plan).into_iter().filter(|class| seen.insert(class.clone())).count() > 0
        });
    let more = (plans.len() / ONE_OF).saturating_sub(chosen.len());
    chosen.extend(rest.into_iter().take(more));
    chosen.sort_by_cached_key(|plan| plan.name());
    chosen.into_iter().cloned().collect()
}

/// The classes of a plan: each fault with its workload, and each fault with its trigger.
#[must_use]
pub fn classes_of(plan: &FaultPlan) -> BTreeSet<(String, &'static str)> {
    let is_pair = plan.faults.len() > 1;
    let classes = plan.faults.iter().flat_map(|fault| {
        let moment = match fault.at {
            Trigger::Write(_) => "a write",
            Trigger::Get(_) => "a read",
            Trigger::List(..) => "a list",
            Trigger::Event(..) => "an event",
            Trigger::Point(..) => "a point",
        };
        let moment = if is_pair { format!("{moment}, one of two") } else { moment.to_owned() };
        let label = fault.then.label();
        [(plan.workload.clone(), label), (moment, label)]
    });
    classes.collect()
}

/// The number of plans of each class.
#[must_use]
pub fn classes(plans: &[FaultPlan]) -> BTreeMap<(String, &'static str), usize> {
    let mut classes = BTreeMap::new();
    for class in plans.iter().flat_map(classes_of) {
        *classes.entry(class).or_default() += 1;
    }
    classes
}

/// FNV-1a, because it is the same on every machine and in every version of Rust.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::{FaultAction, Side};
    use super::*;

    #[test]
    fn sample_is_fixed_and_has_every_class() {
        let plan = |workload: &str, number| {
            let then = match number % 3 {
                0 => FaultAction::Twice,
                1 => FaultAction::Crash(Side::After),
                _ => FaultAction::Stale(40),
            };
            FaultPlan::one(workload, Trigger::Write(number), then, String::new())
        };
        let mut plans: Vec<FaultPlan> = (1..=300).map(|number| plan("web", number)).collect();
        plans.push(plan("rare", 3));
        let chosen = sample(&plans);
        assert_eq!(chosen.len(), plans.len() / ONE_OF);
        assert_eq!(
            classes(&chosen).keys().collect::<Vec<_>>(),
            classes(&plans).keys().collect::<Vec<_>>()
        );
        plans.reverse();
        assert_eq!(sample(&plans), chosen, "the sample does not depend on the order of the plans");
    }
}
