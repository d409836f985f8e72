//! Templates.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use trueup_api::Problem;
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::template::{Template, TemplateDeprecation, TemplateList, TemplateManifest};
use trueup_model::principal::Permission;
use trueup_model::template::{self as model, TemplateRef};
use trueup_rules::admit::FieldError;

use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::{matches_path, name};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest};
use crate::{AppState, view};

/// Lists the templates that services can be made from.
#[utoipa::path(get, path = "/v1/templates", operation_id = "template_list", tag = "templates",
    responses((status = 200, body = TemplateList), (status = "4XX", body = Problem)))]
pub(crate) async fn template_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<TemplateList>> {
    caller.must(Permission::Read)?;
    let templates = state.app.list_templates().await?;
    Ok(Json(TemplateList { items: templates.iter().map(view::template).collect() }))
}

/// Lists the versions of one template.
#[utoipa::path(get, path = "/v1/templates/{template}", operation_id = "template_versions",
    tag = "templates", params(("template" = String, Path, description = "name")),
    responses((status = 200, body = TemplateList), (status = "4XX", body = Problem)))]
pub(crate) async fn template_versions(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(template): Path<String>,
) -> Answer<Json<TemplateList>> {
    caller.must(Permission::Read)?;
    let templates = state.app.list_template_versions(&template).await?;
    if templates.is_empty() {
        return Err(Failure::not_found("template"));
    }
    Ok(Json(TemplateList { items: templates.iter().map(view::template).collect() }))
}

/// Shows one version with its spec and its schema.
#[utoipa::path(get, path = "/v1/templates/{template}/versions/{version}",
    operation_id = "template_get", tag = "templates",
    params(("template" = String, Path, description = "name"), ("version" = u32, Path)),
    responses((status = 200, body = Template), (status = "4XX", body = Problem)))]
pub(crate) async fn template_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path((template, version)): Path<(String, String)>,
) -> Answer<Json<Template>> {
    caller.must(Permission::Read)?;
    let found = state.app.find_template(&reference(&template, &version)?).await?;
    let found = found.ok_or_else(|| Failure::not_found("template version"))?;
    Ok(Json(view::template_detail(&found)))
}

/// Publishes the next version of a template. A published version never changes.
#[utoipa::path(post, path = "/v1/templates", operation_id = "template_publish", tag = "templates",
    params(DryRun), request_body = TemplateManifest,
    responses((status = 200, description = "a preview", body = Preview),
              (status = 201, description = "published", body = Template),
              (status = "4XX", body = Problem)))]
pub(crate) async fn template_publish(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: manifest, repeat }: Keyed<TemplateManifest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let template = read(manifest)?;
    let (context, now) = (change.asker_again(repeat), change.now());
    change.app().publish_template(&template, &context, now).await?;
    let location = format!("/v1/templates/{}/versions/{}", template.name, template.version);
    let dry = change.is_dry();
    let mut response = change.created(true, &view::template_detail(&template))?;
    if let (false, Ok(location)) = (dry, HeaderValue::from_str(&location)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Says that a version takes no new services; those it has go on.
#[utoipa::path(post, path = "/v1/templates/{template}/versions/{version}/deprecate",
    operation_id = "template_deprecate", tag = "templates",
    params(("template" = String, Path, description = "name"), ("version" = u32, Path), DryRun),
    request_body = TemplateDeprecation,
    responses((status = 200, description = "deprecated, or a preview", body = OrPreview<Template>),
              (status = "4XX", body = Problem)))]
pub(crate) async fn template_deprecate(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path((template, version)): Path<(String, String)>,
    Body(deprecation): Body<TemplateDeprecation>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let wanted = reference(&template, &version)?;
    let instead = deprecation.instead;
    if !(1..=300).contains(&instead.chars().count()) || instead.contains(char::is_control) {
        let message = "must be a sentence of at most 300 characters, such as `use web@2`";
        return Err(invalid("instead", message));
    }
    let (context, now) = (change.context(), change.now());
    let template = change.app().deprecate_template(&wanted, &instead, &context, now).await?;
    change.done(true, &view::template_detail(&template))
}

/// What a path names. A version that is none names nothing.
fn reference(template: &str, version: &str) -> Answer<TemplateRef> {
    let none = || Failure::not_found("template version");
    format!("{template}@{version}").parse().map_err(|_| none())
}

/// From the wire to the noun; whether it may be published is for the rules to say.
fn read(manifest: TemplateManifest) -> Answer<model::Template> {
    matches_path("kind", manifest.kind.as_deref(), "Template")?;
    let plan = manifest.plan.as_deref().map(|plan| name("plan", plan)).transpose()?;
    let parameters = manifest
        .parameters
        .into_iter()
        .map(|(name, parameter)| {
            // The two have the same fields; what a type may be is told by the noun.
            let parameter = serde_json::to_value(parameter).and_then(serde_json::from_value);
            let field = format!("parameters.{name}");
            Ok((name, parameter.map_err(|error| invalid(&field, &error.to_string()))?))
        })
        .collect::<Answer<_>>()?;
    Ok(model::Template {
        name: name("name", &manifest.name)?,
        version: manifest.version,
        summary: manifest.summary,
        parameters,
        plan,
        images: manifest.images.map(|images| model::ImagePolicy {
            allow: images.allow,
            require_digest: images.require_digest,
        }),
        spec: manifest.spec,
        deprecated: None,
    })
}

fn invalid(field: &str, message: &str) -> Failure {
    Failure::invalid(vec![FieldError { field: field.to_owned(), message: message.to_owned() }])
}
