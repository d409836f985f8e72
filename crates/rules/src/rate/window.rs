//! Windows: the parts of a billing period in which an item has one price and one discount.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::OrgId;
use trueup_model::money::Currency;
use trueup_model::offer::Subscription;
use trueup_model::price::{Discount, PriceItem, PriceVersion};
use trueup_model::usage::Span;

use super::{PriceList, Terms};

/// A part of a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) span: Span,
    /// None while the item has no price.
    pub(super) version: Option<&'a PriceVersion>,
    pub(super) discount: Option<&'a Discount>,
    /// The subscription that includes units of the item.
    pub(super) subscription: Option<&'a Subscription>,
}

/// The price version of an item for an org at a moment: its own one, or else the list price.
#[must_use]
pub fn version_at<'a>(
    versions: &'a [PriceVersion],
    org: OrgId,
    currency: Currency,
    item: &PriceItem,
    at: Timestamp,
) -> Option<&'a PriceVersion> {
    versions
        .iter()
        .filter(|version| is_for(version, org, currency, item) && version.holds_at(at))
        .max_by_key(|version| (version.org.is_some(), version.from, version.id))
}

fn is_for(version: &PriceVersion, org: OrgId, currency: Currency, item: &PriceItem) -> bool {
    let open_to = version.org.is_none_or(|own| own == org);
    version.item == *item && version.currency == currency && open_to
}

/// The windows of a period, in order and without a hole between them.
pub(super) fn windows<'a>(
    terms: &Terms,
    prices: &PriceList<'a>,
    item: &PriceItem,
) -> Vec<Window<'a>> {
    let cuts = cuts(terms, prices, item);
    let mut windows: Vec<Window<'a>> = Vec::new();
    for (from, until) in cuts.iter().zip(cuts.iter().skip(1)) {
        let version = version_at(prices.versions, terms.org, terms.currency, item, *from);
        let discount = discount_at(prices.discounts, terms.org, item, *from);
        let subscription =
            including(prices.subscriptions, terms.currency, item).find(|held| held.holds_at(*from));
        let same = windows.last_mut().filter(|last| {
            last.version.map(|one| one.id) == version.map(|one| one.id)
                && last.discount.map(|one| one.id) == discount.map(|one| one.id)
                && last.subscription.map(|one| one.id) == subscription.map(|one| one.id)
        });
        match same {
            Some(last) => last.span.until = *until,
            None => {
                let span = Span { from: *from, until: *until };
                windows.push(Window { span, version, discount, subscription });
            }
        }
    }
    windows
}

/// The ends of a period, and every moment inside it at which a price or a discount may change.
fn cuts(terms: &Terms, prices: &PriceList<'_>, item: &PriceItem) -> BTreeSet<Timestamp> {
    let versions = prices
        .versions
        .iter()
        .filter(|version| is_for(version, terms.org, terms.currency, item))
        .flat_map(|version| [Some(version.from), version.until]);
    let discounts = prices
        .discounts
        .iter()
        .filter(|discount| discount.org == terms.org)
        .flat_map(|discount| [Some(discount.from), discount.until]);
    let subscriptions = including(prices.subscriptions, terms.currency, item)
        .flat_map(|held| [Some(held.from), held.until]);
    let changes = versions.chain(discounts).chain(subscriptions);
    let inside = changes.flatten().filter(|at| terms.period.contains(*at));
    inside.chain([terms.period.from, terms.period.until]).collect()
}

/// The subscriptions that include units of an item.
fn including<'a>(
    held: &'a [Subscription],
    currency: Currency,
    item: &PriceItem,
) -> impl Iterator<Item = &'a Subscription> {
    held.iter().filter(move |one| {
        one.offer.currency == currency && one.offer.included.iter().any(|it| it.item == *item)
    })
}

fn discount_at<'a>(
    discounts: &'a [Discount],
    org: OrgId,
    item: &PriceItem,
    at: Timestamp,
) -> Option<&'a Discount> {
    discounts
        .iter()
        .filter(|discount| discount.org == org && discount.holds_at(item, at))
        .max_by_key(|discount| (discount.off_ppm, discount.id))
}
