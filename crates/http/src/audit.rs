//! Checkpoints: the head of an org's event log, signed.

use axum::Json;
use axum::extract::State;
use trueup_api::audit::{Checkpoint, CheckpointKey};
use trueup_model::principal::Permission;
use trueup_rules::event::checkpoint;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::problem::Answer;

/// Signs a checkpoint of the org's event log as it is now.
#[utoipa::path(get, path = "/v1/audit/checkpoint", operation_id = "audit_checkpoint", tag = "events",
    responses((status = 200, body = Checkpoint)))]
pub(crate) async fn audit_checkpoint(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<Checkpoint>> {
    caller.must(Permission::Read)?;
    let (position, hash) = state.app.last_seal(caller.org).await?;
    let signed = checkpoint::Checkpoint { org: caller.org, position, hash, at: state.clock.now() };
    Ok(Json(Checkpoint {
        orgid: signed.org.to_string(),
        sequence: position.to_string(),
        hash: hash.to_string(),
        time: signed.at,
        key: state.checkpoints.public().to_string(),
        signature: state.checkpoints.sign(&signed),
    }))
}

/// Shows the public key of this install's checkpoints.
#[utoipa::path(get, path = "/v1/audit/key", operation_id = "audit_key", tag = "events",
    responses((status = 200, body = CheckpointKey)))]
pub(crate) async fn audit_key(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<CheckpointKey>> {
    caller.must(Permission::Read)?;
    let key = state.checkpoints.public().to_string();
    Ok(Json(CheckpointKey { algorithm: "ed25519".to_owned(), key }))
}
