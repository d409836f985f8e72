//! Admission as tables: the request, the accepted service, and the result.

use serde_json::{Value, json};
use trueup_model::drift::DriftPolicy;
use trueup_model::service::{DesiredState, Service};
use trueup_model::template::Template;
use trueup_rules::admit::{AdmissionContext, AdmissionRequest, Admitted, Refused};

use crate::given;

fn request(template: &Template, parameters: Value) -> AdmissionRequest {
    AdmissionRequest {
        template: given::reference(template),
        plan: None,
        parameters: given::parameters(parameters),
        drift: DriftPolicy::default(),
        active: None,
    }
}

fn admit(
    request: &AdmissionRequest,
    template: Option<&Template>,
    current: Option<&Service>,
) -> Result<Admitted, Refused> {
    trueup_rules::admit::admit(request, AdmissionContext { template, plan: None, current })
}

/// Field and message of each error.
fn errors(answer: Result<Admitted, Refused>) -> Vec<(String, String)> {
    match answer {
        Err(Refused::Invalid(errors)) => {
            errors.into_iter().map(|field_error| (field_error.field, field_error.message)).collect()
        }
        other => unreachable!("a refusal was expected, not {other:?}"),
    }
}

fn web(parameters: Value) -> Result<Admitted, Refused> {
    let template = given::template("web");
    admit(&request(&template, parameters), Some(&template), None)
}

#[test]
fn a_template_that_does_not_exist_is_named() {
    let template = given::template("web");
    let found = errors(admit(&request(&template, json!({})), None, None));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "template");
    assert!(found[0].1.contains("there is no template `web@1`"), "{}", found[0].1);
}

#[test]
fn each_invalid_parameter_is_refused_with_field_and_rule() {
    let long = "x".repeat(256);
    let many: Value = (0..201).map(|n| (format!("V{n}"), json!("x"))).collect();
    let large: Value = (0..40).map(|n| (format!("V{n}"), json!("x".repeat(32_768)))).collect();
    let table = [
        (json!({}), "image", "is required: The container image"),
        (json!({"image": 3}), "image", "must be a string"),
        (json!({"image": ""}), "image", "must have 1 to 255 characters"),
        (json!({"image": long}), "image", "must have 1 to 255 characters"),
        (json!({"image": "a\nhostNetwork: true"}), "image", "must not contain control characters"),
        (json!({"image": " nginx"}), "image", "must not begin or end with a space"),
        (json!({"image": "a", "replicas": "2"}), "replicas", "must be an integer"),
        (json!({"image": "a", "replicas": 1.5}), "replicas", "must be an integer"),
        (json!({"image": "a", "replicas": null}), "replicas", "must be an integer"),
        (json!({"image": "a", "replicas": 21}), "replicas", "must be from 0 to 20, is 21"),
        (json!({"image": "a", "replicas": -1}), "replicas", "must be from 0 to 20, is -1"),
        (json!({"image": "a", "port": 80}), "port", "must be from 1024 to 65535, is 80"),
        (json!({"image": "a", "colour": "red"}), "colour", "is not a parameter of web@1"),
        (json!({"image": "a", "variables": []}), "variables", "must be a map of names to strings"),
        (
            json!({"image": "a", "variables": {"A B": "x"}}),
            "variables",
            "`A B` is not a valid variable",
        ),
        (json!({"image": "a", "variables": {"": "x"}}), "variables", "`` is not a valid variable"),
        (
            json!({"image": "a", "variables": {"1A": "x"}}),
            "variables",
            "`1A` is not a valid variable",
        ),
        (
            json!({"image": "a", "variables": {"A": 1}}),
            "variables",
            "value of `A` must be a string",
        ),
        (json!({"image": "a", "variables": {"A": "\0"}}), "variables", "without NUL"),
        (json!({"image": "a", "variables": many}), "variables", "at most 200 entries"),
        (
            json!({"image": "a", "variables": large}),
            "variables",
            "together must be at most 512 KiB",
        ),
    ];
    for (parameters, field, message) in table {
        let found = errors(web(parameters));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, format!("parameters.{field}"));
        assert!(found[0].1.contains(message), "{}: wanted {message:?}", found[0].1);
    }
}

#[test]
fn an_invalid_choice_lists_the_valid_ones() {
    let template = given::template("minecraft");
    let given = request(&template, json!({"difficulty": "absurd"}));
    let found = errors(admit(&given, Some(&template), None));
    assert_eq!(found[0].1, "must be one of: peaceful, easy, normal, hard");
}

#[test]
fn all_errors_are_reported_at_once() {
    let found = errors(web(json!({"replicas": 99, "port": "x", "colour": 1})));
    let fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(
        fields,
        ["parameters.colour", "parameters.image", "parameters.port", "parameters.replicas"]
    );
}

