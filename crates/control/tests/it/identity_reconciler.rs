//! The loop that confirms people, with a real identity provider: changed groups, people who are gone, outages.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use trueup_control::IdentityReconciler;
use trueup_model::Clock;
use trueup_model::event::Fact;
use trueup_model::id::{ProviderId, SessionId};
use trueup_model::principal::Role;
use trueup_model::provider::{
    GroupRole, IdentityEnd, Provider, ProviderSpec, ProviderState, ReturnedCode,
};
use trueup_model::session::Holder;
use trueup_model::token::TokenSpec;
use trueup_oidc::{Client, Settings};
use trueup_rules::envelope::Keyring;
use trueup_store::door::{ProviderRequest, ProviderSignIn, RequestContext};
use trueup_store::{EventQuery, NewSession};
use trueup_testkit::manual_clock::ManualClock;
use trueup_testkit::real_oidc::RealOidc;

use crate::dns::FakeNames;
use crate::rig::{LONG, Rig};

const CALLBACK: &str = "http://127.0.0.1:7410/sign-in/callback";
const ADA: &str = "ada@example.org";
const POLL: Duration = Duration::from_millis(20);

/// A provider that knows Ada, who has signed in with it, and the loop.
struct World {
    rig: Rig,
    clock: ManualClock,
    names: FakeNames,
    real: RealOidc,
    client: Arc<Client>,
    provider: ProviderId,
    tasks: JoinSet<()>,
}

impl World {
    async fn new() -> Option<Self> {
        let clock = ManualClock::new();
        let rig = Rig::on(Arc::new(clock.clone())).await;
        let real = RealOidc::start(CALLBACK, clock.now()).await?;
        let settings = Settings {
            redirect: CALLBACK.to_owned(),
            allow_private: true,
            clock: Arc::new(clock.clone()),
            decryptor: Keyring::new(&[7; 32]).decryptor(),
        };
        let client = Arc::new(Client::new(settings).unwrap());
        let (names, tasks) = (FakeNames::default(), JoinSet::new());
        let provider = ProviderId::from_parts(clock.now(), [0; 10]);
        let mut world = Self { rig, clock, names, real, client, provider, tasks };
        world.provider = world.declare(&real_groups()).await.id;
        Some(world)
    }

    async fn declare(&self, groups: &[GroupRole]) -> Provider {
        let spec = ProviderSpec {
            issuer: self.real.issuer.clone(),
            client_id: "trueup".to_owned(),
            domains: vec!["example.org".parse().unwrap()],
            groups_claim: "groups".to_owned(),
            groups: groups.to_vec(),
            enabled: true,
            outage_minutes: 60,
        };
        let (name, secret) = ("idp".parse().unwrap(), "the secret of a client".to_owned().into());
        let encryptor = Keyring::new(&[7; 32]).encryptor();
        let request = ProviderRequest {
            name: &name,
            spec: &spec,
            secret: Some(&secret),
            encryptor: &encryptor,
        };
        let owner = self.rig.db.owner();
        let context = RequestContext::new(&owner, None);
        let (app, org, now) = (&self.rig.db.app, self.rig.db.org, self.clock.now());
        let put = app.put_provider(org, &request, &context, now).await.unwrap();
        self.rig.signals.provider_check();
        put.row
    }

    /// Starts the loop of one process.
    fn start(&mut self) {
        let reconciler = IdentityReconciler {
            worker: self.rig.db.worker.clone(),
            app: self.rig.db.app.clone(),
            signals: self.rig.signals.clone(),
            clock: Arc::new(self.clock.clone()),
            providers: Arc::clone(&self.client),
            encryptor: Keyring::new(&[7; 32]).encryptor(),
            names: Arc::new(self.names.clone()),
        };
        self.tasks.spawn(reconciler.run());
    }

    async fn shown(&self) -> Provider {
        let wanted = self.provider.to_string();
        let found = self.rig.db.app.get_provider(self.rig.db.org, &wanted).await.unwrap();
        found.expect("the provider should be there")
    }

    /// Publishes the TXT record, and lets the loop find it.
    async fn prove(&self) {
        let domain = self.shown().await.domains.remove(0);
        self.names.set_text(&domain.host.challenge(), &domain.id.to_string());
        self.until("the domain is proved", async || {
            self.check().await;
            self.shown().await.domains[0].verified_at.is_some()
        })
        .await;
    }

