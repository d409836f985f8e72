//! The next release of each operation, as tables.

use serde_json::{Value, json};
use trueup_model::plan::Plan;
use trueup_model::quota::Amounts;
use trueup_model::release::Release;
use trueup_model::service::{DesiredState, Service};
use trueup_model::spec::Autoscale;
use trueup_model::template::{Deprecated, ImagePolicy, Template};
use trueup_rules::admit::operation::{OperationContext, ServiceOperation, act};
use trueup_rules::admit::{Admitted, Refused, ReleaseSpec};

use crate::given;

fn plan(name: &str, cpu_millis: u32) -> Plan {
    serde_json::from_value(json!({
        "name": name, "summary": "", "resources": {"cpu_millis": cpu_millis, "memory_mib": 512},
        "hourly": {"micros": 1, "currency": "EUR"},
    }))
    .expect("a plan")
}

fn web() -> (Template, Service) {
    let template = given::template("web");
    let service = given::accepted(&template, json!({"image": "shop:1", "replicas": 2}));
    (template, service)
}

fn release_of(service: &Service, generation: i64) -> Release {
    Release {
        id: trueup_model::ReleaseId::from_uuid(uuid::Uuid::from_u128(9)),
        generation,
        action: "declare".to_owned(),
        template: service.template.clone(),
        parameters: service.parameters.clone(),
        spec: service.spec.clone(),
        desired: service.desired,
        principal: "owner".to_owned(),
        accepted_at: given::at(0),
        price_version: None,
    }
}

fn decide(
    action: &ServiceOperation,
    template: &Template,
    current: &Service,
) -> Result<Admitted, Refused> {
    act(action, OperationContext { current, template: Some(template), plan: None, release: None })
}

fn accepted(answer: Result<Admitted, Refused>) -> ReleaseSpec {
    match answer {
        Ok(Admitted::Changed(release)) => *release,
        other => unreachable!("a change was expected, not {other:?}"),
    }
}

fn field(answer: &Result<Admitted, Refused>) -> &str {
    match answer {
        Err(Refused::Invalid(errors)) => &errors[0].field,
        other => unreachable!("a refusal was expected, not {other:?}"),
    }
}

#[test]
fn pausing_and_resuming_change_only_the_desired_state() {
    let (template, mut service) = web();
    assert_eq!(decide(&ServiceOperation::Resume, &template, &service), Ok(Admitted::Unchanged));
    let rests = accepted(decide(&ServiceOperation::Pause, &template, &service));
    assert_eq!(rests.desired, DesiredState::Paused);
    assert_eq!((&rests.spec, &rests.parameters), (&service.spec, &service.parameters));

    service.desired = DesiredState::Paused;
    assert_eq!(decide(&ServiceOperation::Pause, &template, &service), Ok(Admitted::Unchanged));
    let runs = accepted(decide(&ServiceOperation::Resume, &template, &service));
    assert_eq!((runs.desired, runs.spec), (DesiredState::Active, service.spec));
}

#[test]
fn each_restart_raises_the_counter_unless_paused() {
    let (template, mut service) = web();
    let once = accepted(decide(&ServiceOperation::Restart, &template, &service));
    assert_eq!(once.spec.restart, 1);
    service.spec = once.spec;
    assert_eq!(accepted(decide(&ServiceOperation::Restart, &template, &service)).spec.restart, 2);
    service.desired = DesiredState::Paused;
    assert_eq!(field(&decide(&ServiceOperation::Restart, &template, &service)), "service");
}

#[test]
fn scaling_sets_its_parameter_within_bounds() {
    let (template, mut service) = web();
    service.spec.restart = 3;
    let scaled = accepted(decide(&ServiceOperation::Scale { replicas: 5 }, &template, &service));
    assert_eq!((scaled.spec.replicas, &scaled.parameters["replicas"]), (5, &json!(5)));
    assert_eq!(scaled.spec.restart, 3, "the restart counter should be kept");
    assert_eq!(
        decide(&ServiceOperation::Scale { replicas: 2 }, &template, &service),
        Ok(Admitted::Unchanged)
    );
    assert_eq!(
        field(&decide(&ServiceOperation::Scale { replicas: 21 }, &template, &service)),
        "replicas"
    );

    let minecraft = given::template("minecraft");
    let alone = given::accepted(&minecraft, json!({}));
    assert_eq!(
        field(&decide(&ServiceOperation::Scale { replicas: 2 }, &minecraft, &alone)),
        "replicas"
    );
    let elastic = ServiceOperation::Autoscale { min: 2, max: 3, cpu_percent: None };
    assert_eq!(field(&decide(&elastic, &minecraft, &alone)), "max");
}

