//! Manifest files: YAML documents, each a plan, a project or a service.
//!
//! Documents are validated one by one, so that one bad document does not hide the others. Fields
//! are checked here and not by serde, because an error needs the document, the field and the fix.

use std::fmt;
use std::fs;
use std::io::{self, Read};

use serde_json::{Map, Value};
use trueup_api::plan::PlanManifest;
use trueup_api::project::ProjectManifest;
use trueup_api::service::ServiceManifest;

use crate::output::spelling::nearest;

const KINDS: [&str; 3] = ["Plan", "Project", "Service"];
const PROJECT_FIELDS: [&str; 3] = ["kind", "name", "drift"];
const SERVICE_FIELDS: [&str; 8] =
    ["kind", "name", "project", "template", "plan", "parameters", "drift", "active"];
const ACTIVE_FIELDS: [&str; 2] = ["zone", "windows"];
const WINDOW_FIELDS: [&str; 3] = ["days", "from", "to"];
const DRIFT_FIELDS: [&str; 3] = ["verdict", "adopt", "rules"];
const DRIFT_RULE_FIELDS: [&str; 3] = ["kind", "path", "verdict"];
const PLAN_FIELDS: [&str; 13] = [
    "kind",
    "name",
    "summary",
    "cpu_millis",
    "memory_mib",
    "gpus",
    "ephemeral_mib",
    "hourly_micros",
    "disk_gib_hourly_micros",
    "currency",
    "nodes",
    "retired",
    "effective_from",
];

/// A valid document.
#[derive(Debug, Clone, PartialEq)]
pub enum Manifest {
    /// Declares a plan.
    Plan {
        /// The object's name.
        name: String,
        /// The body to send.
        body: PlanManifest,
    },
    /// Declares a project.
    Project {
        /// The object's name.
        name: String,
        /// The body to send.
        body: ProjectManifest,
    },
    /// Declares a service.
    Service {
        /// The object's name.
        name: String,
        /// The body to send.
        body: ServiceManifest,
    },
}

/// The location of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    file: String,
    document: Option<usize>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.document {
            Some(number) => write!(f, "{}, document {number}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A document's location, and its manifest or error.
pub type ParsedDocument = (Location, Result<Manifest, ManifestError>);

/// Why a document is invalid, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub fix: String,
}

impl ManifestError {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { message: message.into(), fix: fix.into() }
    }
}

/// Reads every file (`-` is stdin). Plans and projects come before services.
pub fn read_all(files: &[String]) -> Vec<ParsedDocument> {
    let mut found: Vec<ParsedDocument> = files.iter().flat_map(|file| read(file)).collect();
    found.sort_by_key(|(_, document)| matches!(document, Ok(Manifest::Service { .. }) | Err(_)));
    found
}

fn read(file: &str) -> Vec<ParsedDocument> {
    let (shown, text) = if file == "-" {
        let mut text = String::new();
        ("stdin", io::stdin().lock().read_to_string(&mut text).map(|_| text))
    } else {
        (file, fs::read_to_string(file))
    };
    match text {
        Ok(text) => parse(shown, &text),
        Err(error) => {
            let location = Location { file: shown.to_owned(), document: None };
            let fix = match error.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::IsADirectory => "name the files in it, such as DIR/*.yaml",
                _ => "make it a readable text file",
            };
            vec![(location, Err(ManifestError::new(format!("cannot be read: {error}"), fix)))]
        }
    }
}

/// The documents in a text.
pub fn parse(file: &str, text: &str) -> Vec<ParsedDocument> {
    let mut bytes = text.as_bytes();
    let found: Vec<ParsedDocument> = serde_saphyr::read::<_, Value>(&mut bytes)
        .zip(1..)
        .map(|(document, number)| {
            let location = Location { file: file.to_owned(), document: Some(number) };
            let manifest = document
                .map_err(|error| {
                    ManifestError::new(
                        format!("is not YAML: {}", first_line(&error)),
                        "fix the syntax",
                    )
                })
                .and_then(validate);
            (location, manifest)
        })
        .collect();
    if found.is_empty() {
        let location = Location { file: file.to_owned(), document: None };
        let error = ManifestError::new(
            "contains no document",
            "write one that begins with `kind: Service`",
        );
        return vec![(location, Err(error))];
    }
    found
}

