//! Write requests: the caller, the preconditions and the response.
//!
//! With `?dry_run=true` the same write runs in a transaction that is rolled back, and the response
//! is 200 with a preview. Handlers are the same in both cases.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_api::Code;
use trueup_api::schema::{ProjectKey, ServiceKey};
use trueup_model::OrgId;
use trueup_model::id::PreviewRequestId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Permission;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::door::{RequestContext, ServiceRequest};
use trueup_store::{App, DryRunTx, IdempotencyKey};

use crate::front::caller::{Caller, Scope};
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};
use crate::write::answer::{if_generation, locate};
use crate::write::preview;
use crate::{AppState, preview_request};

/// The service in a path.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct Target {
    /// The project, by name or id.
    #[param(value_type = ProjectKey)]
    pub(crate) project: String,
    /// The service, by name or id.
    #[param(value_type = ServiceKey)]
    pub(crate) service: String,
}

/// Whether a write is a dry run.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// With `true` nothing is saved: the response is 200 with a preview of the change.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// A write in an org: state, headers, caller, and the transaction of a dry run.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    pub(crate) state: AppState,
    pub(crate) headers: HeaderMap,
    caller: Caller,
    /// What the request reads and writes with.
    app: App,
    dry_run: Option<DryRunTx>,
}

/// The query parameters for declaring a service.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Declaring {
    /// With `true` nothing is saved: the response is 200 with a preview of the change.
    #[serde(default)]
    dry_run: bool,
    /// With `true` the project is created, too, if none has this name.
    #[serde(default)]
    with_project: bool,
    /// The id of a preview request: the change is accepted only if that preview is still valid.
    #[param(value_type = Option<PreviewRequestId>)]
    preview: Option<String>,
}

/// A request that declares a service.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) change: WriteRequest,
    pub(crate) with_project: bool,
    pub(crate) preview: Option<PreviewRequestId>,
}

impl FromRequestParts<AppState> for Declaration {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let caller = tenant(parts, state).await?;
        let Query(Declaring { dry_run, with_project, preview }) =
            Query::from_request_parts(parts, state).await?;
        let preview = preview.as_deref().map(preview_request::id).transpose()?;
        Ok(Self {
            change: WriteRequest::begin(caller, parts, state, dry_run),
            with_project,
            preview,
        })
    }
}

/// The caller, if its org is a tenant's: the platform's org has no projects or quota.
async fn tenant(parts: &mut Parts, state: &AppState) -> Answer<Caller> {
    let caller = Caller::from_request_parts(parts, state).await?;
    if caller.org == PLATFORM {
        let detail = "the platform's own org has no projects, services or quota; name a tenant's \
                      org with `--org` (the header `Trueup-Org`)";
        return Err(Failure::new(Code::BadRequest, detail));
    }
    Ok(caller)
}

/// A write that may concern the platform itself: an operator may name no org.
#[derive(Debug)]
pub(crate) struct PlatformWriteRequest(pub(crate) WriteRequest);

impl FromRequestParts<AppState> for WriteRequest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let caller = tenant(parts, state).await?;
        let Query(DryRun { dry_run }) = Query::from_request_parts(parts, state).await?;
        Ok(Self::begin(caller, parts, state, dry_run))
    }
}

impl FromRequestParts<AppState> for PlatformWriteRequest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Failure> {
        let Scope(caller) = Scope::from_request_parts(parts, state).await?;
        let Query(DryRun { dry_run }) = Query::from_request_parts(parts, state).await?;
        Ok(Self(WriteRequest::begin(caller, parts, state, dry_run)))
    }
}

impl WriteRequest {
    fn begin(caller: Caller, parts: &Parts, state: &AppState, dry_run: bool) -> Self {
        let dry_run = dry_run.then(|| state.app.dry_run());
        let app = dry_run.as_ref().map_or(&state.app, DryRunTx::app).clone();
        Self { state: state.clone(), headers: parts.headers.clone(), caller, app, dry_run }
    }

    /// Checks that the caller has a permission.
    pub(crate) fn must(&self, permission: Permission) -> Answer<()> {
        self.caller.must(permission)
    }

