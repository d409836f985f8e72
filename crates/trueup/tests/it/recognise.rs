//! A cluster other than the recorded one is refused before anything in it is touched.

use jiff::Timestamp;
use trueup_local::Progress;
use trueup_local::postgres::{Options, Postgres};
use trueup_store::{Recognised, Worker};

use crate::install::{Install, shared};

/// Records the identity of another cluster in the database.
async fn pretend_another(install: &Install) {
    let options = Options { dir: install.dir().join("postgres"), durable: true };
    let server = Postgres::adopt_or_start(&options, &Progress::new()).await.unwrap();
    let url = server.admin_url().replace("/postgres", "/trueup").replace("//trueup", "//postgres");
    let worker = Worker::connect(&url).unwrap();
    let clusters = install.client().unwrap().cluster_list().await.unwrap();
    let cluster = clusters.items[0].id.parse().unwrap();
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let replaced = worker.recognise_cluster(cluster, "another", true, now).await.unwrap();
    assert_eq!(replaced, Recognised::Ours);
}

#[tokio::test]
async fn wrong_cluster_is_refused_unless_replaced() {
    let real = shared().await;
    let install = Install::new(Some(&real.kubeconfig()));
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
    pretend_another(&install).await;
    install.trueup(&["down"]).await.succeeded();

    let words = ["another cluster", "nothing in it was touched", "--replace-cluster"];
    install.up(&["--no-demo"]).await.failed_with(1, &words);
    install.up(&["--no-demo", "--replace-cluster"]).await.succeeded();
    install.reachable().await;
    install.trueup(&["down"]).await.succeeded();
    install.up(&["--no-demo"]).await.succeeded();
    install.reachable().await;
}