#[test]
fn autoscaling_respects_bounds_and_ends_with_a_fixed_scale() {
    let (template, mut service) = web();
    let follow = ServiceOperation::Autoscale { min: 2, max: 6, cpu_percent: None };
    let elastic = accepted(decide(&follow, &template, &service));
    assert_eq!(elastic.spec.autoscale, Some(Autoscale { min: 2, max: 6, cpu_percent: 70 }));
    assert_eq!(Amounts::of(&elastic.spec).cpu_millis, 6 * 250, "quota counts the most");
    for (min, max) in [(3, 2), (1, 21)] {
        let too_much = ServiceOperation::Autoscale { min, max, cpu_percent: None };
        assert_eq!(field(&decide(&too_much, &template, &service)), "parameters.max_replicas");
    }

    (service.spec, service.parameters) = (elastic.spec, elastic.parameters);
    assert_eq!(decide(&follow, &template, &service), Ok(Admitted::Unchanged));
    let fixed = accepted(decide(&ServiceOperation::Scale { replicas: 4 }, &template, &service));
    assert_eq!((fixed.spec.replicas, fixed.spec.autoscale), (4, None));
}

#[test]
fn resizing_uses_the_resources_of_the_plan() {
    let (template, current) = web();
    let large = plan("large", 4000);
    let action = ServiceOperation::Resize { plan: large.name.clone() };
    let context = OperationContext {
        current: &current,
        template: Some(&template),
        plan: Some(&large),
        release: None,
    };
    let resized = accepted(act(&action, context));
    assert_eq!(resized.spec.resources, large.resources);
    assert_eq!(resized.spec.plan.as_ref(), Some(&large.name));
    assert_eq!(resized.parameters, current.parameters);

    let unknown = act(&action, OperationContext { plan: None, ..context });
    assert_eq!(field(&unknown), "plan");
    let retired = Plan { retired: true, ..plan("large", 4000) };
    assert_eq!(field(&act(&action, OperationContext { plan: Some(&retired), ..context })), "plan");
    let mut has_it = current.clone();
    has_it.spec.plan = Some(retired.name.clone());
    let keeps =
        act(&action, OperationContext { plan: Some(&retired), current: &has_it, ..context });
    assert!(keeps.is_ok(), "a service keeps its retired plan: {keeps:?}");
}

#[test]
fn only_a_plan_selects_nodes() {
    let (mut template, mut current) = web();
    let fast = Plan { nodes: Some("fast".parse().unwrap()), ..plan("fast", 1000) };
    let resize = |plan: &Plan, template: &Template, current: &Service| {
        let action = ServiceOperation::Resize { plan: plan.name.clone() };
        let context =
            OperationContext { current, template: Some(template), plan: Some(plan), release: None };
        accepted(act(&action, context)).spec
    };
    current.spec = resize(&fast, &template, &current);
    assert_eq!(current.spec.nodes, fast.nodes);
    // Neither the template nor the previous plan counts.
    template.spec["nodes"] = json!("fast");
    assert_eq!(resize(&plan("any", 1000), &template, &current).nodes, None);
}

#[test]
fn a_rollback_restores_the_spec_without_resolving_it_again() {
    let (template, mut current) = web();
    let former = release_of(&current, 1);
    current.generation = 4;
    current.spec.image = "shop:2".to_owned();
    current.spec.restart = 2;
    current.parameters = given::parameters(json!({"image": "shop:2", "replicas": 2}));
    // A later change of the template does not affect an earlier release.
    let mut changed = template;
    changed.spec["resources"]["cpu_millis"] = json!(9999);
    let context = OperationContext {
        current: &current,
        template: Some(&changed),
        plan: None,
        release: Some(&former),
    };
    let action = ServiceOperation::Rollback { to: Some(1) };
    let back = accepted(act(&action, context));
    assert_eq!(back.spec.image, "shop:1");
    assert_eq!(back.spec.resources, former.spec.resources);
    assert_eq!(back.spec.restart, 2, "the restart counter should be kept");
    assert_eq!(back.parameters, former.parameters);

    let nowhere = act(&action, OperationContext { release: None, ..context });
    assert_eq!(field(&nowhere), "to");
}

