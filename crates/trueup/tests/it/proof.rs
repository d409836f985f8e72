//! A host is proved by DNS alone: the real binary, a real DNS server, and no operator.

use std::time::Duration;

use trueup_testkit::real_dns::RealDns;

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

const HOST: &str = "www.example.org";
const WEB: &str = "\
kind: Project
name: proofs
---
kind: Service
name: web
project: proofs
template: web@1
parameters: { image: web:1.0.0 }
";

#[tokio::test]
async fn a_host_is_proved_by_dns_and_by_nobody_else() {
    let Some(mut server) = RealDns::start(&[]).await else { return };
    let shared = shared().await;
    let install = Install::new(Some(&shared.kubeconfig()));
    let address = server.address().to_string();
    install.up(&["--no-demo", "--dns-server", &address]).await.well();
    install.reachable().await;
    let file = install.file("web.yaml", WEB);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.well();
    let domain = |args: &[&'static str]| {
        let all: Vec<&str> =
            ["-p", "proofs", "domain"].into_iter().chain(args.iter().copied()).collect();
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let install = &install;
        async move { install.trueup(&all.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };

    let added = domain(&["add", HOST, "--service", "web", "-o", "json"]).await.well();
    let proof = added.json()[0]["proof"].clone();
    assert_eq!(proof["name"], format!("_trueup.{HOST}"), "{added:#?}");
    domain(&["verify", HOST, "--service", "web"]).await.well();
    let seen = eventually("the first look", SOON, || async {
        let shown = domain(&["get", HOST, "--service", "web"]).await.well();
        shown.out.contains("no TXT record yet").then_some(shown)
    })
    .await;
    assert!(seen.out.contains("next look in"), "{seen:#?}");
    let late = domain(&["verify", HOST, "--service", "web", "--wait", "--timeout", "1s"]).await;
    late.complains(4, &["not proved after 1s", "no TXT record yet", "domain get"]);

    let text = proof["value"].as_str().unwrap();
    server.publish(&[format!("_trueup.{HOST}. TXT \"{text}\"")]);
    let waiting = domain(&["verify", HOST, "--service", "web", "--wait"]);
    let proved = waiting.await.well();
    assert!(proved.out.contains("domain/www.example.org open"), "{proved:#?}");
    let listed = install.trueup(&["-p", "proofs", "events", "web"]).await.well();
    assert!(listed.out.contains("its record is in DNS"), "{listed:#?}");
    eventually("the cluster to have it", SOON, || async {
        let shown = domain(&["get", HOST, "--service", "web", "-o", "json"]).await.well();
        (shown.json()[0]["state"] == "open").then_some(())
    })
    .await;
    // What is proved stays so without its record.
    server.publish(&[]);
    tokio::time::timeout(Duration::from_secs(60), async {
        let shown = domain(&["list", "--service", "web", "-o", "json"]).await.well();
        assert_eq!(shown.json()[0]["items"][0]["state"], "open", "{shown:#?}");
    })
    .await
    .unwrap();
}
