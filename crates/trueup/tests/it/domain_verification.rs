//! Domain verification by DNS: the real binary and a real DNS server, without an operator.

use std::time::Duration;

use trueup_testkit::real_dns::RealDns;

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

const HOST: &str = "www.example.org";
const WEB: &str = "\
kind: Project
name: domains
---
kind: Service
name: web
project: domains
template: web@1
parameters: { image: web:1.0.0 }
";

#[tokio::test]
async fn host_is_verified_by_dns_without_an_operator() {
    let Some(mut server) = RealDns::start(&[]).await else { return };
    let shared = shared().await;
    let install = Install::new(Some(&shared.kubeconfig()));
    let address = server.address().to_string();
    install.up(&["--no-demo", "--dns-server", &address]).await.succeeded();
    install.reachable().await;
    let file = install.file("web.yaml", WEB);
    install.trueup(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let domain = |args: &[&'static str]| {
        let all: Vec<&str> =
            ["-p", "domains", "domain"].into_iter().chain(args.iter().copied()).collect();
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let install = &install;
        async move { install.trueup(&all.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };

    let added = domain(&["add", HOST, "--service", "web", "-o", "json"]).await.succeeded();
    let verification = added.json()[0]["verification"].clone();
    assert_eq!(verification["name"], format!("_trueup.{HOST}"), "{added:#?}");
    domain(&["verify", HOST, "--service", "web"]).await.succeeded();
    let seen = eventually("the first DNS check", SOON, || async {
        let shown = domain(&["get", HOST, "--service", "web"]).await.succeeded();
        shown.out.contains("no TXT record yet").then_some(shown)
    })
    .await;
    assert!(seen.out.contains("next check in"), "{seen:#?}");
    let late = domain(&["verify", HOST, "--service", "web", "--wait", "--timeout", "1s"]).await;
    late.failed_with(4, &["not verified after 1s", "no TXT record yet", "domain get"]);

    let text = verification["value"].as_str().unwrap();
    server.publish(&[format!("_trueup.{HOST}. TXT \"{text}\"")]);
    let waiting = domain(&["verify", HOST, "--service", "web", "--wait"]);
    let verified = waiting.await.succeeded();
    assert!(!verified.out.contains("publish the TXT record"), "{verified:#?}");
    let listed = install.trueup(&["-p", "domains", "events", "web"]).await.succeeded();
    assert!(listed.out.contains("TXT record found in DNS"), "{listed:#?}");
    // The local cluster has no ingress controller, so the host is never reported as routed.
    eventually("the domain to be opening", SOON, || async {
        let shown = domain(&["get", HOST, "--service", "web", "-o", "json"]).await.succeeded();
        (shown.json()[0]["state"] == "opening").then_some(())
    })
    .await;
    // A verified host stays verified without its record.
    server.publish(&[]);
    tokio::time::timeout(Duration::from_secs(60), async {
        let shown = domain(&["list", "--service", "web", "-o", "json"]).await.succeeded();
        assert_eq!(shown.json()[0]["items"][0]["state"], "opening", "{shown:#?}");
    })
    .await
    .unwrap();
}
