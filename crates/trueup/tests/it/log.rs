//! The event log from the command line: followed across restarts, and checked for what was done to it.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::desk::Desk;

const PATIENCE: Duration = Duration::from_secs(300);

/// `trueup events -f`, line by line.
struct Following {
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Following {
    fn new(desk: &Desk, args: &[&str]) -> Self {
        let args = [&["events", "-f", "-o", "json"], args].concat();
        let mut command = desk.command(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { lines, child }
    }

    /// The positions of the next events.
    async fn take(&mut self, count: usize) -> Vec<i64> {
        let mut positions = Vec::new();
        for _ in 0..count {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.expect("an event should be printed").unwrap();
            let event: Value = serde_json::from_str(&line.expect("it should go on")).unwrap();
            positions.push(event["sequence"].as_str().unwrap().parse().unwrap());
        }
        positions
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_goes_on_after_each_restart_and_crash_without_loss_or_doubling() {
    let mut desk = Desk::new().await;
    desk.declare("web", "nginx:1").await;
    desk.sealed().await;
    let mut following = Following::new(&desk, &["--last", "1"]);
    assert_eq!(following.take(1).await, [2]);
    let mut expected = 3..;
    for round in 0..4 {
        for number in 0..3 {
            desk.declare("web", &format!("nginx:{round}-{number}")).await;
        }
        if round % 2 == 0 {
            desk.stop().await;
        } else {
            desk.crash().await;
        }
        desk.start().await;
        desk.declare("web", &format!("nginx:{round}-after")).await;
        let told = following.take(4).await;
        assert_eq!(told, expected.by_ref().take(4).collect::<Vec<i64>>(), "round {round}");
    }
    following.child.kill().await.unwrap();
    let more = following.lines.next_line().await.unwrap();
    assert_eq!(more, None, "nothing is told twice");
}

#[tokio::test]
async fn the_newest_are_shown_in_order_and_by_name() {
    let desk = Desk::new().await;
    for number in 1..=5 {
        desk.declare("web", &format!("nginx:{number}")).await;
        desk.declare("other", &format!("nginx:{number}")).await;
    }
    desk.sealed().await;
    for (args, expected) in [
        (&["--last", "3"][..], vec!["9", "10", "11"]),
        (&["--last", "0"], vec![]),
        (&["--after", "9"], vec!["10", "11"]),
        (&["web", "--last", "2"], vec!["8", "10"]),
        (&["--type", "ProjectQueued"], vec!["1"]),
        (&["web", "--generation", "3"], vec!["6"]),
        (&["shop/other", "--after", "9", "--type", "ServiceQueued"], vec!["11"]),
    ] {
        let said = desk.trueup(&[&["events", "-o", "json"], args].concat()).await.well();
        let told = said.json();
        let told: Vec<&str> =
            told.iter().map(|event| event["sequence"].as_str().unwrap()).collect();
        assert_eq!(told, expected, "{args:?}");
    }
    desk.trueup(&["events", "nothing"]).await.complains(3, &["nothing"]);
    let page = desk.trueup(&["describe", "web"]).await.well();
    let events = page.out.lines().filter(|line| line.contains("asked by")).count();
    assert_eq!(events, 5, "{}", page.out);
}

#[tokio::test]
async fn a_log_that_nobody_touched_is_verified_and_its_head_can_be_noted() {
    let desk = Desk::new().await;
    for number in 1..=4 {
        desk.declare("web", &format!("nginx:{number}")).await;
    }
    desk.sealed().await;
    let said = desk.trueup(&["audit", "verify"]).await.well();
    assert!(said.out.contains("5 events"), "{said:#?}");
    let noted = said.out.split_whitespace().last().unwrap().to_owned();
    desk.declare("web", "nginx:5").await;
    desk.sealed().await;
    let said = desk.trueup(&["audit", "verify", "--expect", &noted, "-o", "json"]).await.well();
    let summary = &said.json()[0];
    assert_eq!((&summary["verified"], &summary["events"]), (&json!(true), &json!(6)));
    let head = format!("{}:{}", summary["position"], summary["hash"].as_str().unwrap());
    desk.trueup(&["audit", "verify", "--expect", &noted, "--expect", &head]).await.well();
    // A hash that never stood there, and one that was noted of something else.
    let other = noted.replacen('5', "4", 1);
    let wrong = desk.trueup(&["audit", "verify", "--expect", &other]).await;
    wrong.complains(1, &["broken at 4", "another hash was noted"]);
    desk.trueup(&["audit", "verify", "--expect", "5"]).await.complains(2, &["POSITION:HASH"]);
}

#[tokio::test]
async fn whatever_is_done_to_the_log_is_found_and_named() {
    let desk = Desk::new().await;
    for number in 1..=6 {
        desk.declare("web", &format!("nginx:{number}")).await;
    }
    desk.sealed().await;
    let head = desk.trueup(&["audit", "verify"]).await.well().out;
    let head = head.split_whitespace().last().unwrap().to_owned();
    let event = "(select event_id from event_seals where position =";
    let at = |position: &str| format!("broken at {position}");
    // Each change is undone before the next, so that each is found by itself.
    for (change, undo, position) in [
        (
            format!(
                "update events set body = body || '{{\"principal\": \"eve\"}}' where id = {event} 4)"
            ),
            format!(
                "update events set body = body || '{{\"principal\": \"the-owner\"}}' where id = {event} 4)"
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
        desk.tamper(&change).await;
        desk.trueup(&["audit", "verify"]).await.complains(1, &[&at(position)]);
        let said = desk.trueup(&["audit", "verify", "-o", "json"]).await;
        assert_eq!(said.json()[0]["broken_at"].to_string(), position, "{said:#?}");
        desk.tamper(&undo).await;
        desk.trueup(&["audit", "verify", "--expect", &head]).await.well();
    }
    // The end cut off leaves a chain that holds: only who noted the head can tell.
    desk.tamper("delete from event_seals where position > 5").await;
    desk.trueup(&["audit", "verify"]).await.well();
    let cut = desk.trueup(&["audit", "verify", "--expect", &head]).await;
    cut.complains(1, &[&at("6"), "the log ends at 5"]);
}

/// Puts two events in each other's place, as somebody would who does it well.
fn swap(one: i64, other: i64) -> String {
    format!(
        "alter table event_seals drop constraint if exists event_seals_event_key;
         update event_seals s set event_id = t.event_id, unit_id = t.unit_id, type = t.type,
                generation = t.generation
         from event_seals t
         where s.position in ({one}, {other}) and t.position = {one} + {other} - s.position"
    )
}
