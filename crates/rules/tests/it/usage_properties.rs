//! Properties of usage: the same intervals whatever happens to the observations.

use jiff::SignedDuration;
use proptest::prelude::*;
use trueup_model::id::TransitionId;
use trueup_model::key::Kind;
use trueup_model::transition::{Size, Transition, What};
use trueup_model::usage::{GapPolicy, Meter, Span};
use trueup_rules::usage::{extended, hash};
use uuid::Uuid;

use crate::given::at;
use crate::seed;
use crate::usage_given::{Story, heard, plan, small, used};

/// A random life of a pod: each step is a choice and the seconds since the step before.
fn lived(steps: &[(u8, i64)]) -> (Story, i64) {
    let mut story = Story::with_pod();
    let mut now: i64 = 1;
    let (mut began, mut restarts, mut ready) = (None, 0, true);
    for (choice, wait) in steps {
        let before = now;
        now += *wait;
        match (choice, began) {
            (0 | 1, None) => {
                story.start("p1", restarts, now);
                began = Some(now);
                restarts += 1;
            }
            (0, Some(start)) => {
                story.end("p1", start, now);
                began = None;
            }
            (2, _) => {
                ready = !ready;
                story.ready("n1", ready, now);
            }
            (3, _) => {
                let size = Size { cpu_millis: 100 + u64::try_from(now).unwrap(), ..small() };
                story.add((Kind::Pod, "p1"), What::Sized(size), None, now);
            }
            (4, _) => {
                story.gone((Kind::Pod, "p1"), (wait % 2 == 0).then_some(before), now);
                break;
            }
            _ => {}
        }
    }
    (story, now)
}

fn steps() -> impl Strategy<Value = Vec<(u8, i64)>> {
    prop::collection::vec((prop_oneof![9 => 0..4_u8, 1 => Just(4_u8)], 1..90_i64), 0..24)
}

/// Every change again, by a second observer in the next epoch, and all of them in any order.
fn repeated() -> impl Strategy<Value = (Vec<(u8, i64)>, Vec<Transition>)> {
    steps().prop_flat_map(|steps| {
        let first = lived(&steps).0.transitions;
        let again = first.iter().cloned().map(|mut change| {
            change.id = TransitionId::from_uuid(Uuid::from_u128(change.id.uuid().as_u128() + 1000));
            change.observer = "observer-2".to_owned();
            change.epoch += 1;
            change.seen_at += SignedDuration::from_secs(7);
            change
        });
        let all: Vec<Transition> = first.iter().cloned().chain(again).collect();
        (Just(steps), Just(all).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(seed::cases(256))]

    /// P7: order, duplication and restarts do not matter.
    #[test]
    fn repeated_and_reordered_observations_give_the_same_intervals((steps, all) in repeated()) {
        let (story, now) = lived(&steps);
        let plans = [plan(0, "small", small(), None)];
        let once = used(&story.transitions, &plans, &heard(now), GapPolicy::Estimate);
        let again = used(&all, &plans, &heard(now), GapPolicy::Estimate);
        prop_assert_eq!(once, again);
    }

    /// P2: intervals do not overlap, and with the gap they cover the life without a hole.
    #[test]
    fn intervals_and_gaps_cover_a_life_exactly(steps in steps()) {
        let (story, now) = lived(&steps);
        let usage = used(&story.transitions, &[], &heard(now), GapPolicy::Free);
        let mut spans: Vec<_> = usage.intervals.iter()
            .filter(|one| one.meter == Meter::PodSeconds)
            .map(|one| one.span)
            .chain(usage.gaps.iter().map(|gap| gap.span))
            .collect();
        spans.sort_unstable();
        for (one, next) in spans.iter().zip(spans.iter().skip(1)) {
            prop_assert_eq!(one.until, next.from);
        }
        // What has just begun is empty until the next contact.
        let is_new = |one: &Span| one.from == at(now);
        prop_assert!(spans.iter().all(|one| one.micros() > 0 || is_new(one)));
        prop_assert!(spans.iter().all(|one| one.until <= at(now)));
    }

    /// An object that does not change needs no new row: contact extends what was computed before.
    #[test]
    fn contact_extends_what_was_computed_before(steps in steps(), silent in 0..1000_i64) {
        let (story, now) = lived(&steps);
        let later = heard(now + silent);
        let stored = used(&story.transitions, &[], &heard(now), GapPolicy::Free);
        let read: Vec<_> =
            stored.intervals.into_iter().map(|one| extended(one, &later)).collect();
        let again = used(&story.transitions, &[], &later, GapPolicy::Free);
        prop_assert_eq!(read, again.intervals);
    }

    /// After a crash at any point, what was closed is closed the same way.
    #[test]
    fn closed_intervals_never_change(steps in steps(), cut in any::<prop::sample::Index>()) {
        let (story, now) = lived(&steps);
        let prefix = &story.transitions[..=cut.index(story.transitions.len())];
        let seen = prefix.iter().map(|change| change.seen_at).max().unwrap();
        let heard_until = seen.duration_since(at(0)).as_secs();
        let before = used(prefix, &[], &heard(heard_until), GapPolicy::Free);
        let after = used(&story.transitions, &[], &heard(now), GapPolicy::Free);
        let hashes: Vec<_> = after.intervals.iter().map(hash::content).collect();
        for interval in before.intervals.iter().filter(|interval| !interval.open) {
            prop_assert!(hashes.contains(&hash::content(interval)), "{:?}", interval);
        }
    }
}
