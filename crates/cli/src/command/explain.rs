//! `trueup explain`: the fields of a manifest, printed from the schemas.
//!
//! Schemas of manifests come from the embedded OpenAPI document, those of templates from the
//! server.

use serde_json::Value;
use trueup_api::problem::Code;
use trueup_api::template::Template;
use trueup_model::template::TemplateRef;

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::human::{clean, json_text};
use crate::output::spelling::nearest;
use crate::output::style::{Paint, Style};

/// Explain a kind of manifest, a template version, or an error code
#[derive(Debug, clap::Args)]
pub struct Args {
    /// service, project, plan, template, a template such as web or web@1, or a code such as TU1201
    what: String,
    /// A field, such as parameters.replicas
    field: Option<String>,
}

/// Kinds, and the names of their schemas in the OpenAPI document.
pub(crate) const KINDS: [(&str, &str); 4] = [
    ("service", "ServiceManifest"),
    ("project", "ProjectManifest"),
    ("plan", "PlanManifest"),
    ("template", "TemplateManifest"),
];

/// The OpenAPI document of this version.
fn document() -> Value {
    serde_json::from_str(include_str!("../../../../openapi/trueup.json")).unwrap_or_default()
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let lower = args.what.to_lowercase();
    let upper = args.what.to_uppercase();
    if upper.parse::<Code>().is_ok() {
        return of_code(&upper, context).await;
    }
    let kind = KINDS.iter().find(|(kind, _)| *kind == lower);
    let (title, schema, document, plan) = match kind {
        Some((kind, name)) => {
            let document = document();
            let schema = document["components"]["schemas"][*name].clone();
            ((*kind).to_owned(), schema, document, None)
        }
        None => {
            let template = of_template(&args.what, context).await?;
            let schema = template.schema.unwrap_or_default();
            (template.name, schema.clone(), schema, template.plan)
        }
    };
    let is_whole = args.field.is_none();
    let explained = Explained { document: &document };
    let schema = match &args.field {
        Some(field) => explained.find(&title, &schema, field)?,
        None => explained.open(&schema).clone(),
    };
    if !context.output.print(context.terminal, &schema)? {
        let title = args.field.map_or_else(|| title.clone(), |field| format!("{title} {field}"));
        let page = explained.page(&title, &schema, context.terminal.style());
        context.terminal.line(&page)?;
        if let Some(plan) = plan.filter(|_| is_whole) {
            let hint =
                format!("default plan: {}; a service may name another: `plan: NAME`", clean(&plan));
            context.terminal.note(&hint)?;
        }
        if kind.is_some_and(|(kind, _)| *kind == "service") {
            let hint = "the template defines `parameters`: trueup explain web@1";
            context.terminal.note(hint)?;
        }
    }
    Ok(Exit::Ok)
}

/// The page of an error code, as the server has it.
async fn of_code(code: &str, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let path = format!("/docs/errors/{code}");
    let reading = client.raw("GET", &path, &[], None);
    let page = context.wait("reading the page", reading).await?;
    if page.status != 200 {
        return Err(Failure::new(Exit::NotFound, format!("the server has no page about {code}"))
            .hint("check that client and server have the same version")
            .into());
    }
    context.terminal.raw(&page.body)?;
    Ok(Exit::Ok)
}

/// A template version; without a version, of the newest one.
async fn of_template(what: &str, context: &Context) -> anyhow::Result<Template> {
    let connection = context.connect()?;
    let wanted: TemplateRef = match what.parse() {
        Ok(wanted) => wanted,
        Err(_) => {
            let reading = connection.client.template_versions(what);
            let versions = context.wait("reading the template", reading).await?;
            let newest = versions.items.last().and_then(|newest| newest.name.parse().ok());
            newest
                .ok_or_else(|| Failure::new(Exit::NotFound, format!("`{what}` has no version")))?
        }
    };
    let reading = connection.client.template_get(wanted.name.as_str(), wanted.version);
    Ok(context.wait("reading the template", reading).await?)
}

/// Resolves references of a schema in its document.
struct Explained<'a> {
    document: &'a Value,
}

