//! Tokens, orgs and contexts as a person meets them at the command line.

use std::os::unix::fs::PermissionsExt;

use crate::install::{Install, SOON, shared};
use crate::wait::eventually;

fn operator(install: &Install) -> String {
    let file = std::fs::read_to_string(install.dir().join("operator.token")).unwrap();
    file.trim().to_owned()
}

#[tokio::test]
async fn an_operator_makes_an_org_and_its_owner_works_in_a_context() {
    let install = shared().await;
    let url = format!("http://127.0.0.1:{}", install.port());
    let operator = operator(install);
    let made = install.trueup(&["--token", &operator, "org", "create", "guild"]).await.well();
    let owner = made.out.trim().to_owned();
    assert!(owner.starts_with("tu_") && !made.err.contains(&owner), "{made:?}");
    let again = install.trueup(&["--token", &operator, "org", "create", "guild"]).await;
    again.complains(1, &["TU1006", "choose another"]);

    let add = ["--url", &url, "--token", &owner, "context", "add", "guild", "-p", "blog"];
    install.trueup(&add).await.well();
    let mode = std::fs::metadata(install.config()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let wrong = ["--token", "tu_wrong", "context", "add", "wrong"];
    install.trueup(&wrong).await.complains(1, &["TU1001"]);
    for args in [
        &["context", "list"][..],
        &["context", "show", "guild", "-o", "json"],
        &["-o", "yaml", "context", "list"],
    ] {
        let said = install.trueup(args).await.well();
        assert!(said.out.contains("guild") && !said.out.contains(&owner[30..]), "{said:?}");
    }
    let who = install.trueup(&["--context", "guild", "whoami", "-o", "json"]).await.well().json();
    assert_eq!((&who[0]["org"]["name"], &who[0]["role"]), (&"guild".into(), &"owner".into()));
    // Without the context it is still the install's own.
    let who = install.trueup(&["whoami", "-o", "json"]).await.well().json();
    assert_eq!(who[0]["org"]["name"], "demo");
    install
        .trueup(&["--context", "nowhere", "get"])
        .await
        .complains(3, &["no context `nowhere`", "guild"]);
    install.trueup(&["context", "add", "local"]).await.complains(2, &["this machine"]);

    let create = [
        "--context",
        "guild",
        "token",
        "create",
        "ci",
        "--role",
        "developer",
        "--permission",
        "read",
    ];
    let ci = install.trueup(&create).await.well().out.trim().to_owned();
    let listed = install.trueup(&["--context", "guild", "token", "list"]).await.well();
    assert!(listed.out.contains("ci") && !listed.out.contains(&ci[30..]), "{listed:?}");
    let apply = ["--url", &url, "--token", &ci, "api", "PUT", "/v1/projects/blog"];
    install.trueup(&apply).await.complains(1, &["HTTP 403"]);
    install.trueup(&["--context", "guild", "token", "revoke", "ci"]).await.well();
    install.trueup(&["--url", &url, "--token", &ci, "whoami"]).await.complains(1, &["TU1001"]);
    let last = install.trueup(&["--context", "guild", "token", "revoke", "owner"]).await;
    last.complains(1, &["TU1005", "trueup token create"]);
    let events = install.trueup(&["--context", "guild", "events"]).await.well();
    assert!(
        events.out.contains("token revoked") && events.out.contains("ci, asked by owner"),
        "{events:?}"
    );
    install.trueup(&["context", "remove", "guild"]).await.well();
    install.trueup(&["context", "show", "guild"]).await.complains(3, &["no context"]);
}

#[tokio::test]
async fn any_call_can_be_made_and_its_exit_code_tells() {
    let install = shared().await;
    let said = install.trueup(&["api", "GET", "/v1/whoami"]).await.well();
    assert_eq!(said.json()[0]["org"]["name"], "demo");
    assert!(said.err.contains("HTTP 200 OK"), "{said:?}");
    // On a starved machine the database may answer too late, and the problem says to try again.
    let missing = eventually("an answer", SOON, || async {
        let said = install.trueup(&["api", "get", "/v1/projects/nobody"]).await;
        (!said.err.contains("HTTP 503")).then_some(said)
    });
    missing.await.complains(3, &["HTTP 404"]);
    let body = install.file("bad.json", "{\"evil\": true}");
    let args = ["api", "PUT", "/v1/projects/shop", "-d", &body, "-H", "If-Match: \"g1\""];
    let said = install.trueup(&args).await;
    said.complains(1, &["HTTP 400"]);
    assert_eq!(said.json()[0]["code"], "TU1101");
    install.trueup(&["api", "GET", "v1/x"]).await.complains(1, &["/v1/services"]);
    install.trueup(&["api", "GET", "/v1/x", "-H", "canary"]).await.complains(2, &["no colon"]);
    install.trueup(&["api", "GET", "/v1/x", "-d", "/nowhere"]).await.complains(1, &["/nowhere"]);
}
