//! Passwords: their hashes, and checking one against a hash.
//!
//! Argon2id. A stored hash names its own parameters, so that they can be raised later. The salt is an argument:
//! this crate has no randomness.

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

/// The longest password that is looked at: hashing a longer one would only cost time.
pub const MAX_PASSWORD: usize = 1024;

/// How much work one hash costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// How often it is filled.
    pub passes: u32,
}

impl Cost {
    /// What OWASP recommends for Argon2id on one thread.
    pub const RECOMMENDED: Self = Self { memory_kib: 19 * 1024, passes: 2 };
}

/// A hash cannot be computed: the parameters are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the password cannot be hashed")]
pub struct HashError;

/// The hash of a password, with its parameters and salt, as text.
///
/// # Errors
/// The cost is not valid.
pub fn hash(password: &str, salt: &[u8; 16], cost: Cost) -> Result<String, HashError> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, None).map_err(|_| HashError)?;
    let hashed = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_with_salt(password.as_bytes(), salt)
        .map_err(|_| HashError)?;
    Ok(hashed.to_string())
}

/// Whether a password has this hash. Takes the time that the hash's own parameters cost.
#[must_use]
pub fn verify(password: &str, stored: &str) -> bool {
    password.len() <= MAX_PASSWORD
        && Argon2::default().verify_password(password.as_bytes(), stored).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Cost = Cost { memory_kib: 8, passes: 1 };

    #[test]
    fn only_the_same_password_verifies() {
        let stored = hash("correct horse", &[7; 16], LEAST).unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=8,t=1,p=1$"), "{stored}");
        assert!(verify("correct horse", &stored));
        for wrong in ["", "correct horse ", "Correct horse", "correct", &"x".repeat(2000)] {
            assert!(!verify(wrong, &stored), "{wrong}");
        }
        assert!(!verify("correct horse", "not a hash"));
        assert_ne!(hash("correct horse", &[8; 16], LEAST).unwrap(), stored);
    }

    #[test]
    fn recommended_cost_is_what_the_library_recommends() {
        let (ours, theirs) = (Cost::RECOMMENDED, Params::default());
        assert_eq!(
            (ours.memory_kib, ours.passes, 1),
            (theirs.m_cost(), theirs.t_cost(), theirs.p_cost())
        );
        let stored = hash("x", &[0; 16], ours).unwrap();
        assert!(verify("x", &stored));
    }
}
