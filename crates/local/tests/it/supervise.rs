//! A process is identified by more than its pid.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use trueup_local::supervise::{self, Process};

use crate::place;

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600");
    command
}

#[tokio::test]
async fn process_is_spawned_adopted_and_stopped_once() {
    let folder = place::folder();
    let pid_file = folder.path().join("pid.json");
    let spawned = supervise::spawn(sleeper(), &pid_file).unwrap();
    let adopted = supervise::adopt(&pid_file).unwrap().unwrap();
    assert_eq!(spawned, adopted);

    let group = std::fs::read_to_string(format!("/proc/{}/stat", spawned.pid())).unwrap();
    let group = group.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap().to_owned();
    assert_eq!(group, spawned.pid().to_string(), "Ctrl-C in the terminal must not reach it");

    adopted.stop(&[]).await.unwrap();
    assert!(!spawned.is_alive());
    spawned.stop(&[]).await.unwrap();
    assert_eq!(supervise::adopt(&pid_file).unwrap(), None);
    assert!(!pid_file.exists(), "a stale pid file is removed");
}

#[tokio::test]
async fn reused_pid_is_never_signalled() {
    let folder = place::folder();
    let pid_file = folder.path().join("pid.json");
    let bystander = supervise::spawn(sleeper(), &pid_file).unwrap();

    for (field, value) in [("start_time", "1"), ("boot", "\"another\"")] {
        let mut stale = serde_json_value(&pid_file);
        stale[field] = value.parse().unwrap();
        let recycled: Process = serde_json::from_value(stale.clone()).unwrap();
        assert!(!recycled.is_alive());
        recycled.stop(&[]).await.unwrap();
        assert!(bystander.is_alive(), "{field} differs, so it is another process");

        let other_file = folder.path().join("other.json");
        std::fs::write(&other_file, stale.to_string()).unwrap();
        assert_eq!(supervise::adopt(&other_file).unwrap(), None);
    }

    std::fs::write(folder.path().join("damaged.json"), "{").unwrap();
    assert_eq!(supervise::adopt(&folder.path().join("damaged.json")).unwrap(), None);
    bystander.stop(&[]).await.unwrap();
    assert!(bystander.gone_within(Duration::ZERO).await);
}

#[tokio::test]
async fn missing_program_is_named_in_the_error() {
    let folder = place::folder();
    let missing = Command::new("/nowhere/at-all");
    let error = supervise::spawn(missing, &folder.path().join("pid.json")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at-all"), "{error}");
}

fn serde_json_value(path: &PathBuf) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