fn minecraft() -> (Template, Service) {
    let template = given::template("minecraft");
    let accepted = given::accepted(&template, json!({"world_gib": 20}));
    (template, accepted)
}

#[test]
fn immutable_and_invalid_parameters_are_reported_together() {
    let (template, accepted) = minecraft();
    let given = request(&template, json!({"server": "PAPER", "difficulty": 1}));
    let found = errors(admit(&given, Some(&template), Some(&accepted)));
    let expected = [
        ("parameters.server", "cannot change once the service exists; declare a new service"),
        ("parameters.difficulty", "must be a string"),
    ];
    assert_eq!(found, expected.map(|(field, found)| (field.to_owned(), found.to_owned())));
}

#[test]
fn omitting_an_immutable_parameter_means_its_default() {
    let template = given::template("minecraft");
    let paper = given::accepted(&template, json!({"server": "PAPER"}));
    let found = errors(admit(&request(&template, json!({})), Some(&template), Some(&paper)));
    assert_eq!(found[0].0, "parameters.server", "PAPER was accepted, VANILLA is the default");

    let usual = given::accepted(&template, json!({}));
    let given_default = request(&template, json!({"server": "VANILLA"}));
    let answer = admit(&given_default, Some(&template), Some(&usual)).unwrap();
    let Admitted::Changed(release) = answer else {
        panic!("the parameters should be kept as given");
    };
    assert_eq!(release.spec, usual.spec);
}

#[test]
fn a_volume_grows_and_never_shrinks() {
    let (template, accepted) = minecraft();
    let size = |given: Value| admit(&request(&template, given), Some(&template), Some(&accepted));
    for gib in [21, 1000] {
        let Ok(Admitted::Changed(release)) = size(json!({ "world_gib": gib })) else {
            panic!("a volume of {gib} GiB was expected");
        };
        assert_eq!(release.spec.volume.map(|volume| volume.size_gib), Some(gib));
    }
    // Without a size the default counts, which is smaller than the present size.
    for (given, wanted) in [(json!({"world_gib": 19}), 19), (json!({}), 10)] {
        let message = format!(
            "must be at least 20, the present size, is {wanted}: a volume can grow, but not shrink"
        );
        assert_eq!(errors(size(given)), [("parameters.world_gib".to_owned(), message)]);
    }
}

#[test]
fn a_version_with_a_smaller_volume_is_refused_whatever_sets_the_size() {
    let (mut template, accepted) = minecraft();
    template.version = 2;
    // A size that the user may not change is an error once, not twice.
    template.parameters.get_mut("world_gib").expect("a size").mutable = false;
    let found = errors(admit(&request(&template, json!({})), Some(&template), Some(&accepted)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("cannot change once"), "{found:?}");
    template.parameters.remove("world_gib");
    let found = errors(admit(&request(&template, json!({})), Some(&template), Some(&accepted)));
    assert_eq!(found[0].0, "template");
    assert!(found[0].1.contains("10 GiB and the present size is 20 GiB"), "{found:?}");
}

#[test]
fn another_template_needs_another_service() {
    let (_, accepted) = minecraft();
    let web = given::template("web");
    let found = errors(admit(&request(&web, json!({"image": "a"})), Some(&web), Some(&accepted)));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "template");
    assert!(found[0].1.contains("cannot change from `minecraft@1`"), "{}", found[0].1);
}

#[test]
fn the_same_request_changes_nothing_and_another_one_does() {
    let (template, accepted) = minecraft();
    let same = request(&template, json!({"world_gib": 20}));
    assert_eq!(admit(&same, Some(&template), Some(&accepted)), Ok(Admitted::Unchanged));

    let harder = request(&template, json!({"world_gib": 20, "difficulty": "hard"}));
    let Ok(Admitted::Changed(release)) = admit(&harder, Some(&template), Some(&accepted)) else {
        panic!("a change was expected");
    };
    assert_eq!(release.spec.variables["DIFFICULTY"], "hard");
    assert_eq!(release.spec.variables["EULA"], "TRUE", "the template's own variables stay");
}

#[test]
fn a_service_being_deleted_refuses_all_changes() {
    let (template, mut accepted) = minecraft();
    accepted.desired = DesiredState::Deleted;
    for parameters in [json!({"world_gib": 20}), json!({"nonsense": 1})] {
        let answer = admit(&request(&template, parameters), Some(&template), Some(&accepted));
        assert_eq!(answer, Err(Refused::BeingDeleted));
    }
    let answer = admit(&request(&template, json!({})), None, Some(&accepted));
    assert_eq!(answer, Err(Refused::BeingDeleted));
}