fn first_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn validate(document: Value) -> Result<Manifest, ManifestError> {
    let Value::Object(fields) = document else {
        return Err(ManifestError::new(
            "is not a manifest",
            "write fields: `kind: Service`, `name: …`",
        ));
    };
    let kind = text(&fields, "kind")?.ok_or_else(|| {
        ManifestError::new("field `kind` is missing", "add `kind: Service` or `kind: Project`")
    })?;
    let known: &[&str] = match kind {
        "Project" => &PROJECT_FIELDS,
        "Service" => &SERVICE_FIELDS,
        "Plan" => &PLAN_FIELDS,
        other => {
            let fix = match nearest(other, &KINDS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("kinds are {}", list(&KINDS)),
            };
            return Err(ManifestError::new(format!("field `kind`: `{other}` is not known"), fix));
        }
    };
    check_fields(kind, &fields, known)?;
    let name = text(&fields, "name")?
        .ok_or_else(|| ManifestError::new("field `name` is missing", "add `name: …`"))?
        .to_owned();
    check_drift(&fields)?;
    check_active(&fields)?;
    match kind {
        "Project" => return Ok(Manifest::Project { name, body: typed(fields)? }),
        "Plan" => return Ok(Manifest::Plan { name, body: typed(fields)? }),
        _ => {}
    }
    text(&fields, "plan")?;
    text(&fields, "project")?;
    if text(&fields, "template")?.is_none() {
        return Err(ManifestError::new(
            "field `template` is missing",
            "add `template: web@1`; `trueup get templates` lists them",
        ));
    }
    if fields.get("parameters").is_some_and(|parameters| !parameters.is_object()) {
        return Err(ManifestError::new(
            "field `parameters` is not a map of names to values",
            "write one per line, such as `  replicas: 2`",
        ));
    }
    Ok(Manifest::Service { name, body: typed(fields)? })
}

/// Checks the fields of a drift policy. The server checks their words.
fn check_drift(fields: &Map<String, Value>) -> Result<(), ManifestError> {
    let policy = match fields.get("drift") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(policy)) => policy,
        Some(_) => {
            return Err(ManifestError::new(
                "field `drift` is not a drift policy",
                "write `drift:`, and below it `  verdict: ignore`, or `  rules:` with a list",
            ));
        }
    };
    check_fields("drift policy", policy, &DRIFT_FIELDS)?;
    let rules = policy.get("rules").and_then(Value::as_array).into_iter().flatten();
    rules
        .filter_map(Value::as_object)
        .try_for_each(|rule| check_fields("drift rule", rule, &DRIFT_RULE_FIELDS))
}

/// Checks the fields of active hours. The server checks their times.
fn check_active(fields: &Map<String, Value>) -> Result<(), ManifestError> {
    const FIX: &str =
        "write `active: {zone: Europe/Berlin, windows: [{from: \"15:00\", to: \"23:00\"}]}`";
    let hours = match fields.get("active") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(hours)) => hours,
        Some(_) => return Err(ManifestError::new("field `active` is no active hours", FIX)),
    };
    check_fields("set of active hours", hours, &ACTIVE_FIELDS)?;
    let windows = hours.get("windows").and_then(Value::as_array);
    if hours.get("zone").is_none() || windows.is_none() {
        return Err(ManifestError::new("field `active` needs `zone` and a list of `windows`", FIX));
    }
    for window in windows.into_iter().flatten().filter_map(Value::as_object) {
        check_fields("window", window, &WINDOW_FIELDS)?;
        for field in ["from", "to"] {
            // YAML reads 15:00 without quotes as text, but 1500 as a number.
            text(window, field)?.ok_or_else(|| {
                ManifestError::new(format!("field `{field}` of a window is missing"), FIX)
            })?;
        }
    }
    Ok(())
}

