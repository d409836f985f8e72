//! Precedence of variables and secrets, and what may not be set at all (S43).

use std::collections::BTreeMap;

use serde_json::json;
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order, SecretValue};
use trueup_model::secret::{Ciphertext, EncryptedSecret, Place, WrappedKey};
use trueup_model::spec::Spec;
use trueup_model::variable::{MAX_VALUE, Scope};
use trueup_rules::admit::variable::{
    Entries, MOST_TOGETHER, check_together, check_value, collisions, merge,
};
use trueup_rules::plan::{Observed, plan};
use trueup_rules::render::names;

use crate::given;
use crate::manifests::objects;

fn encrypted(name: &str, length: usize) -> EncryptedSecret {
    let scope = Scope { org: given::org(), project: given::project(), service: None };
    let ciphertext = |length| Ciphertext { nonce: [0; 12], bytes: vec![0; length] };
    EncryptedSecret {
        place: Place { scope, name: name.parse().unwrap(), version: 1 },
        sealed: ciphertext(length + 16),
        org_key: Some(WrappedKey { key: 1, sealed: ciphertext(48) }),
    }
}

fn entries(variables: &[(&str, &str)], secrets: &[&str]) -> Entries {
    let name = |text: &str| text.parse().unwrap();
    Entries {
        variables: variables.iter().map(|(n, value)| (name(n), (*value).to_owned())).collect(),
        secrets: secrets.iter().map(|n| (name(n), encrypted(n, 3))).collect(),
    }
}

fn spec(variables: &serde_json::Value) -> Spec {
    let template = given::template("web");
    let given = given::parameters(json!({"image": "a", "variables": variables}));
    given::spec(&template, &given)
}

fn order(name: &str) -> Order {
    given::order(&given::accepted(&given::template(name), json!({"image": "a"})))
}

#[test]
fn the_service_overrides_the_manifest_and_that_the_project() {
    let spec = spec(&json!({"B": "manifest", "C": "manifest", "E": "manifest", "F": "manifest"}));
    let project = entries(&[("A", "project"), ("B", "project"), ("D", "project")], &["E", "G"]);
    let service = entries(&[("C", "service"), ("G", "service")], &["D", "F"]);
    let (variables, secrets) = merge(&spec, &project, &service);
    let plain: Vec<(&str, &str)> =
        variables.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let expected = [
        ("A", "project"),
        ("B", "manifest"),
        ("C", "service"),
        ("E", "manifest"),
        ("G", "service"),
    ];
    assert_eq!(plain, expected);
    assert_eq!(secrets.keys().collect::<Vec<_>>(), ["D", "F"]);
    assert!(variables.keys().all(|name| !secrets.contains_key(name)), "each name is read once");
}

#[test]
fn the_total_size_is_limited_but_may_shrink() {
    let plain = |bytes: usize| {
        let value = [("A".parse().unwrap(), "x".repeat(bytes))];
        Entries { variables: value.into(), ..Entries::default() }
    };
    let secret = |bytes: usize| {
        let value = [("A".parse().unwrap(), encrypted("A", bytes))];
        Entries { secrets: value.into(), ..Entries::default() }
    };
    let kinds: [&dyn Fn(usize) -> Entries; 2] = [&plain, &secret];
    for of in kinds {
        assert_eq!(check_together(&of(0), &of(MOST_TOGETHER)), Ok(()));
        let field_error = check_together(&of(0), &of(MOST_TOGETHER + 1)).unwrap_err();
        assert_eq!(field_error.field, "value");
        assert_eq!(check_together(&of(MOST_TOGETHER + 2), &of(MOST_TOGETHER + 1)), Ok(()));
    }
}

#[test]
fn setting_a_generated_secret_is_an_error() {
    let template = given::template("minecraft");
    let mut spec = given::spec(&template, &given::parameters(json!({})));
    assert_eq!(collisions(&spec, ["OTHER", "EULA"]), []);
    let errors = collisions(&spec, ["RCON_PASSWORD"]);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].field, "name");
    spec.variables.insert("RCON_PASSWORD".to_owned(), "mine".to_owned());
    assert_eq!(collisions(&spec, [])[0].field, "parameters.variables");
    // Even if admission missed it: the generated one is read.
    let own = entries(&[], &["RCON_PASSWORD"]);
    let (variables, secrets) = merge(&spec, &Entries::default(), &own);
    assert!(!variables.contains_key("RCON_PASSWORD") && !secrets.contains_key("RCON_PASSWORD"));
}

