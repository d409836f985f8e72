//! DNS checks on a real Postgres: when they are made, what they change, and what they never reveal.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_control::dns::Indeterminate;
use trueup_model::Clock;
use trueup_model::domain::DnsResult;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, Signals};
use trueup_testkit::pg_proxy::{Mode, PgProxy};

use crate::domain_verifier_world::{HOST, POLL, World, host, wanted};
use crate::rig::LONG;

const CHALLENGE: &str = "_trueup.www.example.org";
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
/// The timeout of a check, and the shortest and longest sleep of the loop.
const ANSWER: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

#[tokio::test]
async fn matching_txt_record_verifies_once_and_verification_stays() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    assert_eq!(seconds(world.clock.now(), domain.search.next_at.unwrap()), 10);
    world.until_idle(SOON).await;
    assert_eq!(world.names.queries().len(), 0, "no check before the record can be published");
    world.clock.advance(SOON);
    let domain = world.until("the verification", |domain| domain.verified_at.is_some()).await;
    assert_eq!(domain.verified_at, Some(world.clock.now()));
    let service = world.rig.get("web").await.row.service;
    assert_eq!(service.generation, 3, "declared, added, verified");
    let events = world.events(world.rig.db.org, "DomainVerified").await;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].source.as_str(), events[0].generation), ("system", 3));
    assert_eq!(events[0].body["principal"], "dns");
    let queued = world.events(world.rig.db.org, "ServiceQueued").await;
    assert_eq!(queued.last().map(|event| event.source.as_str()), Some("system"));

    // The record is removed, and is not checked any more.
    world.names.set_records(CHALLENGE, Vec::new());
    world.clock.advance(HOUR * 2);
    assert!(
        !world.request_check().await.expect("it should be answered").changed,
        "already verified"
    );
    let other = world.add(world.rig.db.org, "other.example.org").await;
    world.clock.advance(SOON);
    world.until_asked(2).await;
    assert_eq!(world.names.queries(), [CHALLENGE, &other.host.challenge()]);
    assert!(world.domains(world.rig.db.org).await.iter().any(|one| one.verified_at.is_some()));
}

