//! Adoption as tables: the live value, the parameter that gets it, and why others are refused.

use serde_json::{Value, json};
use trueup_model::drift::{Divergence, DivergenceClass, DivergenceState, Verdict};
use trueup_model::key::{Kind, ResourceKey};
use trueup_model::service::{DesiredState, Service};
use trueup_model::template::Template;
use trueup_rules::admit::Refused;
use trueup_rules::admit::variable::Entries;
use trueup_rules::drift::adopt::{AdoptContext, AdoptRefusal, Adoption, adopt};

use crate::given;
use crate::manifests::objects;

/// A service and its template.
type Stage = (Template, Service);

fn stage(name: &str, parameters: Value) -> Stage {
    let template = given::template(name);
    let service = given::accepted(&template, parameters);
    (template, service)
}

fn web() -> Stage {
    stage("web", json!({"image": "shop:1", "replicas": 2, "variables": {"A": "1"}}))
}

/// The key of the service's last object of this kind; of ConfigMaps, this is the variables'.
fn key(service: &Service, kind: Kind) -> ResourceKey {
    let all = objects(&given::order(service));
    all.into_iter().map(|one| one.key).rfind(|key| key.kind == kind).expect("an object")
}

fn divergence(service: &Service, kind: Kind, field: &str, live: Value) -> Divergence {
    Divergence {
        key: key(service, kind),
        field: field.to_owned(),
        class: DivergenceClass::Edited,
        wanted: Value::Null,
        live,
        by: Some("kubectl-edit".to_owned()),
        verdict: Verdict::Adopt,
        state: DivergenceState::Proposed,
    }
}

fn decide((template, current): &Stage, divergence: &Divergence) -> Result<Adoption, AdoptRefusal> {
    let none = Entries::default();
    let context = AdoptContext {
        current,
        template: Some(template),
        plan: None,
        project_entries: &none,
        service_entries: &none,
    };
    adopt(divergence, context)
}

fn refusal(stage: &Stage, kind: Kind, field: &str, live: Value) -> AdoptRefusal {
    let divergence = divergence(&stage.1, kind, field, live);
    decide(stage, &divergence).expect_err("a refusal")
}

/// What is adopted, by the field that another writer changed.
fn check(stage: &Stage, table: &[(Kind, &str, Value, &str, Value)]) {
    for (kind, field, live, parameter, value) in table {
        let divergence = divergence(&stage.1, *kind, field, live.clone());
        let adoption = decide(stage, &divergence).unwrap_or_else(|why| panic!("{field}: {why}"));
        assert_eq!((adoption.parameter.as_str(), &adoption.value), (*parameter, value), "{field}");
        let mut parameters = stage.1.parameters.clone();
        parameters.insert(adoption.parameter, adoption.value);
        assert_eq!(adoption.parameters, parameters, "{field}");
        assert_eq!(adoption.spec, given::spec(&stage.0, &parameters), "{field}");
    }
}

#[test]
fn each_field_of_a_deployment_is_adopted_by_its_parameter() {
    const MAIN: &str = "spec.template.spec.containers.main";
    let image = format!("{MAIN}.image");
    let path = format!("{MAIN}.readinessProbe.httpGet.path");
    check(
        &web(),
        &[
            (Kind::Deployment, "spec.replicas", json!(5), "replicas", json!(5)),
            // The PodDisruptionBudget goes with the second pod.
            (Kind::Deployment, "spec.replicas", json!(1), "replicas", json!(1)),
            (Kind::Deployment, image.as_str(), json!("shop:2"), "image", json!("shop:2")),
            // Without a tag, the image is pulled for each start.
            (Kind::Deployment, image.as_str(), json!("shop"), "image", json!("shop")),
            (Kind::Deployment, path.as_str(), json!("/ready"), "health_path", json!("/ready")),
            (Kind::ConfigMap, "data.A", json!("2"), "variables", json!({"A": "2"})),
            (Kind::ConfigMap, "data.B", json!("x"), "variables", json!({"A": "1", "B": "x"})),
            (Kind::ConfigMap, "data.A", json!(null), "variables", json!({})),
        ],
    );
}

#[test]
fn bounds_and_target_of_an_autoscaler_are_adopted() {
    let scaled = stage("web", json!({"image": "shop:1", "min_replicas": 2, "max_replicas": 6}));
    let kind = Kind::HorizontalPodAutoscaler;
    let target = "spec.metrics.0.resource.target.averageUtilization";
    check(
        &scaled,
        &[
            (kind, "spec.maxReplicas", json!(8), "max_replicas", json!(8)),
            (kind, "spec.minReplicas", json!(1), "min_replicas", json!(1)),
            (kind, target, json!(50), "cpu_percent", json!(50)),
        ],
    );
}

