//! The API's description, made of the handlers themselves. A checked-in copy shows changes in review.

use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::stream::watch;
use crate::{
    cluster, domain, endpoint, event, finding, freeze, log, operation, org, plan, preview_request,
    project, quota, release, secret, service, template, token, transition, variable, volume, wake,
    why,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Trueup", description = "Keeps what is promised, what runs and what is paid true to each other."),
    paths(
        project::project_list, project::project_get, project::project_put, project::project_delete,
        project::project_force_delete,
        service::service_list, service::service_get, service::service_put, service::service_delete,
        variable::variable_list, variable::variable_put, variable::variable_delete,
        variable::service_variable_list, variable::service_variable_put,
        variable::service_variable_delete,
        secret::secret_list, secret::secret_put, secret::secret_delete,
        secret::service_secret_list, secret::service_secret_put, secret::service_secret_delete,
        operation::service_pause, operation::service_resume, operation::service_restart,
        operation::service_scale, operation::service_autoscale, operation::service_resize, operation::service_rollback,
        operation::service_force_delete,
        release::release_list, transition::transition_list, why::service_why, why::projection_check,
        log::service_logs,
        plan::plan_list, plan::plan_put, quota::quota_get, quota::quota_put,
        watch::service_watch, watch::event_watch, event::event_list, template::template_list, cluster::cluster_list,
        token::whoami, token::token_list, token::token_create, token::token_revoke,
        org::org_list, org::org_create, org::org_get,
        template::template_versions, template::template_get, template::template_publish,
        template::template_deprecate,
        cluster::cluster_get, cluster::cluster_routing_get, cluster::cluster_routing_put, volume::volume_list,
        freeze::service_freeze, freeze::service_unfreeze, freeze::service_reconcile,
        freeze::cluster_freeze, freeze::cluster_unfreeze,
        freeze::platform_get, freeze::platform_freeze, freeze::platform_unfreeze,
        wake::wake_list, wake::wake_requeue, finding::finding_list, finding::finding_remove,
        preview_request::preview_request_create, preview_request::preview_request_get,
        endpoint::endpoint_list, endpoint::endpoint_put, endpoint::endpoint_delete,
        domain::domain_list, domain::domain_get, domain::domain_put, domain::domain_delete,
        domain::domain_check, domain::domain_verify,
    ),
    security(("token" = [])),
    modifiers(&Token),
)]
struct Document;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// The OpenAPI document.
#[must_use]
pub fn document() -> Value {
    serde_json::to_value(Document::openapi()).unwrap_or_default()
}
