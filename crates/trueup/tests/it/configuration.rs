//! The server's configuration, as a user meets it: every fault is named, and TLS works.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;
use tempfile::TempDir;

use crate::install::Install;

const HOST: &str = "trueup.example.com";

/// An install whose cluster does not answer: these tests need none.
fn install() -> (TempDir, Install) {
    let cluster = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{ "name": "a", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "users": [{ "name": "a", "user": {} }],
    });
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, cluster.to_string()).unwrap();
    (folder, Install::new(Some(&path)))
}

#[tokio::test]
async fn config_check_names_every_fault_and_up_refuses_them() {
    let (_folder, install) = install();
    let text = "[server]\nlisten = \"0.0.0.0:7410\"\npublic_url = \"https://trueup.example.com\"\nlisten_port = 1\n[cluster]\nnodes = \"two\"\n";
    fs::write(install.dir().join("trueup.toml"), text).unwrap();
    let words =
        ["server.listen: others can reach", "server.listen_port: unknown key", "cluster.nodes"];
    install.trueup(&["config", "check"]).await.failed_with(1, &words);
    let checked = install.trueup(&["config", "check", "-o", "json"]).await;
    let report = &checked.json()[0];
    assert_eq!((report["valid"].as_bool(), checked.code), (Some(false), Some(1)), "{report}");
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(3), "{report}");
    // The port comes from a flag of the test, so only the other two faults are left.
    install.up(&[]).await.failed_with(1, &words[1..]);

    fs::write(install.dir().join("trueup.toml"), "[cluster]\nnodes = \"simulated\"\n").unwrap();
    let valid = install.trueup(&["config", "check"]).await.succeeded();
    assert!(valid.out.contains("cluster.nodes") && valid.err.contains("is valid"), "{valid:?}");
}

#[tokio::test]
async fn api_beyond_loopback_speaks_tls_and_local_commands_still_work() {
    let (_folder, install) = install();
    let listen = format!("0.0.0.0:{}", install.port());
    let public = ["--no-demo", "--listen", &listen];
    install.up(&public).await.failed_with(1, &["server.listen", "server.trusted_proxies"]);

    let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
    let certificate = install.file("tls.crt", &made.cert.pem());
    let key = install.file("tls.key", &made.signing_key.serialize_pem());
    let text = format!(
        "[server]\npublic_url = \"https://{HOST}\"\n\
         [server.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"
    );
    fs::write(install.dir().join("trueup.toml"), text).unwrap();
    install.up(&public).await.succeeded();
    install.trueup(&["get", "plans"]).await.succeeded();

    let _installed = rustls::crypto::ring::default_provider().install_default();
    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, install.port()));
    let client =
        reqwest::Client::builder().no_proxy().resolve(HOST, address).tls_certs_only([trusted]);
    let url = format!("https://{HOST}:{}/readyz", install.port());
    let answer = client.build().unwrap().get(url).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));
    install.trueup(&["down"]).await.succeeded();
}