/// A service with plan `large`, and its first release, with plan `small` of a quarter of a core.
fn resized() -> (Template, Service, Release) {
    let (template, mut current) = web();
    current.spec.plan = Some(plan("small", 250).name);
    let former = release_of(&current, 1);
    current.generation = 2;
    current.spec.plan = Some(plan("large", 4000).name);
    current.spec.resources = plan("large", 4000).resources;
    (template, current, former)
}

fn roll_back(
    template: Option<&Template>,
    plan: Option<&Plan>,
    current: &Service,
    release: &Release,
) -> Result<Admitted, Refused> {
    let context = OperationContext { current, template, plan, release: Some(release) };
    act(&ServiceOperation::Rollback { to: Some(1) }, context)
}

fn message(answer: &Result<Admitted, Refused>) -> &str {
    match answer {
        Err(Refused::Invalid(errors)) => &errors[0].message,
        other => unreachable!("a refusal was expected, not {other:?}"),
    }
}

#[test]
fn a_rollback_uses_its_plan_as_it_is_now() {
    let (template, current, former) = resized();
    let nodes = Some("fast".parse().unwrap());
    let small = Plan { nodes: nodes.clone(), ..plan("small", 500) };
    let back = accepted(roll_back(Some(&template), Some(&small), &current, &former));
    assert_eq!(back.spec.plan, former.spec.plan);
    assert_eq!((&back.spec.resources, &back.spec.nodes), (&small.resources, &nodes));
    assert_ne!(back.spec.resources, former.spec.resources, "the release's copy does not count");
    // Quota and price follow from the same values.
    assert_eq!(Amounts::of(&back.spec).cpu_millis, 2 * 500);
}

#[test]
fn a_rollback_is_admitted_under_the_rules_of_today() {
    let (template, current, former) = resized();
    let small = plan("small", 250);
    let retired = Plan { retired: true, ..small.clone() };
    let deprecated = Template {
        deprecated: Some(Deprecated { at: given::at(0), instead: "use web@2".to_owned() }),
        ..template.clone()
    };
    let upgraded = Service { template: "web@2".parse().unwrap(), ..current.clone() };
    let elsewhere =
        ImagePolicy { allow: vec!["registry.example/".to_owned()], require_digest: false };
    let strict = Template { images: Some(elsewhere), ..template.clone() };
    let table = [
        (
            roll_back(Some(&template), Some(&retired), &current, &former),
            "plan",
            "plan `small` is retired since that release; declare the service with another plan",
        ),
        (
            roll_back(Some(&template), None, &current, &former),
            "plan",
            "plan `small` no longer exists; declare the service with another plan",
        ),
        (
            roll_back(Some(&deprecated), Some(&small), &upgraded, &former),
            "template",
            "`web@1` is deprecated since 2030-01-01T00:00:00Z; use web@2, or roll back to a \
             generation of `web@2`",
        ),
        (
            roll_back(None, Some(&small), &current, &former),
            "template",
            "`web@1` is no longer published; declare the service with another version",
        ),
        (
            roll_back(Some(&strict), Some(&small), &current, &former),
            "to",
            "generation 1 is refused by a rule of today: `/image` `shop` is not among the images",
        ),
    ];
    for (answer, at, words) in &table {
        assert_eq!(field(answer), *at, "{answer:?}");
        assert!(message(answer).starts_with(words), "{}", message(answer));
    }

    // What a service has now, it keeps.
    let small_again = Service {
        spec: trueup_model::spec::Spec { plan: former.spec.plan.clone(), ..current.spec.clone() },
        ..current.clone()
    };
    assert!(roll_back(Some(&template), Some(&retired), &small_again, &former).is_ok());
    assert!(roll_back(Some(&deprecated), Some(&small), &current, &former).is_ok());
}

#[test]
fn a_rollback_of_an_immutable_parameter_is_refused() {
    let template = given::template("minecraft");
    let former = release_of(&given::accepted(&template, json!({"server": "PAPER"})), 1);
    let current = given::accepted(&template, json!({}));
    let refused = roll_back(Some(&template), None, &current, &former);
    assert_eq!(field(&refused), "parameters.server");
}

