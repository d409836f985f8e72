//! Offers: what orgs can subscribe to.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use trueup_api::preview::OrPreview;
use trueup_api::subscription::{
    IncludedUnits, Offer, OfferDiscount, OfferList, OfferManifest, OfferPrice,
};
use trueup_model::budget::AtLimit;
use trueup_model::id::{DiscountId, PriceVersionId};
use trueup_model::money::{Currency, ParseCurrencyError};
use trueup_model::name::Name;
use trueup_model::offer as model;
use trueup_model::price::{Charge, PriceItem, SECONDS_PER_HOUR, Scheme};
use trueup_model::principal::Permission;
use trueup_model::quota::Amounts;
use trueup_rules::admit::FieldError;
use trueup_rules::rate::subscription::fee;
use uuid::Uuid;

use crate::AppState;
use crate::front::body::{Body, sentence};
use crate::front::caller::Caller;
use crate::front::extract::Path;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;
use crate::project::{matches_path, name};
use crate::write::request::{DryRun, PlatformWriteRequest};

/// Lists the newest version of every offer.
#[utoipa::path(get, path = "/v1/offers", operation_id = "offer_list", tag = "billing",
    responses((status = 200, body = OfferList)))]
pub(crate) async fn offer_list(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<OfferList>> {
    caller.must(Permission::Read)?;
    let offers = state.app.list_offers().await?;
    Ok(Json(OfferList { items: offers.iter().map(view).collect() }))
}

/// Publishes an offer. For operators.
///
/// Other terms are a new version. Orgs that subscribed to a former one keep it until they change.
#[utoipa::path(put, path = "/v1/offers/{offer}", operation_id = "offer_put", tag = "billing",
    params(("offer" = Name, Path, description = "name"), DryRun),
    request_body = OfferManifest,
    responses((status = 200, description = "unchanged, or a preview", body = OrPreview<Offer>),
              (status = 201, description = "another version was published", body = Offer)))]
pub(crate) async fn offer_put(
    PlatformWriteRequest(change): PlatformWriteRequest,
    Path(offer): Path<String>,
    Body(manifest): Body<OfferManifest>,
) -> Answer<Response> {
    change.must(Permission::ManagePlatform)?;
    matches_path("kind", manifest.kind.as_deref(), "Offer")?;
    matches_path("name", manifest.name.as_deref(), &offer)?;
    let terms = read(&offer, &manifest)?;
    let (context, now) = (change.context(), change.now());
    let put = change.app().put_offer(&terms, &context, now).await?;
    change.created(put.changed, &view(&put.row))
}

fn read(path: &str, manifest: &OfferManifest) -> Answer<model::Offer> {
    let mut errors = Vec::new();
    let currency = manifest.currency.parse::<Currency>();
    if let Err(error @ ParseCurrencyError) = &currency {
        errors.push(FieldError::at("currency", error.to_string()));
    }
    let mut item = |field: String, text: &str| match text.parse::<PriceItem>() {
        Ok(item) => Some(item),
        Err(error) => {
            errors.push(FieldError::at(field, error.to_string()));
            None
        }
    };
    let mut included = Vec::new();
    for (place, one) in manifest.included.iter().enumerate() {
        let found = item(format!("included.{place}.item"), &one.item);
        included.extend(found.map(|item| model::Included { item, units: one.units }));
    }
    let mut prices = Vec::new();
    for (place, one) in manifest.prices.iter().enumerate() {
        let charge = Charge::PerUnit { micros: one.micros, per: one.per };
        let scheme = Scheme { charge, included_units: 0, minimum_micros: 0 };
        let id = PriceVersionId::from_uuid(Uuid::nil());
        let found = item(format!("prices.{place}.item"), &one.item);
        prices.extend(found.map(|item| model::OfferPrice { id, item, scheme }));
    }
    let mut discounts = Vec::new();
    for (place, one) in manifest.discounts.iter().enumerate() {
        let of = |text: &String| item(format!("discounts.{place}.item"), text);
        let item = one.item.as_ref().map(of);
        let (id, off_ppm) = (DiscountId::from_uuid(Uuid::nil()), one.off_ppm);
        discounts.push(model::OfferDiscount { id, item: item.flatten(), off_ppm });
    }
    let at_zero = manifest.at_zero.as_deref().map(str::parse::<AtLimit>).transpose();
    if at_zero.is_err() {
        errors.push(FieldError::at("at_zero", "must be `warn`, `refuse` or `pause`"));
    }
    let (Ok(currency), Ok(at_zero), true) = (currency, at_zero, errors.is_empty()) else {
        return Err(Failure::invalid(errors));
    };
    let limits = &manifest.limits;
    Ok(model::Offer {
        name: name("name", path)?,
        version: 0,
        summary: sentence("summary", &manifest.summary)?.to_owned(),
        currency,
        fee_micros: manifest.fee_micros,
        fee: PriceVersionId::from_uuid(Uuid::nil()),
        limits: Amounts {
            services: limits.services,
            cpu_millis: limits.cpu_millis,
            memory_mib: limits.memory_mib,
            storage_gib: limits.storage_gib,
            gpus: limits.gpus,
            projects: limits.projects,
            endpoints: limits.endpoints,
        },
        included,
        prices,
        discounts,
        at_zero,
        retired: manifest.retired,
    })
}

/// An offer as it is shown.
pub(crate) fn view(offer: &model::Offer) -> Offer {
    let price = |one: &model::OfferPrice| {
        let (micros, per) = match one.scheme.charge {
            Charge::PerUnit { micros, per } => (micros, per),
            Charge::Graduated { .. } | Charge::Volume { .. } | Charge::Package { .. } => {
                (0, SECONDS_PER_HOUR)
            }
        };
        OfferPrice { item: one.item.to_string(), micros, per }
    };
    let included =
        |one: &model::Included| IncludedUnits { item: one.item.to_string(), units: one.units };
    let discount = |one: &model::OfferDiscount| OfferDiscount {
        item: one.item.as_ref().map(ToString::to_string),
        off_ppm: one.off_ppm,
    };
    Offer {
        name: offer.name.to_string(),
        version: offer.version,
        summary: offer.summary.clone(),
        fee: money(fee(offer)),
        limits: offer.limits,
        included: offer.included.iter().map(included).collect(),
        prices: offer.prices.iter().map(price).collect(),
        discounts: offer.discounts.iter().map(discount).collect(),
        at_zero: offer.at_zero,
        retired: offer.retired,
    }
}