fn check_fields(
    kind: &str,
    fields: &Map<String, Value>,
    known: &[&str],
) -> Result<(), ManifestError> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(unknown) => Err(unknown_field(kind, unknown, known)),
        None => Ok(()),
    }
}

fn unknown_field(kind: &str, field: &str, known: &[&str]) -> ManifestError {
    let fix = match nearest(field, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if kind == "Service" => {
            format!("template parameters belong under `parameters:`; a Service has {}", list(known))
        }
        None => format!("a {kind} has {}", list(known)),
    };
    ManifestError::new(format!("field `{field}` is not known in a {kind}"), fix)
}

fn list(known: &[&str]) -> String {
    known.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}

/// An optional text field.
fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, ManifestError> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(ManifestError::new(
            format!("field `{field}` is not text but {other}"),
            format!("put quotes around it: `{field}: \"{}\"`", other.to_string().replace('"', "")),
        )),
    }
}

fn typed<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, ManifestError> {
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| ManifestError::new(error.to_string(), "fix the named field"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const GOOD: &str = "\
kind: Service
name: web
project: shop
template: web@1
parameters:
  replicas: 2
  ratio: 1.5
  image: \"nginx:1\"
---
# nothing but a comment
---
kind: Project
name: shop
";

    fn error(text: &str) -> String {
        match parse("web.yaml", text).remove(0) {
            (location, Err(error)) => format!("{location}: {} | {}", error.message, error.fix),
            (location, Ok(manifest)) => panic!("{location}: {manifest:?}"),
        }
    }

    #[test]
    fn documents_are_parsed_in_order() {
        let found = parse("web.yaml", GOOD);
        assert_eq!(found.len(), 2);
        let (location, Ok(Manifest::Service { name, body })) = &found[0] else {
            panic!("{found:?}")
        };
        assert_eq!(location.to_string(), "web.yaml, document 1");
        assert_eq!((name.as_str(), body.template.as_str()), ("web", "web@1"));
        assert_eq!(body.parameters["replicas"], 2);
        assert_eq!(body.parameters["ratio"], 1.5);
        assert_eq!(body.parameters["image"], "nginx:1");
        assert!(matches!(&found[1].1, Ok(Manifest::Project { name, .. }) if name == "shop"));
    }

    #[test]
    fn services_and_projects_have_drift_policies() {
        let policy = "drift:\n  verdict: enforce\n  rules:\n  - path: spec.replicas\n    \
                      verdict: ignore\n";
        let service = "kind: Service\nname: web\ntemplate: web@1\n";
        let text = format!("{service}{policy}---\nkind: Project\nname: shop\n{policy}");
        let found = parse("web.yaml", &text);
        let [
            (_, Ok(Manifest::Service { body, .. })),
            (_, Ok(Manifest::Project { body: shop, .. })),
        ] = &found[..]
        else {
            panic!("{found:?}")
        };
        assert_eq!(body.drift, shop.drift);
        let policy = body.drift.as_ref().unwrap();
        assert_eq!(policy.verdict.as_deref(), Some("enforce"));
        assert_eq!(policy.rules[0].path.as_deref(), Some("spec.replicas"));
        assert_eq!(policy.rules[0].verdict, "ignore");
    }

    /// A field that is missing in the list of known ones would be refused although the API takes it.
    #[test]
    fn every_field_of_the_api_is_known() {
        let plan = json!({
            "kind": "Plan", "name": "fast", "summary": "Fast.", "cpu_millis": 250,
            "memory_mib": 256, "gpus": 0, "ephemeral_mib": 1, "hourly_micros": 1, "disk_gib_hourly_micros": 1,
            "currency": "EUR", "nodes": "fast", "retired": false,
            "effective_from": "2026-03-01T00:00:00Z",
        });
        let service = json!({
            "kind": "Service", "name": "web", "project": "shop", "template": "web@1",
            "plan": "small", "parameters": {}, "drift": {},
        });
        let project = json!({"kind": "Project", "name": "shop", "drift": {}});
        for (document, known) in [
            (plan, &PLAN_FIELDS[..]),
            (service, &SERVICE_FIELDS[..]),
            (project, &PROJECT_FIELDS[..]),
        ] {
            // The types refuse unknown fields, and their texts list the ones they know.
            let mut wrong = document.as_object().unwrap().clone();
            wrong.insert("unknown".to_owned(), json!(1));
            let said = match document["kind"].as_str().unwrap() {
                "Plan" => typed::<PlanManifest>(wrong).unwrap_err(),
                "Service" => typed::<ServiceManifest>(wrong).unwrap_err(),
                _ => typed::<ProjectManifest>(wrong).unwrap_err(),
            };
            let listed: BTreeSet<&str> = said.message.split('`').skip(1).step_by(2).collect();
            let expected = known.iter().copied().chain(["unknown"]).collect::<BTreeSet<_>>();
            assert_eq!(listed, expected, "{}", said.message);
            assert!(validate(document.clone()).is_ok(), "{document}");
        }
    }

    #[test]
    fn projects_come_first() {
        let mut found = parse("web.yaml", GOOD);
        found.sort_by_key(|(_, document)| !matches!(document, Ok(Manifest::Project { .. })));
        assert!(matches!(&found[0].1, Ok(Manifest::Project { .. })));
    }

    #[test]
    fn bad_document_does_not_hide_the_next() {
        let found = parse("web.yaml", "kind: Service\nname: a\n---\nkind: Project\nname: b\n");
        assert!(found[0].1.is_err());
        assert!(found[1].1.is_ok());
    }

    #[test]
    fn errors_name_document_field_and_fix() {
        let base = "kind: Service\nname: web\ntemplate: web@1\n";
        for (text, parts) in [
            (
                format!("{base}replicas: 2\n"),
                ["document 1", "`replicas` is not known", "parameters:"],
            ),
            (
                format!("{base}paramters: {{}}\n"),
                ["document 1", "`paramters`", "did you mean `parameters`?"],
            ),
            (format!("{base}parameters: 3\n"), ["document 1", "`parameters`", "replicas: 2"]),
            (format!("{base}drift: ignore\n"), ["document 1", "`drift`", "verdict: ignore"]),
            (
                format!("{base}drift: {{rule: []}}\n"),
                ["document 1", "`rule` is not known in a drift policy", "did you mean `rules`?"],
            ),
            (
                format!("{base}drift: {{rules: [{{pth: spec.replicas, verdict: ignore}}]}}\n"),
                ["document 1", "`pth` is not known in a drift rule", "did you mean `path`?"],
            ),
            ("name: web\n".to_owned(), ["document 1", "`kind` is missing", "kind: Service"]),
            (
                "kind: Servce\nname: a\n".to_owned(),
                ["document 1", "`Servce`", "did you mean `Service`?"],
            ),
            (
                "kind: Pod\nname: a\n".to_owned(),
                ["document 1", "`Pod` is not known", "`Plan`, `Project`, `Service`"],
            ),
            (
                "kind: Service\nname: a\n".to_owned(),
                ["document 1", "`template` is missing", "web@1"],
            ),
            (
                "kind: Project\nname: 12\n".to_owned(),
                ["document 1", "`name` is not text but 12", "name: \"12\""],
            ),
            ("kind: Project\n".to_owned(), ["document 1", "`name` is missing", "add `name"]),
            ("- a\n- b\n".to_owned(), ["document 1", "not a manifest", "kind: Service"]),
            ("kind: [\n".to_owned(), ["document 1", "is not YAML", "syntax"]),
            (String::new(), ["web.yaml", "contains no document", "kind: Service"]),
            (
                "---\n# only a comment\n".to_owned(),
                ["web.yaml", "contains no document", "kind: Service"],
            ),
        ] {
            let message = error(&text);
            for part in parts {
                assert!(message.contains(part), "{text:?}: {message}");
            }
        }
    }

    #[test]
    fn missing_file_is_named() {
        let found = read("/nonexistent/web.yaml");
        let (location, Err(error)) = &found[0] else { panic!("{found:?}") };
        assert_eq!(location.to_string(), "/nonexistent/web.yaml");
        assert_eq!(error.fix, "check the path");
    }
}
