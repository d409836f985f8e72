//! A Kubernetes cluster that Trueup looks after, and how well it can be seen.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::key::Kind;

/// Whether a cluster answers. Unreachable is not an error: it means Unknown and Deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reachability {
    /// Every watch is fresh.
    Reachable,
    /// It was seen before and does not answer now, or was never seen.
    Unreachable,
}

/// How the world's host names come into a cluster. The operator says it once per cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The gateway that routes hang from; without one, hosts are Ingress objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRef>,
    /// Which ingress controller takes them; without one, the cluster's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<String>,
    /// The namespace that connections come from; without one, the walls are open for the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_namespace: Option<String>,
    /// Who signs certificates: a ClusterIssuer of cert-manager; without one, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// Which gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayRef {
    /// Where it stands.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

/// When each kind was last heard of. Freshness belongs to the watch, not to the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Last contact per kind; a kind that is missing was never listed.
    pub heard: BTreeMap<Kind, Timestamp>,
}

/// A watch that has been silent for longer than this proves nothing any more.
pub const STALE_AFTER_SECONDS: i64 = 45;

impl Freshness {
    /// Every kind that is followed, heard at one time.
    #[must_use]
    pub fn all_at(heard: Timestamp) -> Self {
        let kinds = Kind::WATCHED.into_iter().chain(Kind::BESIDE);
        Self { heard: kinds.map(|kind| (kind, heard)).collect() }
    }

    /// Those of the kinds that have been silent for too long, or were never heard.
    #[must_use]
    pub fn silent(&self, kinds: &[Kind], now: Timestamp) -> Vec<Kind> {
        let is_silent = |kind: &&Kind| is_stale(self.heard.get(*kind).copied(), now);
        kinds.iter().filter(is_silent).copied().collect()
    }

    /// The oldest last contact over all watched kinds, or nothing while one was never heard.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let heard = Kind::WATCHED.iter().map(|kind| self.heard.get(kind).copied());
        heard.collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// Whether something last heard at `heard` still counts at `now`.
#[must_use]
pub fn is_stale(heard: Option<Timestamp>, now: Timestamp) -> bool {
    heard.is_none_or(|heard| now.duration_since(heard).as_secs() > STALE_AFTER_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn silence_is_stale_only_after_its_time() {
        assert!(is_stale(None, at(0)), "never heard");
        assert!(!is_stale(Some(at(0)), at(STALE_AFTER_SECONDS)));
        assert!(is_stale(Some(at(0)), at(STALE_AFTER_SECONDS + 1)));
        assert!(!is_stale(Some(at(9)), at(0)), "a clock that went back proves no silence");
    }

    #[test]
    fn a_silent_kind_is_not_hidden_by_others_that_are_heard() {
        let mut freshness = Freshness::all_at(at(100));
        let kinds = [Kind::Pod, Kind::ConfigMap];
        assert!(freshness.silent(&kinds, at(100)).is_empty());
        freshness.heard.insert(Kind::Pod, at(100 - STALE_AFTER_SECONDS - 1));
        assert_eq!(freshness.silent(&kinds, at(100)), [Kind::Pod]);
        freshness.heard.remove(&Kind::ConfigMap);
        assert_eq!(freshness.silent(&kinds, at(100)), kinds);
    }

    #[test]
    fn a_cluster_is_as_fresh_as_its_quietest_kind() {
        let mut freshness = Freshness::default();
        for (kind, second) in Kind::WATCHED.into_iter().zip(100..) {
            assert_eq!(freshness.oldest(), None, "{kind} was never heard");
            freshness.heard.insert(kind, at(second));
        }
        assert_eq!(freshness.oldest(), Some(at(100)));
    }
}