#[tokio::test]
async fn dns_checks_back_off_stop_after_a_week_and_restart_on_request() {
    let mut world = World::new().await;
    world.start();
    let added = world.add(world.rig.db.org, HOST).await;
    let mut checks = vec![added.created_at];
    let mut domain = added.clone();
    while domain.search.next_at.is_some() {
        domain = world.next_dns_check().await;
        let last = domain.search.last.clone().expect("a check should be recorded");
        assert_eq!((last.result, last.why.as_str()), (DnsResult::Nothing, "no TXT record yet"));
        checks.push(last.at);
    }
    let pauses: Vec<i64> = checks.windows(2).map(|two| seconds(two[0], two[1])).collect();
    assert_eq!(pauses[..11], [10, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
    assert!(pauses[11..].iter().all(|pause| *pause == 3600), "{pauses:?}");
    let last = checks[checks.len() - 1].duration_since(added.created_at);
    let week = SignedDuration::from_hours(7 * 24);
    assert!(last <= week && last > week - SignedDuration::from_hours(1), "{last:?}");
    assert_eq!(world.names.queries().len(), checks.len() - 1, "one query per check");

    // No more checks until one is requested.
    world.names.set_text(CHALLENGE, "another text");
    // Advance time only while the loop sleeps: a call in flight would time out.
    world.until_idle(IDLE).await;
    world.clock.advance(HOUR * 48);
    world.until_idle(IDLE).await;
    assert_eq!(world.names.queries().len(), checks.len() - 1);
    assert!(world.request_check().await.expect("it should be accepted").changed);
    assert_eq!(world.names.queries().len(), checks.len() - 1);
    let now = world.clock.now();
    let checked = world
        .until("a check", |domain| domain.search.last.as_ref().is_some_and(|last| last.at == now))
        .await;
    assert_eq!(checked.search.last.map(|last| last.result), Some(DnsResult::OtherTexts));
    assert_eq!(checked.search.next_at.map(|next| seconds(now, next)), Some(10));
    // Repeated requests give one check every ten seconds, and one event for each.
    assert!(world.request_check().await.expect("it should be accepted").changed);
    for _ in 0..5 {
        assert!(!world.request_check().await.expect("it should be accepted").changed);
    }
    assert_eq!(world.names.queries().len(), checks.len());
    world.next_dns_check().await;
    assert_eq!(world.names.queries().len(), checks.len() + 1);
    assert_eq!(world.events(world.rig.db.org, "DomainCheckRequested").await.len(), 2);
}

#[tokio::test]
async fn dns_timeout_neither_verifies_nor_blocks_other_domains() {
    let mut world = World::new().await;
    world.start();
    let org = world.rig.db.org;
    let domain = world.add(org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    for error in [
        Indeterminate::Failed,
        Indeterminate::Refused,
        Indeterminate::Unread,
        Indeterminate::NoServer,
    ] {
        world.names.set_indeterminate(CHALLENGE, error);
        let last = world.next_dns_check().await.search.last.expect("a check should be recorded");
        assert_eq!((last.result, last.why), (DnsResult::Indeterminate, error.to_string()));
    }
    // More checks of one org than may run at once, and none is answered.
    world.names.block(CHALLENGE);
    let silent: Vec<String> = (0..9).map(|number| format!("s{number}.example.org")).collect();
    for text in &silent {
        world.names.block(&format!("_trueup.{text}"));
        world.add(org, text).await;
    }
    let theirs = world.other_org().await;
    let other = world.add(theirs, "zz.example.org").await;
    world.names.set_text("_trueup.zz.example.org", &other.id.to_string());
    let asked = world.names.queries().len();
    world.clock.advance(SOON);
    // Another org does not wait for any of them.
    let verified = tokio::time::timeout(LONG, async {
        while world.domains(theirs).await[0].verified_at.is_none() {
            world.rig.signals.domain_check();
            tokio::time::sleep(POLL).await;
        }
    });
    verified.await.expect("another org should not wait");
    world.until_asked(asked + 5).await;
    // Until one of them times out, no other due check of this org is claimed.
    for _ in 1..ANSWER.as_secs() {
        world.clock.advance(AGAIN);
        world.until_idle(AGAIN).await;
        assert_eq!(world.names.queries().len(), asked + 5, "the limit per org");
    }
    // In the end each of them times out and is indeterminate.
    world.clock.advance(AGAIN);
    world.until_silent(4).await;
    for (more, silent) in [(9, 8), (10, 9)] {
        world.until_asked(asked + more).await;
        world.clock.advance(ANSWER);
        world.until_silent(silent).await;
    }
    assert!(world.domains(org).await.iter().all(|one| one.verified_at.is_none()));
}

#[tokio::test]
async fn two_verifiers_share_the_checks_and_record_each_result_once() {
    let mut world = World::new().await;
    world.start();
    world.start();
    let org = world.rig.db.org;
    for number in 0..12 {
        let domain = world.add(org, &format!("h{number}.example.org")).await;
        world.names.set_text(&domain.host.challenge(), &domain.id.to_string());
    }
    world.clock.advance(SOON);
    let verified = tokio::time::timeout(LONG, async {
        while world.domains(org).await.iter().any(|one| one.verified_at.is_none()) {
            world.rig.signals.domain_check();
            tokio::time::sleep(POLL).await;
        }
    });
    verified.await.expect("all should be verified");
    assert_eq!(
        world.names.queries().len(),
        12,
        "one query per domain: {:?}",
        world.names.queries()
    );
    assert_eq!(world.events(org, "DomainVerified").await.len(), 12);
    // A second verification changes nothing.
    let domain = world.domain().await;
    let again = world.rig.db.app.record_verified_domain(org, domain.id, world.clock.now()).await;
    assert!(!again.expect("it should be answered"));
    assert_eq!(world.events(org, "DomainVerified").await.len(), 12);
}

/// S15: an org that verifies a host of another org learns nothing; operators get one event.
#[tokio::test]
async fn host_of_another_org_is_kept_and_only_operators_are_informed() {
    let mut world = World::new().await;
    let ours = world.rig.db.org;
    let theirs = world.other_org().await;
    let held = world.add(theirs, HOST).await;
    let verified =
        world.rig.db.app.record_verified_domain(theirs, held.id, world.clock.now()).await;
    assert!(verified.expect("it should be verified"));
    let domain = world.add(ours, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    world.start();
    for _ in 0..3 {
        let last = world.next_dns_check().await.search.last.expect("a check should be recorded");
        assert_eq!(last.result, DnsResult::Indeterminate);
        assert_eq!(last.why, "ownership of the host could not be decided; ask the operator");
    }
    assert!(world.domain().await.verified_at.is_none());
    assert!(world.domains(theirs).await[0].verified_at.is_some());
    assert_eq!(world.events(ours, "DomainVerified").await.len(), 0);
    for org in [ours, theirs] {
        assert_eq!(world.events(org, "DomainContested").await.len(), 0);
    }
    let events = world.events(trueup_model::org::PLATFORM, "DomainContested").await;
    assert_eq!(events.len(), 1, "one event");
    assert_eq!(events[0].body["host"], HOST);
    assert_eq!(events[0].body["claimant"], ours.to_string());
}

#[tokio::test]
async fn domain_removed_during_a_check_stays_removed() {
    let mut world = World::new().await;
    world.start();
    let (org, owner) = (world.rig.db.org, world.rig.db.owner());
    let context = RequestContext::new(&owner, None);
    for (ended, (host_text, delete)) in [(1, (HOST, false)), (2, ("last.example.org", true))] {
        let domain = world.add(org, host_text).await;
        let name = domain.host.challenge();
        world.names.set_text(&name, &domain.id.to_string());
        world.names.block(&name);
        let asked = world.names.queries().len();
        world.clock.advance(SOON);
        world.until_asked(asked + 1).await;
        let (app, now) = (&world.rig.db.app, world.clock.now());
        if delete {
            let wanted = ServiceRequest::act("shop", "web", &ServiceOperation::Delete);
            app.accept_service(org, &wanted, &context, now).await.expect("it should be deleted");
        } else {
            let host = host(host_text);
            app.remove_domain(org, &wanted(&host), &context, now).await.expect("it should go");
        }
        let generation = world.rig.get("web").await.row.service.generation;
        world.names.unblock();
        world.until_ended("late", ended).await;
        assert_eq!(world.rig.get("web").await.row.service.generation, generation);
        assert_eq!(world.events(org, "DomainVerified").await.len(), 0);
    }
}

#[tokio::test]
async fn withdrawn_verification_is_not_restored_by_dns() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    world.clock.advance(SOON);
    world.until("the verification", |domain| domain.verified_at.is_some()).await;
    world.set_verified(false).await;
    let domain = world.domain().await;
    assert_eq!((domain.verified_at, domain.search.next_at), (None, None));
    assert!(matches!(world.request_check().await, Err(Refusal::Withdrawn)));
    let again =
        world.rig.db.app.record_verified_domain(world.rig.db.org, domain.id, world.clock.now());
    assert!(!again.await.expect("it should be answered"), "the old TXT record does not verify it");
    world.set_verified(true).await;
    assert_eq!(world.domain().await.search.withdrawn_at, None, "the operator verified it again");
}

/// F14: the loop cannot know whether the commit succeeded; the next check finds out, and no event
/// is recorded twice.
#[tokio::test]
async fn verification_with_unacknowledged_commit_is_recorded_once() {
    let mut world = World::new().await;
    let proxy = PgProxy::start(&world.rig.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&world.rig.db.urls.app), LONG)
        .expect("the proxy should be reached");
    app.ping().await.expect("the database should answer");
    proxy.set(Mode::LoseCommit);
    world.start_with(app);
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    world.until_verified(HOST).await;
    // The verification may be visible before its acknowledgement is lost.
    let lost = tokio::time::timeout(LONG, async {
        while proxy.lost_commits() == 0 {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(lost.await.is_ok(), "the acknowledgement should be lost");
    // The loop continues.
    let other = world.add(world.rig.db.org, "a.example.org").await;
    world.names.set_text("_trueup.a.example.org", &other.id.to_string());
    world.until_verified("a.example.org").await;
    assert_eq!(world.events(world.rig.db.org, "DomainVerified").await.len(), 2);
}

/// A process that ends during a check leaves nothing behind: the next check is due as usual.
#[tokio::test]
async fn interrupted_dns_check_is_repeated() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    world.names.block(CHALLENGE);
    world.clock.advance(SOON);
    world.until_asked(1).await;
    world.tasks.shutdown().await;
    world.names.unblock();
    assert_eq!(world.domain().await.search.last, None);
    world.start();
    world.clock.advance(SOON);
    world.until("the verification", |domain| domain.verified_at.is_some()).await;
    assert_eq!(world.names.queries().len(), 2);
}

/// Without a notification and without a poll: the loop sleeps exactly until the next check is due.
#[tokio::test]
async fn verifier_wakes_without_a_signal_when_a_check_is_due() {
    let mut world = World::new().await;
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.set_text(CHALLENGE, &domain.id.to_string());
    // Another process receives the notification.
    world.rig.signals = Signals::default();
    world.start();
    world.until_idle(SOON).await;
    assert_eq!(world.names.queries().len(), 0, "it is not due yet");
    world.clock.advance(SOON);
    let verified = tokio::time::timeout(LONG, async {
        while world.domain().await.verified_at.is_none() {
            tokio::time::sleep(POLL).await;
        }
    });
    verified.await.expect("the loop should wake by itself");
    assert_eq!(world.domain().await.verified_at, Some(world.clock.now()));
}
