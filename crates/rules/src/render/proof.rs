//! The ownership proof: an HMAC over the identity of an object, which needs the key to create.
//!
//! A label can be copied to any object; the proof cannot, because it binds cluster, unit, kind,
//! namespace and name. The anchor's proof also binds the generation, so an anchor that is newer
//! than the database shows that the database was rolled back.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use trueup_model::id::ClusterId;
use trueup_model::key::ResourceKey;
use trueup_model::order::Unit;

/// Which derivation the key comes from; written into each proof so that keys can be rotated.
const KEY_ID: &str = "k1";

/// The key of one cluster, derived from the master key. It never leaves the process.
#[derive(Clone)]
pub struct ProofKey {
    /// For proofs: keyed, and with the cluster as the common prefix already added.
    proofs: Hmac<Sha256>,
    /// For digests of secrets.
    digests: Hmac<Sha256>,
    cluster: ClusterId,
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProofKey({}, …)", self.cluster)
    }
}

/// Derives 32 bytes for one purpose from the master key.
#[must_use]
pub fn derive(master: &[u8; 32], purpose: &[&str]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let info: Vec<&[u8]> = purpose.iter().flat_map(|part| [part.as_bytes(), b"\0"]).collect();
    Hkdf::<Sha256>::new(None, master)
        .expand_multi_info(&info, &mut bytes)
        .expect("32 bytes should be a valid length for HKDF with SHA-256");
    bytes
}

impl ProofKey {
    /// The key for a cluster.
    #[must_use]
    pub fn new(master: &[u8; 32], cluster: ClusterId) -> Self {
        let keyed = |purpose: &str| {
            Hmac::new_from_slice(&derive(master, &[purpose, &cluster.to_string()]))
                .expect("32 bytes should be a valid HMAC key")
        };
        let mut proofs: Hmac<Sha256> = keyed("proof");
        proofs.update(cluster.to_string().as_bytes());
        Self { proofs, digests: keyed("digest"), cluster }
    }