impl Explained<'_> {
    /// The schema with references and `oneOf` null alternatives resolved.
    fn open<'v>(&'v self, schema: &'v Value) -> &'v Value {
        if let Some(place) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
            return self.document.pointer(place).map_or(schema, |found| self.open(found));
        }
        let choice = schema["oneOf"].as_array().into_iter().flatten();
        let mut real = choice.filter(|one| one["type"] != "null");
        real.next().map_or(schema, |one| self.open(one))
    }

    /// The schema of a field, by its path.
    fn find(&self, title: &str, schema: &Value, path: &str) -> Result<Value, Failure> {
        let mut current = self.open(schema).clone();
        for step in path.split('.') {
            let fields = current["properties"].as_object().cloned().unwrap_or_default();
            let named = match fields.get(step) {
                Some(field) => Some(field.clone()),
                // A map has no named fields, but its entries share one schema.
                None => Some(current["additionalProperties"].clone()).filter(Value::is_object),
            };
            let Some(named) = named else {
                let known: Vec<&str> = fields.keys().map(String::as_str).collect();
                let failure =
                    Failure::new(Exit::NotFound, format!("`{title}` has no field `{path}`"));
                return Err(match nearest(step, &known) {
                    Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
                    None if known.is_empty() => failure.hint("this schema has no fields"),
                    None => failure.hint(format!("fields are {}", known.join(", "))),
                });
            };
            let opened = self.open(&named);
            let mut next = opened.clone();
            // The description of the field is more specific than that of its type.
            if let (Some(text), Some(next)) = (named.get("description"), next.as_object_mut()) {
                next.insert("description".to_owned(), text.clone());
            }
            current = next;
        }
        Ok(current)
    }

    fn page(&self, title: &str, schema: &Value, style: Style) -> String {
        let mut lines = vec![style.paint(Paint::Strong, &clean(title))];
        if let Some(text) = schema["description"].as_str() {
            lines.push(format!("  {}", clean(text)));
        }
        let mut fields = Vec::new();
        self.fields(schema, 0, &mut fields);
        if fields.is_empty() {
            lines.push(format!("  {}", self.kind(schema, false)));
            return lines.join("\n");
        }
        let wide = |of: fn(&Field) -> &str| {
            fields.iter().map(|field| of(field).chars().count()).max().unwrap_or(0)
        };
        let (names, kinds) = (wide(|field| &field.name), wide(|field| &field.kind));
        lines.push(String::new());
        for Field { name, kind, description } in &fields {
            let kind = style.paint(Paint::Faint, &format!("{kind:<kinds$}"));
            lines.push(format!("  {name:<names$}   {kind}   {description}").trim_end().to_owned());
        }
        lines.join("\n")
    }

    /// A line for each field, and for the fields within it.
    fn fields(&self, schema: &Value, depth: usize, found: &mut Vec<Field>) {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let opened = self.open(field);
            let description =
                field["description"].as_str().or_else(|| opened["description"].as_str());
            found.push(Field {
                name: format!("{}{}", "  ".repeat(depth), clean(name)),
                kind: self.kind(opened, required.contains(&name.as_str())),
                description: clean(description.unwrap_or_default()).replace('\n', " "),
            });
            self.fields(opened, depth + 1, found);
            // The entries of a map share one schema: its fields are listed once.
            let entry = self.open(&opened["additionalProperties"]);
            self.fields(entry, depth + 1, found);
        }
    }

    /// The type of a field with its bounds.
    fn kind(&self, schema: &Value, required: bool) -> String {
        let mut words = Vec::new();
        if let Some(only) = schema.get("const") {
            words.push(json_text(only));
        } else if let Some(choices) = schema["enum"].as_array() {
            words.push(choices.iter().map(json_text).collect::<Vec<_>>().join("|"));
        } else {
            words.push(self.type_word(schema));
        }
        if let (Some(low), Some(high)) = (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
            words.push(format!("{low} to {high}"));
        }
        if let Some(default) = schema.get("default") {
            words.push(format!("default {}", json_text(default)));
        }
        if required {
            words.push("required".to_owned());
        }
        if schema["x-trueup-fixed"] == true {
            words.push("fixed".to_owned());
        }
        words.join(", ")
    }

    fn type_word(&self, schema: &Value) -> String {
        let named = match &schema["type"] {
            Value::Array(types) => types.iter().find(|one| *one != "null"),
            one => Some(one),
        };
        match named.and_then(Value::as_str) {
            Some("array") => format!("list of {}", self.type_word(self.open(&schema["items"]))),
            Some("object") if schema["additionalProperties"].is_object() => {
                let entry = self.open(&schema["additionalProperties"]);
                format!("map of {}", self.type_word(entry))
            }
            Some(word) => word.to_owned(),
            None => "any".to_owned(),
        }
    }
}

struct Field {
    name: String,
    kind: String,
    description: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(kind: &str) -> String {
        let document = document();
        let name = KINDS.iter().find(|(known, _)| *known == kind).unwrap().1;
        let schema = document["components"]["schemas"][name].clone();
        Explained { document: &document }.page(kind, &schema, Style::new(false))
    }

    #[test]
    fn every_manifest_kind_is_explained() {
        for (kind, name) in KINDS {
            let document = document();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
            let page = page(kind);
            assert!(page.starts_with(kind) && page.contains("  name"), "{page}");
        }
        let service = page("service");
        assert!(service.contains("template") && service.contains("required"), "{service}");
        let template = page("template");
        for part in ["parameters", "map of object", "  sets", "images", "  workload", "size_gib"] {
            assert!(template.contains(part), "{part}: {template}");
        }
    }

    fn schema() -> Value {
        json!({
            "description": "A thing.", "type": "object", "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How large."},
                "mood": {"type": "string", "enum": ["good", "bad"], "default": "good",
                         "x-trueup-fixed": true},
                "notes": {"type": "array", "items": {"type": "string"}},
                "tags": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        })
    }

    #[test]
    fn fields_are_shown_with_their_bounds() {
        let schema = schema();
        let page = Explained { document: &schema }.page("thing", &schema, Style::new(false));
        let expected = "\
thing
  A thing.

  mood    good|bad, default good, fixed
  notes   list of string
  size    integer, 1 to 9, required       How large.
  tags    map of string";
        assert_eq!(page, expected);
    }

    #[test]
    fn field_is_found_by_path_and_unknown_field_is_reported() {
        let whole = json!({"type": "object", "properties": {"thing": schema()}});
        let explained = Explained { document: &whole };
        let size = explained.find("x", &whole, "thing.size").unwrap();
        assert_eq!(size["maximum"], 9);
        assert!(explained.find("x", &whole, "thing.tags.any").is_ok());
        let failure = explained.find("x", &whole, "thing.sizes").unwrap_err();
        assert_eq!(failure.to_string(), "`x` has no field `thing.sizes`");
    }
}
