//! `trueup plan --exact`: previews a change with dry runs in the cluster.

use std::time::Duration;

use trueup_api::client::ClientError;
use trueup_api::preview::Preview;
use trueup_api::preview_request::{ExactObject, ExactPreview, PreviewRequest};
use trueup_api::service::ServiceManifest;
use trueup_model::preview_request::{ExactVerb, PreviewState};

use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::output::human::{clean, count};
use crate::output::preview::{cost, field_line, heading, quota_line};
use crate::output::progress::Progress;
use crate::output::style::{Paint, Style};

/// How often the preview request is read while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Requests an exact preview and waits for the result.
pub async fn request(
    project: &str,
    name: &str,
    body: &ServiceManifest,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<PreviewRequest> {
    let client = &connection.client;
    let creating = client.preview_request_create(project, name, body);
    let mut request = context.wait("requesting an exact preview", creating).await?;
    let mut progress = Progress::new(context.terminal, "waiting for the dry runs in the cluster");
    while request.state == PreviewState::Waiting {
        if let Some(why) = &request.why {
            progress.set(&format!("waiting for the dry runs in the cluster: {why}"));
        }
        let reading = async {
            tokio::time::sleep(POLL_INTERVAL).await;
            client.preview_request_get(project, name, &request.id).await
        };
        request = progress.wait(reading).await.map_err(|error: ClientError| error)?;
    }
    if request.preview.is_some() {
        return Ok(request);
    }
    let why = request.why.unwrap_or_default();
    let message = format!("exact preview failed: {why}");
    let hint = "`trueup plan` without --exact compares with the recorded state";
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}

/// The lines of an exact preview: objects and fields, then cost and quota.
pub fn lines(
    subject: &str,
    preview: &Preview,
    request: &PreviewRequest,
    style: Style,
) -> Vec<String> {
    let unit = preview.units.iter().find(|unit| heading(unit) == subject);
    let pods =
        if unit.is_some_and(|unit| unit.replaces_pods) { ", every pod is replaced" } else { "" };
    let mut lines = vec![format!("{subject}: generation {}{pods}", request.generation)];
    lines.extend(request.preview.iter().flat_map(|preview| preview_lines(preview, style)));
    lines.extend(unit.and_then(cost).map(|cost| format!("  {cost}")));
    lines.extend(preview.quota.as_ref().map(|quota| format!("  {}", quota_line(quota))));
    lines
}

fn preview_lines(preview: &ExactPreview, style: Style) -> Vec<String> {
    let is_kept =
        |object: &&ExactObject| object.verb == ExactVerb::Keep && object.refused.is_none();
    let kept = preview.objects.iter().filter(is_kept).count();
    let touched = preview.objects.iter().filter(|object| !is_kept(object));
    let mut lines: Vec<String> = touched.flat_map(|object| object_lines(object, style)).collect();
    if kept > 0 {
        let verb = if kept == 1 { "is unchanged" } else { "are unchanged" };
        lines.push(format!("  {} {verb}", count(kept, "object")));
    }
    let stops = preview.stops.iter().map(|why| format!("would not complete: {}", clean(why)));
    lines.extend(stops.map(|line| format!("  {}", style.paint(Paint::Bad, &line))));
    lines
}

fn object_lines(object: &ExactObject, style: Style) -> Vec<String> {
    let (sign, paint) = match object.verb {
        ExactVerb::Create => ("+", Paint::Good),
        ExactVerb::Delete => ("-", Paint::Bad),
        ExactVerb::Replace => ("±", Paint::Bad),
        ExactVerb::Keep => ("=", Paint::Plain),
        ExactVerb::Update => ("~", Paint::Busy),
    };
    let heading = format!("{sign} {} {}", object.kind, clean(&object.name));
    let mut lines = vec![format!("  {}", style.paint(paint, &heading))];
    lines.extend(object.fields.iter().map(|field| format!("      {}", field_line(field))));
    let refused = object.refused.iter().map(|words| format!("refused: {}", clean(words)));
    lines.extend(refused.map(|line| format!("      {}", style.paint(Paint::Bad, &line))));
    lines
}

/// The command that applies exactly this preview.
pub fn how_to_apply(request: &PreviewRequest, files: &[String]) -> String {
    let file = match files {
        [only] if only != "-" => only.as_str(),
        _ => "FILE",
    };
    format!(
        "dry run only; to apply exactly this until {}: trueup apply -f {file} --preview {}",
        request.expires_at, request.id
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exact_preview_lists_objects_fields_and_refusals() {
        let request: PreviewRequest = serde_json::from_value(json!({
            "id": "pvr_1", "project": "shop", "service": "web", "generation": 2, "state": "filled",
            "requested_by": "owner", "created_at": "2030-01-01T00:00:00Z",
            "expires_at": "2030-01-01T00:15:00Z",
            "preview": {"stops": "a pod is not ready", "objects": [
                {"kind": "ConfigMap", "namespace": "n", "name": "web-anchor-1", "verb": "keep"},
                {"kind": "Secret", "namespace": "n", "name": "web", "verb": "update",
                 "fields": [{"path": "data.KEY", "before": "(hidden)", "after": "(hidden)"}]},
                {"kind": "Job", "namespace": "n", "name": "old", "verb": "delete"},
                {"kind": "Service", "namespace": "n", "name": "web", "verb": "create",
                 "refused": "exceeded quota"},
            ]},
        }))
        .unwrap();
        let preview = Preview { changed: true, result: None, units: Vec::new(), quota: None };
        let text = lines("service/shop/web", &preview, &request, Style::new(false)).join("\n");
        assert_eq!(
            text,
            "\
service/shop/web: generation 2
  ~ Secret web
      data.KEY: \"(hidden)\" → \"(hidden)\"
  - Job old
  + Service web
      refused: exceeded quota
  1 object is unchanged
  would not complete: a pod is not ready"
        );
        let file = |name: &str| how_to_apply(&request, &[name.to_owned()]);
        assert!(file("web.yaml").ends_with("trueup apply -f web.yaml --preview pvr_1"));
        assert!(file("-").ends_with("trueup apply -f FILE --preview pvr_1"));
    }
}
