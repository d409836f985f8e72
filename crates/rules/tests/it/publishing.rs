//! Which templates may be published, as a table; and their schema.

use serde_json::{Value, json};
use trueup_model::template::Template;
use trueup_rules::admit::template::{check, follows, refuses_new, resolve, schema};

use crate::forbidden::SHIPPED;
use crate::given;

/// A small template with every kind of parameter, changed at one pointer.
fn template(pointer: &str, value: Value) -> Template {
    let mut whole = json!({
        "name": "bot", "version": 1, "summary": "A chat bot.",
        "parameters": {
            "image": {"type": "string", "description": "The image.", "sets": "/image"},
            "loud": {"type": "boolean", "description": "Whether it shouts.", "default": false,
                     "sets": "/variables/LOUD", "mutable": true},
            "rooms": {"type": "integer", "description": "How many rooms.", "default": 3,
                      "minimum": 1, "maximum": 9, "sets": "/variables/ROOMS", "mutable": true},
            "words": {"type": "list", "description": "What it says.", "default": ["hi"],
                      "sets": "/args", "mutable": true},
        },
        "spec": {
            "workload": "deployment", "image": "", "replicas": 1, "args": [],
            "variables": {"LOUD": "false", "ROOMS": "3"},
            "resources": {"cpu_millis": 100, "memory_mib": 64},
        },
    });
    if let Some((parent, last)) = pointer.rsplit_once('/') {
        whole.pointer_mut(parent).expect("a place")[last] = value;
    }
    serde_json::from_value(whole).expect("a template")
}

fn good() -> Template {
    template("", Value::Null)
}

#[test]
fn every_shipped_template_may_be_published() {
    for name in SHIPPED {
        assert_eq!(check(&given::template(name)), [], "{name}");
    }
    assert_eq!(check(&good()), []);
}