    /// Requests a check, as an owner does.
    async fn check(&self) {
        let owner = self.rig.db.owner();
        let context = RequestContext::new(&owner, None);
        let (app, org, now) = (&self.rig.db.app, self.rig.db.org, self.clock.now());
        let wanted = self.provider.to_string();
        app.request_provider_check(org, &wanted, &context, now).await.unwrap();
        self.rig.signals.provider_check();
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let reached = tokio::time::timeout(LONG, async {
            while !is_so().await {
                tokio::time::sleep(POLL).await;
            }
        });
        assert!(reached.await.is_ok(), "{what} did not happen: {:#?}", self.shown().await);
    }

    async fn person(&self, groups: &[&str]) {
        let claims = json!({"email": ADA, "email_verified": true, "name": "Ada", "groups": groups});
        self.real.person("1", &claims).await;
    }

    async fn sign_in(&self) -> NewSession {
        let (app, org) = (&self.rig.db.app, self.rig.db.org);
        let connection = app.provider_connection(org, self.provider).await.unwrap().unwrap();
        let begun = self.client.authorize(&connection, ADA).await.unwrap();
        let returned = self.real.visit(&begun.url).await.unwrap();
        let code = ReturnedCode {
            code: returned.get("code").to_owned().into(),
            nonce: begun.nonce,
            verifier: begun.verifier,
        };
        let claims = self.client.exchange(&connection, &code).await.unwrap();
        assert!(claims.refresh_token.is_some(), "the provider should give a refresh token");
        let entry = ProviderSignIn {
            org,
            provider: self.provider,
            claims: &claims,
            former: None::<SessionId>,
            encryptor: &Keyring::new(&[7; 32]).encryptor(),
        };
        app.sign_in_with_provider(&entry, None, self.clock.now()).await.unwrap()
    }

    /// The role of a session; none if it has ended.
    async fn role(&self, session: &NewSession) -> Option<Role> {
        let secret = session.secret.reveal();
        let found = self.rig.db.app.find_session(secret, self.clock.now()).await.unwrap();
        found.map(|session| match session.holder {
            Holder::User(_, roles) => roles[0].role,
            Holder::Token(..) => panic!("a session of a user"),
        })
    }

    /// Advances the clocks of Trueup and of the provider.
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.real.set_clock(self.clock.now()).await;
    }

    async fn facts(&self) -> Vec<Fact> {
        self.rig.db.seal().await;
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        let all = self.rig.db.app.list_events(self.rig.db.org, &query).await.unwrap();
        all.into_iter().filter_map(|event| serde_json::from_value(event.body).ok()).collect()
    }
}

fn real_groups() -> Vec<GroupRole> {
    let role = |group: &str, role| GroupRole { group: group.to_owned(), role };
    vec![role("ops", Role::Owner), role("dev", Role::Developer)]
}

/// The whole life: proved by DNS, signed in, another group, gone.
#[tokio::test]
async fn changed_group_changes_the_role_and_a_person_who_is_gone_is_out_everywhere() {
    let Some(mut world) = World::new().await else { return };
    world.start();
    world.prove().await;
    world.person(&["dev"]).await;
    let session = world.sign_in().await;
    assert_eq!(world.role(&session).await, Some(Role::Developer));
    // By time alone: every five minutes.
    world.person(&["ops"]).await;
    world.advance(Duration::from_secs(5 * 60)).await;
    world.until("the role changes", async || world.role(&session).await == Some(Role::Owner)).await;
    // A token of hers, which ends with her.
    let (principal, _) = session.session.first().unwrap();
    let owner = trueup_model::principal::Principal { role: Role::Owner, ..principal };
    let context = RequestContext::new(&owner, None);
    let spec = TokenSpec {
        name: "of-ada".to_owned(),
        role: Role::Developer,
        project: None,
        permissions: None,
        expires_at: None,
    };
    let (app, org) = (&world.rig.db.app, world.rig.db.org);
    let token = app.create_token(org, &spec, &context, world.clock.now()).await.unwrap();
    let token = token.text.expect("a new token should have a text");
    assert!(app.authenticate(token.reveal(), world.clock.now()).await.unwrap().is_some());
    world.real.forget("1").await;
    world.check().await;
    world.until("the session ends", async || world.role(&session).await.is_none()).await;
    assert!(app.authenticate(token.reveal(), world.clock.now()).await.unwrap().is_none());
    assert!(app.list_members(org).await.unwrap().is_empty(), "also the last owner is out");
    let facts = world.facts().await;
    let evidence = facts.iter().find_map(|fact| match fact {
        Fact::IdentityEnded(ended) => Some((ended.reason, ended.evidence.clone())),
        _ => None,
    });
    let (reason, evidence) = evidence.expect("an event should have the evidence");
    assert_eq!(reason, IdentityEnd::Refused);
    assert!(evidence.contains("invalid_grant"), "{evidence}");
    assert!(facts.iter().any(|fact| matches!(fact, Fact::MemberRemoved(_))));
    assert!(facts.iter().any(|fact| matches!(fact, Fact::TokenRevoked(_))));
}

