//! Templates.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use trueup_api::Code;
use trueup_api::preview::{OrPreview, Preview};
use trueup_api::template::{
    Template, TemplateDeprecated, TemplateDeprecation, TemplateImages, TemplateList,
    TemplateManifest,
};
use trueup_model::name::Name;
use trueup_model::principal::Permission;
use trueup_model::template::{self as model, TemplateRef};
use trueup_rules::admit::FieldError;
use trueup_rules::admit::template::schema;

use crate::front::body::Body;
use crate::front::caller::Scope;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::project::{matches_path, name};
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, PlatformWriteRequest};
use crate::{AppState, drift};

/// Lists every version of every template.
#[utoipa::path(get, path = "/v1/templates", operation_id = "template_list", tag = "templates",
    responses((status = 200, body = TemplateList)))]
pub(crate) async fn template_list(
    State(state): State<AppState>,
    Scope(caller): Scope,
) -> Answer<Json<TemplateList>> {
    caller.must_somewhere(Permission::Read)?;
    let templates = state.app.list_templates().await?;
    Ok(Json(TemplateList { items: templates.iter().map(view).collect() }))
}

/// Lists the versions of a template.
#[utoipa::path(get, path = "/v1/templates/{template}", operation_id = "template_versions",
    tag = "templates", params(("template" = Name, Path, description = "name")),
    responses((status = 200, body = TemplateList)))]
pub(crate) async fn template_versions(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path(template): Path<String>,
) -> Answer<Json<TemplateList>> {
    caller.must_somewhere(Permission::Read)?;
    let templates = state.app.list_template_versions(&template).await?;
    if templates.is_empty() {
        return Err(Failure::not_found("template"));
    }
    Ok(Json(TemplateList { items: templates.iter().map(view).collect() }))
}

/// Shows a template version, with its spec and its schema.
#[utoipa::path(get, path = "/v1/templates/{template}/versions/{version}",
    operation_id = "template_get", tag = "templates",
    params(("template" = Name, Path, description = "name"), ("version" = u32, Path)),
    responses((status = 200, body = Template)))]
pub(crate) async fn template_get(
    State(state): State<AppState>,
    Scope(caller): Scope,
    Path((template, version)): Path<(String, String)>,
) -> Answer<Json<Template>> {
    caller.must_somewhere(Permission::Read)?;
    let found = state.app.find_template(&reference(&template, &version)?).await?;
    let found = found.ok_or_else(|| Failure::not_found("template version"))?;
    Ok(Json(detail(&found)))
}

/// Publishes the next version of a template. A published version never changes.
#[utoipa::path(post, path = "/v1/templates", operation_id = "template_publish", tag = "templates",
    params(DryRun), request_body = TemplateManifest,
    extensions(("x-problems" = json!([Code::NameTaken]))),
    responses((status = 200, description = "a preview", body = Preview),
              (status = 201, description = "published", body = Template)))]
pub(crate) async fn template_publish(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Keyed { body: manifest, key }: Keyed<TemplateManifest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let template = read(manifest)?;
    let (context, now) = (change.context_with_key(key), change.now());
    change.app().publish_template(&template, &context, now).await?;
    let location = format!("/v1/templates/{}/versions/{}", template.name, template.version);
    let dry = change.is_dry();
    let mut response = change.created(true, &detail(&template))?;
    if let (false, Ok(location)) = (dry, HeaderValue::from_str(&location)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Deprecates a template version: no new services; existing ones are not affected.
#[utoipa::path(post, path = "/v1/templates/{template}/versions/{version}/deprecate",
    operation_id = "template_deprecate", tag = "templates",
    params(("template" = Name, Path, description = "name"), ("version" = u32, Path), DryRun),
    request_body = TemplateDeprecation,
    responses((status = 200, description = "deprecated, or a preview", body = OrPreview<Template>)))]
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
    change.done(true, &detail(&template))
}

/// The template version in a path; 404 if the version is not a number.
fn reference(template: &str, version: &str) -> Answer<TemplateRef> {
    let none = || Failure::not_found("template version");
    format!("{template}@{version}").parse().map_err(|_| none())
}

/// Converts a manifest to a template. Admission decides whether it may be published.
fn read(manifest: TemplateManifest) -> Answer<model::Template> {
    matches_path("kind", manifest.kind.as_deref(), "Template")?;
    let plan = manifest.plan.as_deref().map(|plan| name("plan", plan)).transpose()?;
    let parameters = manifest
        .parameters
        .into_iter()
        .map(|(name, parameter)| {
            // The two types have the same fields; the model checks the parameter's type.
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
        drift: drift::policy(manifest.drift.as_ref())?,
        deprecated: None,
    })
}

fn invalid(field: &str, message: &str) -> Failure {
    Failure::invalid(vec![FieldError { field: field.to_owned(), message: message.to_owned() }])
}

fn view(template: &model::Template) -> Template {
    Template {
        name: format!("{}@{}", template.name, template.version),
        summary: template.summary.clone(),
        plan: template.plan.as_ref().map(ToString::to_string),
        parameters: serde_json::to_value(&template.parameters).unwrap_or_default(),
        images: template.images.as_ref().map(|policy| TemplateImages {
            allow: policy.allow.clone(),
            require_digest: policy.require_digest,
        }),
        drift: template.drift.clone(),
        deprecated: template.deprecated.as_ref().map(|deprecated| TemplateDeprecated {
            at: deprecated.at,
            instead: deprecated.instead.clone(),
        }),
        spec: None,
        schema: None,
    }
}

/// A template version with the fields that a list omits.
fn detail(shown: &model::Template) -> Template {
    Template { spec: Some(shown.spec.clone()), schema: Some(schema(shown)), ..view(shown) }
}
