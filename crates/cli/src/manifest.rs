//! Manifest files: YAML, many documents in one file, each a project or a service.
//!
//! Documents are judged one by one, so that a file with one bad document tells about it and still
//! gives the others. The field checks are made here and not left to serde, because a person needs
//! the document, the field and the fix, and serde knows only the field.

use std::fmt;
use std::fs;
use std::io::{self, Read};

use serde_json::{Map, Value};
use trueup_api::plan::PlanManifest;
use trueup_api::project::ProjectManifest;
use trueup_api::service::ServiceManifest;

use crate::output::spelling::nearest;

const KINDS: [&str; 3] = ["Plan", "Project", "Service"];
const PROJECT_FIELDS: [&str; 2] = ["kind", "name"];
const SERVICE_FIELDS: [&str; 6] = ["kind", "name", "project", "template", "plan", "parameters"];
const PLAN_FIELDS: [&str; 10] = [
    "kind",
    "name",
    "summary",
    "cpu_millis",
    "memory_mib",
    "gpus",
    "hourly_micros",
    "disk_gib_hourly_micros",
    "currency",
    "retired",
];

/// One good document.
#[derive(Debug, Clone, PartialEq)]
pub enum Manifest {
    /// Declares a plan.
    Plan {
        /// Its name.
        name: String,
        /// What is sent.
        body: PlanManifest,
    },
    /// Declares a project.
    Project {
        /// Its name.
        name: String,
        /// The body to send.
        body: ProjectManifest,
    },
    /// Declares a service.
    Service {
        /// Its name.
        name: String,
        /// The body to send.
        body: ServiceManifest,
    },
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: String,
    document: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.document {
            Some(number) => write!(f, "{}, document {number}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

/// A document, or why it is none.
pub type Found = (Place, Result<Manifest, Wrong>);

/// What is wrong, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub fix: String,
}

impl Wrong {
    fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { message: message.into(), fix: fix.into() }
    }
}

/// Reads every file (`-` is stdin), projects first, otherwise in order.
pub fn read_all(files: &[String]) -> Vec<Found> {
    let mut found: Vec<Found> = files.iter().flat_map(|file| read(file)).collect();
    found.sort_by_key(|(_, document)| matches!(document, Ok(Manifest::Service { .. }) | Err(_)));
    found
}

fn read(file: &str) -> Vec<Found> {
    let (shown, text) = if file == "-" {
        let mut text = String::new();
        ("stdin", io::stdin().lock().read_to_string(&mut text).map(|_| text))
    } else {
        (file, fs::read_to_string(file))
    };
    match text {
        Ok(text) => parse(shown, &text),
        Err(error) => {
            let place = Place { file: shown.to_owned(), document: None };
            let fix = match error.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::IsADirectory => "name the files in it, such as DIR/*.yaml",
                _ => "make it a readable text file",
            };
            vec![(place, Err(Wrong::new(format!("cannot be read: {error}"), fix)))]
        }
    }
}

/// The documents in a text.
pub fn parse(file: &str, text: &str) -> Vec<Found> {
    let mut bytes = text.as_bytes();
    let found: Vec<Found> = serde_saphyr::read::<_, Value>(&mut bytes)
        .zip(1..)
        .map(|(document, number)| {
            let place = Place { file: file.to_owned(), document: Some(number) };
            let manifest = document
                .map_err(|error| {
                    Wrong::new(format!("is not YAML: {}", first_line(&error)), "mend the syntax")
                })
                .and_then(judge);
            (place, manifest)
        })
        .collect();
    if found.is_empty() {
        let place = Place { file: file.to_owned(), document: None };
        let wrong = Wrong::new("holds no document", "write one that begins with `kind: Service`");
        return vec![(place, Err(wrong))];
    }
    found
}

