//! Which offers are refused.

use std::collections::BTreeSet;

use trueup_model::offer::Offer;
use trueup_model::price::{PriceItem, PriceVersion};
use trueup_model::quota::Resource;

use super::price_check::check_price;
use crate::admit::FieldError;

/// A discount of the whole price.
const WHOLE_PPM: u32 = 1_000_000;
/// The most units that an offer may include of an item: far more than the ledger can charge.
const MAX_UNITS: u64 = 1_000_000_000_000_000;
/// The most items in each list of an offer.
const MAX_ITEMS: usize = 100;

/// What is wrong with an offer; nothing if it can be published.
#[must_use]
pub fn check_offer(offer: &Offer) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if offer.fee_micros < 0 {
        errors.push(FieldError::at("fee_micros", "must not be negative"));
    }
    for resource in Resource::ALL {
        if offer.limits.get(resource) < 0 {
            let field = format!("limits.{}", resource.into_str());
            errors.push(FieldError::at(field, "must not be negative"));
        }
    }
    check_lists(offer, &mut errors);
    check_prices(offer, &mut errors);
    for (place, discount) in offer.discounts.iter().enumerate() {
        if !(1..=WHOLE_PPM).contains(&discount.off_ppm) {
            let field = format!("discounts.{place}.off_ppm");
            errors.push(FieldError::at(field, "must be more than 0 and at most 100"));
        }
    }
    for (place, included) in offer.included.iter().enumerate() {
        if included.units > MAX_UNITS {
            let field = format!("included.{place}.units");
            errors.push(FieldError::at(field, format!("must be at most {MAX_UNITS}")));
        }
    }
    errors
}

/// Each list names an item once, and only items that are metered.
fn check_lists(offer: &Offer, errors: &mut Vec<FieldError>) {
    let included = offer.included.iter().map(|one| Some(&one.item)).collect();
    let prices = offer.prices.iter().map(|one| Some(&one.item)).collect();
    let discounts = offer.discounts.iter().map(|one| one.item.as_ref()).collect();
    let lists: [(&str, Vec<Option<&PriceItem>>); 3] =
        [("included", included), ("prices", prices), ("discounts", discounts)];
    for (list, items) in lists {
        if items.len() > MAX_ITEMS {
            errors.push(FieldError::at(list, format!("must have at most {MAX_ITEMS} items")));
        }
        let mut known = BTreeSet::new();
        for (place, item) in items.into_iter().enumerate() {
            let field = format!("{list}.{place}.item");
            if matches!(item, Some(PriceItem::Subscription { .. })) {
                errors.push(FieldError::at(field, "must be metered; a fee is not"));
            } else if !known.insert(item) {
                errors.push(FieldError::at(field, "is in the list already"));
            }
        }
    }
}

fn check_prices(offer: &Offer, errors: &mut Vec<FieldError>) {
    for (place, price) in offer.prices.iter().enumerate() {
        let version = PriceVersion {
            id: price.id,
            item: price.item.clone(),
            org: None,
            currency: offer.currency,
            from: jiff::Timestamp::UNIX_EPOCH,
            until: None,
            scheme: price.scheme.clone(),
        };
        if let Err(error) = check_price(&version, &[]) {
            errors.push(FieldError::at(format!("prices.{place}"), error.to_string()));
        }
    }
}
