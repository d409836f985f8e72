//! The verifier that Postgres stores for a password (SCRAM-SHA-256, RFC 7677).
//!
//! Whoever sets a password by its verifier never sends the password itself, so no log of statements
//! has it.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Postgres' own default.
const ITERATIONS: u32 = 4096;

/// The verifier of a password, which must be ASCII without control characters (others would need
/// normalising).
#[must_use]
pub fn verifier(password: &str, salt: &[u8; 16]) -> String {
    let salted = salted(password.as_bytes(), salt);
    let stored = Sha256::digest(mac(&salted, b"Client Key"));
    let server = mac(&salted, b"Server Key");
    let [salt, stored, server] = [&salt[..], &stored[..], &server[..]].map(|b| BASE64.encode(b));
    format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored}:{server}")
}

/// PBKDF2 with HMAC-SHA-256, for one block of output.
fn salted(password: &[u8], salt: &[u8; 16]) -> [u8; 32] {
    let mut round = mac(password, &[&salt[..], &1_u32.to_be_bytes()].concat());
    let mut all = round;
    for _ in 1..ITERATIONS {
        round = mac(password, &round);
        for (sum, byte) in all.iter_mut().zip(round) {
            *sum ^= byte;
        }
    }
    all
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677: what the client sends and the server answers follow from the verifier.
    #[test]
    fn verifier_proves_the_exchange_of_the_rfc() {
        let salt: [u8; 16] =
            BASE64.decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
        let verifier = verifier("pencil", &salt);
        let (head, keys) = verifier.rsplit_once('$').unwrap();
        assert_eq!(head, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==");
        let (stored, server) = keys.split_once(':').unwrap();
        let [stored, server] = [stored, server].map(|key| BASE64.decode(key.as_bytes()).unwrap());
        let message = b"n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = BASE64.encode(&mac(&server, message));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let proof = BASE64.decode(b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let key: Vec<u8> =
            proof.iter().zip(mac(&stored, message)).map(|(proof, mask)| proof ^ mask).collect();
        assert_eq!(Sha256::digest(&key).as_slice(), stored);
    }
}
