//! The API reference as an HTML page, from the OpenAPI document and without scripts.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::document;

const STYLE: &str = include_str!("reference.css");
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// The page. Its content security policy allows only its own stylesheet.
pub(crate) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'self'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(render(&document())));
    (headers, PAGE.clone()).into_response()
}

/// The stylesheet of the page.
pub(crate) async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, STYLE).into_response()
}

/// The whole page: operations by tag, then every schema.
fn render(document: &Value) -> String {
    let mut body = String::new();
    let mut contents = String::new();
    for tag in tags(document) {
        contents.push_str(&format!("<a href=\"#{0}\">{0}</a> ", escape(&tag)));
        body.push_str(&format!("<h2 id=\"{0}\">{0}</h2>", escape(&tag)));
        for (path, method, operation) in operations(document) {
            if operation["tags"][0] == tag.as_str() {
                render_operation(&mut body, path, method, operation);
            }
        }
    }
    body.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        render_schema(&mut body, name, schema);
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Trueup API</title>\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"stylesheet\" href=\"/docs/api.css\"></head><body><h1>Trueup API</h1>\
         <p>{}</p><p>Send <code>Authorization: Bearer TOKEN</code>. The OpenAPI document: \
         <a href=\"/openapi.json\">/openapi.json</a>.</p><nav>{contents}<a href=\"#schemas\">schemas</a>\
         </nav>{body}</body></html>",
        text(&document["info"]["description"])
    )
}

/// The tags, in the order in which they appear.
fn tags(document: &Value) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for (_, _, operation) in operations(document) {
        if let Some(tag) =
            operation["tags"][0].as_str().filter(|tag| !tags.iter().any(|t| t == tag))
        {
            tags.push(tag.to_owned());
        }
    }
    tags
}

fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    document["paths"].as_object().into_iter().flatten().flat_map(|(path, methods)| {
        METHODS
            .iter()
            .filter_map(move |method| Some((path.as_str(), *method, methods.get(method)?)))
    })
}

fn render_operation(out: &mut String, path: &str, method: &str, operation: &Value) {
    out.push_str(&format!(
        "<section id=\"{}\"><h3><b class=\"{method}\">{}</b> <code>{}</code></h3><p>{}",
        text(&operation["operationId"]),
        method.to_uppercase(),
        escape(path),
        text(&operation["summary"]),
    ));
    if operation["description"].is_string() {
        out.push_str(&format!("<br>{}", text(&operation["description"])));
    }
    out.push_str("</p><table>");
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        out.push_str(&format!(
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            text(&parameter["name"]),
            text(&parameter["in"]),
            text(&parameter["description"]),
        ));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        out.push_str(&format!("<tr><td>body</td><td>{}</td><td></td></tr>", kind(body)));
    }
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = response["content"].as_object().into_iter().flatten().next();
        let answered = content.map(|(_, content)| kind(&content["schema"])).unwrap_or_default();
        out.push_str(&format!(
            "<tr><td>{}</td><td>{answered}</td><td>{}</td></tr>",
            escape(status),
            text(&response["description"]),
        ));
    }
    out.push_str("</table></section>");
}

fn render_schema(out: &mut String, name: &str, schema: &Value) {
    out.push_str(&format!(
        "<section id=\"schema-{0}\"><h3><code>{0}</code></h3><p>{1}</p><table>",
        escape(name),
        text(&schema["description"]),
    ));
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        let (what, words) = (kind(choice), text(&choice["description"]));
        out.push_str(&format!("<tr><td>either</td><td>{what}</td><td>{words}</td></tr>"));
    }
    let required = schema["required"].as_array();
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        let needed = required.is_some_and(|all| all.iter().any(|one| one == field.as_str()));
        out.push_str(&format!(
            "<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td></tr>",
            escape(field),
            if needed { " *" } else { "" },
            kind(property),
            text(&property["description"]),
        ));
    }
    out.push_str("</table>");
    if !schema["example"].is_null() {
        let example = serde_json::to_string_pretty(&schema["example"]).unwrap_or_default();
        out.push_str(&format!("<pre>{}</pre>", escape(&example)));
    }
    out.push_str("</section>");
}

fn link(schema: &str) -> String {
    format!("<a href=\"#schema-{0}\">{0}</a>", escape(schema))
}

/// The type of a value, with a link if it has a schema of its own.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        // A write responds with the object or with a preview.
        return match name.strip_prefix("OrPreview_") {
            Some(thing) => format!("{} or {}", link(thing), link("Preview")),
            None => link(name),
        };
    }
    if let Some(choices) = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array()) {
        let kinds: Vec<String> = choices.iter().map(kind).filter(|kind| kind != "null").collect();
        return kinds.join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) => escape(name),
        Value::Array(names) => {
            let named = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            named.map(escape).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    }
}

/// A text as HTML, with text between backticks as code.
fn text(value: &Value) -> String {
    let escaped = escape(value.as_str().unwrap_or_default());
    let parts: Vec<&str> = escaped.split('`').collect();
    // An even number of backticks makes an odd number of parts; otherwise they stay as they are.
    if parts.len().is_multiple_of(2) {
        return escaped;
    }
    let code = |(index, part): (usize, &str)| {
        if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }
    };
    parts.into_iter().enumerate().map(code).collect()
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_has_every_operation_and_no_broken_link() {
        let document = document();
        let page = render(&document);
        for (path, method, operation) in operations(&document) {
            let id = operation["operationId"].as_str().unwrap();
            assert!(page.contains(&format!("<section id=\"{id}\">")), "{method} {path}");
        }
        for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link} is a broken link");
        }
    }

    #[test]
    fn text_between_backticks_is_code() {
        assert_eq!(text(&json!("`a` or `<b>`")), "<code>a</code> or <code>&lt;b&gt;</code>");
        assert_eq!(text(&json!("a ` alone")), "a ` alone");
        let choice = json!({"$ref": "#/components/schemas/OrPreview_Plan"});
        assert!(kind(&choice).contains("#schema-Plan") && kind(&choice).contains(" or "));
    }

    #[test]
    fn markup_in_the_document_is_escaped() {
        let document = json!({
            "info": {"description": "<script>"},
            "paths": {"/<b>": {"get": {"operationId": "\"x", "tags": ["<i>"], "summary": "a & b"}}},
            "components": {"schemas": {"<u>": {"properties": {"<s>": {"type": "<em>"}}}}},
        });
        let page = render(&document);
        for tag in ["<script", "<b>", "<i>", "<u>", "<s>", "<em>", "\"\"x"] {
            assert!(!page.contains(tag), "{tag}");
        }
    }
}
