//! Weighted fair queueing of wakes between lanes and orgs, and retry backoff with jitter.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::subject::Subject;
use trueup_model::wake::Lane;

/// How many of sixteen places a lane gets while every lane has wakes waiting.
const fn weight(lane: Lane) -> i64 {
    match lane {
        Lane::UserChange => 8,
        Lane::Delete => 4,
        Lane::Repair => 3,
        Lane::Sweep => 1,
    }
}

/// State of the queue: lanes are served by weight, and the orgs of a lane round-robin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turns {
    credit: BTreeMap<Lane, i64>,
    last_org: BTreeMap<Lane, OrgId>,
}

impl Turns {
    /// Shares places of a batch among the lanes that have wakes waiting.
    ///
    /// Each place goes to the lane with the most credit. Credit is kept between batches, so that a
    /// lane gets its share even with batches of one.
    pub fn share(&mut self, waiting: &[Lane], places: usize) -> BTreeMap<Lane, usize> {
        let mut shares = BTreeMap::new();
        // A lane without wakes keeps no credit.
        self.credit.retain(|lane, _| waiting.contains(lane));
        let total: i64 = waiting.iter().map(|lane| weight(*lane)).sum();
        for _place in 0..places {
            for lane in waiting {
                let credit = self.credit.entry(*lane).or_default();
                *credit = credit.saturating_add(weight(*lane));
            }
            let credit_of = |lane: &Lane| self.credit.get(lane).copied().unwrap_or(0);
            // On a tie, the first lane: `max_by_key` would take the last.
            let Some(next) = waiting.iter().rev().max_by_key(|lane| credit_of(lane)).copied()
            else {
                return shares;
            };
            let credit = self.credit.entry(next).or_default();
            *credit = credit.saturating_sub(total);
            let share: &mut usize = shares.entry(next).or_default();
            *share = share.saturating_add(1);
        }
        shares
    }

    /// The org of this lane that was served last; at first, one that sorts before all others.
    #[must_use]
    pub fn last_org(&self, lane: Lane) -> OrgId {
        self.last_org.get(&lane).copied().unwrap_or(PLATFORM)
    }

    /// Records which org of this lane was served last.
    pub fn note_org(&mut self, lane: Lane, org: OrgId) {
        self.last_org.insert(lane, org);
    }
}

/// Exponential backoff up to `most`, less a jitter of up to a quarter.
///
/// The jitter depends on the unit, so that units that failed together do not retry together.
#[must_use]
pub fn backoff(least: Duration, most: Duration, tries: u32, who: Unit) -> Duration {
    let pause = least.saturating_mul(2_u32.saturating_pow(tries.min(16))).min(most);
    // The tail of an id is random; each attempt of the same unit gets another jitter.
    let spread = Subject::from(who)
        .uuid()
        .as_u128()
        .wrapping_add(u128::from(tries).wrapping_mul(0x9E37_79B9));
    let part = u32::try_from(spread % 256).unwrap_or(0);
    pause.saturating_sub((pause / 4 / 256).saturating_mul(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::ServiceId;

    use Lane::{Delete, Repair, Sweep, UserChange};

    #[test]
    fn a_batch_is_shared_by_weight_and_no_lane_starves() {
        let shares = Turns::default().share(&Lane::ALL, 64);
        let expected = [(UserChange, 32), (Delete, 16), (Repair, 12), (Sweep, 4)];
        assert_eq!(shares, BTreeMap::from(expected));
    }

    #[test]
    fn a_lane_that_waits_alone_gets_the_whole_batch() {
        assert_eq!(Turns::default().share(&[Sweep], 64), BTreeMap::from([(Sweep, 64)]));
        assert_eq!(Turns::default().share(&[], 64), BTreeMap::new());
    }

    #[test]
    fn batches_of_one_are_shared_by_weight() {
        let mut turns = Turns::default();
        let mut got: BTreeMap<Lane, usize> = BTreeMap::new();
        for _round in 0..16 {
            for (lane, places) in turns.share(&Lane::ALL, 1) {
                *got.entry(lane).or_default() += places;
            }
        }
        assert_eq!(got, BTreeMap::from([(UserChange, 8), (Delete, 4), (Repair, 3), (Sweep, 1)]));
    }

    #[test]
    fn an_idle_lane_keeps_no_credit() {
        let mut turns = Turns::default();
        for _round in 0..1000 {
            turns.share(&[UserChange], 1);
        }
        assert_eq!(turns.share(&[UserChange, Sweep], 9)[&UserChange], 8);
    }

    #[test]
    fn backoff_doubles_to_its_maximum_with_a_jitter_of_a_quarter() {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(30));
        let mut seen = std::collections::BTreeSet::new();
        for who in 0..64 {
            for tries in 0..40 {
                let id = ServiceId::from_uuid(uuid::Uuid::from_u128(who * 7919));
                let pause = backoff(least, most, tries, Unit::Service(id));
                let full = Duration::from_secs(1 << tries.min(10)).min(most);
                assert!(pause <= full && pause >= full * 3 / 4, "{who} {tries} {pause:?}");
                seen.insert(pause);
            }
        }
        assert!(seen.len() > 500, "retries should be spread: {}", seen.len());
    }
}
