//! Drift policies as tables: which are admitted, and what the refusals say.

use serde_json::{Value, json};
use trueup_model::drift::{AdoptMode, DriftPolicy, DriftRule, Verdict};
use trueup_model::endpoint::OpenPort;
use trueup_model::id::{EndpointId, ReleaseId};
use trueup_model::key::Kind;
use trueup_model::order::{Body, Order};
use trueup_model::release::Release;
use trueup_model::spec::Protocol;
use trueup_rules::admit::operation::{OperationContext, ServiceOperation, act};
use trueup_rules::admit::{AdmissionContext, AdmissionRequest, Admitted, Refused};
use trueup_rules::drift::admit::{MOST_RULES, PolicyWords, RuleWords, admit, is_protected, read};
use uuid::Uuid;

use crate::manifests::objects;
use crate::{domains, given};

fn rule(kind: Option<Kind>, path: &str, verdict: Verdict) -> DriftRule {
    DriftRule { kind, path: (!path.is_empty()).then(|| path.to_owned()), verdict }
}

fn policy(rules: Vec<DriftRule>) -> DriftPolicy {
    DriftPolicy { rules, ..DriftPolicy::default() }
}

/// Field and message of the only error about a rule.
fn error(rule: DriftRule) -> (String, String) {
    let mut errors = admit(&policy(vec![rule]), "drift");
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = errors.remove(0);
    (error.field, error.message)
}

/// Orders that together contain every kind that Trueup writes.
fn orders() -> Vec<Order> {
    let of =
        |name: &str, parameters| given::order(&given::accepted(&given::template(name), parameters));
    let mut sold = of("worker", json!({"image": "work:1", "replicas": 3}));
    if let Body::Service(body) = &mut sold.body {
        body.spec.nodes = Some("fast".parse().unwrap());
    }
    let mut open = of("web", json!({"image": "nginx:1"}));
    if let Body::Service(body) = &mut open.body {
        let (id, port) = (EndpointId::from_uuid(Uuid::from_u128(77)), "http".to_owned());
        body.endpoints = vec![OpenPort { id, port, protocol: Protocol::Tcp, node_port: 30_123 }];
    }
    vec![
        of("web", json!({"image": "nginx:1", "min_replicas": 2, "max_replicas": 6})),
        of("cron", json!({"image": "report:1", "schedule": "@daily", "args": ["a"]})),
        of("job", json!({"image": "run:1", "command": ["sh"]})),
        of("gpu-job", json!({"image": "train:1"})),
        of("minecraft", json!({})),
        of("postgres", json!({})),
        domains::order(domains::with_issuer()),
        domains::order(domains::with_gateway()),
        given::project_order(),
        sold,
        open,
    ]
}

/// The path of each value, as a divergence shows it.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    let inside = |name: &str| {
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, below)| leaves(&inside(name), below, found));
        }
        Value::Array(entries) => entries.iter().enumerate().for_each(|(number, entry)| {
            let number = number.to_string();
            leaves(&inside(entry["name"].as_str().unwrap_or(&number)), entry, found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.push(path.to_owned());
        }
    }
}

#[test]
fn every_rendered_field_can_be_named_in_a_policy() {
    const IDENTITY: [&str; 5] =
        ["apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid"];
    let mut kinds = std::collections::BTreeSet::new();
    for rendered in orders().iter().flat_map(objects) {
        let kind = rendered.key.kind;
        kinds.insert(kind);
        let mut paths = Vec::new();
        leaves("", &rendered.object, &mut paths);
        for path in paths.iter().filter(|path| !IDENTITY.contains(&path.as_str())) {
            let named = policy(vec![rule(Some(kind), path, Verdict::Enforce)]);
            assert_eq!(admit(&named, "drift"), [], "{path} of {kind}");
        }
    }
    let never = [Kind::Pod, Kind::PersistentVolume, Kind::Node];
    let written: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| !never.contains(kind)).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), written);
}

#[test]
fn an_unknown_path_is_refused_with_the_nearest_one() {
    let table = [
        (Some(Kind::Deployment), "spec.replica", "`spec.replicas`"),
        (Some(Kind::Deployment), "spec.schedule", "Deployment"),
        (None, "spec.relicas", "`spec.replicas`"),
        (None, "spec.containers.main.image", "`spec.template.spec.containers.main.image`"),
        (Some(Kind::CronJob), "spec.cron", "is no field of CronJob that Trueup sets; did you mean"),
        (Some(Kind::ConfigMap), "spec.replicas", "ConfigMap"),
    ];
    for (kind, path, expected) in table {
        let (field, message) = error(rule(kind, path, Verdict::Ignore));
        assert_eq!(field, "drift.rules.0.path");
        assert!(message.contains(expected), "{path}: {message}");
        assert!(message.contains("did you mean `"), "{path}: {message}");
    }
}

