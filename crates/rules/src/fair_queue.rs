//! Whose turn it is: how a batch is shared among the lanes that have something waiting, and how long
//! something that did not work out waits before it is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use trueup_model::id::OrgId;
use trueup_model::order::Unit;
use trueup_model::org::PLATFORM;
use trueup_model::wake::Lane;

/// How many of sixteen turns a lane gets while every lane has something waiting.
const fn weight(lane: Lane) -> i64 {
    match lane {
        Lane::UserChange => 8,
        Lane::Delete => 4,
        Lane::Repair => 3,
        Lane::Sweep => 1,
    }
}

/// Remembers who had their turn. Lanes take turns by weight, and the orgs of a lane one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turns {
    credit: BTreeMap<Lane, i64>,
    last_org: BTreeMap<Lane, OrgId>,
}

impl Turns {
    /// Shares so many places among the lanes that have something waiting.
    ///
    /// Each place goes to the lane that is owed most. What is owed is remembered, so that a lane gets
    /// its share also when there is only one place at a time.
    pub fn share(&mut self, waiting: &[Lane], places: usize) -> BTreeMap<Lane, usize> {
        let mut shares = BTreeMap::new();
        // Who has nothing waiting saves nothing up.
        self.credit.retain(|lane, _| waiting.contains(lane));
        let total: i64 = waiting.iter().map(|lane| weight(*lane)).sum();
        for _place in 0..places {
            for lane in waiting {
                let credit = self.credit.entry(*lane).or_default();
                *credit = credit.saturating_add(weight(*lane));
            }
            let owed = |lane: &Lane| self.credit.get(lane).copied().unwrap_or(0);
            // The first of equals: `max_by_key` would take the last.
            let Some(next) = waiting.iter().rev().max_by_key(|lane| owed(lane)).copied() else {
                return shares;
            };
            let credit = self.credit.entry(next).or_default();
            *credit = credit.saturating_sub(total);
            let share: &mut usize = shares.entry(next).or_default();
            *share = share.saturating_add(1);
        }
        shares
    }

    /// The org of this lane that had the last turn; at first one that comes before all others.
    #[must_use]
    pub fn last_org(&self, lane: Lane) -> OrgId {
        self.last_org.get(&lane).copied().unwrap_or(PLATFORM)
    }

    /// Notes which org of this lane had the last turn.
    pub fn note_org(&mut self, lane: Lane, org: OrgId) {
        self.last_org.insert(lane, org);
    }
}

/// How long to wait after so many tries: twice as long each time up to `most`, less up to a quarter
/// that depends on who waits, so that what broke together does not come back together.
#[must_use]
pub fn backoff(least: Duration, most: Duration, tries: u32, who: Unit) -> Duration {
    let pause = least.saturating_mul(2_u32.saturating_pow(tries.min(16))).min(most);
    // The tail of an id is random; another try of the same one falls elsewhere.
    let id = match who {
        Unit::Project(id) => id.uuid(),
        Unit::Service(id) => id.uuid(),
        Unit::Org(id) => id.uuid(),
    };
    let spread = id.as_u128().wrapping_add(u128::from(tries).wrapping_mul(0x9E37_79B9));
    let part = u32::try_from(spread % 256).unwrap_or(0);
    pause.saturating_sub((pause / 4 / 256).saturating_mul(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::ServiceId;

    use Lane::{Delete, Repair, Sweep, UserChange};

    #[test]
    fn a_batch_is_shared_by_weight_and_nobody_gets_nothing() {
        let shares = Turns::default().share(&Lane::ALL, 64);
        let expected = [(UserChange, 32), (Delete, 16), (Repair, 12), (Sweep, 4)];
        assert_eq!(shares, BTreeMap::from(expected));
    }

    #[test]
    fn who_waits_alone_gets_everything() {
        assert_eq!(Turns::default().share(&[Sweep], 64), BTreeMap::from([(Sweep, 64)]));
        assert_eq!(Turns::default().share(&[], 64), BTreeMap::new());
    }

    #[test]
    fn one_place_at_a_time_is_shared_alike() {
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
    fn nothing_is_saved_up_while_nothing_waits() {
        let mut turns = Turns::default();
        for _round in 0..1000 {
            turns.share(&[UserChange], 1);
        }
        assert_eq!(turns.share(&[UserChange, Sweep], 9)[&UserChange], 8);
    }

    #[test]
    fn a_pause_doubles_up_to_the_most_and_spreads_by_a_quarter_at_most() {
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
        assert!(seen.len() > 500, "they should not come back together: {}", seen.len());
    }
}
