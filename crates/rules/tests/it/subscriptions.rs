//! Subscriptions: parts that add up, and a past that stays.

use jiff::Timestamp;
use proptest::prelude::*;
use trueup_model::id::{DiscountId, PriceVersionId, SubscriptionId};
use trueup_model::offer::{Included, Offer, OfferDiscount, OfferPrice, Subscription};
use trueup_model::price::{PriceItem, Scheme};
use trueup_model::quota::Amounts;
use trueup_model::usage::{Meter, Quantity, UsageInterval};
use trueup_rules::rate::line::LineClass;
use trueup_rules::rate::offer_check::check_offer;
use trueup_rules::rate::posting::accrue;
use trueup_rules::rate::subscription::{discounts, held_at, prices, timeline};
use trueup_rules::rate::{PriceList, Rated, rate};
use uuid::Uuid;

use crate::given::{at, org};
use crate::seed;
use crate::usage_given::{eur, interval, price, span, terms};

const PODS: PriceItem = PriceItem::Meter(Meter::PodSeconds);
const CENT: i64 = 10_000;
/// The billing period of these tests, in seconds.
const PERIOD: i64 = 1000;

/// One pod that runs from one second to another.
fn usage(from: i64, until: i64) -> UsageInterval {
    interval(Meter::PodSeconds, Quantity::PerSecond(1), from, until)
}

fn offer(number: u128, fee_micros: i64, units: u64) -> Offer {
    Offer {
        name: "team".parse().unwrap(),
        version: 1,
        summary: String::new(),
        currency: eur(),
        fee_micros,
        fee: PriceVersionId::from_uuid(Uuid::from_u128(900 + number)),
        limits: Amounts::default(),
        included: vec![Included { item: PODS, units }],
        prices: Vec::new(),
        discounts: Vec::new(),
        at_zero: None,
        retired: false,
    }
}

/// The change with this number, recorded at one second and holding from another.
fn change(number: i32, created: i64, from: i64, offer: Offer) -> Subscription {
    Subscription {
        id: SubscriptionId::from_uuid(Uuid::from_u128(number.unsigned_abs().into())),
        org: org(),
        number,
        offer,
        from: at(from),
        until: None,
        created_at: at(created),
        created_by: "owner".to_owned(),
    }
}

fn rated(held: &[Subscription], used: &[UsageInterval]) -> Rated {
    // A pod-second costs a cent.
    let mut versions = vec![price(1, PODS, Scheme::per_hour(36_000_000), 0)];
    versions.extend(prices(held));
    let discounts: Vec<_> = discounts(held).collect();
    let list = PriceList { versions: &versions, discounts: &discounts, subscriptions: held };
    rate(&terms(PERIOD), &list, used).unwrap()
}

fn pods(rated: &Rated) -> Vec<(i128, i128, i64)> {
    let of_pods = rated.lines.iter().filter(|line| line.key.item == PODS);
    of_pods.map(|it| (it.quantity_micros, it.included_micros, it.amount_micros)).collect()
}

fn fees(rated: &Rated) -> Vec<(i128, i64)> {
    let is_fee = |item: &PriceItem| matches!(item, PriceItem::Subscription { .. });
    let lines = rated.lines.iter().filter(|line| is_fee(&line.key.item));
    lines.map(|line| (line.quantity_micros, line.value_micros)).collect()
}

#[test]
fn a_change_in_the_middle_divides_the_fee_and_what_is_included() {
    let recorded = [
        change(1, 0, 0, offer(1, 10_000_000, 100)),
        change(2, 400, 400, offer(2, 30_000_000, 500)),
    ];
    let held = timeline(&recorded, None);
    let rated = rated(&held, &[usage(0, PERIOD)]);
    // 40 % of 10 and 60 % of 30 EUR; 40 of 100 and 300 of 500 units.
    assert_eq!(fees(&rated), [(400_000, 4_000_000), (600_000, 18_000_000)]);
    assert_eq!(
        pods(&rated),
        [(400_000_000, 40_000_000, 360 * CENT), (600_000_000, 300_000_000, 300 * CENT)]
    );
}

#[test]
fn included_units_are_used_up_across_a_price_change() {
    let held = timeline(&[change(1, 0, 0, offer(1, 0, 150))], None);
    let mut versions = [
        price(1, PODS, Scheme::per_hour(36_000_000), 0),
        price(2, PODS, Scheme::per_hour(72_000_000), 100),
    ];
    versions[0].until = Some(at(100));
    let list = PriceList { versions: &versions, discounts: &[], subscriptions: &held };
    let rated = rate(&terms(PERIOD), &list, &[usage(0, 200)]).unwrap();
    assert_eq!(
        pods(&rated),
        [(100_000_000, 100_000_000, 0), (100_000_000, 50_000_000, 100 * CENT)]
    );
}

#[test]
fn prices_and_discounts_of_an_offer_hold_only_while_it_does() {
    let id = PriceVersionId::from_uuid(Uuid::from_u128(77));
    let mut cheaper = offer(1, 0, 0);
    cheaper.included.clear();
    cheaper.prices = vec![OfferPrice { id, item: PODS, scheme: Scheme::per_hour(18_000_000) }];
    let mut off = cheaper.clone();
    off.prices.clear();
    let id = DiscountId::from_uuid(Uuid::from_u128(78));
    off.discounts = vec![OfferDiscount { id, item: None, off_ppm: 250_000 }];
    let recorded = [change(1, 100, 100, cheaper), change(2, 200, 200, off)];
    let rated = rated(&timeline(&recorded, None), &[usage(0, 300)]);
    // List price, half of it, and a quarter off.
    let amounts: Vec<i64> = pods(&rated).into_iter().map(|(.., amount)| amount).collect();
    assert_eq!(amounts, [100 * CENT, 50 * CENT, 75 * CENT]);
}

