//! What people get wrong, and what Trueup says to it: where, what, how to mend it, and an exit code.

use std::net::TcpListener;

use crate::install::{Install, shared};

const GOOD: &str = "kind: Service\nname: mistaken\nproject: shop\ntemplate: web@1\n";

#[tokio::test]
async fn a_bad_manifest_is_told_by_file_document_field_and_fix() {
    let install = shared().await;
    let bad = [
        (format!("{GOOD}replicas: 2\n"), ["document 1", "`replicas` is not known", "parameters:"]),
        (
            "kind: Servce\nname: a\n".to_owned(),
            ["document 1", "`Servce`", "did you mean `Service`"],
        ),
        ("kind: Pod\nname: a\n".to_owned(), ["document 1", "`Pod`", "`Project`, `Service`"]),
        (
            format!("{GOOD}parameters:\n  image: a:1\n  replicas: many\n"),
            ["document 1", "parameters.replicas", "must be a whole number"],
        ),
        (
            format!("{GOOD}parameters:\n  image: a:1\n  replica: 2\n"),
            ["document 1", "parameters.replica", "replicas"],
        ),
        (
            format!("kind: Project\nname: shop\n---\n{GOOD}"),
            ["document 2", "parameters.image", "mend"],
        ),
        (GOOD.replace("shop", "shoop"), ["document 1", "project", "trueup get"]),
    ];
    for (number, (text, words)) in bad.iter().enumerate() {
        let file = install.file(&format!("bad-{number}.yaml"), text);
        let said = install.trueup(&["apply", "-f", &file]).await;
        said.complains(1, words);
        said.complains(1, &[&file, "were not accepted"]);
    }
    install.trueup(&["get", "mistaken"]).await.complains(3, &["mistaken"]);
    let nowhere = install.dir().join("nowhere.yaml");
    let said = install.trueup(&["apply", "-f", nowhere.to_str().unwrap()]).await;
    said.complains(1, &["nowhere.yaml", "check the path"]);
}

#[tokio::test]
async fn what_is_not_there_and_what_does_not_come_true_have_exit_codes() {
    let install = shared().await;
    for command in ["get", "describe", "watch"] {
        install.trueup(&[command, "nobody"]).await.complains(3, &["no service `nobody`"]);
    }
    install.trueup(&["delete", "nobody", "--yes"]).await.complains(3, &["no service `nobody`"]);
    let args = ["watch", "storefront", "--until", "deleted", "--timeout", "1s"];
    install.trueup(&args).await.complains(4, &["is not deleted after 1s", "trueup describe"]);
    install.trueup(&["watch", "storefront", "--until", "green"]).await.complains(2, &["healthy"]);
    let args = ["--token", "tu_wrong", "get"];
    install.trueup(&args).await.complains(1, &["token"]);
}

#[tokio::test]
async fn where_no_trueup_is_up_the_way_to_one_is_said() {
    let install = Install::new(None);
    install.trueup(&["get"]).await.complains(5, &["trueup up"]);
    install.trueup(&["status"]).await.complains(5, &["trueup up"]);
    install.trueup(&["local", "kubeconfig"]).await.complains(3, &["trueup up"]);
    let down = install.trueup(&["down"]).await.well();
    assert!(down.err.contains("was not up"), "{down:?}");
    let args = ["--url", "http://127.0.0.1:1", "--token", "tu_x", "get"];
    install.trueup(&args).await.complains(5, &["http://127.0.0.1:1"]);
}

#[tokio::test]
async fn a_taken_port_is_named_with_what_to_do() {
    let install = Install::new(None);
    let _taken = TcpListener::bind(("127.0.0.1", install.port())).unwrap();
    let words = [&format!("port {} is taken", install.port()), "--port"];
    let said = install.up(&[]).await;
    said.complains(1, &words);
    assert_eq!(said.err.matches("error:").count(), 1, "{said:?}");
    let args = install.up_args(&[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    install.trueup(&args).await.complains(1, &words);
    assert_eq!(install.processes(), [], "a start that failed leaves nothing running");
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let install = Install::new(Some("/nowhere/kubeconfig".as_ref()));
    install.up(&[]).await.complains(1, &["/nowhere/kubeconfig"]);
    let args = install.up_args(&[]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    install.trueup(&args).await.complains(1, &["/nowhere/kubeconfig"]);
    assert_eq!(install.processes(), [], "a start that failed leaves nothing running");
}
