//! How long repairs take that no request asked for: from the watch event that showed the change of
//! another writer to the report of the repair.
//!
//! The executor repairs by itself, so this is measured at its cluster client: for each object, when
//! its last watch event before Trueup's own write arrived.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trueup_model::key::ResourceKey;

/// Older watch events caused no repair.
const LATELY: Duration = Duration::from_secs(300);
/// How many objects are kept before older ones are dropped.
const MOST: usize = 10_000;

/// The last watch event of an object.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: Duration,
    /// The same when Trueup last wrote the object.
    before_write: Option<Duration>,
}

/// When objects were seen and written. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepairTimes {
    objects: Arc<Mutex<BTreeMap<ResourceKey, Seen>>>,
}

impl RepairTimes {
    /// A watch event of this object arrived.
    pub(crate) fn saw(&self, key: ResourceKey, now: Duration) {
        let mut objects = self.objects();
        if objects.len() >= MOST {
            objects.retain(|_, seen| now.saturating_sub(seen.at) <= LATELY);
        }
        if objects.len() < MOST || objects.contains_key(&key) {
            let seen = objects.entry(key).or_insert(Seen { at: now, before_write: None });
            seen.at = now;
        }
    }

    /// Trueup is about to write this object.
    pub(crate) fn writes(&self, key: &ResourceKey) {
        if let Some(seen) = self.objects().get_mut(key) {
            seen.before_write = Some(seen.at);
        }
    }

    /// How long the repair of these objects took, if it is known.
    pub(crate) fn repaired<'a>(
        &self,
        keys: impl Iterator<Item = &'a ResourceKey>,
        now: Duration,
    ) -> Option<Duration> {
        let mut objects = self.objects();
        let noticed = keys.filter_map(|key| objects.get_mut(key)?.before_write.take()).min()?;
        Some(now.saturating_sub(noticed)).filter(|took| *took <= LATELY)
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<ResourceKey, Seen>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use trueup_model::key::Kind;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_repair_is_measured_from_the_event_before_its_write() {
        let key = ResourceKey::new(Kind::Service, "shop", "web");
        let times = RepairTimes::default();
        assert_eq!(times.repaired([&key].into_iter(), s(1)), None, "it was never seen");
        times.saw(key.clone(), s(10));
        times.saw(key.clone(), s(20));
        times.writes(&key);
        // The event of the write itself does not count.
        times.saw(key.clone(), s(22));
        assert_eq!(times.repaired([&key].into_iter(), s(23)), Some(s(3)));
        assert_eq!(times.repaired([&key].into_iter(), s(24)), None, "it is measured once");
    }

    #[test]
    fn only_recent_events_are_kept() {
        let times = RepairTimes::default();
        for number in 0..=MOST {
            let key = ResourceKey::new(Kind::Service, "shop", &number.to_string());
            times.saw(key, s(0));
        }
        assert_eq!(times.objects().len(), MOST);
        times.saw(ResourceKey::new(Kind::Service, "shop", "late"), s(301));
        assert_eq!(times.objects().len(), 1);
    }
}
