//! The event log on the command line: followed across restarts, and verified after tampering.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::test_server::TestServer;

const TIMEOUT: Duration = Duration::from_secs(300);

/// `trueup events -f`, line by line.
struct Following {
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Following {
    fn new(server: &TestServer, args: &[&str]) -> Self {
        let args = [&["events", "-f", "-o", "json"], args].concat();
        let mut command = server.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, child }
    }

    /// The positions of the next events.
    async fn take(&mut self, count: usize) -> Vec<i64> {
        let mut positions = Vec::new();
        for _ in 0..count {
            let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
            let line = line.expect("an event should be printed").unwrap();
            let event: Value =
                serde_json::from_str(&line.expect("the stream should continue")).unwrap();
            positions.push(event["sequence"].as_str().unwrap().parse().unwrap());
        }
        positions
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_survives_restarts_and_crashes_without_loss_or_duplicates() {
    let mut server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    server.sealed().await;
    let mut following = Following::new(&server, &["--last", "1"]);
    assert_eq!(following.take(1).await, [2]);
    let mut expected = 3..;
    for round in 0..4 {
        for number in 0..3 {
            server.declare("web", &format!("nginx:{round}-{number}")).await;
        }
        if round % 2 == 0 {
            server.stop().await;
        } else {
            server.crash().await;
        }
        server.start().await;
        server.declare("web", &format!("nginx:{round}-after")).await;
        let positions = following.take(4).await;
        assert_eq!(positions, expected.by_ref().take(4).collect::<Vec<i64>>(), "round {round}");
    }
    following.child.kill().await.unwrap();
    let more = following.lines.next_line().await.unwrap();
    assert_eq!(more, None, "no event is printed twice");
}

#[tokio::test]
async fn newest_events_are_shown_in_order_and_filtered() {
    let server = TestServer::new().await;
    for number in 1..=5 {
        server.declare("web", &format!("nginx:{number}")).await;
        server.declare("other", &format!("nginx:{number}")).await;
    }
    server.sealed().await;
    for (args, expected) in [
        (&["--last", "3"][..], vec!["9", "10", "11"]),
        (&["--last", "0"], vec![]),
        (&["--after", "9"], vec!["10", "11"]),
        (&["web", "--last", "2"], vec!["8", "10"]),
        (&["--type", "ProjectQueued"], vec!["1"]),
        (&["web", "--generation", "3"], vec!["6"]),
        (&["shop/other", "--after", "9", "--type", "ServiceQueued"], vec!["11"]),
    ] {
        let output = server.trueup(&[&["events", "-o", "json"], args].concat()).await.succeeded();
        let events = output.json();
        let positions: Vec<&str> =
            events.iter().map(|event| event["sequence"].as_str().unwrap()).collect();
        assert_eq!(positions, expected, "{args:?}");
    }
    server.trueup(&["events", "nothing"]).await.failed_with(3, &["nothing"]);
    let page = server.trueup(&["describe", "web"]).await.succeeded();
    let events = page.out.lines().filter(|line| line.contains("requested by")).count();
    assert_eq!(events, 5, "{}", page.out);
}

#[tokio::test]
async fn intact_log_is_verified_against_recorded_heads() {
    let server = TestServer::new().await;
    for number in 1..=4 {
        server.declare("web", &format!("nginx:{number}")).await;
    }
    server.sealed().await;
    let output = server.trueup(&["audit", "verify"]).await.succeeded();
    assert!(output.out.contains("5 events"), "{output:#?}");
    let recorded = output.out.split_whitespace().last().unwrap().to_owned();
    server.declare("web", "nginx:5").await;
    server.sealed().await;
    let output =
        server.trueup(&["audit", "verify", "--expect", &recorded, "-o", "json"]).await.succeeded();
    let summary = &output.json()[0];
    assert_eq!((&summary["verified"], &summary["events"]), (&json!(true), &json!(6)));
    let head = format!("{}:{}", summary["position"], summary["hash"].as_str().unwrap());
    server.trueup(&["audit", "verify", "--expect", &recorded, "--expect", &head]).await.succeeded();
    // A hash recorded for another position.
    let other = recorded.replacen('5', "4", 1);
    let wrong = server.trueup(&["audit", "verify", "--expect", &other]).await;
    wrong.failed_with(1, &["broken at 4", "a different hash was recorded"]);
    server.trueup(&["audit", "verify", "--expect", "5"]).await.failed_with(2, &["POSITION:HASH"]);
}

#[tokio::test]
async fn tampering_and_a_rewritten_log_are_found_and_located() {
    let server = TestServer::new().await;
    for number in 1..=6 {
        server.declare("web", &format!("nginx:{number}")).await;
    }
    server.sealed().await;
    let head = server.trueup(&["audit", "verify"]).await.succeeded().out;
    let head = head.split_whitespace().last().unwrap().to_owned();
    let event = "(select event_id from event_seals where position =";
    let at = |position: &str| format!("broken at {position}");
    // Each change is undone before the next one.
    for (change, undo, position) in [
        (
            format!(
                "update events set body = body || '{{\"action\": \"pause\"}}' where id = {event} 4)"
            ),
            format!(
                "update events set body = body || '{{\"action\": \"declare\"}}' where id = {event} 4)"
            ),
            "4",
        ),
        (
            "update event_seals set position = 1005 where position = 5".to_owned(),
            "update event_seals set position = 5 where position = 1005".to_owned(),
            "5",
        ),
        (swap(2, 3), swap(2, 3), "2"),
    ] {
        server.tamper(&change).await;
        server.trueup(&["audit", "verify"]).await.failed_with(1, &[&at(position)]);
        let output = server.trueup(&["audit", "verify", "-o", "json"]).await;
        assert_eq!(output.json()[0]["broken_at"].to_string(), position, "{output:#?}");
        server.tamper(&undo).await;
        server.trueup(&["audit", "verify", "--expect", &head]).await.succeeded();
    }
    // A log that was computed again has a valid chain, too: only a checkpoint or a head reveals it.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint.json");
    let file = file.to_str().unwrap();
    server.trueup(&["audit", "checkpoint", file]).await.succeeded();
    server.trueup(&["audit", "checkpoint", file]).await.failed_with(1, &["does not exist yet"]);
    let kept = server.trueup(&["audit", "verify", "--checkpoint", file]).await.succeeded();
    assert!(kept.out.contains("nothing up to position 7 was changed since"), "{}", kept.out);
    server.rewrite_log().await;
    let only = server.trueup(&["audit", "verify"]).await.succeeded();
    assert!(only.out.contains("not that the log was never computed again"), "{}", only.out);
    let found = server.trueup(&["audit", "verify", "--checkpoint", file]).await;
    found.failed_with(1, &[&at("7"), "a different hash was recorded"]);
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("\"sequence\": \"7\"", "\"sequence\": \"6\"")).unwrap();
    let forged = server.trueup(&["audit", "verify", "--checkpoint", file]).await;
    forged.failed_with(1, &["its signature is not valid"]);
    // A truncated log has a valid chain: only a recorded head reveals it.
    server.tamper("delete from event_seals where position > 5").await;
    server.trueup(&["audit", "verify"]).await.succeeded();
    let cut = server.trueup(&["audit", "verify", "--expect", &head]).await;
    cut.failed_with(1, &[&at("6"), "the log ends at 5"]);
}

/// Swaps two events, with all columns consistent.
fn swap(one: i64, other: i64) -> String {
    format!(
        "alter table event_seals drop constraint if exists event_seals_event_key;
         update event_seals s set event_id = t.event_id, subject_id = t.subject_id, type = t.type,
                generation = t.generation
         from event_seals t
         where s.position in ({one}, {other}) and t.position = {one} + {other} - s.position"
    )
}
