//! The facts about what a sweep found, for the stored form of events.

use trueup_model::event::{Fact, FindingClosed, FindingKept, FindingRemovalRequested};
use trueup_model::key::{Kind, ResourceKey};

/// The facts about what a sweep found.
pub(crate) fn after_finding(fact: &Fact) -> Option<Fact> {
    let key = ResourceKey::new(Kind::ConfigMap, "shop", "left");
    Some(match fact {
        Fact::FindingOpened(_) => Fact::FindingRemovalRequested(FindingRemovalRequested {
            key,
            principal: "operator".to_owned(),
        }),
        Fact::FindingRemovalRequested(_) => {
            Fact::FindingKept(FindingKept { key, why: "it changed since it was seen".to_owned() })
        }
        Fact::FindingKept(_) => {
            Fact::FindingClosed(FindingClosed { key, why: "removed by operator".to_owned() })
        }
        _ => return None,
    })
}
