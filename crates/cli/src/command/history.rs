//! `trueup history`: the observed timeline of a service's pods and disks.

use trueup_api::transition::{Transition, TransitionList};
use trueup_model::key::Kind;
use trueup_model::transition::{Size, What};

use crate::connect::context::Context;
use crate::connect::target::resolve;
use crate::failure::Exit;
use crate::output::human::{clean, count, moment};
use crate::output::style::{Paint, Style};

/// Show the observed history of a service's pods and disks
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NAME, PROJECT/NAME or svc_…
    name: String,
    /// Only the newest COUNT entries
    #[arg(long, value_name = "COUNT")]
    last: Option<usize>,
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connection = context.connect()?;
    let reading = resolve(&args.name, context, &connection);
    let service = context.wait("reading the service", reading).await?;
    let reading = connection.client.every_transition(&service.project, &service.id);
    let mut list: TransitionList = context.wait("reading its history", reading).await?;
    if let Some(last) = args.last {
        let skipped = list.items.len().saturating_sub(last);
        list.items.drain(..skipped);
    }
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    if list.items.is_empty() {
        let nothing = format!("No pods or disks of {} were observed yet.", clean(&service.name));
        context.terminal.line(&nothing)?;
    }
    for one in &list.items {
        context.terminal.line(&line(one, context.terminal.style()))?;
    }
    Ok(Exit::Ok)
}

/// One transition as a line, with the time it happened or, if unknown, was observed.
pub fn line(one: &Transition, style: Style) -> String {
    let at = style.paint(Paint::Faint, &moment(one.at.unwrap_or(one.seen_at)));
    let (paint, what) = sentence(one);
    let what = style.paint(paint, &clean(&what));
    if one.what == What::Unobserved {
        return format!("{at}  {what}");
    }
    let unseen = one.after.map(|after| format!(", unseen since {}", moment(after)));
    format!("{at}  {:<44}  {what}{}", clean(&named(one)), unseen.unwrap_or_default())
}

fn named(one: &Transition) -> String {
    let kind = match one.kind {
        Kind::Pod => "pod",
        Kind::PersistentVolumeClaim => "claim",
        Kind::PersistentVolume => "volume",
        other => other.as_str(),
    };
    format!("{kind} {}", one.name)
}

fn sentence(one: &Transition) -> (Paint, String) {
    let because = |reason: &Option<String>| {
        reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    };
    match &one.what {
        What::Appeared => (Paint::Plain, "created".to_owned()),
        What::Sized(size) => (Paint::Plain, format!("sized {}", amounts(size))),
        What::Scheduled { node } => (Paint::Plain, format!("scheduled on node {node}")),
        What::Started => (Paint::Plain, "accepted by its node".to_owned()),
        What::Phase { phase, reason } => (Paint::Plain, format!("{phase}{}", because(reason))),
        What::Ready => (Paint::Good, "ready".to_owned()),
        What::Unready { reason } => (Paint::Busy, format!("not ready{}", because(reason))),
        What::ContainerStarted { container, restarts } => {
            let restarts = usize::try_from(*restarts).unwrap_or(usize::MAX);
            let again = match restarts {
                0 => String::new(),
                _ => format!(" after {}", count(restarts, "restart")),
            };
            (Paint::Plain, format!("container {container} started{again}"))
        }
        What::ContainerEnded { container, end } => {
            let paint = if end.code == 0 { Paint::Plain } else { Paint::Bad };
            (
                paint,
                format!("container {container} ended with {}{}", end.code, because(&end.reason)),
            )
        }
        What::Bound { to } => (Paint::Good, format!("bound to {to}")),
        What::Released => (Paint::Busy, "released".to_owned()),
        What::Classed { class } => {
            let labels: Vec<String> =
                class.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (Paint::Plain, format!("class {}", labels.join(", ")))
        }
        What::Deleting => (Paint::Plain, "deletion started".to_owned()),
        What::Gone => (Paint::Plain, "gone".to_owned()),
        What::Unobserved => {
            let since = one.after.map_or_else(|| "the beginning".to_owned(), moment);
            (Paint::Faint, format!("kind {} was not watched since {since}", one.kind))
        }
    }
}

fn amounts(size: &Size) -> String {
    let some = |amount: u64| Some(amount).filter(|amount| *amount > 0);
    let mib = |bytes: u64| bytes / (1024 * 1024);
    let parts = [
        some(size.cpu_millis).map(|millis| format!("{millis}m cpu")),
        some(size.memory_bytes).map(|bytes| format!("{} MiB memory", mib(bytes))),
        some(size.gpus).map(|gpus| format!("{gpus} gpu")),
        some(size.disk_bytes).map(|bytes| format!("{} MiB disk", mib(bytes))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendered(what: &str, detail: &Value, after: Option<&str>) -> String {
        let mut what_json = detail.clone();
        what_json["is"] = what.into();
        let what = what_json;
        let one: Transition = serde_json::from_value(json!({
            "id": "trn_1", "kind": "Pod", "name": "web-1", "uid": "u", "what": what,
            "at": null, "seen_at": "2026-01-02T03:04:05Z",
            "after": after, "resource_version": "7", "observer": "executor/one", "epoch": 3,
        }))
        .unwrap();
        line(&one, Style::new(false))
    }

    #[test]
    fn each_transition_has_a_line() {
        let pod = "2026-01-02 03:04:05Z  pod web-1                                     ";
        let memory = 64 * 1024 * 1024;
        for (what, detail, end) in [
            ("appeared", json!({}), "created"),
            (
                "sized",
                json!({"cpu_millis": 100, "memory_bytes": memory}),
                "sized 100m cpu, 64 MiB memory",
            ),
            ("scheduled", json!({"node": "n\u{1b}1"}), "scheduled on node n 1"),
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
        ] {
            assert_eq!(rendered(what, &detail, None), format!("{pod}{end}"));
        }
        let since = Some("2026-01-02T03:00:00Z");
        let unseen = ", unseen since 2026-01-02 03:00:00Z";
        assert_eq!(rendered("gone", &json!({}), since), format!("{pod}gone{unseen}"));
        assert_eq!(
            rendered("unobserved", &json!({}), since),
            "2026-01-02 03:04:05Z  kind Pod was not watched since 2026-01-02 03:00:00Z"
        );
    }
}