#[test]
fn each_template_error_names_its_field() {
    let parameter = |sets: &str| json!({"type": "string", "description": "x", "sets": sets});
    let number = |sets: &str, high: i64| json!({"type": "integer", "description": "x", "minimum": 1, "maximum": high, "sets": sets});
    let table = [
        ("/version", json!(0), "version", "at least 1"),
        ("/summary", json!(""), "summary", "a sentence"),
        ("/summary", json!("a\nb"), "summary", "a sentence"),
        (
            "/deprecated",
            json!({"at": "2030-01-01T00:00:00Z", "instead": "x"}),
            "deprecated",
            "leave",
        ),
        ("/images", json!({"allow": ["*"]}), "images.allow", "neither a repository"),
        ("/parameters/x", parameter("/workload"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/resources/cpu_millis"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/resources/gpus"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/generated_secrets/0"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/plan"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/restart"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/volume/path"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/ports/0/name"), "parameters.x", "may not set"),
        ("/parameters/x", parameter(""), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/variables/a~1b"), "parameters.x", "may not set"),
        ("/parameters/x", parameter("/variables/NEW"), "parameters.x", "not in the spec"),
        ("/parameters/x", parameter("/ports/0/port"), "parameters.x", "takes integer"),
        (
            "/parameters/x",
            parameter("/image"),
            "parameters.x",
            "sets `/image`, which `image` also sets",
        ),
        ("/parameters/X", parameter("/variables/LOUD"), "parameters.X", "must have a name of"),
        (
            "/parameters/rooms/default",
            json!(10),
            "parameters.rooms",
            "a default that must be from 1",
        ),
        ("/parameters/rooms/minimum", json!(10), "parameters.rooms", "in order"),
        ("/parameters/rooms/enum", json!(["a"]), "parameters.rooms", "enum is only for a string"),
        ("/parameters/loud/maximum", json!(1), "parameters.loud", "only for an integer"),
        ("/parameters/loud/maxLength", json!(1), "parameters.loud", "only for a string"),
        ("/parameters/image/enum", json!([]), "parameters.image", "1 to 100 choices"),
        ("/parameters/image/maxLength", json!(0), "parameters.image", "from 1 to 32768"),
        ("/parameters/x", number("/replicas", 5_000_000_000), "parameters.x", "in order"),
        ("/spec/workload", json!("daemon_set"), "spec", "unknown variant"),
        ("/spec/privileged", json!(true), "spec", "unknown field `privileged`"),
        ("/spec/replicas", json!(null), "spec", "null"),
        ("/spec/schedule", json!("@daily"), "spec", "only for a cron_job"),
        ("/spec/variables/B B", json!(""), "spec", "not a valid variable name"),
        ("/spec/resources/memory_mib", json!(0), "spec", "at least 1"),
        ("/spec/volume", json!({"size_gib": 1, "path": "/data"}), "spec", "use a stateful_set"),
    ];
    for (pointer, value, field, message) in table {
        let errors = check(&template(pointer, value.clone()));
        let found =
            errors.iter().any(|error| error.field == field && error.message.contains(message));
        assert!(found, "{pointer} = {value}: {errors:#?}");
    }
}

#[test]
fn the_bounds_of_a_range_must_be_valid() {
    let mut web = given::template("web");
    web.parameters.get_mut("port").expect("a port").maximum = Some(70_000);
    let errors = check(&web);
    assert!(errors.iter().any(|error| error.message.contains("70000")), "{errors:?}");

    let mut redis = given::template("redis");
    redis.parameters.get_mut("disk_gib").expect("a size").minimum = Some(0);
    let errors = check(&redis);
    assert_eq!(errors[0].field, "parameters.disk_gib", "{errors:?}");
}

#[test]
fn values_are_converted_to_the_type_of_their_slot() {
    let request = json!({"image": "bot:1", "loud": true, "rooms": 7, "words": ["a b", "{{ c }}"]});
    let spec = resolve(&good(), &given::parameters(request)).unwrap();
    assert_eq!(spec.variables["LOUD"], "true");
    assert_eq!(spec.variables["ROOMS"], "7");
    assert_eq!(spec.args, ["a b", "{{ c }}"]);
    for (request, message) in [
        (json!({"loud": "yes"}), "must be true or false"),
        (json!({"words": "hi"}), "must be a list of strings"),
        (json!({"words": ["hi", 1]}), "item 2 must be a string"),
        (json!({"words": ["\u{0}"]}), "no NUL"),
        (json!({"words": vec!["x"; 101]}), "at most 100 items"),
    ] {
        let mut request = given::parameters(request);
        request.insert("image".to_owned(), json!("bot:1"));
        let errors = resolve(&good(), &request).unwrap_err();
        assert!(errors[0].message.contains(message), "{errors:?}");
    }
}

#[test]
fn platform_errors_name_the_parameter_that_caused_them() {
    let cron = given::template("cron");
    let request = json!({"image": "Not An Image", "schedule": "61 * * * *", "retries": 11});
    let errors = resolve(&cron, &given::parameters(request)).unwrap_err();
    let mut fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["parameters.image", "parameters.retries", "parameters.schedule"]);
    let secret = json!({"image": "a", "schedule": "@daily", "variables": {"APP_KEY": "mine"}});
    let errors = resolve(&cron, &given::parameters(secret)).unwrap_err();
    assert_eq!(errors[0].field, "parameters.variables");
    assert!(errors[0].message.contains("a secret that Trueup generates"), "{errors:?}");
}

#[test]
fn an_image_policy_applies_to_parameters() {
    let strict = template("/images", json!({"allow": ["registry.example/bots/"]}));
    assert_eq!(check(&strict), []);
    let resolved = |image: &str| resolve(&strict, &given::parameters(json!({"image": image})));
    assert!(resolved("registry.example/bots/one:1").is_ok());
    let errors = resolved("evil.example/bots/one:1").unwrap_err();
    assert_eq!(errors[0].field, "parameters.image");
    assert!(errors[0].message.contains("registry.example/bots/"), "{errors:?}");

    let pinned = template("/images", json!({"require_digest": true}));
    assert_eq!(check(&pinned), []);
    let errors = resolve(&pinned, &given::parameters(json!({"image": "bot:1"}))).unwrap_err();
    assert!(errors[0].message.contains("by its digest"), "{errors:?}");
}

#[test]
fn a_deprecated_template_names_its_replacement() {
    assert_eq!(refuses_new(&good()), None);
    let old =
        template("/deprecated", json!({"at": "2030-01-01T00:00:00Z", "instead": "use `bot@2`"}));
    let errors = refuses_new(&old).expect("a refusal");
    assert_eq!(errors.field, "template");
    assert!(
        errors.message.contains("`bot@1`") && errors.message.ends_with("use `bot@2`"),
        "{errors:?}"
    );
    assert!(
        resolve(&old, &given::parameters(json!({"image": "a"}))).is_ok(),
        "existing services should still resolve"
    );
}

#[test]
fn a_schema_describes_the_parameters() {
    let schema = schema(&good());
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["template"]["const"], "bot@1");
    let parameters = &schema["properties"]["parameters"];
    assert_eq!(parameters["required"], json!(["image"]));
    assert_eq!(parameters["additionalProperties"], false);
    let of = |name: &str| parameters["properties"][name].clone();
    assert_eq!(of("rooms")["type"], "integer");
    assert_eq!((&of("rooms")["minimum"], &of("rooms")["maximum"]), (&json!(1), &json!(9)));
    assert_eq!(of("rooms")["default"], 3);
    assert_eq!(of("loud")["type"], "boolean");
    assert_eq!(of("words")["items"]["type"], "string");
    assert_eq!(of("image")["x-trueup-fixed"], true);
    assert_eq!(of("rooms").get("x-trueup-fixed"), None);
}

#[test]
fn the_next_template_version_keeps_immutable_fields() {
    let old = given::template("redis");
    let next = |change: fn(&mut Value)| {
        let mut next = old.clone();
        next.version = 2;
        change(&mut next.spec);
        follows(&old, &next).into_iter().map(|error| error.message).collect::<Vec<_>>()
    };
    assert_eq!(next(|spec| spec["image"] = json!("redis:9")), Vec::<String>::new());
    assert_eq!(next(|spec| spec["volume"]["size_gib"] = json!(9)), Vec::<String>::new());
    let errors = next(|spec| spec["workload"] = json!("deployment"));
    assert!(errors[0].contains("must stay \"stateful_set\""), "{errors:?}");
    let errors = next(|spec| spec["volume"]["path"] = json!("/other"));
    assert!(errors[0].contains("must stay \"/data\""), "{errors:?}");
    let errors = next(|spec| spec["volume"] = json!(null));
    assert!(errors[0].contains("must stay"), "{errors:?}");
}

/// Images of public registries, with the variables, port and folder that they document.
#[test]
fn shipped_images_have_their_documented_settings() {
    let none: &[&str] = &[];
    let table = [
        (
            "minecraft",
            "itzg/minecraft-server:stable",
            ["EULA", "TYPE", "VERSION", "MEMORY"].as_slice(),
            "RCON_PASSWORD",
            25565,
            "/data",
        ),
        (
            "postgres",
            "postgres:18",
            ["POSTGRES_DB", "POSTGRES_USER", "PGDATA"].as_slice(),
            "POSTGRES_PASSWORD",
            5432,
            "/var/lib/postgresql/data",
        ),
        ("redis", "redis:8", none, "REDIS_PASSWORD", 6379, "/data"),
    ];
    for (name, image, variables, secret, port, path) in table {
        let spec = given::spec(&given::template(name), &given::parameters(json!({})));
        assert_eq!(spec.image, image);
        for variable in variables {
            assert!(spec.variables.contains_key(*variable), "{name} lacks {variable}");
        }
        assert_eq!((spec.generated_secrets, spec.ports[0].port), (vec![secret.to_owned()], port));
        assert_eq!(spec.volume.map(|volume| volume.path).as_deref(), Some(path), "{name}");
        // Of a fresh disk, the database owns only a folder.
        let data = spec.variables.get("PGDATA");
        assert!(data.is_none_or(|data| data.starts_with(&format!("{path}/"))), "{name}: {data:?}");
    }
}
