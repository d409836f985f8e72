//! Ciphertexts decrypt only with the right key and at the right place (S42).

use trueup_model::id::{IdentityId, OrgId, ProjectId, ProviderId, ServiceId};
use trueup_model::order::SecretValue;
use trueup_model::provider::{CredentialKind, EncryptedCredential};
use trueup_model::secret::{EncryptedSecret, Place, WrappedKey};
use trueup_model::variable::Scope;
use trueup_rules::envelope::{Entropy, EnvelopeError, Keyring, SharedKeyring};
use uuid::Uuid;

use crate::given;

const MASTER: [u8; 32] = given::MASTER;
const VALUE: &str = "correct horse battery staple";

type Change = fn(&mut Place, Uuid);

fn scope() -> Scope {
    Scope { org: given::org(), project: given::project(), service: None }
}

fn place() -> Place {
    Place { scope: scope(), name: "API_KEY".parse().unwrap(), version: 3 }
}

fn keys() -> Keyring {
    Keyring::new(&MASTER)
}

fn org_key(keys: &Keyring, org: OrgId, fresh: u8) -> WrappedKey {
    keys.clone().encryptor().new_org_key(org, &[fresh; 32], Entropy([1; 12])).unwrap()
}

fn encrypted() -> EncryptedSecret {
    let org_key = org_key(&keys(), given::org(), 9);
    let value = SecretValue::new(VALUE.to_owned());
    let encryptor = keys().encryptor();
    let sealed = encryptor.seal(&org_key, &place(), &value, Entropy([2; 12])).unwrap();
    EncryptedSecret { place: place(), sealed, org_key: Some(org_key) }
}

fn wrapped(secret: &EncryptedSecret) -> WrappedKey {
    secret.org_key.clone().unwrap()
}

#[test]
fn an_encrypted_secret_decrypts_and_reveals_nothing() {
    let secret = encrypted();
    assert_eq!(keys().decryptor().open(&secret).unwrap().reveal(), VALUE);
    let shown = format!("{secret:?} {:?} {:?}", keys(), keys().decryptor());
    assert!(
        !shown.contains(VALUE) && !shown.contains("[7, 7") && !shown.contains("9, 9"),
        "{shown}"
    );
    assert_eq!(secret.sealed.bytes.len(), VALUE.len() + 16, "only the length can be seen");
    let clear = VALUE.as_bytes();
    assert!(!secret.sealed.bytes.windows(clear.len()).any(|window| window == clear));
}

#[test]
fn a_ciphertext_moved_to_another_place_is_not_decrypted() {
    let other = Uuid::from_u128(99);
    let elsewhere: [(&str, Change); 6] = [
        ("org", |place, id| place.scope.org = OrgId::from_uuid(id)),
        ("project", |place, id| place.scope.project = ProjectId::from_uuid(id)),
        ("service", |place, id| place.scope.service = Some(ServiceId::from_uuid(id))),
        ("name", |place, _| place.name = "API_KEY2".parse().unwrap()),
        ("older version", |place, _| place.version = 2),
        ("newer version", |place, _| place.version = 4),
    ];
    for (what, change) in elsewhere {
        let mut secret = encrypted();
        change(&mut secret.place, other);
        let opened = keys().decryptor().open(&secret);
        assert_eq!(opened, Err(EnvelopeError::DoesNotOpen), "another {what}");
    }
}

#[test]
fn the_key_of_another_org_decrypts_nothing() {
    let theirs = OrgId::from_uuid(Uuid::from_u128(99));
    let mut secret = encrypted();
    // Their key of the same installation with our ciphertext.
    secret.org_key = Some(org_key(&keys(), theirs, 5));
    assert_eq!(keys().decryptor().open(&secret), Err(EnvelopeError::DoesNotOpen));
    // Their ciphertext and their key, copied into our row.
    let mut place = place();
    place.scope.org = theirs;
    let value = SecretValue::new(VALUE.to_owned());
    let org_key = org_key(&keys(), theirs, 5);
    let sealed = keys().encryptor().seal(&org_key, &place, &value, Entropy([2; 12])).unwrap();
    let swapped = EncryptedSecret { place: self::place(), sealed, org_key: Some(org_key) };
    assert_eq!(keys().decryptor().open(&swapped), Err(EnvelopeError::DoesNotOpen));
}

#[test]
fn one_flipped_bit_prevents_decryption() {
    let secret = encrypted();
    for bit in 0..secret.sealed.bytes.len() * 8 {
        let mut changed = secret.clone();
        changed.sealed.bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(keys().decryptor().open(&changed), Err(EnvelopeError::DoesNotOpen), "bit {bit}");
    }
    for length in 0..secret.sealed.bytes.len() {
        let mut cut = secret.clone();
        cut.sealed.bytes.truncate(length);
        assert_eq!(
            keys().decryptor().open(&cut),
            Err(EnvelopeError::DoesNotOpen),
            "cut at {length}"
        );
    }
    let mut nonce = secret.clone();
    nonce.sealed.nonce[0] ^= 1;
    assert_eq!(keys().decryptor().open(&nonce), Err(EnvelopeError::DoesNotOpen));
    let mut key = secret;
    key.org_key.as_mut().unwrap().sealed.bytes[0] ^= 1;
    assert_eq!(keys().decryptor().open(&key), Err(EnvelopeError::DoesNotOpen));
    key.org_key = None;
    assert_eq!(keys().decryptor().open(&key), Err(EnvelopeError::NoOrgKey));
}