#[test]
fn each_field_of_a_cron_is_adopted_by_its_parameter() {
    let cron = stage("cron", json!({"image": "report:1", "schedule": "0 3 * * *", "args": ["a"]}));
    let args = "spec.jobTemplate.spec.template.spec.containers.main.args";
    let first = format!("{args}.0");
    check(
        &cron,
        &[
            (Kind::CronJob, "spec.schedule", json!("0 4 * * *"), "schedule", json!("0 4 * * *")),
            (Kind::CronJob, "spec.jobTemplate.spec.backoffLimit", json!(3), "retries", json!(3)),
            (
                Kind::CronJob,
                "spec.jobTemplate.spec.activeDeadlineSeconds",
                json!(60),
                "time_limit_s",
                json!(60),
            ),
            (Kind::CronJob, args, json!(["b", "c"]), "args", json!(["b", "c"])),
            (Kind::CronJob, first.as_str(), json!("b"), "args", json!(["b"])),
            (Kind::CronJob, args, json!(null), "args", json!([])),
        ],
    );
}

#[test]
fn a_number_that_is_text_in_the_cluster_is_adopted_as_a_number() {
    let args = "spec.template.spec.containers.main.args.1";
    let table = [(Kind::StatefulSet, args, json!("200"), "max_connections", json!(200))];
    check(&stage("postgres", json!({})), &table);
    let table = [(Kind::ConfigMap, "data.DIFFICULTY", json!("hard"), "difficulty", json!("hard"))];
    check(&stage("minecraft", json!({})), &table);
}

/// A template whose disk can grow and whose number of pods can change.
fn disks(pods: u32) -> Stage {
    let mut template = given::template("postgres");
    template.parameters.get_mut("disk_gib").expect("a size").mutable = true;
    let replicas = json!({"type": "integer", "description": "Pods.", "default": 1, "minimum": 1,
                          "maximum": 5, "sets": "/replicas", "mutable": true});
    template.parameters.insert("replicas".to_owned(), serde_json::from_value(replicas).unwrap());
    let service = given::accepted(&template, json!({ "replicas": pods }));
    (template, service)
}

#[test]
fn an_adoption_never_deletes_a_disk() {
    let field = "spec.replicas";
    check(&disks(3), &[(Kind::StatefulSet, field, json!(4), "replicas", json!(4))]);
    let refused = refusal(&disks(3), Kind::StatefulSet, field, json!(2));
    let AdoptRefusal::More { others, .. } = &refused else { panic!("{refused}") };
    assert!(others[0].starts_with("PersistentVolumeClaim/"), "{others:?}");
}

#[test]
fn a_disk_that_was_enlarged_is_adopted_if_it_is_the_only_one() {
    let (kind, field) = (Kind::PersistentVolumeClaim, "spec.resources.requests.storage");
    check(&disks(1), &[(kind, field, json!("20Gi"), "disk_gib", json!(20))]);
    let refused = refusal(&disks(2), kind, field, json!("20Gi"));
    assert!(matches!(refused, AdoptRefusal::More { .. }), "{refused}");
}

/// The owner saw another desired value than the one that would be replaced.
#[test]
fn a_value_is_not_adopted_over_a_newer_request() {
    let web = stage("web", json!({"image": "nginx:1", "replicas": 2}));
    let edit = divergence(&web.1, Kind::Deployment, "spec.replicas", json!(5));
    for (wanted, outdated) in [(json!(2), false), (json!(1), true)] {
        let decided = decide(&web, &Divergence { wanted, ..edit.clone() });
        let field = "spec.replicas".to_owned();
        assert_eq!(decided == Err(AdoptRefusal::Outdated { field }), outdated, "{decided:?}");
    }
}

#[test]
fn a_value_out_of_bounds_is_refused_with_the_bound() {
    let minecraft = stage("minecraft", json!({}));
    let replicas = "spec.replicas";
    let table = [
        (web(), Kind::Deployment, replicas, json!(30), "replicas", "must be from 0 to 20, is 30"),
        (web(), Kind::Deployment, replicas, json!(1_000_000_000), "replicas", "from 0 to 20"),
        (
            minecraft,
            Kind::ConfigMap,
            "data.DIFFICULTY",
            json!("absurd"),
            "difficulty",
            "must be one of: peaceful, easy, normal, hard",
        ),
    ];
    for (stage, kind, field, live, parameter, bound) in table {
        let refused = refusal(&stage, kind, field, live);
        assert!(refused.to_string().contains(bound), "{refused}");
        let Refused::Invalid(errors) = Refused::from(refused) else { panic!("{field}") };
        assert_eq!(errors[0].field, format!("parameters.{parameter}"));
        assert!(errors[0].message.contains(bound), "{errors:?}");
    }
}

