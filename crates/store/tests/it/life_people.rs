//! Data for `life.rs` about people, which schema 25 cannot store.

use jiff::SignedDuration;
use trueup_model::domain::DnsResult;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Principal, PrincipalId, Role};
use trueup_model::provider::{Authorization, Claims, GroupRole, IdentityEnd, ProviderSpec};
use trueup_model::token::TokenSpec;
use trueup_rules::envelope::Keyring;
use trueup_store::SignInAttempt;
use trueup_store::door::{
    Acceptance, Account, InvitationSpec, ProviderRequest, ProviderSignIn, RequestContext,
};

use crate::life::TOKEN;
use crate::stage::{PROJECT, Stage, at};

/// Users who signed in and out, one who failed to, and a former member.
pub(crate) async fn people(stage: &Stage) {
    let (app, org) = (&stage.db.app, stage.db.org);
    let ada = stage.db.user("ada@example.com", Role::Admin, org).await;
    let former = stage.db.user("former@example.com", Role::Viewer, org).await;
    stage.db.user("op@example.com", Role::Operator, PLATFORM).await;
    let principal = Principal { id: PrincipalId::User(ada), ..stage.principal.clone() };
    let context = RequestContext::new(&principal, None);
    let first = app.sign_in(principal.id, None, &context, at(94)).await.unwrap();
    app.sign_in(principal.id, Some(first.session.id), &context, at(95)).await.unwrap();
    let token = app.authenticate(TOKEN, at(95)).await.unwrap().unwrap();
    app.sign_in(token.id, None, &RequestContext::new(&token, None), at(95)).await.unwrap();
    let attempt = SignInAttempt::new(Some(&"ada@example.com".parse().unwrap()), "192.0.2.1");
    assert!(app.count_sign_in(&attempt, at(96)).await.unwrap());
    app.refuse_sign_in(Some(ada), None, at(96)).await.unwrap();
    let spec = TokenSpec {
        name: "of ada".to_owned(),
        role: Role::Viewer,
        project: None,
        permissions: None,
        expires_at: None,
    };
    app.create_token(org, &spec, &context, at(96)).await.unwrap();
    let shop = app.find_project(org, PROJECT).await.unwrap().unwrap().project.id;
    let of_shop = TokenSpec { name: "of shop".to_owned(), project: Some(shop), ..spec };
    app.create_token(org, &of_shop, &context, at(96)).await.unwrap();
    let of = ("ada@example.com", PROJECT);
    app.put_project_role(org, of, Role::Developer, &context, at(96)).await.unwrap();
    app.delete_project_role(org, of, &context, at(96)).await.unwrap();
    app.put_project_role(org, of, Role::Viewer, &context, at(96)).await.unwrap();
    sqlx::query("update memberships set removed_at = created_at where user_id = $1")
        .bind(former.uuid())
        .execute(&stage.owner)
        .await
        .unwrap();
    invitations(stage).await;
    providers(stage).await;
}

/// A provider with a proved domain, somebody whom it vouches for, a former one, and a sign-in that has not ended.
async fn providers(stage: &Stage) {
    let (app, org, now) = (&stage.db.app, stage.db.org, at(98));
    let encryptor = Keyring::new(&[7; 32]).encryptor();
    let owner = stage.db.owner();
    let context = RequestContext::new(&owner, None);
    let (name, secret) = ("okta".parse().unwrap(), "the secret of a client".to_owned().into());
    let spec = ProviderSpec {
        issuer: "https://id.example.com".to_owned(),
        client_id: "trueup".to_owned(),
        domains: vec!["example.com".parse().unwrap(), "example.org".parse().unwrap()],
        groups_claim: "groups".to_owned(),
        groups: vec![GroupRole { group: "dev".to_owned(), role: Role::Developer }],
        enabled: true,
        outage_minutes: 60,
    };
    let (secret, encryptor) = (Some(&secret), &encryptor);
    let request = ProviderRequest { name: &name, spec: &spec, secret, encryptor };
    let provider = app.put_provider(org, &request, &context, now).await.unwrap().row;
    let former = "former".parse().unwrap();
    let request = ProviderRequest { name: &former, secret: None, ..request };
    app.put_provider(org, &request, &context, now).await.unwrap();
    app.delete_provider(org, "former", &context, now).await.unwrap();
    let due = stage.db.worker.claim_provider_domains(2, at(120)).await.unwrap();
    let [proved, other] = due.as_slice() else { panic!("{due:?}") };
    assert!(app.record_provider_domain(org, proved.domain, at(121)).await.unwrap());
    let (result, worker) = (DnsResult::Nothing, &stage.db.worker);
    worker.record_provider_dns_check(other, result, "no TXT record yet", at(121)).await.unwrap();
    let email = format!("grace.hopper@{}", proved.host).parse().unwrap();
    let connection = app.find_provider_of(&email).await.unwrap().unwrap();
    for subject in ["1", "2"] {
        let claims = Claims {
            subject: subject.to_owned(),
            email: Some(format!("of.provider{subject}@{}", proved.host)),
            email_verified: true,
            name: None,
            groups: vec!["dev".to_owned()],
            refresh_token: Some("refresh".to_owned().into()),
        };
        let (provider, former) = (provider.id, None);
        let entry = ProviderSignIn { org, provider, claims: &claims, former, encryptor };
        app.sign_in_with_provider(&entry, None, at(122)).await.unwrap();
    }
    let due = worker.claim_confirmations(2, at(1000)).await.unwrap();
    let [stays, goes] = due.as_slice() else { panic!("{due:?}") };
    let again = SignedDuration::from_secs(30);
    assert!(worker.note_provider_failure(stays, "no answer", again, at(1000)).await.unwrap());
    let reason = IdentityEnd::Refused;
    assert!(app.end_identity(org, goes.identity, reason, "invalid_grant", at(1001)).await.unwrap());
    let authorization = Authorization {
        url: "https://id.example.com/auth".to_owned(),
        state: "state".to_owned().into(),
        nonce: "nonce".to_owned().into(),
        verifier: "verifier".to_owned().into(),
    };
    app.keep_provider_sign_in(&connection, &authorization, at(1001)).await.unwrap();
}

/// Invitations that are open, revoked and accepted, and a used code of the set-up.
async fn invitations(stage: &Stage) {
    let (app, org, now) = (&stage.db.app, stage.db.org, at(97));
    let owner = stage.db.user("owner@example.com", Role::Owner, org).await;
    let principal = Principal { id: PrincipalId::User(owner), ..stage.principal.clone() };
    let context = RequestContext::new(&principal, None);
    let mut last = None;
    for email in ["open@example.com", "revoked@example.com", "accepted@example.com"] {
        let project = email.starts_with("open").then_some(PROJECT);
        let role = if project.is_some() { Role::Viewer } else { Role::Billing };
        let spec = InvitationSpec { email: &email.parse().unwrap(), role, project };
        let made = app.create_invitation(org, &spec, &context, now).await.unwrap();
        if email.starts_with("revoked") {
            app.revoke_invitation(org, made.row.id, &context, now).await.unwrap();
        }
        last = made.code;
    }
    let code = last.unwrap();
    let invitation = app.find_invitation(code.reveal(), now).await.unwrap().unwrap();
    let account = Account::New { name: "Grace", password_hash: "none" };
    let acceptance = Acceptance { invitation: &invitation, code: code.reveal(), account };
    app.accept_invitation(&acceptance, None, now).await.unwrap();
    stage.db.setup.ensure_setup_code("tu_setup_of_a_fixture", now).await.unwrap();
    sqlx::query("update setup_codes set used_at = created_at").execute(&stage.owner).await.unwrap();
}
