//! Tokens and orgs: creation, revocation, and the last token that can create tokens.

use std::collections::BTreeSet;

use trueup_model::org::PLATFORM;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_model::token::TokenSpec;
use trueup_store::door::{Refusal, RequestContext};
use trueup_testkit::test_db::name;

use crate::stage::{Stage, at};

fn token_spec(name: &str, role: Role) -> TokenSpec {
    TokenSpec { name: name.to_owned(), role, project: None, permissions: None, expires_at: None }
}

fn context(principal: &Principal) -> RequestContext<'_> {
    RequestContext::new(principal, None)
}

/// S13: of two owners that revoke each other concurrently, one stays.
#[tokio::test]
async fn s13_two_owners_cannot_revoke_each_other_concurrently() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    for round in 0..10 {
        let (one, other) = (format!("one-{round}"), format!("other-{round}"));
        for name in [&one, &other] {
            app.create_token(org, &token_spec(name, Role::Owner), &stage.context(), at(1))
                .await
                .unwrap();
        }
        let (first, second) = (stage.context(), stage.context());
        let (a, b) = tokio::join!(
            app.revoke_token(org, &one, &first, at(2)),
            app.revoke_token(org, &other, &second, at(2)),
        );
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        let refused = a.err().or_else(|| b.err());
        assert!(matches!(refused, Some(Refusal::LastOwner)), "{refused:?}");
        let left = app.list_tokens(org).await.unwrap();
        assert_eq!(left.len(), 1);
        // For the next round an operator revokes the remaining token.
        let operator = Principal { role: Role::Operator, org: None, ..stage.principal.clone() };
        let left = left[0].id.to_string();
        app.revoke_token(org, &left, &context(&operator), at(3)).await.unwrap();
    }
}

#[tokio::test]
async fn a_created_token_authenticates_until_it_expires_or_is_revoked() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let wanted = TokenSpec {
        project: None,
        permissions: Some(BTreeSet::from([Permission::Read])),
        expires_at: Some(at(100)),
        ..token_spec("ci", Role::Developer)
    };
    let before = stage.rows().await;
    let created = app.create_token(org, &wanted, &stage.context(), at(1)).await.unwrap();
    let grown = [("event_queue", 1), ("events", 1), ("tokens", 1)];
    let grown = grown.map(|(table, count)| (table.to_owned(), count));
    assert_eq!(stage.grown(&before).await, grown);
    let text = created.text.as_ref().unwrap().reveal().to_owned();
    let known = app.authenticate(&text, at(2)).await.unwrap().unwrap();
    assert_eq!(known.id.token(), Some(created.row.id));
    assert_eq!((known.role, known.org), (Role::Developer, Some(org)));
    assert_eq!((known.permissions, known.expires_at), (wanted.permissions, wanted.expires_at));
    // Only the complete token authenticates.
    for wrong in [&text[..81], &text[3..], &text.to_uppercase(), &format!("{text} ")] {
        assert_eq!(app.authenticate(wrong, at(2)).await.unwrap(), None);
    }
    assert_eq!(app.authenticate(&text, at(100)).await.unwrap(), None);
    app.revoke_token(org, "ci", &stage.context(), at(3)).await.unwrap();
    assert_eq!(app.authenticate(&text, at(3)).await.unwrap(), None);
    let again = app.revoke_token(org, &created.row.id.to_string(), &stage.context(), at(4)).await;
    assert!(matches!(again, Err(Refusal::NotFound("token"))), "{again:?}");
    // Its name is free, and its row stays.
    app.create_token(org, &token_spec("ci", Role::Viewer), &stage.context(), at(5)).await.unwrap();
    let rows: i64 = stage.one("select count(*) from tokens where name = 'ci'").await;
    assert_eq!(rows, 2);
}

/// A token's name may be personal data, and events are kept for ever.
#[tokio::test]
async fn no_event_contains_the_name_of_a_token() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let wanted = token_spec("ann.example", Role::Viewer);
    let created = app.create_token(org, &wanted, &stage.context(), at(1)).await.unwrap();
    app.revoke_token(org, "ann.example", &stage.context(), at(2)).await.unwrap();
    let id = created.row.id.to_string();
    let bodies: Vec<String> =
        stage.all("select body::text from events where type like 'Token%'").await;
    assert_eq!(bodies.len(), 2);
    for body in bodies {
        assert!(body.contains(&id) && !body.contains("ann.example"), "{body}");
    }
}

/// S17: events about an org are recorded in that org, whichever principal caused them.
#[tokio::test]
async fn s17_events_about_an_org_are_visible_to_that_org_alone() {
    let stage = Stage::new().await;
    let (app, ours) = (&stage.db.app, stage.db.org);
    let operator = Principal { role: Role::Operator, org: None, ..stage.principal.clone() };
    let operator = context(&operator);
    let (fresh, _) = app.create_org(&name("fresh"), &operator, at(1)).await.unwrap();
    app.create_token(PLATFORM, &token_spec("op", Role::Operator), &operator, at(1)).await.unwrap();
    let taken = app.create_org(&name("fresh"), &operator, at(1)).await;
    assert!(matches!(taken, Err(Refusal::NameTaken("org"))), "{taken:?}");
    stage.seal().await;
    let kinds = async |org| -> Vec<String> {
        stage.sealed(org).await.into_iter().map(|event| event.kind).collect()
    };
    assert_eq!(kinds(fresh.id).await, ["OrgCreated", "TokenCreated"]);
    assert_eq!(kinds(PLATFORM).await, ["TokenCreated"]);
    assert_eq!(kinds(ours).await, ["ProjectQueued"]);
    let subjects: BTreeSet<String> =
        stage.sealed(fresh.id).await.iter().map(|event| event.subject.to_string()).collect();
    assert_eq!(subjects, BTreeSet::from([fresh.id.to_string()]));
    // No wake, no order and no status is ever about an org.
    let rows: i64 = stage
        .one(
            "select (select count(*) from wakes where subject_kind = 'org')
                   + (select count(*) from statuses where subject_kind = 'org')",
        )
        .await;
    assert_eq!(rows, 0);
}

/// Isolation also applies to the platform's org: operator tokens exist only there.
#[tokio::test]
async fn an_operator_token_must_belong_to_the_platform() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let operator = Principal { role: Role::Operator, org: None, ..stage.principal.clone() };
    for (place, role) in [(org, Role::Operator), (PLATFORM, Role::Owner)] {
        let made =
            app.create_token(place, &token_spec("x", role), &context(&operator), at(1)).await;
        assert!(matches!(made, Err(Refusal::Store(_))), "{made:?}");
    }
    let rows: i64 = stage.one("select count(*) from tokens").await;
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn a_new_file_with_a_new_token_replaces_the_old_one() {
    let stage = Stage::new().await;
    let (setup, app, org) = (&stage.db.setup, &stage.db.app, stage.db.org);
    for token in ["old", "new", "new"] {
        setup.ensure_token(token, "demo owner", Role::Owner, Some(org), at(1)).await.unwrap();
    }
    assert_eq!(app.authenticate("old", at(2)).await.unwrap(), None);
    assert!(app.authenticate("new", at(2)).await.unwrap().is_some());
    // A revoked token stays revoked after every start.
    let operator = Principal { role: Role::Operator, org: None, ..stage.principal.clone() };
    app.revoke_token(org, "demo owner", &context(&operator), at(3)).await.unwrap();
    setup.ensure_token("new", "demo owner", Role::Owner, Some(org), at(4)).await.unwrap();
    assert_eq!(app.authenticate("new", at(5)).await.unwrap(), None);
}
