//! Prints a preview: a line per object and per field, then cost and quota.

use serde_json::Value;
use trueup_api::preview::{
    Preview, PreviewField, PreviewObject, PreviewUnit, PreviewUnitKind, PreviewVerb,
};
use trueup_api::quota::Quota;

use crate::connect::context::Context;
use crate::output::hours;
use crate::output::human::{clean, cores, count, memory};
use crate::output::style::{Paint, Style};

/// Prints what a write would do.
pub fn show(subject: &str, preview: &Preview, context: &Context) -> anyhow::Result<()> {
    if !context.output.print(context.terminal, preview)? {
        context.terminal.line(&lines(subject, preview, context.terminal.style()).join("\n"))?;
    }
    Ok(())
}

/// The lines of a preview.
pub fn lines(subject: &str, preview: &Preview, style: Style) -> Vec<String> {
    if !preview.changed {
        return vec![format!("{subject}: nothing would change")];
    }
    let mut lines = match preview.units.as_slice() {
        [only] if heading(only) == subject => Vec::new(),
        units => vec![format!("{subject}: would be recorded, and {}", affected(units))],
    };
    for unit in &preview.units {
        lines.extend(unit_lines(unit, style));
    }
    lines.extend(saving(preview).map(|saving| format!("  {saving}")));
    lines.extend(preview.quota.as_ref().map(|quota| format!("  {}", quota_line(quota))));
    lines
}

/// What the active hours of a service save.
pub fn saving(preview: &Preview) -> Option<String> {
    let schedule = preview.result.as_ref()?.get("schedule")?.clone();
    hours::saving(&serde_json::from_value(schedule).ok()?)
}

/// The number of changed units by kind, in the order shown.
fn affected(units: &[PreviewUnit]) -> String {
    let mut kinds: Vec<(PreviewUnitKind, usize)> = Vec::new();
    for unit in units {
        match kinds.iter_mut().find(|(kind, _)| *kind == unit.kind) {
            Some((_, number)) => *number = number.saturating_add(1),
            None => kinds.push((unit.kind, 1)),
        }
    }
    let counts: Vec<String> =
        kinds.iter().map(|(kind, number)| count(*number, kind.into_str())).collect();
    match units.len() {
        0 => "no service changes".to_owned(),
        1 => format!("{} changes", counts.join(" and ")),
        _ => format!("{} change", counts.join(" and ")),
    }
}

pub fn heading(unit: &PreviewUnit) -> String {
    format!("{}/{}", unit.kind.into_str(), clean(&unit.name))
}

fn unit_lines(unit: &PreviewUnit, style: Style) -> Vec<String> {
    let pods = if unit.replaces_pods { ", every pod is replaced" } else { "" };
    let mut lines = vec![format!("{}: generation {}{pods}", heading(unit), unit.generation)];
    lines.extend(unit.objects.iter().flat_map(|object| object_lines(object, style)));
    if unit.objects.is_empty() {
        lines.push("  no object differs".to_owned());
    }
    lines.extend(cost(unit).map(|cost| format!("  {cost}")));
    lines
}

fn object_lines(object: &PreviewObject, style: Style) -> Vec<String> {
    let (sign, paint) = match object.verb {
        PreviewVerb::Create => ("+", Paint::Good),
        PreviewVerb::Delete => ("-", Paint::Bad),
        PreviewVerb::Update => ("~", Paint::Busy),
    };
    let heading = format!("{sign} {} {}", object.kind, clean(&object.name));
    let mut lines = vec![format!("  {}", style.paint(paint, &heading))];
    lines.extend(object.fields.iter().map(|field| format!("      {}", field_line(field))));
    lines
}

pub fn field_line(field: &PreviewField) -> String {
    let text = |value: &Option<Value>| match value {
        None => "(none)".to_owned(),
        Some(Value::String(string)) => format!("\"{}\"", clean(string)),
        Some(value) => clean(&value.to_string()),
    };
    format!("{}: {} → {}", clean(&field.path), text(&field.before), text(&field.after))
}

pub fn cost(unit: &PreviewUnit) -> Option<String> {
    let after = unit.monthly_after.as_ref()?;
    let price = match &unit.monthly_before {
        Some(before) if before == after => format!("{} a month, unchanged", after.text),
        Some(before) => format!("{} a month instead of {}", after.text, before.text),
        None => format!("{} a month", after.text),
    };
    Some(match unit.priced_pods {
        Some(pods) => format!("{price} (autoscaled: priced at its maximum of {pods} pods)"),
        None => price,
    })
}

