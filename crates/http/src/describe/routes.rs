//! The table of contents of the API: every handler is registered here, once, for routing and for the
//! OpenAPI document. Its path and method are in its own `utoipa::path`.

use axum::routing::get;
use axum::{Extension, Router};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::describe::health::{self, Readiness};
use crate::describe::{error_page, openapi, reference};
use crate::stream::watch;
use crate::{
    AppState, access, audit, billing, billing_export, budget, capacity, cluster, comparison,
    conflict, cost, credit, domain, drift, endpoint, event, finding, freeze, invitation, invoice,
    ledger, log, lookup, member, offer, operation, org, overview, plan, preview_request, project,
    provider, provider_sign_in, quota, receipt, release, secret, service, session, setup,
    subscription, template, token, transition, variable, volume, wake, why,
};

/// Public pages, and what operators and Prometheus read. Not part of the OpenAPI document.
pub(crate) fn pages() -> Router<AppState> {
    Router::new()
        .route("/healthz", get(health::health))
        .route("/readyz", get(health::ready).layer(Extension(Readiness::default())))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::page))
        .route("/docs/api", get(reference::page))
        .route("/docs/api.css", get(reference::style))
        .route("/docs/errors/{code}", get(error_page::error_page))
}

/// Every operation of the API.
pub(crate) fn operations() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(projects())
        .merge(services())
        .merge(service_operations())
        .merge(service_parts())
        .merge(divergences())
        .merge(money())
        .routes(routes!(overview::overview_get))
        .routes(routes!(lookup::lookup_get))
        .merge(platform())
        .merge(event_log())
        .merge(access())
        .merge(providers())
}

/// Projects, and what their services share.
fn projects() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(project::project_list))
        .routes(routes!(project::project_get, project::project_put, project::project_delete))
        .routes(routes!(project::project_force_delete))
        .routes(routes!(receipt::receipt_list))
        .routes(routes!(receipt::receipt_get))
        .routes(routes!(variable::variable_list, variable::variable_patch))
        .routes(routes!(variable::variable_put, variable::variable_delete))
        .routes(routes!(secret::secret_list))
        .routes(routes!(secret::secret_put, secret::secret_delete))
        .routes(routes!(volume::volume_list))
        .routes(routes!(endpoint::endpoint_list))
        .routes(routes!(domain::domain_list))
}

/// Services: declare, preview, watch and explain.
fn services() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(service::list::service_list))
        .routes(routes!(service::service_get, service::service_put, service::service_delete))
        .routes(routes!(preview_request::preview_request_create))
        .routes(routes!(preview_request::preview_request_get))
        .routes(routes!(watch::service_watch))
        .routes(routes!(log::service_logs))
        .routes(routes!(release::release_list))
        .routes(routes!(transition::transition_list))
        .routes(routes!(why::service_why))
        .routes(routes!(comparison::service_compare))
}

/// What is done to one service.
fn service_operations() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(operation::service_pause))
        .routes(routes!(operation::service_resume))
        .routes(routes!(operation::service_restart))
        .routes(routes!(operation::service_scale))
        .routes(routes!(operation::service_autoscale))
        .routes(routes!(operation::service_resize))
        .routes(routes!(operation::service_hours))
        .routes(routes!(operation::service_rollback))
        .routes(routes!(operation::service_force_delete))
        .routes(routes!(freeze::service_freeze))
        .routes(routes!(freeze::service_unfreeze))
        .routes(routes!(freeze::service_reconcile))
}

/// What belongs to one service: variables, secrets, endpoints, domains.
fn service_parts() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(variable::service_variable_list, variable::service_variable_patch))
        .routes(routes!(variable::service_variable_put, variable::service_variable_delete))
        .routes(routes!(secret::service_secret_list))
        .routes(routes!(secret::service_secret_put, secret::service_secret_delete))
        .routes(routes!(endpoint::endpoint_put, endpoint::endpoint_delete))
        .routes(routes!(domain::domain_get, domain::domain_put, domain::domain_delete))
        .routes(routes!(domain::domain_verify))
        .routes(routes!(domain::domain_check))
}