#[test]
fn what_is_recorded_later_replaces_what_was_to_begin_after_it() {
    let recorded = [
        change(1, 0, 0, offer(1, 1, 0)),
        // For later, taken back, and then changed at once.
        change(2, 10, 500, offer(2, 2, 0)),
        change(3, 20, 500, offer(3, 3, 0)),
        change(4, 30, 100, offer(4, 4, 0)),
    ];
    let numbers = |until: Option<i64>| -> Vec<(i32, Option<Timestamp>)> {
        let held = timeline(&recorded, until.map(at));
        held.iter().map(|one| (one.number, one.until)).collect()
    };
    assert_eq!(numbers(Some(5)), [(1, None)]);
    assert_eq!(numbers(Some(10)), [(1, Some(at(500))), (2, None)]);
    assert_eq!(numbers(Some(20)), [(1, Some(at(500))), (3, None)]);
    assert_eq!(numbers(None), [(1, Some(at(100))), (4, None)]);
    let held = timeline(&recorded, None);
    assert_eq!(held_at(&held, at(99)).map(|one| one.number), Some(1));
    assert_eq!(held_at(&held, at(-1)), None);
}

#[test]
fn a_fee_is_posted_once_and_corrected_by_a_change() {
    let first = [change(1, 0, 0, offer(1, 10_000_000, 100))];
    let period = span(0, PERIOD);
    let before = rated(&timeline(&first, None), &[]);
    let entries = accrue(org(), period, &[], &before.lines);
    assert_eq!(entries.iter().map(|entry| entry.sum()).collect::<Vec<_>>(), [0]);
    let posted = trueup_rules::rate::posting::Posted::of(&entries);
    assert_eq!(accrue(org(), period, &posted, &before.lines), []);
    let changed = [first[0].clone(), change(2, 500, 500, offer(2, 0, 0))];
    let after = rated(&timeline(&changed, None), &[]);
    let entries = accrue(org(), period, &posted, &after.lines);
    let owed: Vec<i64> = entries.iter().map(|entry| entry.postings[0].micros).collect();
    assert_eq!(owed, [-5_000_000], "half of the fee is given back");
}

#[test]
fn an_offer_with_mistakes_is_refused_with_the_field() {
    let refused = |spoil: fn(&mut Offer)| -> Vec<String> {
        let mut wrong = offer(1, 1, 1);
        spoil(&mut wrong);
        check_offer(&wrong).into_iter().map(|error| error.field).collect()
    };
    assert_eq!(refused(|_| ()), [""; 0]);
    assert_eq!(refused(|offer| offer.fee_micros = -1), ["fee_micros"]);
    assert_eq!(refused(|offer| offer.limits.gpus = -1), ["limits.gpus"]);
    assert_eq!(refused(|offer| offer.included[0].units = u64::MAX), ["included.0.units"]);
    let twice = |offer: &mut Offer| offer.included.push(offer.included[0].clone());
    assert_eq!(refused(twice), ["included.1.item"]);
    let negative = |offer: &mut Offer| {
        let id = PriceVersionId::from_uuid(Uuid::nil());
        offer.prices = vec![OfferPrice { id, item: PODS, scheme: Scheme::per_hour(-1) }];
    };
    assert_eq!(refused(negative), ["prices.0"]);
    let all_off = |offer: &mut Offer| {
        let id = DiscountId::from_uuid(Uuid::nil());
        offer.discounts = vec![OfferDiscount { id, item: None, off_ppm: 1_000_001 }];
    };
    assert_eq!(refused(all_off), ["discounts.0.off_ppm"]);
}

proptest! {
    #![proptest_config(seed::cases(64))]

    /// Wherever a period is cut, the parts of a fee and of included units add up to the whole.
    #[test]
    fn parts_of_a_period_add_up(
        fee in 0_i64..1_000_000_000_000,
        units in 0_u64..1_000_000_000,
        cuts in proptest::collection::btree_set(1_i64..PERIOD, 0..6),
    ) {
        let mut recorded = vec![change(1, 0, 0, offer(1, fee, units))];
        for (cut, number) in cuts.iter().zip(2..) {
            recorded.push(change(number, *cut, *cut, offer(1, fee, units)));
        }
        let rated = rated(&timeline(&recorded, None), &[usage(0, PERIOD)]);
        let total: i64 = fees(&rated).iter().map(|(_, value)| value).sum();
        prop_assert_eq!(total, fee);
        let included: i128 = pods(&rated).iter().map(|(_, included, _)| included).sum();
        let most = i128::from(PERIOD) * 1_000_000;
        prop_assert!(included <= (i128::from(units) * 1_000_000).min(most));
        if i128::from(units) * 1_000_000 <= most {
            prop_assert_eq!(included, i128::from(units) * 1_000_000);
        }
        let is_charged = |line: &&trueup_rules::rate::line::Line| line.key.class == LineClass::Charged;
        prop_assert!(rated.lines.iter().filter(is_charged).all(|line| line.amount_micros >= 0));
    }
}
