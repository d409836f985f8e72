//! Generated secrets: derived from the master key, so they are in no database and no backup.

use std::collections::BTreeMap;

use trueup_model::id::ServiceId;
use trueup_model::order::SecretValue;

use crate::render::proof::derive;

/// The values of a service's generated secrets: stable, and different for each service.
#[must_use]
pub fn generated(
    master: &[u8; 32],
    service: ServiceId,
    names: &[String],
) -> BTreeMap<String, SecretValue> {
    names
        .iter()
        .map(|name| {
            let bytes = derive(master, &["secret", &service.to_string(), name]);
            let text = data_encoding::BASE64URL_NOPAD.encode(&bytes);
            (name.clone(), SecretValue::new(text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_secret_is_stable_and_unique_to_its_service() {
        let (a, b) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
        let names = ["PASSWORD".to_owned(), "KEY".to_owned()];
        let of = |id, master: [u8; 32]| generated(&master, ServiceId::from_uuid(id), &names);
        assert_eq!(of(a, [1; 32]), of(a, [1; 32]));
        assert_ne!(of(a, [1; 32]), of(b, [1; 32]));
        assert_ne!(of(a, [1; 32]), of(a, [2; 32]));
        let values = of(a, [1; 32]);
        assert_ne!(values["PASSWORD"], values["KEY"]);
        assert_eq!(format!("{:?}", values["KEY"]), "SecretValue(…)");
    }
}
