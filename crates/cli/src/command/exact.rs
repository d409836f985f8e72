//! `trueup plan --exact`: what the cluster itself says a change would do.

use std::time::Duration;

use trueup_api::client::ClientError;
use trueup_api::preview::Preview;
use trueup_api::preview_request::{ExactObject, ExactPreview, PreviewRequest};
use trueup_api::service::ServiceManifest;

use crate::connect::context::{Connection, Context};
use crate::failure::{Exit, Failure};
use crate::output::human::{clean, count};
use crate::output::preview::{cost, field_line, heading, room};
use crate::output::progress::Progress;
use crate::output::style::{Paint, Style};

/// How often is asked whether it is filled.
const LOOK: Duration = Duration::from_millis(300);

/// Asks for a plan and waits until the cluster has filled it.
pub async fn filled(
    project: &str,
    name: &str,
    body: &ServiceManifest,
    context: &Context,
    connection: &Connection,
) -> anyhow::Result<PreviewRequest> {
    let client = &connection.client;
    let asking = client.preview_request_create(project, name, body);
    let mut request = context.ask("asking for an exact plan", asking).await?;
    let mut progress = Progress::new(context.terminal, "waiting for the cluster to try it");
    while request.state == "waiting" {
        if let Some(why) = &request.why {
            progress.set(&format!("waiting for the cluster to try it: {why}"));
        }
        let look = async {
            tokio::time::sleep(LOOK).await;
            client.preview_request_get(project, name, &request.id).await
        };
        request = progress.wait(look).await.map_err(|error: ClientError| error)?;
    }
    if request.preview.is_some() {
        return Ok(request);
    }
    let why = request.why.unwrap_or_default();
    let message = format!("no exact plan could be made: {why}");
    let hint = "`trueup plan` without --exact compares with what is recorded";
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}

/// The whole plan: what the cluster says, then cost and quota.
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
    lines.extend(request.preview.iter().flat_map(|plan| plan_lines(plan, style)));
    lines.extend(unit.and_then(cost).map(|cost| format!("  {cost}")));
    lines.extend(preview.quota.as_ref().map(|quota| format!("  {}", room(quota))));
    lines
}

fn plan_lines(plan: &ExactPreview, style: Style) -> Vec<String> {
    let is_kept = |object: &&ExactObject| object.verb == "keep" && object.refused.is_none();
    let kept = plan.objects.iter().filter(is_kept).count();
    let touched = plan.objects.iter().filter(|object| !is_kept(object));
    let mut lines: Vec<String> = touched.flat_map(|object| object_lines(object, style)).collect();
    if kept > 0 {
        let verb = if kept == 1 { "stays as it is" } else { "stay as they are" };
        lines.push(format!("  {} {verb}", count(kept, "object")));
    }
    let stops =
        plan.stops.iter().map(|why| format!("it would not come to its end: {}", clean(why)));
    lines.extend(stops.map(|line| format!("  {}", style.paint(Paint::Bad, &line))));
    lines
}

fn object_lines(object: &ExactObject, style: Style) -> Vec<String> {
    let (sign, paint) = match object.verb.as_str() {
        "create" => ("+", Paint::Good),
        "delete" => ("-", Paint::Bad),
        "replace" => ("±", Paint::Bad),
        "keep" => ("=", Paint::Plain),
        _ => ("~", Paint::Busy),
    };
    let heading = format!("{sign} {} {}", clean(&object.kind), clean(&object.name));
    let mut lines = vec![format!("  {}", style.paint(paint, &heading))];
    lines.extend(object.fields.iter().map(|field| format!("      {}", field_line(field))));
    let refused = object.refused.iter().map(|words| format!("refused: {}", clean(words)));
    lines.extend(refused.map(|line| format!("      {}", style.paint(Paint::Bad, &line))));
    lines
}

/// How to have exactly this.
pub fn how_to_apply(request: &PreviewRequest, files: &[String]) -> String {
    let file = match files {
        [only] if only != "-" => only.as_str(),
        _ => "FILE",
    };
    format!(
        "the cluster tried this and stored nothing; have exactly this until {}: trueup apply -f {file} \
         --preview {}",
        request.expires_at, request.id
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_names_objects_fields_refusals_and_what_stays() {
        let request: PreviewRequest = serde_json::from_value(json!({
            "id": "pvr_1", "project": "shop", "service": "web", "generation": 2, "state": "filled",
            "requested_by": "owner", "created_at": "2030-01-01T00:00:00Z",
            "expires_at": "2030-01-01T00:15:00Z",
            "preview": {"stops": "it would wait for rain", "objects": [
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
        let told = lines("service/shop/web", &preview, &request, Style::new(false)).join("\n");
        assert_eq!(
            told,
            "\
service/shop/web: generation 2
  ~ Secret web
      data.KEY: \"(hidden)\" → \"(hidden)\"
  - Job old
  + Service web
      refused: exceeded quota
  1 object stays as it is
  it would not come to its end: it would wait for rain"
        );
        let file = |name: &str| how_to_apply(&request, &[name.to_owned()]);
        assert!(file("web.yaml").ends_with("trueup apply -f web.yaml --preview pvr_1"));
        assert!(file("-").ends_with("trueup apply -f FILE --preview pvr_1"));
    }
}