    /// A short keyed digest of a secret. It is readable by others, who cannot test guesses against
    /// it without the key.
    #[must_use]
    pub fn digest(&self, unit: Unit, secret: &[u8]) -> String {
        let mut mac = self.digests.clone();
        // Two services with the same secret have different digests.
        mac.update(unit.to_string().as_bytes());
        mac.update(b"\0");
        mac.update(secret);
        data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes()[..12])
    }

    /// The proof that this unit owns the object at this key.
    #[must_use]
    pub fn object(&self, unit: Unit, key: &ResourceKey) -> String {
        self.sign(&[&unit.to_string(), key.kind.as_str(), &key.namespace, &key.name])
    }

    /// The proof of an anchor, which binds the generation too.
    #[must_use]
    pub fn anchor(&self, unit: Unit, key: &ResourceKey, generation: i64) -> String {
        let generation = generation.to_string();
        let parts = [&unit.to_string(), key.kind.as_str(), &key.namespace, &key.name, &generation];
        format!("{}.{generation}", self.sign(&parts))
    }

    /// The generation that an anchor's proof binds, if the proof is valid.
    #[must_use]
    pub fn anchor_generation(&self, unit: Unit, key: &ResourceKey, proof: &str) -> Option<i64> {
        let generation: i64 = proof.split('.').nth(2)?.parse().ok()?;
        self.holds(unit, key, proof).then_some(generation)
    }

    /// Whether this annotation proves that the unit owns the object at this key.
    #[must_use]
    pub fn holds(&self, unit: Unit, key: &ResourceKey, annotation: &str) -> bool {
        // "k1.<mac>" for objects, "k1.<mac>.<generation>" for anchors.
        let expected = match annotation.split('.').nth(2) {
            Some(generation) => match generation.parse() {
                Ok(generation) => self.anchor(unit, key, generation),
                Err(_) => return false,
            },
            None => self.object(unit, key),
        };
        same(expected.as_bytes(), annotation.as_bytes())
    }

    /// The signed stamp of an object: the digest of its content and the generation it is written
    /// for.
    #[must_use]
    pub fn stamp(&self, unit: Unit, key: &ResourceKey, digest: &str, generation: i64) -> String {
        let generation = generation.to_string();
        let mac = self.sign(&[
            "stamp",
            &unit.to_string(),
            key.kind.as_str(),
            &key.namespace,
            &key.name,
            digest,
            &generation,
        ]);
        format!("{digest}.{generation}.{mac}")
    }

    /// The digest and generation of a stamp; `None` if its signature is not valid.
    #[must_use]
    pub fn stamped<'a>(
        &self,
        unit: Unit,
        key: &ResourceKey,
        stamp: &'a str,
    ) -> Option<(&'a str, i64)> {
        let (digest, rest) = stamp.split_once('.')?;
        let generation: i64 = rest.split_once('.')?.0.parse().ok()?;
        let expected = self.stamp(unit, key, digest, generation);
        same(expected.as_bytes(), stamp.as_bytes()).then_some((digest, generation))
    }

    fn sign(&self, parts: &[&str]) -> String {
        let mut mac = self.proofs.clone();
        for part in parts {
            // The length before each part makes the encoding unambiguous.
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part.as_bytes());
        }
        let tag = mac.finalize().into_bytes();
        format!("{KEY_ID}.{}", data_encoding::HEXLOWER.encode(&tag))
    }
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (x, y)| seen | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::ServiceId;
    use trueup_model::key::Kind;

    fn cluster(n: u128) -> ClusterId {
        ClusterId::from_uuid(uuid::Uuid::from_u128(n))
    }

    fn unit(n: u128) -> Unit {
        Unit::Service(ServiceId::from_uuid(uuid::Uuid::from_u128(n)))
    }

    #[test]
    fn a_proof_is_valid_only_for_its_object() {
        let key = ProofKey::new(&[7; 32], cluster(1));
        let here = ResourceKey::new(Kind::ConfigMap, "shop", "web-config");
        let proof = key.object(unit(1), &here);

        assert!(key.holds(unit(1), &here, &proof));
        assert!(!key.holds(unit(2), &here, &proof), "another unit");
        let there = ResourceKey::new(Kind::ConfigMap, "shop", "web-config2");
        assert!(!key.holds(unit(1), &there, &proof), "another name");
        let other = ProofKey::new(&[7; 32], cluster(2));
        assert!(!other.holds(unit(1), &here, &proof), "another cluster");
        let stranger = ProofKey::new(&[8; 32], cluster(1));
        assert!(!stranger.holds(unit(1), &here, &proof), "another master key");
        for forged in ["", "k1", "k1.", "k1..", "k1.00.1", "nonsense"] {
            assert!(!key.holds(unit(1), &here, forged), "{forged:?}");
        }
    }

    #[test]
    fn a_changed_stamp_is_not_valid() {
        let key = ProofKey::new(&[7; 32], cluster(1));
        let here = ResourceKey::new(Kind::ConfigMap, "shop", "web-config");
        let stamp = key.stamp(unit(1), &here, "abc", 4);
        assert_eq!(key.stamped(unit(1), &here, &stamp), Some(("abc", 4)));
        assert_eq!(key.stamped(unit(2), &here, &stamp), None, "another unit");
        for forged in [stamp.replace("abc", "abd"), stamp.replace(".4.", ".5."), "abc".to_owned()] {
            assert_eq!(key.stamped(unit(1), &here, &forged), None, "{forged}");
        }
        assert!(
            !key.holds(unit(1), &here, stamp.split_once(".4.").unwrap().1),
            "a stamp is no proof"
        );
    }

    #[test]
    fn an_anchors_proof_binds_its_generation() {
        let key = ProofKey::new(&[7; 32], cluster(1));
        let here = ResourceKey::new(Kind::ConfigMap, "shop", "web-anchor-1");
        let proof = key.anchor(unit(1), &here, 4);
        assert!(key.holds(unit(1), &here, &proof));
        assert!(!key.holds(unit(1), &here, &proof.replace(".4", ".5")));
    }
}