fn first_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn judge(document: Value) -> Result<Manifest, Wrong> {
    let Value::Object(fields) = document else {
        return Err(Wrong::new("is not a manifest", "write fields: `kind: Service`, `name: …`"));
    };
    let kind = text(&fields, "kind")?.ok_or_else(|| {
        Wrong::new("field `kind` is missing", "add `kind: Service` or `kind: Project`")
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
            return Err(Wrong::new(format!("field `kind`: `{other}` is not known"), fix));
        }
    };
    if let Some(unknown) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(unknown_field(kind, unknown, known));
    }
    let name = text(&fields, "name")?
        .ok_or_else(|| Wrong::new("field `name` is missing", "add `name: …`"))?
        .to_owned();
    match kind {
        "Project" => return Ok(Manifest::Project { name, body: typed(fields)? }),
        "Plan" => return Ok(Manifest::Plan { name, body: typed(fields)? }),
        _ => {}
    }
    text(&fields, "plan")?;
    text(&fields, "project")?;
    if text(&fields, "template")?.is_none() {
        return Err(Wrong::new(
            "field `template` is missing",
            "add `template: web@1`; `trueup get templates` lists them",
        ));
    }
    if fields.get("parameters").is_some_and(|parameters| !parameters.is_object()) {
        return Err(Wrong::new(
            "field `parameters` is not a list of names with values",
            "write each below it, such as `  replicas: 2`",
        ));
    }
    Ok(Manifest::Service { name, body: typed(fields)? })
}

fn unknown_field(kind: &str, field: &str, known: &[&str]) -> Wrong {
    let fix = match nearest(field, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if kind == "Service" => {
            format!(
                "what the template takes belongs below `parameters:`; a Service has {}",
                list(known)
            )
        }
        None => format!("a {kind} has {}", list(known)),
    };
    Wrong::new(format!("field `{field}` is not known in a {kind}"), fix)
}

fn list(known: &[&str]) -> String {
    known.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}

/// A field that must be text where it is there at all.
fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Wrong> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Wrong::new(
            format!("field `{field}` is not text but {other}"),
            format!("put quotes around it: `{field}: \"{}\"`", other.to_string().replace('"', "")),
        )),
    }
}

fn typed<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Wrong> {
    serde_json::from_value(Value::Object(fields))
        .map_err(|error| Wrong::new(error.to_string(), "mend the field that is named"))
}

#[cfg(test)]
mod tests {
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

    fn wrong(text: &str) -> String {
        match parse("web.yaml", text).remove(0) {
            (place, Err(wrong)) => format!("{place}: {} | {}", wrong.message, wrong.fix),
            (place, Ok(manifest)) => panic!("{place}: {manifest:?}"),
        }
    }

    #[test]
    fn documents_are_found_in_order() {
        let found = parse("web.yaml", GOOD);
        assert_eq!(found.len(), 2);
        let (place, Ok(Manifest::Service { name, body })) = &found[0] else { panic!("{found:?}") };
        assert_eq!(place.to_string(), "web.yaml, document 1");
        assert_eq!((name.as_str(), body.template.as_str()), ("web", "web@1"));
        assert_eq!(body.parameters["replicas"], 2);
        assert_eq!(body.parameters["ratio"], 1.5);
        assert_eq!(body.parameters["image"], "nginx:1");
        assert!(matches!(&found[1].1, Ok(Manifest::Project { name, .. }) if name == "shop"));
    }

    #[test]
    fn projects_come_first() {
        let mut found = parse("web.yaml", GOOD);
        found.sort_by_key(|(_, document)| !matches!(document, Ok(Manifest::Project { .. })));
        assert!(matches!(&found[0].1, Ok(Manifest::Project { .. })));
    }

    #[test]
    fn a_bad_document_does_not_hide_the_next() {
        let found = parse("web.yaml", "kind: Service\nname: a\n---\nkind: Project\nname: b\n");
        assert!(found[0].1.is_err());
        assert!(found[1].1.is_ok());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_fix() {
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
            (String::new(), ["web.yaml", "holds no document", "kind: Service"]),
            (
                "---\n# only a comment\n".to_owned(),
                ["web.yaml", "holds no document", "kind: Service"],
            ),
        ] {
            let said = wrong(&text);
            for part in parts {
                assert!(said.contains(part), "{text:?}: {said}");
            }
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let found = read("/nonexistent/web.yaml");
        let (place, Err(wrong)) = &found[0] else { panic!("{found:?}") };
        assert_eq!(place.to_string(), "/nonexistent/web.yaml");
        assert_eq!(wrong.fix, "check the path");
    }
}
