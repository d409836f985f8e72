//! The door's decisions, as a table: what is asked, what is promised already, what comes of it.

use serde_json::{Value, json};
use trueup_model::service::{DesiredState, Service};
use trueup_model::template::Template;
use trueup_rules::admit::{AdmissionContext, AdmissionRequest, Admitted, Refused};

use crate::given;

fn ask(template: &Template, parameters: Value) -> AdmissionRequest {
    AdmissionRequest {
        template: given::reference(template),
        plan: None,
        parameters: given::parameters(parameters),
    }
}

fn admit(
    ask: &AdmissionRequest,
    template: Option<&Template>,
    current: Option<&Service>,
) -> Result<Admitted, Refused> {
    trueup_rules::admit::admit(ask, AdmissionContext { template, plan: None, current })
}

/// Where and what, for each rule that was broken.
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
    admit(&ask(&template, parameters), Some(&template), None)
}

#[test]
fn a_template_that_does_not_exist_is_named() {
    let template = given::template("web");
    let told = errors(admit(&ask(&template, json!({})), None, None));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "template");
    assert!(told[0].1.contains("there is no template `web@1`"), "{}", told[0].1);
}

#[test]
fn each_bad_parameter_is_refused_with_its_place_and_what_would_be_right() {
    let long = "x".repeat(256);
    let many: Value = (0..201).map(|n| (format!("V{n}"), json!("x"))).collect();
    let large: Value = (0..40).map(|n| (format!("V{n}"), json!("x".repeat(32_768)))).collect();
    let table = [
        (json!({}), "image", "is needed: The container image"),
        (json!({"image": 3}), "image", "must be a text"),
        (json!({"image": ""}), "image", "must have 1 to 255 characters"),
        (json!({"image": long}), "image", "must have 1 to 255 characters"),
        (json!({"image": "a\nhostNetwork: true"}), "image", "must not contain control characters"),
        (json!({"image": " nginx"}), "image", "must not begin or end with a space"),
        (json!({"image": "a", "replicas": "2"}), "replicas", "must be a whole number"),
        (json!({"image": "a", "replicas": 1.5}), "replicas", "must be a whole number"),
        (json!({"image": "a", "replicas": null}), "replicas", "must be a whole number"),
        (json!({"image": "a", "replicas": 21}), "replicas", "must be from 0 to 20, is 21"),
        (json!({"image": "a", "replicas": -1}), "replicas", "must be from 0 to 20, is -1"),
        (json!({"image": "a", "port": 80}), "port", "must be from 1024 to 65535, is 80"),
        (json!({"image": "a", "colour": "red"}), "colour", "is not a parameter of web@1"),
        (json!({"image": "a", "variables": []}), "variables", "must be names with text values"),
        (json!({"image": "a", "variables": {"A B": "x"}}), "variables", "`A B` is not a variable"),
        (json!({"image": "a", "variables": {"": "x"}}), "variables", "`` is not a variable"),
        (json!({"image": "a", "variables": {"1A": "x"}}), "variables", "`1A` is not a variable"),
        (json!({"image": "a", "variables": {"A": 1}}), "variables", "value of `A` must be a text"),
        (json!({"image": "a", "variables": {"A": "\0"}}), "variables", "without NUL"),
        (json!({"image": "a", "variables": many}), "variables", "at most 200 entries"),
        (
            json!({"image": "a", "variables": large}),
            "variables",
            "together must be at most 512 KiB",
        ),
    ];
    for (parameters, field, message) in table {
        let told = errors(web(parameters));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, format!("parameters.{field}"));
        assert!(told[0].1.contains(message), "{}: wanted {message:?}", told[0].1);
    }
}

#[test]
fn a_choice_that_is_none_lists_the_choices() {
    let template = given::template("minecraft");
    let given = ask(&template, json!({"difficulty": "absurd"}));
    let told = errors(admit(&given, Some(&template), None));
    assert_eq!(told[0].1, "must be one of: peaceful, easy, normal, hard");
}

#[test]
fn all_breaches_are_told_at_once() {
    let told = errors(web(json!({"replicas": 99, "port": "x", "colour": 1})));
    let fields: Vec<&str> = told.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(
        fields,
        ["parameters.colour", "parameters.image", "parameters.port", "parameters.replicas"]
    );
}

fn minecraft() -> (Template, Service) {
    let template = given::template("minecraft");
    let promised = given::promised(&template, json!({"world_gib": 20}));
    (template, promised)
}

#[test]
fn what_may_not_change_is_told_together_with_what_is_wrong() {
    let (template, promised) = minecraft();
    let given = ask(&template, json!({"world_gib": 30, "difficulty": 1}));
    let told = errors(admit(&given, Some(&template), Some(&promised)));
    let expected = [
        ("parameters.world_gib", "cannot change once the service exists; declare a new service"),
        ("parameters.difficulty", "must be a text"),
    ];
    assert_eq!(told, expected.map(|(field, told)| (field.to_owned(), told.to_owned())));
}

#[test]
fn leaving_out_what_may_not_change_means_its_default() {
    let (template, promised) = minecraft();
    let told = errors(admit(&ask(&template, json!({})), Some(&template), Some(&promised)));
    assert_eq!(told[0].0, "parameters.world_gib", "20 was promised, 10 is the default");

    let usual = given::promised(&template, json!({}));
    let said = ask(&template, json!({"world_gib": 10}));
    let answer = admit(&said, Some(&template), Some(&usual)).unwrap();
    let Admitted::Changed(promise) = answer else {
        panic!("the parameters should be kept as they were said");
    };
    assert_eq!(promise.spec, usual.spec);
}

#[test]
fn another_template_needs_another_service() {
    let (_, promised) = minecraft();
    let web = given::template("web");
    let told = errors(admit(&ask(&web, json!({"image": "a"})), Some(&web), Some(&promised)));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "template");
    assert!(told[0].1.contains("cannot change from `minecraft@1`"), "{}", told[0].1);
}

#[test]
fn the_same_ask_changes_nothing_and_another_one_does() {
    let (template, promised) = minecraft();
    let same = ask(&template, json!({"world_gib": 20}));
    assert_eq!(admit(&same, Some(&template), Some(&promised)), Ok(Admitted::Unchanged));

    let harder = ask(&template, json!({"world_gib": 20, "difficulty": "hard"}));
    let Ok(Admitted::Changed(promise)) = admit(&harder, Some(&template), Some(&promised)) else {
        panic!("a change was expected");
    };
    assert_eq!(promise.spec.variables["DIFFICULTY"], "hard");
    assert_eq!(promise.spec.variables["EULA"], "true", "the template's own variables stay");
}

#[test]
fn what_is_being_deleted_takes_no_changes_good_or_bad() {
    let (template, mut promised) = minecraft();
    promised.desired = DesiredState::Deleted;
    for parameters in [json!({"world_gib": 20}), json!({"nonsense": 1})] {
        let answer = admit(&ask(&template, parameters), Some(&template), Some(&promised));
        assert_eq!(answer, Err(Refused::BeingDeleted));
    }
    let answer = admit(&ask(&template, json!({})), None, Some(&promised));
    assert_eq!(answer, Err(Refused::BeingDeleted));
}
