//! A new secrets key is used without a restart, and a key that was missing unlocks its secrets.

use std::fs;

use sqlx::{Connection, PgConnection};
use trueup_local::Progress;
use trueup_local::postgres::{Options, Postgres};

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

const WEB: &str = "\
kind: Project
name: vault
---
kind: Service
name: web
project: vault
template: web@1
parameters: { image: web:1.0.0 }
";

/// The number of the key that the data key of each org is encrypted with.
async fn keys_in_use(install: &Install) -> Vec<i32> {
    let options = Options { dir: install.dir().join("postgres"), durable: true };
    let server = Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap();
    let url = server.admin_url();
    let database = format!("{}/trueup", url.strip_suffix("/postgres").unwrap());
    let mut admin = PgConnection::connect(&database).await.unwrap();
    sqlx::query_scalar("select key from org_keys").fetch_all(&mut admin).await.unwrap()
}

async fn set_secret(install: &Install, value: &str) {
    let file = install.file("value", value);
    let set = ["-p", "vault", "secret", "set", "PASSWORD", "--from-file", &file, "--yes"];
    install.trueup(&set).await.succeeded();
    install.trueup(&["watch", "vault/web", "--until", "healthy"]).await.succeeded();
}

#[tokio::test]
async fn rotated_key_is_used_without_a_restart() {
    let shared = shared().await;
    let install = Install::new(Some(&shared.kubeconfig()));
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
    let file = install.file("web.yaml", WEB);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    set_secret(&install, "one").await;
    assert_eq!(keys_in_use(&install).await, [1]);

    let process = install.process("trueup.pid.json");
    install.trueup(&["local", "rotate-key"]).await.succeeded();
    eventually("every org's key to be re-encrypted", SOON, || async {
        (keys_in_use(&install).await == [2]).then_some(())
    })
    .await;
    set_secret(&install, "two").await;
    assert_eq!(install.process("trueup.pid.json"), process, "Trueup should not restart");

    // The next process lacks the key until its file is restored.
    let (key, backup) = (install.dir().join("secrets.key.2"), install.dir().join("backup"));
    install.trueup(&["down"]).await.succeeded();
    fs::rename(&key, &backup).unwrap();
    install.up(&["--no-demo"]).await.succeeded();
    let file = install.file("value", "three");
    let set = ["-p", "vault", "secret", "set", "PASSWORD", "--from-file", &file, "--yes"];
    let refused = install.trueup_once(&set).await;
    assert!(refused.err.contains("TU2101"), "{refused:#?}");
    fs::rename(&backup, &key).unwrap();
    eventually("the secret to be set", SOON, || async {
        install.trueup_once(&set).await.code.filter(|code| *code == 0)
    })
    .await;
    install.trueup(&["watch", "vault/web", "--until", "healthy"]).await.succeeded();
    install.trueup(&["delete", "project", "vault", "--yes", "--wait"]).await.succeeded();
}