#[test]
fn each_malformed_rule_is_refused() {
    let long = "a".repeat(257);
    for path in
        ["/spec/replicas", "spec..replicas", "spec.", ".spec", "spec[0]", "a b", long.as_str()]
    {
        let (field, message) = error(rule(None, path, Verdict::Enforce));
        assert_eq!(field, "drift.rules.0.path", "{path}");
        assert!(message.contains("names of fields with dots"), "{path}: {message}");
    }
    let (field, message) = error(rule(None, "", Verdict::Ignore));
    assert_eq!(field, "drift.rules.0");
    assert!(message.contains("needs a kind or a path"), "{message}");
    let (field, message) = error(rule(Some(Kind::Pod), "", Verdict::Ignore));
    assert_eq!(field, "drift.rules.0.kind");
    assert!(message.contains("valid kinds: Namespace, "), "{message}");
}

#[test]
fn a_policy_has_at_most_fifty_different_rules() {
    let one = |number: usize| rule(None, &format!("data.KEY{number}"), Verdict::Ignore);
    assert_eq!(admit(&policy((0..MOST_RULES).map(one).collect()), "drift"), []);
    let errors = admit(&policy((0..=MOST_RULES).map(one).collect()), "drift");
    assert_eq!((errors.len(), errors[0].field.as_str()), (1, "drift.rules"));
    let errors = admit(&policy(vec![one(1), one(1)]), "drift");
    assert_eq!((errors.len(), errors[0].field.as_str()), (1, "drift.rules.1"));
}

#[test]
fn ownership_isolation_and_security_are_always_enforced() {
    let table = [
        (Some(Kind::Deployment), "metadata.labels.trueup.dev/service-id", "belong"),
        (None, "metadata.annotations.trueup.dev/proof", "belong"),
        (None, "metadata.labels.app.kubernetes.io/managed-by", "belong"),
        (None, "metadata.ownerReferences", "belong"),
        (Some(Kind::ConfigMap), "metadata.finalizers", "belong"),
        (Some(Kind::Deployment), "spec.selector.matchLabels", "belong"),
        (Some(Kind::StatefulSet), "spec.template.metadata.labels.trueup.dev/name", "belong"),
        (Some(Kind::CronJob), "spec.jobTemplate.metadata.labels.trueup.dev/name", "belong"),
        (Some(Kind::NetworkPolicy), "", "isolates"),
        (Some(Kind::RoleBinding), "subjects", "isolates"),
        (Some(Kind::ResourceQuota), "spec.hard.pods", "isolates"),
        (Some(Kind::Namespace), "metadata.labels.team", "isolates"),
        (None, "spec.podSelector", "isolates"),
        (Some(Kind::Deployment), "spec.template.spec.serviceAccountName", "isolates"),
        (None, "spec.template.spec.hostNetwork", "isolates"),
        (Some(Kind::Job), "spec.template.spec.containers.main.ports.http.hostPort", "isolates"),
        (Some(Kind::Deployment), "spec.template.spec.nodeSelector", "nodes"),
        (Some(Kind::CronJob), "spec.jobTemplate.spec.template.spec.affinity", "nodes"),
        (None, "spec.template.spec.securityContext.runAsUser", "limits"),
        (None, "spec.template.spec.containers.main.securityContext", "limits"),
        (Some(Kind::Secret), "data.PASSWORD", "secret values"),
        (Some(Kind::Secret), "", "secret values"),
        (Some(Kind::Ingress), "spec.rules", "verified hosts"),
        (Some(Kind::Certificate), "spec.dnsNames", "verified hosts"),
        (Some(Kind::Service), "spec.externalIPs", "reachable"),
    ];
    for (kind, path, reason) in table {
        for verdict in [Verdict::Ignore, Verdict::Adopt] {
            let (field, message) = error(rule(kind, path, verdict));
            assert_eq!(field, "drift.rules.0.verdict", "{path}");
            assert!(message.contains("must be enforce"), "{path}: {message}");
            assert!(message.contains(reason), "{path}: {message}");
        }
        assert_eq!(admit(&policy(vec![rule(kind, path, Verdict::Enforce)]), "drift"), [], "{path}");
    }
}