#[test]
fn a_rollback_keeps_the_size_of_a_volume_or_grows_it() {
    let template = given::template("minecraft");
    let small = given::accepted(&template, json!({"world_gib": 5}));
    let large = given::accepted(&template, json!({"world_gib": 20}));
    let refused = roll_back(Some(&template), None, &large, &release_of(&small, 1));
    assert_eq!(field(&refused), "to");
    let expected = "generation 1 has a volume of 5 GiB and the present size is 20 GiB";
    assert!(message(&refused).contains(expected), "{}", message(&refused));
    let grown = accepted(roll_back(Some(&template), None, &small, &release_of(&large, 1)));
    assert_eq!(grown.spec.volume, large.spec.volume);
}

#[test]
fn a_service_being_deleted_refuses_operations_except_delete() {
    let (template, mut service) = web();
    let gone = accepted(decide(&ServiceOperation::Delete, &template, &service));
    assert_eq!(gone.desired, DesiredState::Deleted);
    service.desired = DesiredState::Deleted;
    assert_eq!(decide(&ServiceOperation::Delete, &template, &service), Ok(Admitted::Unchanged));
    for action in [
        ServiceOperation::Pause,
        ServiceOperation::Resume,
        ServiceOperation::Restart,
        ServiceOperation::Scale { replicas: 1 },
        ServiceOperation::Autoscale { min: 1, max: 2, cpu_percent: None },
        ServiceOperation::Resize { plan: plan("small", 1).name },
    ] {
        let answer = decide(&action, &template, &service);
        assert_eq!(answer, Err(Refused::BeingDeleted), "{action:?}");
    }
    let former = release_of(&service, 1);
    let context = OperationContext {
        current: &service,
        template: Some(&template),
        plan: None,
        release: Some(&former),
    };
    let answer = act(&ServiceOperation::Rollback { to: None }, context);
    assert_eq!(answer, Err(Refused::BeingDeleted));
}

#[test]
fn a_declaration_keeps_pause_and_restart_counter() {
    use trueup_rules::admit::{AdmissionContext, AdmissionRequest, admit};
    let (template, mut service) = web();
    service.desired = DesiredState::Paused;
    service.spec.restart = 7;
    let mut request = AdmissionRequest::again(&service);
    let context =
        AdmissionContext { template: Some(&template), plan: None, current: Some(&service) };
    assert_eq!(admit(&request, context), Ok(Admitted::Unchanged));
    request.parameters.insert("image".to_owned(), Value::String("shop:2".to_owned()));
    let next = accepted(admit(&request, context));
    assert_eq!((next.desired, next.spec.restart), (DesiredState::Paused, 7));
}

#[test]
fn another_version_of_the_same_template_is_an_upgrade() {
    use trueup_rules::admit::{AdmissionContext, AdmissionRequest, admit};
    let (template, service) = web();
    let newer = Template { version: 2, ..template };
    let request = AdmissionRequest {
        template: given::reference(&newer),
        ..AdmissionRequest::again(&service)
    };
    let context = AdmissionContext { template: Some(&newer), plan: None, current: Some(&service) };
    assert_eq!(accepted(admit(&request, context)).template.to_string(), "web@2");
}

#[test]
fn a_project_is_forced_only_without_services_and_with_a_reason() {
    use trueup_rules::admit::operation::force_project;
    let (gone, lives) = (DesiredState::Deleted, DesiredState::Active);
    let services = |number: usize| (1..=number).map(|n| format!("s{n}")).collect::<Vec<_>>();
    let table = [
        ("abandoned", gone, 0, None),
        ("abandoned", lives, 0, Some(("project", "is not being deleted; delete it first"))),
        ("no", gone, 0, Some(("reason", "must be 3 to 500 characters on one line"))),
        ("two\nlines", gone, 0, Some(("reason", "on one line"))),
        ("abandoned", gone, 2, Some(("project", "services: s1, s2; wait until"))),
        ("abandoned", gone, 7, Some(("project", "s4, s5 and 2 more;"))),
    ];
    for (reason, desired, left, expected) in table {
        let answer = force_project(reason, desired, &services(left));
        let refusal = answer.err().map(|refused| match refused {
            Refused::Invalid(errors) => (errors[0].field.clone(), errors[0].message.clone()),
            Refused::BeingDeleted => panic!("the project is being deleted, and that is no reason"),
        });
        match (refusal, expected) {
            (None, None) => {}
            (Some((field, message)), Some((at, words))) => {
                assert_eq!(field, at, "{message}");
                assert!(message.contains(words), "{message}");
            }
            (refusal, expected) => panic!("{refusal:?} instead of {expected:?}"),
        }
    }
}
