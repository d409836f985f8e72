//! Invitations: create, list, revoke and accept.
//!
//! Accepting takes the code, which was sent to the invited address alone. Whoever has an account with this address
//! proves it with its password; anybody else creates it. A code that is used, revoked, expired or invented gets
//! one answer.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::Code;
use trueup_api::invitation::{
    Invitation, InvitationAcceptance, InvitationList, InvitationRequest, NewInvitation,
};
use trueup_api::preview::OrPreview;
use trueup_api::session::Session;
use trueup_model::invitation as model;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, PrincipalId, Role};
use trueup_model::user::{EmailAddress, check_name};
use trueup_rules::admit::FieldError;
use trueup_store::SignInAttempt;
use trueup_store::door::{Acceptance, Account, InvitationSpec, Refusal};

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::{self, Path};
use crate::front::problem::{Answer, Failure};
use crate::front::trace;
use crate::mail::InvitationMail;
use crate::member::{role_in, role_in_project};
use crate::password::weakness;
use crate::session::{SignInRequest, begin, wrong};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists the open invitations of the org, without their codes.
#[utoipa::path(get, path = "/v1/invitations", operation_id = "invitation_list", tag = "members",
    responses((status = 200, body = InvitationList)))]
pub(crate) async fn invitation_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<InvitationList>> {
    caller.must(Permission::ManageMembers)?;
    let open = state.app.list_invitations(caller.org, state.clock.now()).await?;
    Ok(Json(InvitationList { items: open.iter().map(view).collect() }))
}

/// Invites somebody by address; the code is shown only once. An earlier invitation of the address ends.
#[utoipa::path(post, path = "/v1/invitations", operation_id = "invitation_create", tag = "members",
    params(DryRun), request_body = InvitationRequest,
    extensions(("x-problems" = json!([Code::NameTaken]))),
    responses((status = 200, description = "a retry with the same key, without the code; or a preview",
               body = OrPreview<NewInvitation>),
              (status = 201, body = NewInvitation)))]
pub(crate) async fn invitation_create(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: wanted, key }: Keyed<InvitationRequest>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let project = wanted.project.as_deref();
    let role = match project {
        Some(_) => role_in_project(&wanted.role)?,
        None => role_in(&wanted.role)?,
    };
    belongs(role, change.org() == PLATFORM)?;
    let email = address(&wanted.email)?;
    let spec = InvitationSpec { email: &email, role, project };
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let created = change.app().create_invitation(org, &spec, &context, now).await?;
    let code = created.code.as_ref().filter(|_| !change.is_dry());
    if let Some(code) = code {
        change.state.mail.invite(&InvitationMail {
            id: created.row.id,
            to: &email,
            inviter: &change.caller().principal.name,
            org: &created.org_name,
            code,
            expires_at: created.row.expires_at,
        });
    }
    let shown = NewInvitation {
        invitation: view(&created.row),
        code: code.map(|code| code.reveal().to_owned()),
    };
    change.created(created.code.is_some(), &shown)
}

/// Revokes an open invitation.
#[utoipa::path(delete, path = "/v1/invitations/{invitation}", operation_id = "invitation_revoke",
    tag = "members",
    params(("invitation" = String, Path, description = "id (`ivt_…`)"), DryRun),
    responses((status = 200, description = "revoked, or a preview", body = OrPreview<Invitation>)))]
pub(crate) async fn invitation_revoke(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(invitation): Path<String>,
) -> Answer<Response> {
    change.must(Permission::ManageMembers)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let id = extract::id(&invitation);
    let revoked = change.app().revoke_invitation(org, id, &context, now).await?;
    change.done(true, &view(&revoked))
}

/// Accepts an invitation and signs in: the response sets the cookie of the session.
///
/// Somebody with an account of the invited address sends its password. Otherwise the account is created with
/// this name and password.
#[utoipa::path(post, path = "/v1/invitations/accept", operation_id = "invitation_accept", tag = "members",
    request_body = InvitationAcceptance, security(()),
    extensions(("x-problems" = json!([Code::TooManySignIns, Code::NameTaken]))),
    responses((status = 200, description = "accepted and signed in; sets the cookie", body = Session)))]
pub(crate) async fn invitation_accept(
    State(state): State<AppState>,
    request: SignInRequest,
    Body(wanted): Body<InvitationAcceptance>,
) -> Answer<Response> {
    let (code, now) = (wanted.code.reveal(), state.clock.now());
    let found = state.app.find_invitation(code, now).await?;
    let invitation = found.ok_or(Refusal::CodeNotValid)?;
    let email = &invitation.email;
    let user = if let Some(login) = state.app.find_login(Some(email)).await? {
        // The password of an account is guarded here as it is at a sign-in.
        let attempt = SignInAttempt::new(Some(email), &request.client);
        if !state.app.count_sign_in(&attempt, now).await? {
            return Err(Failure::too_many_sign_ins());
        }
        if !state.passwords.verify(wanted.password, login.password_hash).await? {
            state.app.refuse_sign_in(Some(login.user), trace::current(), now).await?;
            return Err(wrong());
        }
        state.app.forgive_sign_ins(&attempt).await?;
        let account = Account::Existing(login.user);
        let acceptance = Acceptance { invitation: &invitation, code, account };
        state.app.accept_invitation(&acceptance, trace::current(), now).await?
    } else {
        let name = wanted.name.unwrap_or_default();
        check_new(&name, &wanted.password, email)?;
        let password_hash = state.passwords.hash(wanted.password).await?;
        let account = Account::New { name: &name, password_hash: &password_hash };
        let acceptance = Acceptance { invitation: &invitation, code, account };
        state.app.accept_invitation(&acceptance, trace::current(), now).await?
    };
    begin(&state, PrincipalId::User(user), &request).await
}

/// Checks the name and the password of a new account; reports both errors at once.
pub(crate) fn check_new(
    name: &str,
    password: &trueup_model::secret::SecretValue,
    email: &EmailAddress,
) -> Answer<()> {
    let name_error = check_name(name)
        .err()
        .map(|error| FieldError { field: "name".to_owned(), message: error.to_string() });
    let weak = weakness(password, &[name, email.as_str(), "trueup"]);
    let errors: Vec<FieldError> = name_error.into_iter().chain(weak).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(errors)) }
}

/// Parses an address.
pub(crate) fn address(text: &str) -> Answer<EmailAddress> {
    text.parse().map_err(|error: trueup_model::user::EmailAddressError| {
        let (field, message) = ("email".to_owned(), error.to_string());
        Failure::invalid(vec![FieldError { field, message }])
    })
}

/// Checks that the org fits the role: roles of the platform have no org, all others have one.
pub(crate) fn belongs(role: Role, in_platform: bool) -> Answer<()> {
    if role.is_of_platform() == in_platform {
        return Ok(());
    }
    let detail = if in_platform {
        "name the org of the member in the header `Trueup-Org`"
    } else {
        "a role of the platform belongs to no org; only operators give it, without the header \
         `Trueup-Org`"
    };
    Err(Failure::new(Code::BadRequest, detail))
}

fn view(invitation: &model::Invitation) -> Invitation {
    Invitation {
        id: invitation.id.to_string(),
        email: invitation.email.clone(),
        role: invitation.role,
        project: invitation.project.clone(),
        created_at: invitation.created_at,
        expires_at: invitation.expires_at,
    }
}
