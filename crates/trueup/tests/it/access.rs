//! Tokens, orgs and contexts on the command line.

use std::os::unix::fs::PermissionsExt;

use crate::install::{Install, shared};

fn operator(install: &Install) -> String {
    let file = std::fs::read_to_string(install.dir().join("operator.token")).unwrap();
    file.trim().to_owned()
}

#[tokio::test]
async fn operator_creates_org_and_owner_uses_a_context() {
    let install = shared().await;
    let url = format!("http://127.0.0.1:{}", install.port());
    let operator = operator(install);
    let made = install.trueup(&["--token", &operator, "org", "create", "guild"]).await.succeeded();
    let owner = made.out.trim().to_owned();
    assert!(owner.starts_with("tu_") && !made.err.contains(&owner), "{made:?}");
    let again = install.trueup(&["--token", &operator, "org", "create", "guild"]).await;
    again.failed_with(1, &["TU1006", "choose a different one"]);

    let add = ["--url", &url, "--token", &owner, "context", "add", "guild", "-p", "blog"];
    install.trueup(&add).await.succeeded();
    let mode = std::fs::metadata(install.config()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let wrong = ["--token", "tu_wrong", "context", "add", "wrong"];
    install.trueup(&wrong).await.failed_with(1, &["TU1001"]);
    for args in [
        &["context", "list"][..],
        &["context", "show", "guild", "-o", "json"],
        &["-o", "yaml", "context", "list"],
    ] {
        let output = install.trueup(args).await.succeeded();
        assert!(output.out.contains("guild") && !output.out.contains(&owner[30..]), "{output:?}");
    }
    let who =
        install.trueup(&["--context", "guild", "whoami", "-o", "json"]).await.succeeded().json();
    assert_eq!((&who[0]["org"]["name"], &who[0]["role"]), (&"guild".into(), &"owner".into()));
    // Without the context, the install's own token is used.
    let who = install.trueup(&["whoami", "-o", "json"]).await.succeeded().json();
    assert_eq!(who[0]["org"]["name"], "demo");
    // Another org is an error, not ignored: the command would act in the token's own org.
    let elsewhere = ["--org", "guild", "delete", "project", "shop", "--dry-run"];
    let words = ["TU1002", "belongs to org `demo`", "cannot act in org `guild`", "--org"];
    install.trueup(&elsewhere).await.failed_with(1, &words);
    install.trueup(&["--org", "demo", "whoami"]).await.succeeded();
    install
        .trueup(&["--context", "nowhere", "get"])
        .await
        .failed_with(3, &["no context `nowhere`", "guild"]);
    install.trueup(&["context", "add", "local"]).await.failed_with(2, &["this machine"]);

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
    let ci = install.trueup(&create).await.succeeded().out.trim().to_owned();
    let listed = install.trueup(&["--context", "guild", "token", "list"]).await.succeeded();
    assert!(listed.out.contains("ci") && !listed.out.contains(&ci[30..]), "{listed:?}");
    let apply = ["--url", &url, "--token", &ci, "api", "PUT", "/v1/projects/blog"];
    install.trueup(&apply).await.failed_with(1, &["HTTP 403"]);
    install.trueup(&["--context", "guild", "token", "revoke", "ci"]).await.succeeded();
    install.trueup(&["--url", &url, "--token", &ci, "whoami"]).await.failed_with(1, &["TU1001"]);
    let last = install.trueup(&["--context", "guild", "token", "revoke", "owner"]).await;
    last.failed_with(1, &["TU1005", "trueup token create"]);
    let events = install.trueup(&["--context", "guild", "events"]).await.succeeded();
    assert!(
        events.out.contains("token revoked") && !events.out.contains("ci, requested by owner"),
        "{events:?}"
    );
    install.trueup(&["context", "remove", "guild"]).await.succeeded();
    install.trueup(&["context", "show", "guild"]).await.failed_with(3, &["no context"]);
}

#[tokio::test]
async fn one_command_deletes_an_org_and_its_receipts_stay_readable_by_id() {
    let install = shared().await;
    let operator = operator(install);
    let as_operator = async |args: &[&str]| {
        install.trueup(&[&["--token", operator.as_str()][..], args].concat()).await
    };
    let owner = as_operator(&["org", "create", "leavers"]).await.succeeded().out.trim().to_owned();
    let as_owner = async |args: &[&str]| {
        install.trueup(&[&["--token", owner.as_str()][..], args].concat()).await
    };
    let service = |name: &str| {
        format!(
            "---\nkind: Service\nname: {name}\nproject: depot\ntemplate: web@1\n\
             parameters:\n  image: depot:1\n"
        )
    };
    let text = format!("kind: Project\nname: depot\n{}{}", service("api"), service("web"));
    let file = install.file("depot.yaml", &text);
    as_owner(&["apply", "-f", &file, "--wait"]).await.succeeded();
    let org = as_operator(&["org", "get", "leavers", "-o", "json"]).await.succeeded().json();
    let id = org[0]["id"].as_str().unwrap();

    let delete = ["delete", "org", "leavers"];
    as_owner(&[&delete[..], &["--yes"]].concat()).await.failed_with(1, &["TU1002"]);
    as_operator(&delete).await.failed_with(2, &["delete org leavers", "--yes"]);
    let shown = as_operator(&[&delete[..], &["--dry-run"]].concat()).await.succeeded();
    assert!(shown.out.contains("depot/api") && shown.out.contains("depot/web"), "{shown:#?}");
    let gone = as_operator(&[&delete[..], &["--wait", "--yes"]].concat()).await.succeeded();
    for words in ["org/leavers deletion accepted", "depot", "api_absence"] {
        assert!(gone.out.contains(words), "`{words}` is not in {gone:#?}");
    }
    assert!(gone.err.contains("complete: 3 receipts of 1 project"), "{gone:#?}");

    let bundle = as_operator(&["receipts", "--org", id, "-o", "json"]).await.succeeded().json();
    assert_eq!((&bundle[0]["complete"], &bundle[0]["org_id"]), (&true.into(), &id.into()));
    let names: Vec<&str> = bundle[0]["items"][0]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["api", "web", "depot"]);
    // The org's own tokens still read, and nothing new is accepted.
    let own = as_owner(&["receipts", "--org", "leavers", "-o", "json"]).await.succeeded().json();
    assert_eq!(own, bundle);
    let events = as_owner(&["events", "--type", "OrgDeleteQueued"]).await.succeeded();
    assert!(events.out.contains("accepted with 1 project and 2 services"), "{events:#?}");
    as_owner(&["api", "PUT", "/v1/projects/fresh"]).await.failed_with(1, &["HTTP 409"]);
    let again = as_operator(&[&delete[..], &["--wait", "--yes"]].concat()).await.succeeded();
    assert!(again.out.contains("was already accepted"), "{again:#?}");
    as_owner(&["receipts"]).await.failed_with(2, &["trueup receipts PROJECT"]);
}

#[tokio::test]
async fn api_command_maps_status_to_exit_code() {
    let install = shared().await;
    let output = install.trueup(&["api", "GET", "/v1/whoami"]).await.succeeded();
    assert_eq!(output.json()[0]["org"]["name"], "demo");
    assert!(output.err.contains("HTTP 200 OK"), "{output:?}");
    install.trueup(&["api", "get", "/v1/projects/missing"]).await.failed_with(3, &["HTTP 404"]);
    let body = install.file("bad.json", "{\"evil\": true}");
    let args = ["api", "PUT", "/v1/projects/shop", "-d", &body, "-H", "If-Match: \"g1\""];
    let output = install.trueup(&args).await;
    output.failed_with(1, &["HTTP 400"]);
    assert_eq!(output.json()[0]["code"], "TU1101");
    install.trueup(&["api", "GET", "v1/x"]).await.failed_with(1, &["/v1/services"]);
    install.trueup(&["api", "GET", "/v1/x", "-H", "canary"]).await.failed_with(2, &["no colon"]);
    install.trueup(&["api", "GET", "/v1/x", "-d", "/nowhere"]).await.failed_with(1, &["/nowhere"]);
}