pub fn quota_line(quota: &Quota) -> String {
    let left = &quota.left;
    format!(
        "quota left afterwards: {}, {} CPU, {} memory, {} GiB disk, {}",
        count(usize::try_from(left.services).unwrap_or(0), "service"),
        cores(left.cpu_millis),
        memory(left.memory_mib),
        left.storage_gib,
        count(usize::try_from(left.gpus).unwrap_or(0), "GPU"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(subject: &str, preview: Value) -> String {
        let preview: Preview = serde_json::from_value(preview).unwrap();
        lines(subject, &preview, Style::new(false)).join("\n")
    }

    #[test]
    fn preview_lists_objects_fields_cost_and_quota() {
        let preview = json!({
            "changed": true,
            "units": [{"kind": "service", "name": "shop/web", "generation": 4, "desired": "active",
                "replaces_pods": true, "objects": [
                {"kind": "Deployment", "namespace": "shop-1", "name": "web-1", "verb": "update",
                 "fields": [{"path": "spec.replicas", "before": 2, "after": 3},
                            {"path": "spec.x", "after": "\u{1b}[31m"}]},
                {"kind": "Service", "namespace": "shop-1", "name": "web-1", "verb": "create"},
            ],
            "monthly_before": {"micros": 1, "currency": "EUR", "text": "8.76 EUR"},
            "monthly_after": {"micros": 2, "currency": "EUR", "text": "13.14 EUR"}}],
            "quota": {"limit": {"services": 9, "cpu_millis": 9, "memory_mib": 9, "storage_gib": 9, "gpus": 9, "projects": 9, "endpoints": 9},
                      "used": {"services": 8, "cpu_millis": 8, "memory_mib": 8, "storage_gib": 8, "gpus": 8, "projects": 8, "endpoints": 8},
                      "left": {"services": 1, "cpu_millis": 1, "memory_mib": 1, "storage_gib": 1, "gpus": 1, "projects": 1, "endpoints": 1}},
        });
        let of_the_service = "\
service/shop/web: generation 4, every pod is replaced
  ~ Deployment web-1
      spec.replicas: 2 → 3
      spec.x: (none) → \" [31m\"
  + Service web-1
  13.14 EUR a month instead of 8.76 EUR
  quota left afterwards: 1 service, 0.001 cores CPU, 1 MiB memory, 1 GiB disk, 1 GPU";
        assert_eq!(shown("service/shop/web", preview.clone()), of_the_service);
        assert_eq!(
            shown("variable/A", preview),
            format!("variable/A: would be recorded, and 1 service changes\n{of_the_service}")
        );
    }

    #[test]
    fn preview_of_an_autoscaled_service_says_that_its_maximum_is_priced() {
        let amount = json!({"micros": 1, "currency": "EUR", "text": "13.14 EUR"});
        let unit = json!({
            "kind": "service", "name": "shop/web", "generation": 1, "desired": "active",
            "replaces_pods": false, "objects": [], "monthly_after": amount, "priced_pods": 3,
        });
        let shown = shown("service/shop/web", json!({"changed": true, "units": [unit]}));
        let expected = "13.14 EUR a month (autoscaled: priced at its maximum of 3 pods)";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn changes_are_counted_by_kind() {
        let unit = |kind: &str, name: &str| {
            json!({"kind": kind, "name": name, "generation": 2, "desired": "deleted",
                   "replaces_pods": false, "objects": []})
        };
        let first = |units: &[Value]| {
            let shown = shown("project/shop", json!({"changed": true, "units": units}));
            shown.lines().next().unwrap_or_default().to_owned()
        };
        let all =
            [unit("project", "shop"), unit("service", "shop/api"), unit("service", "shop/web")];
        assert_eq!(
            first(&all),
            "project/shop: would be recorded, and 1 project and 2 services change"
        );
        assert_eq!(first(&all[1..]), "project/shop: would be recorded, and 2 services change");
        assert_eq!(first(&all[1..2]), "project/shop: would be recorded, and 1 service changes");
        assert_eq!(first(&all[..1]), "project/shop: generation 2", "only itself");
    }

    #[test]
    fn write_without_service_changes_says_so() {
        let preview = |changed: bool| json!({"changed": changed, "units": []});
        assert_eq!(
            shown("token/ci", preview(true)),
            "token/ci: would be recorded, and no service changes"
        );
        assert_eq!(shown("token/ci", preview(false)), "token/ci: nothing would change");
    }
}