#[test]
fn a_wide_rule_is_admitted_and_does_not_cover_protected_fields() {
    let wide = [
        DriftPolicy { verdict: Some(Verdict::Ignore), ..DriftPolicy::default() },
        policy(vec![rule(Some(Kind::Deployment), "", Verdict::Ignore)]),
        policy(vec![rule(None, "spec", Verdict::Ignore)]),
        policy(vec![rule(None, "spec.template.spec.containers", Verdict::Ignore)]),
        policy(vec![rule(None, "metadata.labels", Verdict::Ignore)]),
        // Of a ConfigMap; a Secret stays enforced.
        policy(vec![rule(None, "data", Verdict::Ignore)]),
        policy(vec![rule(None, "spec.replicas", Verdict::Adopt)]),
    ];
    for policy in wide {
        assert_eq!(admit(&policy, "drift"), [], "{policy:?}");
    }
    for (kind, field) in [
        (Kind::Deployment, "metadata.labels.trueup.dev/org-id"),
        (Kind::Deployment, "spec.template.spec.containers.main.securityContext.privileged"),
        (Kind::Secret, "data.PASSWORD"),
        (Kind::NetworkPolicy, "spec.ingress"),
    ] {
        assert!(is_protected(kind, field).is_some(), "{field} of {kind}");
    }
    for (kind, field) in [
        (Kind::Deployment, ""),
        (Kind::Deployment, "spec.replicas"),
        (Kind::Deployment, "metadata.labels.team"),
        (Kind::Deployment, "spec.template.spec.containers.sidecar"),
        (Kind::ConfigMap, "data.PASSWORD"),
        (Kind::Service, "spec.ports.http.port"),
    ] {
        assert_eq!(is_protected(kind, field), None, "{field} of {kind}");
    }
}

#[test]
fn unknown_words_are_refused_with_the_nearest_ones_all_at_once() {
    let words = PolicyWords {
        verdict: Some("ignored"),
        adopt: Some("auto"),
        rules: vec![RuleWords { kind: Some("deployment"), path: None, verdict: "revert" }],
    };
    let errors = read(&words, "drift").unwrap_err();
    let found: Vec<_> = errors.iter().map(|it| (it.field.as_str(), it.message.as_str())).collect();
    let expected = [
        ("drift.verdict", "`ignored` is no verdict; did you mean `ignore`?"),
        ("drift.adopt", "`auto` is no adopt mode; did you mean `automatic`?"),
        ("drift.rules.0.kind", "`deployment` is no kind; did you mean `Deployment`?"),
        ("drift.rules.0.verdict", "Valid: enforce, adopt, ignore"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((field, message), (wanted, text)) in found.into_iter().zip(expected) {
        assert_eq!(field, wanted);
        assert!(message.contains(text), "{message}");
    }

    let rules =
        vec![RuleWords { kind: Some("Deployment"), path: Some("spec.replicas"), verdict: "adopt" }];
    let words = PolicyWords { verdict: Some("ignore"), adopt: Some("keep"), rules };
    let expected = DriftPolicy {
        verdict: Some(Verdict::Ignore),
        adopt: Some(AdoptMode::Keep),
        rules: vec![rule(Some(Kind::Deployment), "spec.replicas", Verdict::Adopt)],
    };
    assert_eq!(read(&words, "drift"), Ok(expected));
}

#[test]
fn services_and_templates_are_admitted_with_their_policies() {
    let template = given::template("web");
    let accepted = given::accepted(&template, json!({"image": "shop:1"}));
    let bad = policy(vec![rule(None, "spec.replica", Verdict::Ignore)]);
    let context =
        AdmissionContext { template: Some(&template), plan: None, current: Some(&accepted) };
    let with = |drift: &DriftPolicy| {
        let request =
            AdmissionRequest { drift: drift.clone(), ..AdmissionRequest::again(&accepted) };
        trueup_rules::admit::admit(&request, context)
    };
    let Err(Refused::Invalid(errors)) = with(&bad) else { panic!("a refusal was expected") };
    assert_eq!(errors[0].field, "drift.rules.0.path");

    let good = policy(vec![rule(None, "spec.replicas", Verdict::Ignore)]);
    let Ok(Admitted::Changed(release)) = with(&good) else { panic!("a change was expected") };
    assert_eq!((&release.drift, &release.spec), (&good, &accepted.spec));
    assert_eq!(with(&DriftPolicy::default()), Ok(Admitted::Unchanged));

    let published = trueup_model::template::Template { drift: bad, ..template.clone() };
    let errors = trueup_rules::admit::template::check(&published);
    assert_eq!(errors[0].field, "drift.rules.0.path");
}

#[test]
fn a_rollback_keeps_the_drift_policy() {
    let template = given::template("web");
    let former = given::accepted(&template, json!({"image": "shop:1"}));
    let mut current = given::accepted(&template, json!({"image": "shop:2"}));
    current.drift = policy(vec![rule(None, "spec.replicas", Verdict::Ignore)]);
    let release = Release {
        id: ReleaseId::from_uuid(Uuid::from_u128(9)),
        generation: 1,
        action: "declare".to_owned(),
        template: former.template.clone(),
        parameters: former.parameters.clone(),
        spec: former.spec.clone(),
        desired: former.desired,
        principal: "owner".to_owned(),
        accepted_at: given::at(0),
        price_version: None,
    };
    let context = OperationContext {
        current: &current,
        template: Some(&template),
        plan: None,
        release: Some(&release),
    };
    let answer = act(&ServiceOperation::Rollback { to: None }, context);
    let Ok(Admitted::Changed(next)) = answer else { panic!("a change was expected: {answer:?}") };
    assert_eq!(next.spec.image, "shop:1");
    assert_eq!(next.drift, current.drift);
}
