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

/// The looks of all screens; `make test` opens each screen in one of them.
const ALL_LOOKS: &str = "light,dark,light-phone,dark-phone";

#[tokio::test]
async fn journeys_pass_and_screens_are_accessible_in_a_browser() {
    run(&["journeys", "screens"], "light").await;
}

#[tokio::test]
#[ignore = "takes minutes; run by `make screens`"]
async fn screens() {
    run(&["screens"], ALL_LOOKS).await;
}

#[tokio::test]
#[ignore = "takes minutes; run by `make screens`"]
async fn a_list_of_ten_thousand_services_is_quick() {
    run(&["many"], ALL_LOOKS).await;
}

#[tokio::test]
#[ignore = "takes minutes; run by `make screens`"]
async fn an_event_is_soon_on_a_hundred_pages() {
    run(&["pages"], ALL_LOOKS).await;
}

/// Runs scripts of the dashboard against an install that they may change and break.
///
/// A script gets `BASE_URL`, `TRUEUP_TOKEN` (an owner's), `TRUEUP_BIN`, `TRUEUP_DATA_DIR`,
/// `TRUEUP_KUBECONFIG`, `CHROMIUM` and `LOOKS`.
async fn run(scripts: &[&str], looks: &str) {
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
    for script in scripts {
        let mut command = Command::new("npm");
        command
            .args(["run", "--silent", script])
            .env("BASE_URL", &url)
            .env("TRUEUP_TOKEN", &token)
            .env("TRUEUP_BIN", TRUEUP)
            .env("TRUEUP_DATA_DIR", install.dir())
            .env("TRUEUP_KUBECONFIG", &kubeconfig)
            .env("CHROMIUM", &browser)
            .env("LOOKS", looks);
        finish(command, script).await;
    }
}

/// Runs a command in `web` to its end, which must be a success.
async fn finish(mut command: Command, script: &str) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    command.current_dir(web).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("npm run {script} did not end")).unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "npm run {script}:\n{out}{err}");
    println!("{out}");
}
