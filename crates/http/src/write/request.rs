//! A write on its way through the door: who asks, on which terms, and what is answered.
//!
//! With `?dry_run=true` the very same write is rehearsed: it is decided in a transaction that is
//! rolled back, and the answer is 200 with what would happen. Handlers do not know the difference.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trueup_api::Code;
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
use crate::{AppState, preview_request, view};

/// Which service.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct Target {
    /// The project, by name or id.
    pub(crate) project: String,
    /// The service, by name or id.
    pub(crate) service: String,
}

/// Whether a write is only to be previewed.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// With `true` nothing is recorded: the answer is 200 and says what would happen.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Everything that comes with a write in an org.
#[derive(Debug)]
pub(crate) struct WriteRequest {
    pub(crate) state: AppState,
    pub(crate) headers: HeaderMap,
    caller: Caller,
    rehearsal: Option<DryRunTx>,
}

/// How a service is declared.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Declaring {
    /// With `true` nothing is recorded: the answer is 200 and says what would happen.
    #[serde(default)]
    dry_run: bool,
    /// With `true` the project is made, too, where there is none of this name.
    #[serde(default)]
    with_project: bool,
    /// The id of a plan request: then it is accepted only if exactly that plan still holds.
    preview: Option<String>,
}

/// A service that is declared.
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

/// A caller with an org that can have something.
async fn tenant(parts: &mut Parts, state: &AppState) -> Answer<Caller> {
    let caller = Caller::from_request_parts(parts, state).await?;
    if caller.org == PLATFORM {
        let detail = "the platform's own org holds no projects, services or quota; name a tenant's \
                      org with the header `Trueup-Org`";
        return Err(Failure::new(Code::BadRequest, detail));
    }
    Ok(caller)
}

/// A write that may be about the platform itself: an operator may name no org.
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
        let rehearsal = dry_run.then(|| state.app.dry_run());
        Self { state: state.clone(), headers: parts.headers.clone(), caller, rehearsal }
    }

    /// Refuses what the caller's role does not allow.
    pub(crate) fn must(&self, permission: Permission) -> Answer<()> {
        self.caller.must(permission)
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

    /// Whoever asks, with what makes the request known again.
    pub(crate) fn asker_again(&self, repeat: Option<IdempotencyKey>) -> RequestContext<'_> {
        RequestContext { repeat, ..self.context() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.clock.now()
    }

    /// The door to write through.
    pub(crate) const fn app(&self) -> &App {
        match &self.rehearsal {
            Some(rehearsal) => rehearsal.app(),
            None => &self.state.app,
        }
    }

    /// Whether nothing of it will stay.
    pub(crate) const fn is_dry(&self) -> bool {
        self.rehearsal.is_some()
    }

    /// Does this with a service.
    pub(crate) async fn act(
        self,
        target: &Target,
        action: &ServiceOperation,
        repeat: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let wanted = ServiceRequest::act(&target.project, &target.service, action);
        self.service(wanted, repeat).await
    }

    /// The same, only if the service has the generation that the body names.
    pub(crate) async fn act_at(
        self,
        target: &Target,
        action: &ServiceOperation,
        generation: i64,
        repeat: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let wanted = ServiceRequest::act(&target.project, &target.service, action);
        self.ask_service(wanted.if_generation(Some(generation)), repeat).await
    }

    /// Brings a change of a service to the door.
    pub(crate) async fn service(
        self,
        wanted: ServiceRequest<'_>,
        repeat: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        let if_generation = if_generation(&self.headers)?;
        self.ask_service(wanted.if_generation(if_generation), repeat).await
    }

    async fn ask_service(
        self,
        wanted: ServiceRequest<'_>,
        repeat: Option<IdempotencyKey>,
    ) -> Answer<Response> {
        self.must(Permission::ManageServices)?;
        let (org, context, now) = (self.org(), self.asker_again(repeat), self.now());
        let answer = self.app().accept_service(org, &wanted, &context, now).await?;
        let (state, dry) = (self.state.clone(), self.is_dry());
        let mut response = self.accepted(answer.changed, &view::service(&answer.row, now))?;
        if !dry {
            locate(response.headers_mut(), &state, &answer.row);
        }
        Ok(response)
    }

    /// 202 for what must become true, 200 for what is so already.
    pub(crate) fn accepted<T: Serialize>(self, changed: bool, shown: &T) -> Answer<Response> {
        let status = if changed { StatusCode::ACCEPTED } else { StatusCode::OK };
        let state = self.state.clone();
        if changed && !self.is_dry() {
            // It is durable: wake the loops.
            state.signals.wake();
        }
        self.answer(status, changed, shown)
    }

    /// 202 for something that must become gone.
    pub(crate) fn removed(self) -> Answer<Response> {
        let dry = self.is_dry();
        let response = self.accepted(true, &())?;
        Ok(if dry { response } else { response.status().into_response() })
    }

    /// 201 for what is new, 200 for what was there.
    pub(crate) fn created<T: Serialize>(self, new: bool, shown: &T) -> Answer<Response> {
        let status = if new { StatusCode::CREATED } else { StatusCode::OK };
        self.answer(status, new, shown)
    }

    /// 200: it is true at once.
    pub(crate) fn done<T: Serialize>(self, changed: bool, shown: &T) -> Answer<Response> {
        self.answer(StatusCode::OK, changed, shown)
    }

    fn answer<T: Serialize>(
        self,
        status: StatusCode,
        changed: bool,
        shown: &T,
    ) -> Answer<Response> {
        if let Some(rehearsal) = self.rehearsal {
            let shown = serde_json::to_value(shown).unwrap_or_default();
            let preview = preview::of(rehearsal.seen(), changed, shown);
            return Ok(Json(preview).into_response());
        }
        if changed {
            self.state.signals.event();
        }
        Ok((status, Json(shown)).into_response())
    }
}
