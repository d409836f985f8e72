//! A fixed part of all plans: the same in every run, with every workload and every sort of fault in it.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{FaultPlan, Trigger};

/// One plan of so many is in the sample, if that is more than one of each sort.
const ONE_OF: usize = 16;

/// The plans of a sample, in the order of their names: one of every sort, and more up to a fixed part of all.
#[must_use]
pub fn sample(plans: &[FaultPlan]) -> Vec<FaultPlan> {
    let mut by_hash: Vec<&FaultPlan> = plans.iter().collect();
    by_hash.sort_by_cached_key(|plan| (hash(&plan.name()), plan.name()));
    let mut seen = BTreeSet::new();
    let (mut chosen, rest): (Vec<&FaultPlan>, Vec<&FaultPlan>) =
        by_hash.into_iter().partition(|plan| {
            // A plan is the first of one of its sorts, or waits for its turn. All of its sorts are seen now.
            sorts(plan).into_iter().filter(|sort| seen.insert(sort.clone())).count() > 0
        });
    let more = (plans.len() / ONE_OF).saturating_sub(chosen.len());
    chosen.extend(rest.into_iter().take(more));
    chosen.sort_by_cached_key(|plan| plan.name());
    chosen.into_iter().cloned().collect()
}

/// What a plan is an example of: each fault in its workload, and each fault at its sort of moment.
#[must_use]
pub fn sorts(plan: &FaultPlan) -> BTreeSet<(String, &'static str)> {
    let is_pair = plan.faults.len() > 1;
    let sorts = plan.faults.iter().flat_map(|fault| {
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
    sorts.collect()
}

/// How many plans there are of each workload and each fault.
#[must_use]
pub fn classes(plans: &[FaultPlan]) -> BTreeMap<(String, &'static str), usize> {
    let mut classes = BTreeMap::new();
    for sort in plans.iter().flat_map(sorts) {
        *classes.entry(sort).or_default() += 1;
    }
    classes
}

/// FNV-1a: the same on every machine and in every version of Rust.
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
    fn sample_is_fixed_and_has_every_sort() {
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
        assert_eq!(sample(&plans), chosen, "whatever the order of the plans");
    }
}
