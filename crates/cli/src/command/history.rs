//! `trueup history`: what really happened to a service's pods and disks, as a timeline.

use serde_json::Value;
use trueup_api::transition::{Transition, TransitionList};

use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::human::{clean, count, moment};
use crate::output::style::{Paint, Style};

/// Show what happened to a service's pods and disks, as it was seen
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Only so many of the newest
    #[arg(long, value_name = "COUNT")]
    last: Option<usize>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.ask("reading the service", reading).await?;
    let reading = connection.client.every_transition(&service.project, &service.id);
    let mut list: TransitionList = context.ask("reading its history", reading).await?;
    if let Some(last) = args.last {
        let skipped = list.items.len().saturating_sub(last);
        list.items.drain(..skipped);
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    if list.items.is_empty() {
        let nothing = format!("Nothing was seen yet of the pods of {}.", clean(&service.name));
        context.terminal.line(&nothing)?;
    }
    for one in &list.items {
        context.terminal.line(&line(one, context.terminal.style()))?;
    }
    Ok(Exit::Ok)
}

/// One transition as a sentence, at the time it happened or, where nobody knows that, was seen.
fn line(one: &Transition, style: Style) -> String {
    let at = style.paint(Paint::Faint, &moment(one.at.unwrap_or(one.seen_at)));
    let (paint, what) = sentence(one);
    let what = style.paint(paint, &clean(&what));
    if one.what == "unobserved" {
        return format!("{at}  {what}");
    }
    let unseen = one.after.map(|after| format!(", unseen since {}", moment(after)));
    format!("{at}  {:<44}  {what}{}", clean(&named(one)), unseen.unwrap_or_default())
}

fn named(one: &Transition) -> String {
    let kind = match one.kind.as_str() {
        "Pod" => "pod",
        "PersistentVolumeClaim" => "claim",
        "PersistentVolume" => "volume",
        other => other,
    };
    format!("{kind} {}", one.name)
}

fn sentence(one: &Transition) -> (Paint, String) {
    let text = |field: &str| one.detail.get(field).and_then(Value::as_str).unwrap_or("?");
    let because = |field: &str| {
        let reason = one.detail.get(field).and_then(Value::as_str);
        reason.map(|reason| format!(": {reason}")).unwrap_or_default()
    };
    match one.what.as_str() {
        "appeared" => (Paint::Plain, "made".to_owned()),
        "sized" => (Paint::Plain, format!("sized {}", size(&one.detail))),
        "scheduled" => (Paint::Plain, format!("given to node {}", text("node"))),
        "started" => (Paint::Plain, "taken up by its node".to_owned()),
        "phase" => (Paint::Plain, format!("{}{}", text("phase"), because("reason"))),
        "ready" => (Paint::Good, "ready".to_owned()),
        "unready" => (Paint::Busy, format!("not ready{}", because("reason"))),
        "container_started" => {
            let restarts = one.detail.get("restarts").and_then(Value::as_u64).unwrap_or(0);
            let again = usize::try_from(restarts).unwrap_or(usize::MAX);
            let again = match again {
                0 => String::new(),
                _ => format!(" after {}", count(again, "restart")),
            };
            (Paint::Plain, format!("container {} started{again}", text("container")))
        }
        "container_ended" => {
            let code = one.detail.get("code").and_then(Value::as_i64).unwrap_or(0);
            let paint = if code == 0 { Paint::Plain } else { Paint::Bad };
            let container = text("container");
            (paint, format!("container {container} ended with {code}{}", because("reason")))
        }
        "bound" => (Paint::Good, format!("bound to {}", text("to"))),
        "released" => (Paint::Busy, "bound no more".to_owned()),
        "deleting" => (Paint::Plain, "deletion begun".to_owned()),
        "gone" => (Paint::Plain, "gone".to_owned()),
        "unobserved" => {
            let since = one.after.map_or_else(|| "the beginning".to_owned(), moment);
            (Paint::Faint, format!("nobody watched the kind {} since {since}", one.kind))
        }
        other => (Paint::Plain, other.to_owned()),
    }
}

fn size(detail: &Value) -> String {
    let number = |field: &str| detail.get(field).and_then(Value::as_u64).filter(|n| *n > 0);
    let mib = |bytes: u64| bytes / (1024 * 1024);
    let parts = [
        number("cpu_millis").map(|millis| format!("{millis}m cpu")),
        number("memory_bytes").map(|bytes| format!("{} MiB memory", mib(bytes))),
        number("gpus").map(|gpus| format!("{gpus} gpu")),
        number("disk_bytes").map(|bytes| format!("{} MiB disk", mib(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(what: &str, detail: &Value, after: Option<&str>) -> String {
        let one: Transition = serde_json::from_value(json!({
            "id": "trn_1", "kind": "Pod", "name": "web-1", "uid": "u", "what": what,
            "detail": detail, "at": null, "seen_at": "2026-01-02T03:04:05Z",
            "after": after, "resource_version": "7", "observer": "executor/one", "epoch": 3,
        }))
        .unwrap();
        line(&one, Style::new(false))
    }

    #[test]
    fn a_history_reads_as_sentences() {
        let pod = "2026-01-02 03:04:05Z  pod web-1                                     ";
        let memory = 64 * 1024 * 1024;
        for (what, detail, end) in [
            ("appeared", json!({}), "made"),
            (
                "sized",
                json!({"cpu_millis": 100, "memory_bytes": memory}),
                "sized 100m cpu, 64 MiB memory",
            ),
            ("scheduled", json!({"node": "n\u{1b}1"}), "given to node n 1"),
            ("phase", json!({"phase": "failed", "reason": "Evicted"}), "failed: Evicted"),
            (
                "container_started",
                json!({"container": "app", "restarts": 2}),
                "container app started after 2 restarts",
            ),
            (
                "container_ended",
                json!({"container": "app", "code": 137, "reason": "OOMKilled"}),
                "container app ended with 137: OOMKilled",
            ),
            ("gone", json!({}), "gone"),
            ("later", json!({}), "later"),
        ] {
            assert_eq!(told(what, &detail, None), format!("{pod}{end}"));
        }
        let since = Some("2026-01-02T03:00:00Z");
        let unseen = ", unseen since 2026-01-02 03:00:00Z";
        assert_eq!(told("gone", &json!({}), since), format!("{pod}gone{unseen}"));
        assert_eq!(
            told("unobserved", &json!({}), since),
            "2026-01-02 03:04:05Z  nobody watched the kind Pod since 2026-01-02 03:00:00Z"
        );
    }
}
