//! A change of a service on its way through the door: previewed, or accepted and answered.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use trueup_model::principal::Permission;
use trueup_rules::action::Action;
use trueup_store::Repeat;
use trueup_store::door::{Asker, ServiceAsk, ServiceChange};

use crate::answer::{accepted, if_generation};
use crate::caller::Caller;
use crate::problem::Answer;
use crate::{Door, preview};

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

/// Everything that comes with a change.
pub(crate) struct Change {
    pub(crate) door: Door,
    pub(crate) caller: Caller,
    pub(crate) dry: DryRun,
    pub(crate) headers: HeaderMap,
    pub(crate) repeat: Option<Repeat>,
}

impl Change {
    /// Does this with a service.
    pub(crate) async fn act(self, target: &Target, action: &Action) -> Answer<Response> {
        self.make(&target.project, ServiceChange::Act(&target.service, action)).await
    }

    /// Brings a change to the door.
    pub(crate) async fn make(self, project: &str, change: ServiceChange<'_>) -> Answer<Response> {
        let Self { door, caller, dry, headers, repeat } = self;
        caller.must(Permission::ManageServices)?;
        let wanted = ServiceAsk { project, change, if_generation: if_generation(&headers)? };
        let now = door.clock.now();
        if dry.dry_run {
            let previewed = door.app.preview_service(caller.org, &wanted, now).await?;
            return Ok(Json(preview::service(previewed)).into_response());
        }
        let asker = Asker { repeat, ..caller.asker() };
        let answer = door.app.accept_service(caller.org, &wanted, &asker, now).await?;
        if answer.changed {
            // It is durable: wake the loops.
            door.signals.wake();
            door.signals.event();
        }
        Ok(accepted(&door, &answer.row, answer.changed))
    }
}