    /// The request behind the wall around the projects in which the caller has a permission.
    pub(crate) fn within(self, permission: Permission) -> Answer<Self> {
        let app = self.caller.within(&self.app, permission)?;
        Ok(Self { app, ..self })
    }

    pub(crate) const fn caller(&self) -> &Caller {
        &self.caller
    }

    pub(crate) const fn org(&self) -> OrgId {
        self.caller.org
    }

    pub(crate) fn context(&self) -> RequestContext<'_> {
        self.caller.context()
    }

    /// The request context, with an idempotency key.
    pub(crate) fn context_with_key(&self, key: Option<IdempotencyKey>) -> RequestContext<'_> {
        RequestContext { idempotency_key: key, ..self.context() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.clock.now()
    }

    /// The app to write with: in a dry run its changes are rolled back.
    pub(crate) const fn app(&self) -> &App {
        &self.app
    }

    /// Whether this is a dry run.
    pub(crate) const fn is_dry(&self) -> bool {
        self.dry_run.is_some()
    }

    /// Runs an operation on a service.
    pub(crate) async fn act(
        self,
        target: &Target,
        operation: &ServiceOperation,
        key: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let wanted = ServiceRequest::act(&target.project, &target.service, operation);
        self.service(wanted, key).await
    }

    /// Runs an operation on a service, if it has the generation that the body names.
    pub(crate) async fn act_at(
        self,
        target: &Target,
        operation: &ServiceOperation,
        generation: i64,
        key: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let wanted = ServiceRequest::act(&target.project, &target.service, operation);
        self.accept_service(wanted.if_generation(Some(generation)), key).await
    }

    /// Submits a change of a service, with the precondition of `If-Match`.
    pub(crate) async fn service(
        self,
        wanted: ServiceRequest<'_>,
        key: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let if_generation = if_generation(&self.headers)?;
        self.accept_service(wanted.if_generation(if_generation), key).await
    }

    async fn accept_service(
        self,
        wanted: ServiceRequest<'_>,
        key: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let this = self.within(Permission::ManageServices)?;
        let (org, context, now) = (this.org(), this.context_with_key(key), this.now());
        let answer = this.app().accept_service(org, &wanted, &context, now).await?;
        let (state, dry) = (this.state.clone(), this.is_dry());
        let mut response =
            this.accepted(answer.changed, &crate::service::view(&answer.row, now))?;
        if !dry {
            locate(response.headers_mut(), &state, &answer.row);
        }
        Ok(response)
    }

    /// 202 for a change that must converge, 200 if nothing changed.
    pub(crate) fn accepted<T: Serialize>(self, changed: bool, shown: &T) -> Answer<Response> {
        let status = if changed { StatusCode::ACCEPTED } else { StatusCode::OK };
        let state = self.state.clone();
        if changed && !self.is_dry() {
            // The change is durable: wake the loops.
            state.signals.wake();
        }
        self.answer(status, changed, shown)
    }

    /// 202 for a removal, without a body.
    pub(crate) fn removed(self) -> Answer<Response> {
        let dry = self.is_dry();
        let response = self.accepted(true, &())?;
        Ok(if dry { response } else { response.status().into_response() })
    }

    /// 201 for a new object, 200 if it existed.
    pub(crate) fn created<T: Serialize>(self, new: bool, shown: &T) -> Answer<Response> {
        let status = if new { StatusCode::CREATED } else { StatusCode::OK };
        self.answer(status, new, shown)
    }

    /// 200: the change takes effect at once.
    pub(crate) fn done<T: Serialize>(self, changed: bool, shown: &T) -> Answer<Response> {
        self.answer(StatusCode::OK, changed, shown)
    }

    fn answer<T: Serialize>(
        self,
        status: StatusCode,
        changed: bool,
        shown: &T,
    ) -> Answer<Response> {
        if let Some(dry_run) = self.dry_run {
            let shown = serde_json::to_value(shown).unwrap_or_default();
            let preview = preview::of(dry_run.seen(), changed, shown);
            let reads_content = self.caller.reads_content();
            let preview = if reads_content { preview } else { preview::without_content(preview) };
            return Ok(Json(preview).into_response());
        }
        if changed {
            self.state.signals.event();
        }
        Ok((status, Json(shown)).into_response())
    }
}
