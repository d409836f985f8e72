//! The table of contents of the API: every path, and who answers it.

use axum::routing::{delete, get, post, put};
use axum::{Json, Router};

use crate::describe::{health, reference};
use crate::stream::watch;
use crate::{
    AppState, cluster, document, domain, endpoint, event, finding, freeze, log, operation, org,
    plan, preview_request, project, quota, release, secret, service, template, token, transition,
    variable, volume, wake, why,
};

/// What is meant for everybody, and for whoever runs Trueup.
pub(crate) fn for_everybody() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(health::health))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(async || Json(document())))
        .route("/docs/api", get(reference::page))
        .route("/docs/api.css", get(reference::style))
        .route("/docs/errors/{code}", get(health::error_page))
}

/// Projects, and what is shared by their services.
pub(crate) fn projects() -> Router<AppState> {
    Router::new()
        .route("/v1/projects", get(project::project_list))
        .route(
            "/v1/projects/{project}",
            get(project::project_get).put(project::project_put).delete(project::project_delete),
        )
        .route("/v1/projects/{project}/force-delete", post(project::project_force_delete))
        .route("/v1/projects/{project}/variables", get(variable::variable_list))
        .route(
            "/v1/projects/{project}/variables/{variable}",
            put(variable::variable_put).delete(variable::variable_delete),
        )
        .route("/v1/projects/{project}/secrets", get(secret::secret_list))
        .route(
            "/v1/projects/{project}/secrets/{secret}",
            put(secret::secret_put).delete(secret::secret_delete),
        )
        .route("/v1/projects/{project}/volumes", get(volume::volume_list))
        .route("/v1/projects/{project}/endpoints", get(endpoint::endpoint_list))
        .route("/v1/projects/{project}/domains", get(domain::domain_list))
}

/// Services: declared, acted upon, watched, and what belongs to one alone.
pub(crate) fn services() -> Router<AppState> {
    // Not nested: a nested handler would see only the end of its path.
    let one = |rest: &str| format!("/v1/projects/{{project}}/services/{{service}}{rest}");
    Router::new()
        .route("/v1/services", get(service::service_list))
        .route(
            &one(""),
            get(service::service_get).put(service::service_put).delete(service::service_delete),
        )
        .route(&one("/preview-requests"), post(preview_request::preview_request_create))
        .route(
            &one("/preview-requests/{preview_request}"),
            get(preview_request::preview_request_get),
        )
        .route(&one("/watch"), get(watch::service_watch))
        .route(&one("/logs"), get(log::service_logs))
        .route(&one("/releases"), get(release::release_list))
        .route(&one("/transitions"), get(transition::transition_list))
        .route(&one("/why"), get(why::service_why))
        .route(&one("/pause"), post(operation::service_pause))
        .route(&one("/resume"), post(operation::service_resume))
        .route(&one("/restart"), post(operation::service_restart))
        .route(&one("/scale"), post(operation::service_scale))
        .route(&one("/autoscale"), post(operation::service_autoscale))
        .route(&one("/resize"), post(operation::service_resize))
        .route(&one("/rollback"), post(operation::service_rollback))
        .route(&one("/force-delete"), post(operation::service_force_delete))
        .route(&one("/freeze"), post(freeze::service_freeze))
        .route(&one("/unfreeze"), post(freeze::service_unfreeze))
        .route(&one("/reconcile"), post(freeze::service_reconcile))
        .route(&one("/variables"), get(variable::service_variable_list))
        .route(
            &one("/variables/{variable}"),
            put(variable::service_variable_put).delete(variable::service_variable_delete),
        )
        .route(&one("/secrets"), get(secret::service_secret_list))
        .route(
            &one("/secrets/{secret}"),
            put(secret::service_secret_put).delete(secret::service_secret_delete),
        )
        .route(
            &one("/endpoints/{endpoint}"),
            put(endpoint::endpoint_put).delete(endpoint::endpoint_delete),
        )
        .route(
            &one("/domains/{domain}"),
            get(domain::domain_get).put(domain::domain_put).delete(domain::domain_delete),
        )
        .route(&one("/domains/{domain}/verification"), put(domain::domain_verify))
        .route(&one("/domains/{domain}/check"), post(domain::domain_check))
}

/// What is the same for every org, and what an org may have of it.
pub(crate) fn platform() -> Router<AppState> {
    Router::new()
        .route("/v1/templates", get(template::template_list).post(template::template_publish))
        .route("/v1/templates/{template}", get(template::template_versions))
        .route("/v1/templates/{template}/versions/{version}", get(template::template_get))
        .route(
            "/v1/templates/{template}/versions/{version}/deprecate",
            post(template::template_deprecate),
        )
        .route("/v1/plans", get(plan::plan_list))
        .route("/v1/plans/{plan}", put(plan::plan_put))
        .route("/v1/quota", get(quota::quota_get).put(quota::quota_put))
        .route("/v1/findings", get(finding::finding_list))
        .route("/v1/findings/{finding}/remove", post(finding::finding_remove))
        .route("/v1/wakes", get(wake::wake_list))
        .route("/v1/wakes/{wake}/requeue", post(wake::wake_requeue))
        .route("/v1/clusters", get(cluster::cluster_list))
        .route("/v1/clusters/{cluster}", get(cluster::cluster_get))
        .route(
            "/v1/clusters/{cluster}/routing",
            get(cluster::cluster_routing_get).put(cluster::cluster_routing_put),
        )
        .route("/v1/clusters/{cluster}/freeze", post(freeze::cluster_freeze))
        .route("/v1/clusters/{cluster}/unfreeze", post(freeze::cluster_unfreeze))
        .route("/v1/platform", get(freeze::platform_get))
        .route("/v1/platform/freeze", post(freeze::platform_freeze))
        .route("/v1/platform/unfreeze", post(freeze::platform_unfreeze))
}

/// Who may do what, and what was done.
pub(crate) fn people() -> Router<AppState> {
    Router::new()
        .route("/v1/events", get(event::event_list))
        .route("/v1/projections/check", get(why::projection_check))
        .route("/v1/events/watch", get(watch::event_watch))
        .route("/v1/whoami", get(token::whoami))
        .route("/v1/tokens", get(token::token_list).post(token::token_create))
        .route("/v1/tokens/{token}", delete(token::token_revoke))
        .route("/v1/orgs", get(org::org_list).post(org::org_create))
        .route("/v1/orgs/{org}", get(org::org_get))
}