#[test]
fn each_refusal_says_why_and_what_to_do() {
    const POD: &str = "spec.template.spec";
    let (web, long) = (web(), format!("{}…", "x".repeat(4096)));
    let paused = (web.0.clone(), Service { desired: DesiredState::Paused, ..web.1.clone() });
    let security = format!("{POD}.containers.main.securityContext.privileged");
    let probe = format!("{POD}.containers.main.readinessProbe");
    let minecraft = stage("minecraft", json!({}));
    let job = stage("job", json!({"image": "run:1"}));
    let table = [
        (
            &web,
            Kind::Deployment,
            "spec.strategy.type",
            json!("Recreate"),
            "no parameter of `web@1`",
        ),
        (&minecraft, Kind::ConfigMap, "data.TYPE", json!("PAPER"), "cannot change once"),
        (&web, Kind::Service, "spec.ports.http.port", json!(9090), "containerPort` of Deployment/"),
        (
            &web,
            Kind::Deployment,
            security.as_str(),
            json!(true),
            "it limits what a container may do",
        ),
        (&web, Kind::Secret, "data.APP_KEY", json!("digest"), "it holds secret values"),
        (&web, Kind::Deployment, probe.as_str(), json!(null), "was removed"),
        (&web, Kind::Deployment, "spec.replicas", json!(2), "is the live value already"),
        (&web, Kind::ConfigMap, "data.A", json!(long), "too long"),
        (&paused, Kind::Deployment, "spec.replicas", json!(3), "`trueup resume`"),
        (&job, Kind::Job, "spec.backoffLimit", json!(3), "a new run"),
    ];
    for (stage, kind, field, live, expected) in table {
        let refused = refusal(stage, kind, field, live);
        assert!(refused.to_string().contains(expected), "{field}: {refused}");
        let Refused::Invalid(errors) = Refused::from(refused) else { panic!("{field}") };
        assert_eq!((errors.len(), errors[0].field.as_str()), (1, "divergence"), "{field}");
    }
}

#[test]
fn only_values_of_fields_are_adopted() {
    let web = web();
    for class in [
        DivergenceClass::Deleted,
        DivergenceClass::Extra,
        DivergenceClass::BrokenProof,
        DivergenceClass::Regressed,
    ] {
        let edit = divergence(&web.1, Kind::Deployment, "", json!(null));
        let refused = decide(&web, &Divergence { class, ..edit });
        assert_eq!(refused, Err(AdoptRefusal::NoValue { class }));
    }
    let edit = divergence(&web.1, Kind::Deployment, "spec.replicas", json!(3));
    let deleted = Service { desired: DesiredState::Deleted, ..web.1.clone() };
    let refused = decide(&(web.0, deleted), &edit).unwrap_err();
    assert_eq!(Refused::from(refused), Refused::BeingDeleted);
}

#[test]
fn a_variable_that_is_set_outside_of_the_manifest_is_not_adopted() {
    let (template, current) = web();
    let none = Entries::default();
    let mut own = Entries::default();
    own.variables.insert("LOG".parse().unwrap(), "info".to_owned());
    let edit = divergence(&current, Kind::ConfigMap, "data.LOG", json!("debug"));
    let with = |project_entries, service_entries| {
        let context = AdoptContext {
            current: &current,
            template: Some(&template),
            plan: None,
            project_entries,
            service_entries,
        };
        adopt(&edit, context)
    };
    let refused = with(&none, &own).unwrap_err();
    assert_eq!(refused, AdoptRefusal::Variable { name: "LOG".to_owned() });
    assert!(refused.to_string().contains("`trueup variable set`"), "{refused}");
    let adoption = with(&own, &none).expect("a manifest comes before the project");
    assert_eq!(adoption.value, json!({"A": "1", "LOG": "debug"}));
}

#[test]
fn an_unpublished_template_refuses_adoption() {
    let (template, current) = web();
    let none = Entries::default();
    let context = AdoptContext {
        current: &current,
        template: None,
        plan: None,
        project_entries: &none,
        service_entries: &none,
    };
    let edit = divergence(&current, Kind::Deployment, "spec.replicas", json!(3));
    let expected = AdoptRefusal::TemplateGone { template: given::reference(&template) };
    assert_eq!(adopt(&edit, context), Err(expected));
}
