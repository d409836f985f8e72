//! Users and sessions behind their walls: what the app's role sees, and what a session does in the database.

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use trueup_model::UserId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::{Principal, PrincipalId, Role};
use trueup_model::session::Holder;
use trueup_store::door::{Refusal, RequestContext};

use crate::stage::{Stage, at};
use crate::tenant::two_orgs;

/// S16: an org sees its members, without what one needs to sign in; of sessions it sees nothing.
#[tokio::test]
async fn s16_an_org_sees_its_own_members_and_no_session() {
    let (stage, ours, theirs) = two_orgs().await;
    let member: String =
        stage.one("select id::text from users where email = 'ours@example.com'").await;
    let user = PrincipalId::User(UserId::from_uuid(member.parse().unwrap()));
    let principal = Principal { id: user, ..stage.principal.clone() };
    let context = RequestContext::new(&principal, None);
    stage.db.app.sign_in(user, None, &context, at(20)).await.unwrap();
    let mut app = PgConnection::connect(&stage.db.urls.app).await.unwrap();
    for (org, users, sessions) in [
        (None, vec![], 0),
        (Some(ours), vec!["ours@example.com"], 0),
        (Some(theirs), vec!["theirs@example.com"], 0),
        (Some(PLATFORM), vec!["ours@example.com", "theirs@example.com"], 1),
    ] {
        let org = org.map_or_else(String::new, |org| org.uuid().to_string());
        let enter = format!("begin; select set_config('trueup.org', '{org}', true)");
        sqlx::raw_sql(AssertSqlSafe(enter)).execute(&mut app).await.unwrap();
        let seen: Vec<String> = sqlx::query_scalar("select email from users order by 1")
            .fetch_all(&mut app)
            .await
            .unwrap();
        assert_eq!(seen, users, "{org}");
        let count: i64 =
            sqlx::query_scalar("select count(*) from sessions").fetch_one(&mut app).await.unwrap();
        assert_eq!(count, sessions, "{org}");
        sqlx::raw_sql("rollback").execute(&mut app).await.unwrap();
    }
}

#[tokio::test]
async fn sign_in_writes_one_session_and_one_event_for_each_org() {
    let stage = Stage::new().await;
    let (app, ours) = (&stage.db.app, stage.db.org);
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    let user = stage.db.user("ada@example.com", Role::Owner, ours).await;
    stage.db.user("ada@example.com", Role::Viewer, theirs).await;
    let principal = Principal { id: PrincipalId::User(user), ..stage.principal.clone() };
    let context = RequestContext::new(&principal, None);
    let before = stage.rows().await;
    let begun = app.sign_in(principal.id, None, &context, at(1)).await.unwrap();
    let grown = [("event_queue", 2), ("events", 2), ("sessions", 1)];
    let grown = grown.map(|(table, count)| (table.to_owned(), count));
    assert_eq!(stage.grown(&before).await, grown);
    let Holder::User(person, roles) = &begun.session.holder else { panic!("{begun:?}") };
    assert_eq!((person.id, roles.len()), (user, 2));
    let secret = begun.secret.reveal();
    assert_eq!(app.find_session(secret, at(2)).await.unwrap().as_ref(), Some(&begun.session));
    for wrong in [&secret[1..], &secret.to_uppercase(), &format!("{secret} "), "", "\0"] {
        assert_eq!(app.find_session(wrong, at(2)).await.unwrap(), None, "{wrong:?}");
    }
    // A session is not a token, and a token's hash opens no session.
    assert_eq!(app.authenticate(secret, at(2)).await.unwrap(), None);
    app.sign_out(&begun.session, &context, at(3)).await.unwrap();
    assert_eq!(app.find_session(secret, at(3)).await.unwrap(), None);
    let rows = stage.rows().await;
    app.sign_out(&begun.session, &context, at(4)).await.unwrap();
    assert_eq!(stage.rows().await, rows, "signing out twice is one event");
}

#[tokio::test]
async fn nobody_signs_in_without_a_membership() {
    let stage = Stage::new().await;
    let (app, org) = (&stage.db.app, stage.db.org);
    let user = stage.db.user("ada@example.com", Role::Owner, org).await;
    let email = "ada@example.com".parse().unwrap();
    let login = app.find_login(Some(&email)).await.unwrap().unwrap();
    assert_eq!((login.user, login.is_member), (user, true));
    assert_eq!(app.find_login(None).await.unwrap(), None);
    sqlx::query("update memberships set removed_at = created_at")
        .execute(&stage.owner)
        .await
        .unwrap();
    let login = async || app.find_login(Some(&email)).await.unwrap().unwrap();
    assert!(!login().await.is_member);
    let principal = Principal { id: PrincipalId::User(user), ..stage.principal.clone() };
    let before = stage.rows().await;
    let context = RequestContext::new(&principal, None);
    let begun = app.sign_in(principal.id, None, &context, at(1)).await;
    assert!(matches!(begun, Err(Refusal::NotFound("session"))), "{begun:?}");
    assert_eq!(stage.rows().await, before);
    // Seeding an install again does not bring a removed member back.
    stage.db.user("ada@example.com", Role::Owner, org).await;
    assert!(!login().await.is_member);
}
