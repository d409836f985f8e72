//! Looks into DNS on a real Postgres: when they are, what they change, and what they never tell.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use trueup_control::dns::Indeterminate;
use trueup_model::Clock;
use trueup_model::domain::DnsResult;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{Refusal, RequestContext, ServiceRequest};
use trueup_store::{App, Signals};
use trueup_testkit::pg_proxy::{Mode, PgProxy};

use crate::domain_verifier_world::{HOST, LOOK, World, host, wanted};
use crate::rig::LONG;

const PROOF: &str = "_trueup.www.example.org";
const SOON: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);
/// How long a name server has to answer, and how long the loop rests at least and at most.
const ANSWER: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

#[tokio::test]
async fn a_record_in_dns_proves_a_host_once_and_what_is_proved_stays_so() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    assert_eq!(seconds(world.clock.now(), domain.search.next_at.unwrap()), 10);
    world.until_it_rests(SOON).await;
    assert_eq!(world.names.asked().len(), 0, "nobody can have published it yet");
    world.clock.advance(SOON);
    let domain = world.until("the proof", |domain| domain.verified_at.is_some()).await;
    assert_eq!(domain.verified_at, Some(world.clock.now()));
    let service = world.rig.get("web").await.row.service;
    assert_eq!(service.generation, 3, "declared, added, proved");
    let told = world.events(world.rig.db.org, "DomainVerified").await;
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].source.as_str(), told[0].generation), ("system", 3));
    assert_eq!(told[0].body["principal"], "dns");
    let queued = world.events(world.rig.db.org, "ServiceQueued").await;
    assert_eq!(queued.last().map(|event| event.source.as_str()), Some("system"));

    // The record goes, and nobody asks for it any more.
    world.names.has(PROOF, Vec::new());
    world.clock.advance(HOUR * 2);
    assert!(!world.look().await.expect("it should be answered").changed, "it is proved");
    let other = world.add(world.rig.db.org, "other.example.org").await;
    world.clock.advance(SOON);
    world.until_asked(2).await;
    assert_eq!(world.names.asked(), [PROOF, &other.host.challenge()]);
    assert!(world.domains(world.rig.db.org).await.iter().any(|one| one.verified_at.is_some()));
}

