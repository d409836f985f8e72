//! Adds secrets to an order. Plaintext is never in the database.

use std::mem;

use trueup_model::order::{Body, Order, Unit};
use trueup_model::secret::MasterKey;
use trueup_rules::envelope::Decryptor;
use trueup_rules::render::secret;

/// The order with all of its secrets; or which one cannot be decrypted, and why.
pub(crate) fn with_secrets(
    mut order: Order,
    master_key: &MasterKey,
    decryptor: &Decryptor,
) -> Result<Order, String> {
    let (Unit::Service(service), Body::Service(body)) = (order.unit, &mut order.body) else {
        return Ok(order);
    };
    let generated = &body.spec.generated_secrets;
    body.secrets = secret::generated(master_key.reveal(), service, generated);
    for (name, encrypted) in mem::take(&mut body.sealed) {
        let value = decryptor
            .open(&encrypted)
            .map_err(|error| format!("cannot decrypt the secret `{name}`: {error}"))?;
        body.secrets.insert(name, value);
    }
    Ok(order)
}
