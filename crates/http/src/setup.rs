//! Set-up: the first account of an install that began without demo data.

use axum::extract::State;
use axum::response::Response;
use trueup_api::session::Session;
use trueup_api::setup::SetupRequest;
use trueup_model::principal::PrincipalId;
use trueup_store::door::Account;

use crate::AppState;
use crate::front::body::Body;
use crate::front::problem::Answer;
use crate::front::trace;
use crate::invitation::{address, check_new};
use crate::session::{SignInRequest, begin};

/// Creates the first account, an operator of the platform, and signs in: the response sets the cookie.
///
/// The code is in the link that `trueup up` prints. It works once, and only while nobody has an account.
#[utoipa::path(post, path = "/v1/setup", operation_id = "setup_create", tag = "sessions",
    request_body = SetupRequest, security(()),
    responses((status = 200, description = "created and signed in; sets the cookie", body = Session)))]
pub(crate) async fn setup_create(
    State(state): State<AppState>,
    request: SignInRequest,
    Body(wanted): Body<SetupRequest>,
) -> Answer<Response> {
    let email = address(&wanted.email)?;
    check_new(&wanted.name, &wanted.password, &email)?;
    let password_hash = state.passwords.hash(wanted.password).await?;
    let first = Account::New { name: &wanted.name, password_hash: &password_hash };
    let (code, now) = (wanted.code.reveal(), state.clock.now());
    let user = state.app.set_up(code, &email, &first, trace::current(), now).await?;
    begin(&state, PrincipalId::User(user), &request).await
}