/// Nobody is removed because a provider is away; sessions end an hour after the last confirmation.
#[tokio::test]
async fn outage_removes_nobody_and_bounds_the_life_of_sessions() {
    let Some(mut world) = World::new().await else { return };
    world.start();
    world.prove().await;
    world.person(&["dev"]).await;
    let session = world.sign_in().await;
    world.real.set_silent(true).await;
    world.clock.advance(Duration::from_secs(5 * 60));
    let away = async || world.shown().await.state() == ProviderState::Unavailable;
    world.until("the outage is noticed", away).await;
    assert_eq!(world.role(&session).await, Some(Role::Developer));
    // One minute before the hour is over, and one after; the loop goes on asking meanwhile.
    world.clock.advance(Duration::from_secs(54 * 60));
    assert_eq!(world.role(&session).await, Some(Role::Developer));
    world.clock.advance(Duration::from_secs(2 * 60));
    assert_eq!(world.role(&session).await, None);
    assert_eq!(world.rig.db.app.list_members(world.rig.db.org).await.unwrap().len(), 1);
    // It answers again: whoever is still there goes on with the same session.
    world.real.set_clock(world.clock.now()).await;
    world.real.set_silent(false).await;
    world
        .until("the session goes on", async || {
            world.check().await;
            world.role(&session).await == Some(Role::Developer)
        })
        .await;
    let facts = world.facts().await;
    let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
    assert_eq!(count(|fact| matches!(fact, Fact::ProviderUnavailable(_))), 1);
    assert_eq!(count(|fact| matches!(fact, Fact::ProviderAnswers(_))), 1);
    assert_eq!(count(|fact| matches!(fact, Fact::IdentityEnded(_))), 0);
}

#[tokio::test]
async fn rotated_keys_and_a_changed_mapping_do_not_stop_confirmations() {
    let Some(mut world) = World::new().await else { return };
    world.start();
    world.prove().await;
    world.person(&["dev"]).await;
    let session = world.sign_in().await;
    world.real.rotate_keys().await;
    world.advance(Duration::from_secs(10)).await;
    let all = [GroupRole { group: "*".to_owned(), role: Role::Viewer }];
    world.declare(&all).await;
    world
        .until("the mapping counts", async || world.role(&session).await == Some(Role::Viewer))
        .await;
}

/// Somebody whom an owner removed by hand stays removed until they sign in again.
#[tokio::test]
async fn member_removed_by_hand_is_not_put_back_by_the_loop() {
    let Some(mut world) = World::new().await else { return };
    world.start();
    world.prove().await;
    world.person(&["dev"]).await;
    let session = world.sign_in().await;
    let (app, org) = (&world.rig.db.app, world.rig.db.org);
    let owner = world.rig.db.owner();
    let context = RequestContext::new(&owner, None);
    app.remove_member(org, ADA, &context, world.clock.now()).await.unwrap();
    assert_eq!(world.role(&session).await, None);
    world.check().await;
    world
        .until("the identity ends", async || {
            world.facts().await.iter().any(|fact| {
            matches!(fact, Fact::IdentityEnded(ended) if ended.reason == IdentityEnd::MemberRemoved)
        })
        })
        .await;
    assert!(app.list_members(org).await.unwrap().is_empty());
    let again = world.sign_in().await;
    assert_eq!(world.role(&again).await, Some(Role::Developer));
}
