//! A fixed sample of what `make fuzz` runs: a public fuzzer sends requests that it derives from the OpenAPI
//! document, and checks each response against the document.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use trueup_testkit::left_out::left_out;

use crate::test_server::TestServer;

/// How many requests each operation gets in the fuzzing phase.
const EXAMPLES: &str = "3";

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_the_openapi_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Command::new("scripts/fuzz-tools").current_dir(&root).output().await;
    let Some(tool) = installed.ok().filter(|output| output.status.success()) else {
        left_out("schemathesis cannot be installed: python3 with venv and pip is needed");
        return;
    };
    let tool = String::from_utf8(tool.stdout).unwrap();
    let server = TestServer::new().await;
    server.declare("web", "nginx:1").await;
    let run = Command::new(tool.trim())
        .args(["--config-file", "scripts/fuzz.toml", "run", "openapi/trueup.json"])
        .args(["--url", &server.url(), "-H", &format!("Authorization: Bearer {}", server.token())])
        .args(["--phases", "examples,fuzzing", "--max-examples", EXAMPLES, "--seed", "7"])
        .args(["--generation-deterministic", "--no-color"])
        .current_dir(&root)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}{err}");
}