/// Differences between clusters and their desired state, and fields that two writers fight over.
fn divergences() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(drift::divergence_list))
        .routes(routes!(drift::drift_report))
        .routes(routes!(drift::divergence_get))
        .routes(routes!(drift::divergence_adopt))
        .routes(routes!(drift::divergence_reject))
        .routes(routes!(conflict::conflict_list))
        .routes(routes!(conflict::conflict_settle))
}

/// What an org pays: costs, its billing account and its ledger.
fn money() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(cost::cost_get))
        .routes(routes!(billing::billing_account_get, billing::billing_account_put))
        .routes(routes!(billing_export::billing_export))
        .routes(routes!(offer::offer_list))
        .routes(routes!(offer::offer_put))
        .routes(routes!(subscription::subscription_get, subscription::subscription_put))
        .routes(routes!(
            budget::project_budget_get,
            budget::project_budget_put,
            budget::project_budget_delete
        ))
        .routes(routes!(budget::budget_get, budget::budget_put, budget::budget_delete))
        .routes(routes!(credit::credit_list, credit::credit_grant))
        .routes(routes!(invoice::invoice_list, invoice::invoice_issue))
        .routes(routes!(invoice::invoice_get))
        .routes(routes!(invoice::invoice_document))
        .routes(routes!(invoice::invoice_explain))
        .routes(routes!(invoice::invoice_pay))
        .routes(routes!(invoice::invoice_void))
        .routes(routes!(ledger::ledger_list))
        .routes(routes!(ledger::ledger_accounts))
        .routes(routes!(ledger::ledger_verify))
}

/// Shared by all orgs: templates, plans, clusters; and quotas, findings and wakes.
fn platform() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(template::template_list, template::template_publish))
        .routes(routes!(template::template_versions))
        .routes(routes!(template::template_get))
        .routes(routes!(template::template_deprecate))
        .routes(routes!(plan::plan_list))
        .routes(routes!(plan::plan_put))
        .routes(routes!(plan::plan_prices))
        .routes(routes!(quota::quota_get, quota::quota_put))
        .routes(routes!(
            quota::project_quota_get,
            quota::project_quota_put,
            quota::project_quota_delete
        ))
        .routes(routes!(finding::finding_list))
        .routes(routes!(finding::finding_remove))
        .routes(routes!(wake::wake_list))
        .routes(routes!(wake::wake_requeue))
        .routes(routes!(cluster::cluster_list))
        .routes(routes!(cluster::cluster_get))
        .routes(routes!(cluster::cluster_routing_get, cluster::cluster_routing_put))
        .routes(routes!(capacity::cluster_capacity))
        .routes(routes!(freeze::cluster_freeze))
        .routes(routes!(freeze::cluster_unfreeze))
        .routes(routes!(freeze::platform_get))
        .routes(routes!(freeze::platform_freeze))
        .routes(routes!(freeze::platform_unfreeze))
}

/// The event log, and what it proves.
fn event_log() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(event::event_list))
        .routes(routes!(event::event_get))
        .routes(routes!(audit::audit_checkpoint))
        .routes(routes!(audit::audit_key))
        .routes(routes!(why::projection_check))
        .routes(routes!(watch::event_watch))
}

/// Sessions, members, tokens and orgs.
fn access() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(session::session_get, session::session_create, session::session_delete))
        .routes(routes!(session::session_create_by_token))
        .routes(routes!(setup::setup_create))
        .routes(routes!(member::member_list))
        .routes(routes!(member::member_put, member::member_delete))
        .routes(routes!(member::project_role_put, member::project_role_delete))
        .routes(routes!(invitation::invitation_list, invitation::invitation_create))
        .routes(routes!(invitation::invitation_accept))
        .routes(routes!(invitation::invitation_revoke))
        .routes(routes!(access::access_check))
        .routes(routes!(token::whoami))
        .routes(routes!(token::token_list, token::token_create))
        .routes(routes!(token::token_revoke))
        .routes(routes!(org::org_list, org::org_create))
        .routes(routes!(org::org_get, org::org_delete))
        .routes(routes!(receipt::org_receipts))
}

/// Identity providers, and signing in with them.
fn providers() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(provider_sign_in::session_start_with_provider))
        .routes(routes!(provider_sign_in::session_create_with_provider))
        .routes(routes!(provider::provider_list))
        .routes(routes!(provider::provider_get, provider::provider_put, provider::provider_delete))
        .routes(routes!(provider::provider_check))
}
