//! Billing accounts: how an org is billed.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use jiff::tz::TimeZone;
use trueup_api::billing::BillingAccount;
use trueup_api::preview::OrPreview;
use trueup_model::billing as model;
use trueup_model::money::{Currency, ParseCurrencyError};
use trueup_model::principal::Permission;
use trueup_rules::admit::FieldError;

use crate::AppState;
use crate::front::body::Body;
use crate::front::caller::Caller;
use crate::front::problem::{Answer, Failure};
use crate::write::request::{DryRun, WriteRequest};

/// The millionths of one per cent.
const PERCENT_PPM: u32 = 10_000;
/// The longest name and address on an invoice.
const MAX_TEXT: [(&str, usize); 2] = [("legal_name", 200), ("address", 500)];

/// Shows how the org is billed.
#[utoipa::path(get, path = "/v1/billing-account", operation_id = "billing_account_get", tag = "billing",
    responses((status = 200, body = BillingAccount)))]
pub(crate) async fn billing_account_get(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<BillingAccount>> {
    caller.must(Permission::ReadBilling)?;
    Ok(Json(view(&state.app.find_billing_account(caller.org, &state.billing).await?)))
}

/// Sets how an org is billed. For operators, who name the org with `Trueup-Org`.
///
/// The currency and the time zone stay once something was posted: amounts are never converted, and a
/// moment is in one billing period only.
#[utoipa::path(put, path = "/v1/billing-account", operation_id = "billing_account_put", tag = "billing",
    params(DryRun), request_body = BillingAccount,
    responses((status = 200, description = "the account as it is now, or a preview",
               body = OrPreview<BillingAccount>)))]
pub(crate) async fn billing_account_put(
    change: WriteRequest,
    State(state): State<AppState>,
    Body(wanted): Body<BillingAccount>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    let account = read(wanted)?;
    let (org, context, now) = (change.org(), change.context(), change.now());
    let put = change.app().put_billing_account(org, &account, &state.billing, &context, now);
    let (account, changed) = put.await?;
    change.done(changed, &view(&account))
}

fn read(wanted: BillingAccount) -> Answer<model::BillingAccount> {
    let mut errors = Vec::new();
    let currency = wanted.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    if TimeZone::get(&wanted.time_zone).is_err() {
        let message = "must be the IANA name of a time zone, such as Europe/Berlin";
        errors.push(FieldError::at("time_zone", message));
    }
    let tax = ppm(&wanted.tax_percent);
    if tax.is_none() {
        let message =
            "must be a percentage from 0 to 100 with up to four decimal places, such as 19";
        errors.push(FieldError::at("tax_percent", message));
    }
    for ((field, most), text) in MAX_TEXT.into_iter().zip([&wanted.legal_name, &wanted.address]) {
        let is_printable = !text.chars().any(|one| one.is_control() && one != '\n');
        if text.chars().count() > most || !is_printable {
            let message = format!("must be at most {most} printable characters");
            errors.push(FieldError::at(field, message));
        }
    }
    let (Ok(currency), Some(tax_ppm), true) = (currency, tax, errors.is_empty()) else {
        return Err(Failure::invalid(errors));
    };
    Ok(model::BillingAccount {
        currency,
        time_zone: wanted.time_zone,
        tax_ppm,
        legal_name: wanted.legal_name,
        address: wanted.address,
    })
}

/// A percentage as millionths; `None` if it is not one.
fn ppm(percent: &str) -> Option<u32> {
    let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let is_complete = !whole.is_empty() && percent.split('.').count() <= 2;
    if !is_complete || fraction.len() > 4 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction: u32 = format!("{fraction:0<4}").parse().ok()?;
    let ppm = whole.parse::<u32>().ok()?.checked_mul(PERCENT_PPM)?.checked_add(fraction)?;
    (ppm <= 100 * PERCENT_PPM).then_some(ppm)
}

/// Millionths as a percentage.
pub(crate) fn percent(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / PERCENT_PPM, ppm % PERCENT_PPM);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn view(account: &model::BillingAccount) -> BillingAccount {
    BillingAccount {
        currency: account.currency.to_string(),
        time_zone: account.time_zone.clone(),
        tax_percent: percent(account.tax_ppm),
        legal_name: account.legal_name.clone(),
        address: account.address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_exact() {
        let table = [
            ("19", Some(190_000)),
            ("0", Some(0)),
            ("8.1", Some(81_000)),
            ("100", Some(1_000_000)),
        ];
        for (text, expected) in table {
            assert_eq!(ppm(text), expected, "{text}");
            assert_eq!(expected.map(percent).as_deref(), Some(text));
        }
        for bad in ["", ".", "-1", "100.1", "1.23456", "1e3", "1.2.3", " 1"] {
            assert_eq!(ppm(bad), None, "{bad}");
        }
    }
}
