//! Lifecycle of the local Kubernetes: start, adoption, stop and crash. Few tests, because a cluster
//! is heavy and they follow one folder over time.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use trueup_local::kube::{self, Binaries, LocalKube, Options};
use trueup_local::{Progress, layout};

use crate::place;

async fn start(binaries: &Binaries, dir: &Path) -> LocalKube {
    start_with(binaries, dir, false).await
}

async fn start_with(binaries: &Binaries, dir: &Path, real_node: bool) -> LocalKube {
    let options = Options { dir: dir.to_owned(), nodes: 2, fast: true, real_node };
    LocalKube::adopt_or_start(binaries, &options, &Progress::new()).await.unwrap()
}

/// Probes `/readyz` with the kubeconfig's CA, certificate and address.
fn answers(binaries: &Binaries, dir: &Path) -> bool {
    Command::new(&binaries.kube).arg("probe").arg("--dir").arg(dir).status().unwrap().success()
}

/// Processes that work in the folder: the supervisor and everything it started.
fn processes(dir: &Path) -> usize {
    let links = fs::read_dir("/proc").unwrap().flatten();
    links
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == dir))
        .count()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), met).await.expect(what);
}

#[tokio::test]
async fn cluster_is_started_adopted_stopped_and_restarted() {
    let cache = layout::cache_dir();
    let binaries = kube::build(&cache, &Progress::new()).await.unwrap();
    assert_eq!(kube::find_built(&cache).as_ref(), Some(&binaries));

    let folder = place::folder();
    let dir = folder.path().join("kube").to_owned();
    let first = start(&binaries, &dir).await;
    let server = first.server().to_owned();
    assert_eq!(first.version(), "v1.36.3");
    assert!(answers(&binaries, &dir));
    let text = fs::read_to_string(first.kubeconfig()).unwrap();
    assert!(text.contains(&server) && text.contains("certificate-authority-data"));
    assert!(!text.contains("insecure"));
    assert_eq!(processes(&dir), 6, "supervisor, etcd, API server, controllers, scheduler, kwok");

    let second = start(&binaries, &dir).await;
    assert_eq!(first.pid(), second.pid());
    // trueup was killed between starting the supervisor and writing the pid file.
    fs::remove_file(dir.join("pid.json")).unwrap();
    let third = start(&binaries, &dir).await;
    assert_eq!(first.pid(), third.pid());

    first.stop().await.unwrap();
    assert!(!second.is_alive() && !dir.join("ready.json").exists());
    assert_eq!(processes(&dir), 0, "stop leaves nothing behind");
    second.stop().await.unwrap();
    third.stop().await.unwrap();

    let again = start(&binaries, &dir).await;
    assert_eq!(again.server(), server, "the address in existing kubeconfigs stays valid");
    assert!(answers(&binaries, &dir));
    again.kill().await.unwrap();
    until("components die with a killed supervisor", || processes(&dir) == 0).await;

    let after_a_crash = start(&binaries, &dir).await;
    assert_eq!(after_a_crash.server(), server);
    assert!(answers(&binaries, &dir));
    after_a_crash.stop().await.unwrap();
}

/// The network device of the cluster's real node, if it is there.
fn has_bridge(dir: &Path) -> bool {
    let chosen = fs::read_to_string(dir.join("node/network.json")).unwrap();
    let chosen: serde_json::Value = serde_json::from_str(&chosen).unwrap();
    Path::new("/sys/class/net").join(chosen["bridge"].as_str().unwrap()).exists()
}

#[tokio::test]
async fn real_node_starts_and_stops_with_its_cluster() {
    let cache = layout::cache_dir();
    let binaries = kube::build(&cache, &Progress::new()).await.unwrap();
    let folder = place::folder();
    let dir = folder.path().join("kube").to_owned();

    let first = start_with(&binaries, &dir, true).await;
    if let Some(missing) = kube::node::missing() {
        assert_eq!(first.real_node(), Err(kube::NoNode::Missing(missing)));
        return first.stop().await.unwrap();
    }
    assert_eq!(first.real_node(), Ok(()));
    assert_eq!(processes(&dir), 8, "the usual six, containerd and the kubelet");
    assert!(has_bridge(&dir));
    first.stop().await.unwrap();
    assert_eq!((processes(&dir), has_bridge(&dir)), (0, false), "stop leaves nothing behind");

    let again = start_with(&binaries, &dir, true).await;
    assert_eq!(again.real_node(), Ok(()));
    again.kill().await.unwrap();
    until("components die with a killed supervisor", || processes(&dir) == 0).await;
    assert!(has_bridge(&dir), "a killed supervisor cleans nothing up");
    kube::stop_left(&cache, &dir).await.unwrap();
    assert!(!has_bridge(&dir), "leftovers are cleaned up later");
}
