//! What an org spends: so far, per hour and as a forecast, kept for a moment.
//!
//! Rating the usage of a month takes time that grows with the org, and the overview is read on every
//! event. So one request computes it and others use the result, which says how far usage is known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex as TurnMutex;
use trueup_api::cost::Forecast;
use trueup_api::overview::Spend;
use trueup_model::OrgId;
use trueup_model::money::Money;
use trueup_rules::rate::breakdown::continued;
use trueup_rules::rate::line::LineClass;
use trueup_rules::rate::{NotComputable, Rated};
use trueup_store::{CostInputs, Error, OrgUsage};

use super::{period, value};
use crate::AppState;
use crate::front::problem::Answer;
use crate::plan::money;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How long a result is used.
const KEPT: SignedDuration = SignedDuration::from_secs(30);

/// A result and when it was computed; held locked while it is computed.
type Kept = Arc<TurnMutex<Option<(Timestamp, Spend)>>>;

/// The last results of this process, by org.
#[derive(Debug, Clone, Default)]
pub struct SpendCache(Arc<Mutex<BTreeMap<OrgId, Kept>>>);

impl SpendCache {
    /// What an org spends in the current billing period, not older than [`KEPT`].
    pub(crate) async fn of(&self, state: &AppState, org: OrgId, now: Timestamp) -> Answer<Spend> {
        let kept = {
            let mut orgs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(orgs.entry(org).or_default())
        };
        let mut kept = kept.lock().await;
        if let Some((at, spend)) = &*kept
            && now.duration_since(*at).abs() < KEPT
        {
            return Ok(spend.clone());
        }
        let inputs = state.app.cost_inputs(org, now, &state.billing).await?;
        let charge_simulated = state.billing.charge_simulated;
        let rated = inputs.rate(charge_simulated).map_err(Error::from)?;
        let spend = spend(&inputs, &rated, charge_simulated).map_err(Error::from)?;
        *kept = Some((now, spend.clone()));
        Ok(spend)
    }
}

/// What the usage of a period costs: so far, per hour and as a forecast.
pub(super) fn spend(
    inputs: &CostInputs,
    rated: &Rated,
    charge_simulated: bool,
) -> Result<Spend, NotComputable> {
    let amount = |micros: i64| money(Money { micros, currency: inputs.account.currency });
    let at = |until: Timestamp| -> Result<i64, NotComputable> {
        let usage = OrgUsage {
            intervals: continued(&inputs.usage.intervals, until),
            ..OrgUsage::default()
        };
        let later = CostInputs { usage, ..inputs.clone() };
        Ok(value(&later.rate(charge_simulated)?, LineClass::Charged))
    };
    let spent = value(rated, LineClass::Charged);
    let heard = inputs.usage.heard_until.unwrap_or(inputs.period.from);
    let in_an_hour = heard.saturating_add(HOUR).unwrap_or(heard);
    Ok(Spend {
        period: period(inputs),
        currency: inputs.account.currency.to_string(),
        as_of: inputs.usage.heard_until,
        spent: amount(spent),
        hourly: amount(at(in_an_hour)?.saturating_sub(spent)),
        forecast: Forecast {
            amount: amount(at(inputs.period.until)?),
            basis: "What runs now keeps running unchanged until the end of the period.".to_owned(),
        },
    })
}
