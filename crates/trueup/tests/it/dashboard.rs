//! The dashboard in a real browser: the scripts `journeys` and `screens` of `web/package.json`, against a
//! `trueup up` of their own that serves the embedded files.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use trueup_testkit::left_out::left_out;

use crate::docs::on_path;
use crate::install::{Install, TRUEUP, shared};

/// Names of the browser, as distributions install it.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Longer than the scripts take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1200);

#[tokio::test]
#[ignore = "takes minutes; run by `make screens`"]
async fn journeys_of_a_user_pass_in_a_browser() {
    run("journeys").await;
}

#[tokio::test]
#[ignore = "takes minutes; run by `make screens`"]
async fn screens() {
    run("screens").await;
}

/// Runs a script of the dashboard against an install that it may change and break.
///
/// The script gets `BASE_URL`, `TRUEUP_TOKEN` (an owner's), `TRUEUP_BIN`, `TRUEUP_DATA_DIR`,
/// `TRUEUP_KUBECONFIG` and `CHROMIUM`.
async fn run(script: &str) {
    let Some(browser) = BROWSERS.into_iter().find_map(on_path) else {
        left_out("the dashboard in a browser: chromium is not installed");
        return;
    };
    if trueup_dashboard::FILES.is_empty() {
        left_out("the dashboard in a browser: it was not built; scripts/web-build says why");
        return;
    }
    let kubeconfig = shared().await.kubeconfig();
    let install = Install::new(Some(&kubeconfig));
    install.up(&[]).await.succeeded();
    install.reachable().await;
    let (url, token) = install.access().unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let running = Command::new("npm")
        .args(["run", "--silent", "--if-present", script])
        .current_dir(web)
        .env("BASE_URL", url)
        .env("TRUEUP_TOKEN", token)
        .env("TRUEUP_BIN", TRUEUP)
        .env("TRUEUP_DATA_DIR", install.dir())
        .env("TRUEUP_KUBECONFIG", &kubeconfig)
        .env("CHROMIUM", browser)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(PATIENCE, running).await;
    let ended = ended.unwrap_or_else(|_| panic!("npm run {script} did not end")).unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "npm run {script}:\n{out}{err}");
    println!("{out}");
}