#[tokio::test]
async fn looks_get_rarer_end_after_a_week_and_begin_anew_when_somebody_asks() {
    let mut world = World::new().await;
    world.start();
    let added = world.add(world.rig.db.org, HOST).await;
    let mut looks = vec![added.created_at];
    let mut domain = added.clone();
    while domain.search.next_at.is_some() {
        domain = world.next_dns_check().await;
        let last = domain.search.last.clone().expect("it was looked for");
        assert_eq!((last.result, last.why.as_str()), (DnsResult::Nothing, "no TXT record yet"));
        looks.push(last.at);
    }
    let pauses: Vec<i64> = looks.windows(2).map(|two| seconds(two[0], two[1])).collect();
    assert_eq!(pauses[..11], [10, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
    assert!(pauses[11..].iter().all(|pause| *pause == 3600), "{pauses:?}");
    let last = looks[looks.len() - 1].duration_since(added.created_at);
    let week = SignedDuration::from_hours(7 * 24);
    assert!(last <= week && last > week - SignedDuration::from_hours(1), "{last:?}");
    assert_eq!(world.names.asked().len(), looks.len() - 1, "each was one question");

    // Nobody looks, whatever time passes, until somebody asks.
    world.names.says(PROOF, "another text");
    // Time moves while the loop sleeps: a call that is under way would run into its limit.
    world.until_it_rests(IDLE).await;
    world.clock.advance(HOUR * 48);
    world.until_it_rests(IDLE).await;
    assert_eq!(world.names.asked().len(), looks.len() - 1);
    assert!(world.look().await.expect("it should be accepted").changed);
    assert_eq!(world.names.asked().len(), looks.len() - 1);
    let now = world.clock.now();
    let looked = world
        .until("a look", |domain| domain.search.last.as_ref().is_some_and(|last| last.at == now))
        .await;
    assert_eq!(looked.search.last.map(|last| last.result), Some(DnsResult::OtherTexts));
    assert_eq!(looked.search.next_at.map(|next| seconds(now, next)), Some(10));
    // Asking again and again gives one look every ten seconds, and one event for each.
    assert!(world.look().await.expect("it should be accepted").changed);
    for _ in 0..5 {
        assert!(!world.look().await.expect("it should be accepted").changed);
    }
    assert_eq!(world.names.asked().len(), looks.len());
    world.next_dns_check().await;
    assert_eq!(world.names.asked().len(), looks.len() + 1);
    assert_eq!(world.events(world.rig.db.org, "DomainCheckRequested").await.len(), 2);
}

#[tokio::test]
async fn doubt_is_never_a_yes_and_a_silent_server_holds_nobody_up() {
    let mut world = World::new().await;
    world.start();
    let org = world.rig.db.org;
    let domain = world.add(org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    for doubt in [
        Indeterminate::Failed,
        Indeterminate::Refused,
        Indeterminate::Unread,
        Indeterminate::NoServer,
    ] {
        world.names.doubts(PROOF, doubt);
        let last = world.next_dns_check().await.search.last.expect("it was looked for");
        assert_eq!((last.result, last.why), (DnsResult::Indeterminate, doubt.to_string()));
    }
    // More of one org than may be under way at once, and nobody answers.
    world.names.hold(PROOF);
    let silent: Vec<String> = (0..9).map(|number| format!("s{number}.example.org")).collect();
    for text in &silent {
        world.names.hold(&format!("_trueup.{text}"));
        world.add(org, text).await;
    }
    let theirs = world.others().await;
    let other = world.add(theirs, "zz.example.org").await;
    world.names.says("_trueup.zz.example.org", &other.id.to_string());
    let asked = world.names.asked().len();
    world.clock.advance(SOON);
    // Another org does not wait for any of them.
    let proved = tokio::time::timeout(LONG, async {
        while world.domains(theirs).await[0].verified_at.is_none() {
            world.rig.signals.domain_check();
            tokio::time::sleep(LOOK).await;
        }
    });
    proved.await.expect("another org should not wait");
    world.until_asked(asked + 5).await;
    // For as long as none of them is given up, whatever is due is left where it is.
    for _ in 1..ANSWER.as_secs() {
        world.clock.advance(AGAIN);
        world.until_it_rests(AGAIN).await;
        assert_eq!(world.names.asked().len(), asked + 5, "one org has so many places");
    }
    // In the end each of them was given up, and is in doubt.
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
async fn two_loops_share_the_looks_and_tell_each_thing_once() {
    let mut world = World::new().await;
    world.start();
    world.start();
    let org = world.rig.db.org;
    for number in 0..12 {
        let domain = world.add(org, &format!("h{number}.example.org")).await;
        world.names.says(&domain.host.challenge(), &domain.id.to_string());
    }
    world.clock.advance(SOON);
    let proved = tokio::time::timeout(LONG, async {
        while world.domains(org).await.iter().any(|one| one.verified_at.is_none()) {
            world.rig.signals.domain_check();
            tokio::time::sleep(LOOK).await;
        }
    });
    proved.await.expect("all should be proved");
    assert_eq!(world.names.asked().len(), 12, "each was one question: {:?}", world.names.asked());
    assert_eq!(world.events(org, "DomainVerified").await.len(), 12);
    // Whoever finds out what is known already changes nothing.
    let domain = world.domain().await;
    let again = world.rig.db.app.prove_domain(org, domain.id, world.clock.now()).await;
    assert!(!again.expect("it should be answered"));
    assert_eq!(world.events(org, "DomainVerified").await.len(), 12);
}

/// S15: whoever proves what another org has learns nothing, and operators hear of it once.
#[tokio::test]
async fn a_host_of_another_org_stays_theirs_and_only_operators_hear_of_it() {
    let mut world = World::new().await;
    let ours = world.rig.db.org;
    let theirs = world.others().await;
    let held = world.add(theirs, HOST).await;
    let proved = world.rig.db.app.prove_domain(theirs, held.id, world.clock.now()).await;
    assert!(proved.expect("it should be proved"));
    let domain = world.add(ours, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    world.start();
    for _ in 0..3 {
        let last = world.next_dns_check().await.search.last.expect("it was looked for");
        assert_eq!(last.result, DnsResult::Indeterminate);
        assert_eq!(last.why, "it could not be decided; ask the operator");
    }
    assert!(world.domain().await.verified_at.is_none());
    assert!(world.domains(theirs).await[0].verified_at.is_some());
    assert_eq!(world.events(ours, "DomainVerified").await.len(), 0);
    for org in [ours, theirs] {
        assert_eq!(world.events(org, "DomainContested").await.len(), 0);
    }
    let told = world.events(trueup_model::org::PLATFORM, "DomainContested").await;
    assert_eq!(told.len(), 1, "it is told once");
    assert_eq!(told[0].body["host"], HOST);
    assert_eq!(told[0].body["claimant"], ours.to_string());
}

#[tokio::test]
async fn what_is_removed_or_deleted_while_it_is_looked_for_stays_so() {
    let mut world = World::new().await;
    world.start();
    let (org, owner) = (world.rig.db.org, world.rig.db.owner());
    let context = RequestContext::new(&owner, None);
    for (ended, (host_text, delete)) in [(1, (HOST, false)), (2, ("last.example.org", true))] {
        let domain = world.add(org, host_text).await;
        let name = domain.host.challenge();
        world.names.says(&name, &domain.id.to_string());
        world.names.hold(&name);
        let asked = world.names.asked().len();
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
        world.names.let_go();
        world.until_ended("late", ended).await;
        assert_eq!(world.rig.get("web").await.row.service.generation, generation);
        assert_eq!(world.events(org, "DomainVerified").await.len(), 0);
    }
}

#[tokio::test]
async fn a_proof_that_was_taken_back_is_not_found_again() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    world.clock.advance(SOON);
    world.until("the proof", |domain| domain.verified_at.is_some()).await;
    world.say(false).await;
    let domain = world.domain().await;
    assert_eq!((domain.verified_at, domain.search.next_at), (None, None));
    assert!(matches!(world.look().await, Err(Refusal::Withdrawn)));
    let again = world.rig.db.app.prove_domain(world.rig.db.org, domain.id, world.clock.now());
    assert!(!again.await.expect("it should be answered"), "an old text proves nothing");
    world.say(true).await;
    assert_eq!(world.domain().await.search.withdrawn_at, None, "the operator gave it again");
}

/// F14: the loop cannot know whether it was done; the next look finds out, and nothing is told twice.
#[tokio::test]
async fn a_proof_whose_commit_is_not_answered_is_written_once() {
    let mut world = World::new().await;
    let proxy = PgProxy::start(&world.rig.db.urls.app).await;
    let app = App::connect_within(&proxy.url(&world.rig.db.urls.app), LONG)
        .expect("the proxy should be reached");
    app.ping().await.expect("the database should answer");
    proxy.set(Mode::LoseCommit);
    world.start_with(app);
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    world.until_proved(HOST).await;
    // The proof may be seen before its answer is on the way.
    let lost = tokio::time::timeout(LONG, async {
        while proxy.lost_commits() == 0 {
            tokio::time::sleep(LOOK).await;
        }
    });
    assert!(lost.await.is_ok(), "the answer should have been lost");
    // It goes on.
    let other = world.add(world.rig.db.org, "a.example.org").await;
    world.names.says("_trueup.a.example.org", &other.id.to_string());
    world.until_proved("a.example.org").await;
    assert_eq!(world.events(world.rig.db.org, "DomainVerified").await.len(), 2);
}

/// A process that ends in the middle of a look leaves nothing behind: the next look is due as ever.
#[tokio::test]
async fn a_look_that_was_begun_and_never_ended_is_made_up_for() {
    let mut world = World::new().await;
    world.start();
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    world.names.hold(PROOF);
    world.clock.advance(SOON);
    world.until_asked(1).await;
    world.tasks.shutdown().await;
    world.names.let_go();
    assert_eq!(world.domain().await.search.last, None);
    world.start();
    world.clock.advance(SOON);
    world.until("the proof", |domain| domain.verified_at.is_some()).await;
    assert_eq!(world.names.asked().len(), 2);
}

/// Without a notification and without a poll: the loop sleeps until the next look is due, and no longer.
#[tokio::test]
async fn the_loop_wakes_by_itself_when_a_look_is_due() {
    let mut world = World::new().await;
    let domain = world.add(world.rig.db.org, HOST).await;
    world.names.says(PROOF, &domain.id.to_string());
    // The notification that came with it is heard by others.
    world.rig.signals = Signals::default();
    world.start();
    world.until_it_rests(SOON).await;
    assert_eq!(world.names.asked().len(), 0, "it is not due yet");
    world.clock.advance(SOON);
    let proved = tokio::time::timeout(LONG, async {
        while world.domain().await.verified_at.is_none() {
            tokio::time::sleep(LOOK).await;
        }
    });
    proved.await.expect("the loop should wake by itself");
    assert_eq!(world.domain().await.verified_at, Some(world.clock.now()));
}
