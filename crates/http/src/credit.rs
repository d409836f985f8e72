//! Credits: what an org was granted, and what is left of it.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::credit::{self as api, CreditGrantBody, CreditList};
use trueup_api::preview::OrPreview;
use trueup_api::schema::MAX_CREDIT;
use trueup_model::invoice::Credit;
use trueup_model::money::{Currency, Money, ParseCurrencyError};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;
use trueup_store::door::CreditRequest;

use crate::AppState;
use crate::front::body::sentence;
use crate::front::caller::Caller;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::write::idempotency::Keyed;
use crate::write::request::{DryRun, WriteRequest};

/// Lists the credits of the org, oldest first.
#[utoipa::path(get, path = "/v1/credits", operation_id = "credit_list", tag = "billing",
    responses((status = 200, body = CreditList)))]
pub(crate) async fn credit_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<CreditList>> {
    caller.must(Permission::ReadBilling)?;
    let found = state.app.list_credits(caller.org).await?;
    let account = state.app.find_billing_account(caller.org, &state.billing).await?;
    let now = state.clock.now();
    let usable = found.iter().filter(|one| one.holds_at(now) && one.currency == account.currency);
    let micros = usable.fold(0_i64, |sum, one| sum.saturating_add(one.left_micros()));
    let left = money(Money { micros, currency: account.currency });
    Ok(Json(CreditList { items: found.iter().map(view).collect(), left }))
}

/// Grants credit to an org. For operators, who name the org with `Trueup-Org`.
///
/// Invoices use the credit first that ends first.
#[utoipa::path(post, path = "/v1/credits", operation_id = "credit_grant", tag = "billing",
    params(DryRun), request_body = CreditGrantBody,
    responses((status = 200, description = "a retry with the same key, or a preview",
               body = OrPreview<api::Credit>),
              (status = 201, body = api::Credit)))]
pub(crate) async fn credit_grant(
    change: WriteRequest,
    Keyed { body, key }: Keyed<CreditGrantBody>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let wanted = read(&body)?;
    let (org, context, now) = (change.org(), change.context_with_key(key), change.now());
    let granting =
        change.app().grant_credit(org, &wanted, &change.state.billing, &context, now).await;
    let granted = granting?;
    change.created(granted.changed, &view(&granted.row))
}

fn read(body: &CreditGrantBody) -> Answer<CreditRequest> {
    let mut errors = Vec::new();
    if !(1..=MAX_CREDIT).contains(&body.micros) {
        let message = format!("must be from 1 to {MAX_CREDIT} millionths");
        errors.push(FieldError::at("micros", message));
    }
    let currency = body.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    let (Ok(currency), true) = (currency, errors.is_empty()) else {
        return Err(Failure::invalid(errors));
    };
    Ok(CreditRequest {
        amount: Money { micros: body.micros, currency },
        reason: sentence("reason", &body.reason)?.to_owned(),
        expires_at: body.expires_at,
    })
}

fn view(credit: &Credit) -> api::Credit {
    let amount = |micros: i64| money(Money { micros, currency: credit.currency });
    api::Credit {
        id: credit.id.to_string(),
        granted: amount(credit.granted_micros),
        used: amount(credit.used_micros),
        expired: amount(credit.expired_micros),
        left: amount(credit.left_micros()),
        reason: credit.reason.clone(),
        expires_at: credit.expires_at,
        granted_at: credit.granted_at,
        granted_by: credit.granted_by.clone(),
    }
}
