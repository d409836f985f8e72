//! A Kubernetes cluster that Trueup manages: reachability, routing and freshness of its watches.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::key::Kind;

/// Whether a cluster answers. Unreachable is not an error: it means Unknown and Deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[derive(Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reachability {
    /// Every watch is fresh.
    Reachable,
    /// It does not answer, or never has.
    Unreachable,
}

/// How a cluster is reached from outside: by public host names, and by the ports of its nodes. The
/// operator configures it per cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The parent gateway of HTTPRoutes; without one, hosts are routed by Ingress objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRef>,
    /// The ingress class; without one, the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_class: Option<String>,
    /// The only namespace allowed to connect to the port; without one, all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_namespace: Option<String>,
    /// The cert-manager ClusterIssuer for certificates; without one, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The host name or IP address at which the nodes are reached from outside, for endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// A reference to a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// When each kind's watch last had contact. Freshness belongs to the watch, not to the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// Last contact per kind; a kind that is missing was never listed.
    pub heard: BTreeMap<Kind, Timestamp>,
}

/// A watch without contact for longer than this is stale.
pub const STALE_AFTER_SECONDS: i64 = 45;

impl Freshness {
    /// All watched kinds, with the same time of last contact.
    #[must_use]
    pub fn all_at(heard: Timestamp) -> Self {
        let kinds = Kind::WATCHED.into_iter().chain(Kind::BESIDE);
        Self { heard: kinds.map(|kind| (kind, heard)).collect() }
    }

    /// Those of the kinds whose watch is stale or never had contact.
    #[must_use]
    pub fn silent(&self, kinds: &[Kind], now: Timestamp) -> Vec<Kind> {
        let is_silent = |kind: &&Kind| is_stale(self.heard.get(*kind).copied(), now);
        kinds.iter().filter(is_silent).copied().collect()
    }

    /// The oldest last contact over these kinds; none while one never had contact.
    #[must_use]
    pub fn oldest_of(&self, kinds: &[Kind]) -> Option<Timestamp> {
        let heard = kinds.iter().map(|kind| self.heard.get(kind).copied());
        heard.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// The oldest last contact over all watched kinds; none while one never had contact.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        self.oldest_of(&Kind::WATCHED)
    }

    /// The newest last contact of any kind.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.heard.values().copied().max()
    }
}

/// Until when a watch with its last contact at `heard` is fresh; after that it is stale.
#[must_use]
pub fn stale_at(heard: Timestamp) -> Timestamp {
    let limit = SignedDuration::from_secs(STALE_AFTER_SECONDS);
    heard.checked_add(limit).unwrap_or(Timestamp::MAX)
}

/// Whether a watch with its last contact at `heard` is stale at `now`.
#[must_use]
pub fn is_stale(heard: Option<Timestamp>, now: Timestamp) -> bool {
    heard.is_none_or(|heard| now > stale_at(heard))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn watch_is_stale_only_after_the_limit() {
        assert!(is_stale(None, at(0)), "never had contact");
        assert!(!is_stale(Some(at(0)), at(STALE_AFTER_SECONDS)));
        assert!(is_stale(Some(at(0)), at(STALE_AFTER_SECONDS + 1)));
        let just_after = stale_at(at(0)).checked_add(SignedDuration::from_millis(1)).unwrap();
        assert!(is_stale(Some(at(0)), just_after), "exactly when it was announced");
        assert!(!is_stale(Some(at(9)), at(0)), "a clock that went back makes no watch stale");
    }

    #[test]
    fn stale_kind_is_reported_beside_fresh_ones() {
        let mut freshness = Freshness::all_at(at(100));
        let kinds = [Kind::Pod, Kind::ConfigMap];
        assert!(freshness.silent(&kinds, at(100)).is_empty());
        freshness.heard.insert(Kind::Pod, at(100 - STALE_AFTER_SECONDS - 1));
        assert_eq!(freshness.silent(&kinds, at(100)), [Kind::Pod]);
        freshness.heard.remove(&Kind::ConfigMap);
        assert_eq!(freshness.silent(&kinds, at(100)), kinds);
    }

    #[test]
    fn cluster_freshness_is_that_of_its_stalest_kind() {
        let mut freshness = Freshness::default();
        for (kind, second) in Kind::WATCHED.into_iter().zip(100..) {
            assert_eq!(freshness.oldest(), None, "{kind} never had contact");
            freshness.heard.insert(kind, at(second));
        }
        assert_eq!(freshness.oldest(), Some(at(100)));
        let (first, second) = (Kind::WATCHED[0], Kind::WATCHED[1]);
        assert_eq!(freshness.oldest_of(&[second]), Some(at(101)), "other kinds do not count");
        assert_eq!(freshness.oldest_of(&[second, first]), Some(at(100)));
        assert_eq!(freshness.oldest_of(&[]), None);
        let last = i64::try_from(Kind::WATCHED.len()).unwrap() - 1;
        assert_eq!(freshness.newest(), Some(at(100 + last)));
    }
}