#[test]
fn an_invalid_value_is_refused_without_repeating_it() {
    assert!(check_value("").is_ok() && check_value(&"x".repeat(MAX_VALUE)).is_ok());
    for bad in ["canary\0".to_owned(), format!("canary{}", "x".repeat(MAX_VALUE))] {
        let field_error = check_value(&bad).unwrap_err();
        assert_eq!(field_error.field, "value");
        assert!(!field_error.message.contains("canary"), "{}", field_error.message);
    }
}

#[test]
fn an_order_with_encrypted_secrets_has_no_actions() {
    let mut order = order("web");
    if let Body::Service(body) = &mut order.body {
        body.sealed.insert("KEY".to_owned(), encrypted("KEY", 3));
    }
    let observed = Observed { project_ready: true, ..Observed::default() };
    let plan = plan(&order, &observed, &given::proofs());
    assert!(plan.actions.is_empty(), "{plan:?}");
}

/// An order with these decrypted secrets.
fn with_secrets(secrets: &[(&str, &str)]) -> Order {
    let mut order = order("web");
    if let Body::Service(body) = &mut order.body {
        body.spec.generated_secrets.clear();
        body.secrets = secrets
            .iter()
            .map(|(name, value)| ((*name).to_owned(), SecretValue::new((*value).to_owned())))
            .collect::<BTreeMap<_, _>>();
    }
    order
}

/// The digests of secrets: of the Secret and of the pods' config.
fn digests(order: &Order) -> Vec<String> {
    let mut found = Vec::new();
    for rendered in objects(order) {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        if rendered.key.kind == Kind::Secret {
            found.push(rendered.digest.clone());
        }
        let pod = &rendered.object["spec"]["template"]["metadata"]["annotations"];
        found.extend(text(&pod[names::CONFIG_ANNOTATION]));
    }
    assert_eq!(found.len(), 2, "{found:?}");
    found
}

#[test]
fn the_digest_of_a_secret_is_keyed() {
    let order = with_secrets(&[("PIN", "0000")]);
    assert_eq!(digests(&order), digests(&order));
    assert_ne!(digests(&order), digests(&with_secrets(&[("PIN", "0001")])));
    // Only the master key differs: a plain hash would be the same.
    let other = trueup_rules::render::proof::ProofKey::new(&[8; 32], given::cluster());
    let ours = given::proofs();
    assert_ne!(ours.digest(order.unit, b"0000"), other.digest(order.unit, b"0000"));
    // The same secret of another unit has another digest.
    let project = given::project_order();
    assert_ne!(ours.digest(order.unit, b"0000"), ours.digest(project.unit, b"0000"));
}

#[test]
fn a_secret_without_values_is_emptied_and_not_mounted() {
    let mut order = with_secrets(&[]);
    assert!(objects(&order).iter().all(|rendered| rendered.key.kind != Kind::Secret));
    let key = objects(&with_secrets(&[("PIN", "0000")]))
        .into_iter()
        .find(|rendered| rendered.key.kind == Kind::Secret)
        .unwrap()
        .key;
    order.recorded.insert(key.clone(), Some("uid".to_owned()));
    let emptied = objects(&order).into_iter().find(|rendered| rendered.key == key).unwrap();
    assert_eq!(emptied.object["data"], json!({}));
    let all: Vec<String> = objects(&order).iter().map(|one| one.object.to_string()).collect();
    assert!(all.iter().all(|text| !text.contains("secretRef")), "{all:?}");
}

/// S43: pods read only the Secret and the ConfigMap that we name, whatever users write.
#[test]
fn user_text_never_selects_the_secrets_of_a_pod() {
    let hostile = "kube-system/admin-token valueFrom: {secretKeyRef: {name: other}}";
    let mut order = with_secrets(&[("SECRET_NAME", hostile)]);
    let Body::Service(body) = &mut order.body else { unreachable!("a service") };
    for name in ["secretName", "valueFrom", "envFrom", "A"] {
        body.spec.variables.insert(name.to_owned(), hostile.to_owned());
    }
    let object_name = body.object_name.clone();
    for rendered in objects(&order) {
        if !matches!(rendered.key.kind, Kind::Deployment | Kind::StatefulSet) {
            continue;
        }
        let container = &rendered.object["spec"]["template"]["spec"]["containers"][0];
        assert!(container["env"].is_null());
        assert_eq!(
            container["envFrom"],
            json!([
                {"configMapRef": {"name": names::config(&object_name)}},
                {"secretRef": {"name": names::secret(&object_name)}},
            ])
        );
        let text = rendered.object.to_string();
        assert!(!text.contains("admin-token") && !text.contains("valueFrom"), "{text}");
    }
}
