//! What a file and flags become, and every fault at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// The result of loading this file from a data directory, with these flags.
fn loaded(text: &str, flags: &Flags) -> Loaded {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join(FILE), text).unwrap();
    load(flags, dir.path())
}

fn faults(text: &str) -> Vec<String> {
    loaded(text, &Flags::default()).faults.iter().map(ToString::to_string).collect()
}

fn source(loaded: &Loaded, key: &str) -> reader::Source {
    loaded.settings.iter().find(|it| it.key == key).unwrap().source
}

#[test]
fn without_a_file_the_defaults_hold() {
    let dir = TempDir::new().unwrap();
    let loaded = load(&Flags::default(), dir.path());
    assert!(loaded.settings.iter().all(|it| it.source == reader::Source::Default));
    let config = loaded.valid().unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7410");
    assert!(config.demo && config.is_local() && config.database.is_none());
}

#[test]
fn flags_win_over_the_file() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\n[demo]\nenabled = false\n";
    let flags = Flags { port: Some(2), ..Flags::default() };
    let loaded = loaded(text, &flags);
    assert_eq!(source(&loaded, "server.listen"), reader::Source::Flag);
    assert_eq!(source(&loaded, "demo.enabled"), reader::Source::File);
    let config = loaded.valid().unwrap();
    assert_eq!((config.listen.port(), config.demo), (2, false));
}

#[test]
fn every_wrong_key_and_value_is_named_at_once() {
    let text = "
        listen = \"x\"
        [server]
        listen = \"everywhere\"
        public_ulr = \"https://a\"
        trusted_proxies = \"10.0.0.1\"
        [cluster]
        nodes = \"many\"
        kubeconfig = \"/nowhere/kubeconfig\"
        [dns]
        servers = [\"192.0.2.53\", \"one\"]
        [demo]
        enabled = 1.5
    ";
    let faults = faults(text);
    for wanted in [
        "server.listen: must be an address with a port",
        "server.trusted_proxies: must be a list",
        "cluster.kubeconfig: there is no file /nowhere/kubeconfig",
        "cluster.nodes: must be `real` or `simulated`",
        "dns.servers: `one` is not an address",
        "demo.enabled: must be true or false",
        "listen: unknown key; did you mean server.listen?",
        "server.public_ulr: unknown key; did you mean server.listen or server.public_url",
    ] {
        assert!(faults.iter().any(|it| it.starts_with(wanted)), "{wanted}: {faults:#?}");
    }
    assert_eq!(faults.len(), 8, "{faults:#?}");
}

#[test]
fn syntax_error_names_the_file_and_the_line() {
    let faults = faults("[server\n");
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("trueup.toml") && faults[0].contains("line 1"), "{faults:?}");
}

#[test]
fn syntax_error_does_not_quote_a_password() {
    let faults = faults("[database]\nurl = \"postgres://user:canary@host/db\n");
    assert!(faults[0].contains("line 2") && !faults[0].contains("canary"), "{faults:?}");
}

#[test]
fn listening_beyond_loopback_needs_tls_or_a_proxy() {
    let public =
        "[server]\nlisten = \"0.0.0.0:7410\"\npublic_url = \"https://trueup.example.com\"\n";
    let refused = faults(public);
    assert!(refused[0].starts_with("server.listen: others can reach"), "{refused:?}");
    let proxied = format!("{public}trusted_proxies = [\"10.0.0.7\"]\n");
    assert_eq!(faults(&proxied), Vec::<String>::new());
}

#[test]
fn certificate_and_key_come_together() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tls.crt");
    fs::write(&file, "no certificate").unwrap();
    let file = file.display();
    let alone = faults(&format!("[server.tls]\ncertificate = \"{file}\"\n"));
    assert_eq!(alone, ["server.tls.key: a certificate needs its key"]);
    let wrong = faults(&format!("[server.tls]\ncertificate = \"{file}\"\nkey = \"{file}\"\n"));
    assert!(wrong.len() == 1 && wrong[0].starts_with("server.tls: "), "{wrong:?}");
}

#[test]
fn database_url_is_hidden_and_its_file_must_be_private() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(FILE);
    fs::write(&path, "[database]\nurl = \"postgres://u:canary@h/d\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let open = load(&Flags::default(), dir.path());
    assert!(open.faults[0].message.contains("chmod 600"), "{:?}", open.faults);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let private = load(&Flags::default(), dir.path());
    let shown = serde_json::to_string(&private.report()).unwrap();
    assert!(!shown.contains("canary") && !format!("{private:?}").contains("canary"), "{shown}");
    assert_eq!(private.valid().unwrap().database.unwrap().reveal(), "postgres://u:canary@h/d");
}

#[test]
fn hosts_come_from_the_public_url_the_list_and_the_address() {
    let text = "[server]\nlisten = \"127.0.0.2:7410\"\npublic_url = \"https://a.example.com:8443\"
                allowed_hosts = [\"b.example.com\"]\n";
    let config = loaded(text, &Flags::default()).valid().unwrap();
    assert_eq!(config.hosts(), ["b.example.com", "a.example.com", "127.0.0.2"]);
}

#[test]
fn all_addresses_need_a_public_url() {
    let text = "[server]\nlisten = \"0.0.0.0:7410\"\ntrusted_proxies = [\"10.0.0.7\"]\n";
    let faults = faults(text);
    assert!(
        faults.len() == 1 && faults[0].starts_with("server.public_url: is required"),
        "{faults:?}"
    );
}
