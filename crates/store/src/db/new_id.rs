//! New ids, keys and tokens: the only place in the crate that uses randomness.

use jiff::Timestamp;
use trueup_model::id::{Id, Noun, TokenId};
use trueup_model::secret::SecretValue;
use trueup_model::session::SessionSecret;
use trueup_model::token::TokenText;
use trueup_rules::envelope::Entropy;

/// A new id for an object created now.
pub(crate) fn new_id<N: Noun>(now: Timestamp) -> Id<N> {
    Id::from_parts(now, random())
}

/// Random bytes for one encryption.
pub(crate) fn entropy() -> Entropy {
    Entropy(random())
}

/// A new data key.
pub(crate) fn fresh_key() -> [u8; 32] {
    random()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system should have randomness");
    bytes
}

/// The secret of a new session, with 256 random bits.
pub(crate) fn new_session_secret() -> SessionSecret {
    SessionSecret::new(&data_encoding::BASE32_DNSSEC.encode(&random::<32>()))
}

/// A code for one use, with 256 random bits after this prefix.
#[must_use]
pub fn new_code(prefix: &str) -> SecretValue {
    format!("{prefix}{}", data_encoding::BASE32_DNSSEC.encode(&random::<32>())).into()
}

/// The salt of a new password's hash.
#[must_use]
pub fn new_salt() -> [u8; 16] {
    random()
}

/// A new token with its id. Its secret has 256 random bits, so a fast hash is enough.
#[must_use]
pub fn new_token(now: Timestamp) -> (TokenId, TokenText) {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).expect("the operating system should have randomness");
    let id = new_id(now);
    (id, TokenText::new(id, &data_encoding::BASE32_DNSSEC.encode(&secret)))
}
