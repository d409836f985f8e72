//! Checkpoints of the event log: a position, its hash and a time, signed with a key of the install.
//!
//! The hash chain is public, so whoever can write the database can compute another chain. They cannot
//! sign: the key derives from the master key, which is never in the database. A checkpoint that
//! somebody kept proves everything up to its position.

use std::fmt;

use data_encoding::BASE64;
use jiff::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use trueup_model::OrgId;

use super::chain::Hash;
use crate::render::proof::derive;

/// Version of the signed text; part of what is signed.
const FORMAT: &str = "trueup checkpoint 1";

/// What the log of an org was at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The org.
    pub org: OrgId,
    /// The last position; 0 for an empty log.
    pub position: i64,
    /// The hash at that position.
    pub hash: Hash,
    /// When it was read.
    pub at: Timestamp,
}

impl Checkpoint {
    /// The signed text: a line for the format and for each field, the time in microseconds.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { org, position, hash, at } = self;
        format!("{FORMAT}\n{org}\n{position}\n{hash}\n{}\n", at.as_microsecond())
    }

    /// Whether this signature of it is by this public key.
    #[must_use]
    pub fn is_signed(&self, key: &PublicKey, signature: &str) -> bool {
        let Ok(signature) = BASE64.decode(signature.as_bytes()) else { return false };
        UnparsedPublicKey::new(&ED25519, &key.0).verify(self.text().as_bytes(), &signature).is_ok()
    }
}

/// A public key, written in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key that this text stands for.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        BASE64.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(&self.0))
    }
}

/// The key that signs checkpoints. It never leaves the process.
pub struct CheckpointKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl CheckpointKey {
    /// The key of an install. Every replica has the same one.
    #[must_use]
    pub fn new(master: &[u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&derive(master, &["audit-checkpoint"]))
            .expect("32 bytes should be a valid Ed25519 seed");
        let public = pair.public_key().as_ref().try_into().map(PublicKey);
        Self { public: public.expect("an Ed25519 public key should have 32 bytes"), pair }
    }

    /// The public key, which is published.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The signature of a checkpoint, in base64.
    #[must_use]
    pub fn sign(&self, checkpoint: &Checkpoint) -> String {
        BASE64.encode(self.pair.sign(checkpoint.text().as_bytes()).as_ref())
    }
}

impl fmt::Debug for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointKey({})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            org: OrgId::from_uuid(uuid::Uuid::from_u128(7)),
            position: 41,
            hash: Hash::from_bytes(&[9; 32]).unwrap(),
            at: Timestamp::from_second(1_800_000_000).unwrap(),
        }
    }

    #[test]
    fn signature_covers_every_field_and_only_the_own_key_makes_it() {
        let (key, signed) = (CheckpointKey::new(&[7; 32]), checkpoint());
        let (public, signature) = (key.public(), key.sign(&signed));
        assert!(signed.is_signed(&public, &signature));
        let other = Checkpoint { position: 42, ..signed };
        let others = [
            other,
            Checkpoint { org: OrgId::from_uuid(uuid::Uuid::from_u128(8)), ..signed },
            Checkpoint { hash: Hash::START, ..signed },
            Checkpoint { at: signed.at + std::time::Duration::from_micros(1), ..signed },
        ];
        for changed in others {
            assert!(!changed.is_signed(&public, &signature), "{changed:?}");
        }
        let stranger = CheckpointKey::new(&[8; 32]);
        assert!(!signed.is_signed(&public, &stranger.sign(&signed)));
        assert!(!signed.is_signed(&stranger.public(), &signature));
        for nonsense in ["", "AAAA", "not base64 !"] {
            assert!(!signed.is_signed(&public, nonsense));
        }
    }

    /// Other programs verify checkpoints, too: the text and the key never change.
    #[test]
    fn text_and_key_are_stable() {
        let expected = format!(
            "trueup checkpoint 1\norg_0000000000e008000000000000\n41\n{}\n1800000000000000\n",
            "09".repeat(32)
        );
        let text = checkpoint().text();
        let shape: Vec<&str> = text.lines().collect();
        let wanted: Vec<&str> = expected.lines().collect();
        assert_eq!((shape.len(), shape[0], &shape[2..]), (5, wanted[0], &wanted[2..]));
        let public = CheckpointKey::new(&[7; 32]).public();
        assert_eq!(PublicKey::parse(&public.to_string()), Some(public));
        assert_eq!(
            format!("{:?}", CheckpointKey::new(&[7; 32])),
            format!("CheckpointKey({public})")
        );
    }
}
