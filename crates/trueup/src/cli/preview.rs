//! A preview as people read it: one line for each object, one for each field, then cost and quota.

use serde_json::Value;
use trueup_api::preview::{Preview, PreviewField, PreviewObject};

use super::context::Context;
use super::failure::Exit;
use super::human::{clean, count};
use super::style::{Paint, Style};

/// Prints what a change would do.
pub(crate) fn show(subject: &str, preview: &Preview, context: &Context) -> anyhow::Result<Exit> {
    if !context.output.print(context.terminal, preview)? {
        context.terminal.line(&lines(subject, preview, context.terminal.style()).join("\n"))?;
    }
    Ok(Exit::Ok)
}

/// The whole preview.
pub(crate) fn lines(subject: &str, preview: &Preview, style: Style) -> Vec<String> {
    if !preview.changed {
        return vec![format!("{subject}: nothing would change")];
    }
    let pods = if preview.replaces_pods { ", every pod is replaced" } else { "" };
    let mut lines = vec![format!("{subject}: generation {}{pods}", preview.generation)];
    lines.extend(preview.objects.iter().flat_map(|object| object_lines(object, style)));
    if preview.objects.is_empty() {
        lines.push("  no object differs".to_owned());
    }
    lines.extend(cost(preview).map(|cost| format!("  {cost}")));
    lines.push(format!("  {}", room(preview)));
    lines
}

fn object_lines(object: &PreviewObject, style: Style) -> Vec<String> {
    let (sign, paint) = match object.verb.as_str() {
        "create" => ("+", Paint::Good),
        "delete" => ("-", Paint::Bad),
        _ => ("~", Paint::Busy),
    };
    let heading = format!("{sign} {} {}", clean(&object.kind), clean(&object.name));
    let mut lines = vec![format!("  {}", style.paint(paint, &heading))];
    lines.extend(object.fields.iter().map(|field| format!("      {}", field_line(field))));
    lines
}

fn field_line(field: &PreviewField) -> String {
    let said = |value: &Option<Value>| match value {
        None => "(none)".to_owned(),
        Some(Value::String(text)) => format!("\"{}\"", clean(text)),
        Some(value) => clean(&value.to_string()),
    };
    format!("{}: {} → {}", clean(&field.path), said(&field.before), said(&field.after))
}

fn cost(preview: &Preview) -> Option<String> {
    let after = preview.monthly_after.as_ref()?;
    Some(match &preview.monthly_before {
        Some(before) if before == after => format!("{} a month, as now", after.text),
        Some(before) => format!("{} a month instead of {}", after.text, before.text),
        None => format!("{} a month", after.text),
    })
}

fn room(preview: &Preview) -> String {
    let left = &preview.quota.left;
    format!(
        "left then: {}, {} m CPU, {} MiB memory, {} GiB disk, {}",
        count(usize::try_from(left.services).unwrap_or(0), "service"),
        left.cpu_millis,
        left.memory_mib,
        left.storage_gib,
        count(usize::try_from(left.gpus).unwrap_or(0), "GPU"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_preview_names_objects_fields_cost_and_room() {
        let preview: Preview = serde_json::from_value(json!({
            "changed": true, "generation": 4, "desired": "active", "replaces_pods": true,
            "objects": [
                {"kind": "Deployment", "namespace": "shop-1", "name": "web-1", "verb": "update",
                 "fields": [{"path": "spec.replicas", "before": 2, "after": 3},
                            {"path": "spec.x", "after": "\u{1b}[31m"}]},
                {"kind": "Service", "namespace": "shop-1", "name": "web-1", "verb": "create"},
            ],
            "monthly_before": {"micros": 1, "currency": "EUR", "text": "8.76 EUR"},
            "monthly_after": {"micros": 2, "currency": "EUR", "text": "13.14 EUR"},
            "quota": {"limit": {"services": 9, "cpu_millis": 9, "memory_mib": 9, "storage_gib": 9, "gpus": 9},
                      "used": {"services": 8, "cpu_millis": 8, "memory_mib": 8, "storage_gib": 8, "gpus": 8},
                      "left": {"services": 1, "cpu_millis": 1, "memory_mib": 1, "storage_gib": 1, "gpus": 1}},
        }))
        .unwrap();
        assert_eq!(
            lines("service/web", &preview, Style::new(false)).join("\n"),
            "\
service/web: generation 4, every pod is replaced
  ~ Deployment web-1
      spec.replicas: 2 → 3
      spec.x: (none) → \" [31m\"
  + Service web-1
  13.14 EUR a month instead of 8.76 EUR
  left then: 1 service, 1 m CPU, 1 MiB memory, 1 GiB disk, 1 GPU"
        );
    }
}