#[test]
fn a_wrong_or_missing_installation_key_fails_closed() {
    let wrong = Keyring::new(&[8; 32]);
    assert_eq!(wrong.clone().decryptor().open(&encrypted()), Err(EnvelopeError::DoesNotOpen));
    let value = SecretValue::new(VALUE.to_owned());
    let sealing =
        wrong.encryptor().seal(&wrapped(&encrypted()), &place(), &value, Entropy([3; 12]));
    assert_eq!(sealing, Err(EnvelopeError::DoesNotOpen), "nor does it encrypt");

    let rotated = keys().with(2, &[4; 32]);
    let mut secret = encrypted();
    secret.org_key =
        Some(rotated.rewrap(given::org(), &wrapped(&secret), Entropy([5; 12])).unwrap());
    assert_eq!(keys().decryptor().open(&secret), Err(EnvelopeError::MissingKey { key: 2 }));
    let other = keys().with(2, &[6; 32]);
    assert_eq!(other.decryptor().open(&secret), Err(EnvelopeError::DoesNotOpen));
    // A wrong key number does not decrypt.
    secret.org_key.as_mut().unwrap().key = 1;
    assert_eq!(rotated.decryptor().open(&secret), Err(EnvelopeError::DoesNotOpen));
}

#[test]
fn during_a_rotation_old_and_new_keys_decrypt() {
    let rotated = keys().with(2, &[4; 32]);
    assert_eq!(rotated.newest(), 2);
    let before = encrypted();
    let mut after = before.clone();
    after.org_key =
        Some(rotated.rewrap(given::org(), &wrapped(&before), Entropy([5; 12])).unwrap());
    assert_eq!((wrapped(&before).key, wrapped(&after).key), (1, 2));
    let decryptor = rotated.clone().decryptor();
    for secret in [&before, &after] {
        assert_eq!(decryptor.open(secret).unwrap().reveal(), VALUE);
    }
    // Rotating again changes nothing.
    let again = Some(rotated.rewrap(given::org(), &wrapped(&after), Entropy([6; 12])).unwrap());
    assert_eq!(
        decryptor.open(&EncryptedSecret { org_key: again, ..after }).unwrap().reveal(),
        VALUE
    );
}

#[test]
fn the_same_value_has_different_ciphertexts_per_version() {
    let first = encrypted();
    let value = SecretValue::new(VALUE.to_owned());
    let mut next = place();
    next.version = 4;
    // Even with the same nonce: each version has a key of its own.
    let second =
        keys().encryptor().seal(&wrapped(&first), &next, &value, Entropy([2; 12])).unwrap();
    assert_ne!(first.sealed.bytes, second.bytes);
}

#[test]
fn key_that_appears_is_used_at_once_and_the_others_stay() {
    let shared = SharedKeyring::new(keys());
    let (encryptor, decryptor) = (shared.encryptor(), shared.decryptor());
    let before = encrypted();
    let rotated = keys().with(2, &[4; 32]);
    let mut after = encrypted();
    after.org_key =
        Some(rotated.rewrap(given::org(), &wrapped(&before), Entropy([5; 12])).unwrap());
    assert_eq!(decryptor.open(&after), Err(EnvelopeError::MissingKey { key: 2 }));

    shared.update(rotated.clone());
    assert_eq!(decryptor.open(&after).unwrap().reveal(), VALUE);
    assert_eq!(decryptor.open(&before).unwrap().reveal(), VALUE);
    let new = encryptor.new_org_key(given::org(), &[3; 32], Entropy([1; 12])).unwrap();
    assert_eq!(new.key, 2, "the newest key encrypts");
    // A file that is gone does not make anything unreadable while the process runs.
    shared.update(keys());
    assert_eq!(shared.current(), rotated);
}

/// A credential of a provider opens for that provider alone, and is no secret of a service.
#[test]
fn a_credential_moved_to_another_owner_is_not_decrypted() {
    let id = Uuid::from_u128(5);
    let kind = CredentialKind::ClientSecret(ProviderId::from_uuid(id));
    let (org, org_key) = (given::org(), org_key(&keys(), given::org(), 9));
    let value = SecretValue::new(VALUE.to_owned());
    let encryptor = keys().encryptor();
    let sealed = encryptor.seal_credential(org, &org_key, kind, &value, Entropy([3; 12])).unwrap();
    let of = |kind, org| {
        let (sealed, org_key) = (sealed.clone(), Some(org_key.clone()));
        keys().decryptor().open_credential(&EncryptedCredential { org, kind, sealed, org_key })
    };
    assert_eq!(of(kind, org).unwrap().reveal(), VALUE);
    let other = ProviderId::from_uuid(Uuid::from_u128(6));
    for elsewhere in [
        CredentialKind::ClientSecret(other),
        CredentialKind::RefreshToken(IdentityId::from_uuid(id)),
    ] {
        assert_eq!(of(elsewhere, org), Err(EnvelopeError::DoesNotOpen), "{elsewhere:?}");
    }
    let theirs = OrgId::from_uuid(Uuid::from_u128(99));
    assert_eq!(of(kind, theirs), Err(EnvelopeError::DoesNotOpen));
    let gone = EncryptedCredential { org, kind, sealed, org_key: None };
    assert_eq!(keys().decryptor().open_credential(&gone), Err(EnvelopeError::NoOrgKey));
}
