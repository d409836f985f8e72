//! Rating: schemes, price changes, periods and rounding.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use trueup_model::price::{Charge, PriceItem, PriceVersion, Scheme, Tier};
use trueup_model::usage::{Meter, Quantity, Span, UsageInterval};
use trueup_rules::rate::period::month;
use trueup_rules::rate::price_check::{PriceError, check_discount, check_price};
use trueup_rules::rate::rounding::{NotComputable, Ratio, allocate, minor_unit};
use trueup_rules::rate::{PriceList, Rated, UnpricedReason, rate};

use crate::given::{self, at};
use crate::seed;
use crate::usage_given::{discount, eur, interval, other_org, price, scheme, span, terms, value};

const EGRESS: PriceItem = PriceItem::Meter(Meter::EgressBytes);
const PODS: PriceItem = PriceItem::Meter(Meter::PodSeconds);

fn tiers() -> Vec<Tier> {
    let tier = |up_to, micros| Tier { up_to, micros };
    vec![tier(Some(10), 100), tier(Some(20), 50), tier(None, 10)]
}

fn charges() -> [Charge; 4] {
    [
        Charge::PerUnit { micros: 7, per: 3 },
        Charge::Graduated { per: 1, tiers: tiers() },
        Charge::Volume { per: 1, tiers: tiers() },
        Charge::Package { micros: 500, units: 8 },
    ]
}

fn rated(versions: &[PriceVersion], intervals: &[UsageInterval]) -> Rated {
    let prices = PriceList { versions, discounts: &[], subscriptions: &[] };
    rate(&terms(1000), &prices, intervals).unwrap()
}

fn bytes(count: u64) -> UsageInterval {
    interval(Meter::EgressBytes, Quantity::Total(count), 0, 100)
}

#[test]
fn each_scheme_charges_what_its_table_says() {
    let [per_unit, graduated, volume, package] = charges();
    let table = [
        (&per_unit, 0, [(3, 7), (9, 21), (1, 2), (30, 70)]),
        (&graduated, 0, [(10, 1000), (11, 1050), (20, 1500), (25, 1550)]),
        (&volume, 0, [(10, 1000), (11, 550), (20, 1000), (25, 250)]),
        (&package, 0, [(1, 500), (8, 500), (9, 1000), (17, 1500)]),
        (&graduated, 5, [(5, 0), (15, 1000), (16, 1050), (30, 1550)]),
        (&package, 1, [(1, 0), (2, 500), (9, 500), (10, 1000)]),
    ];
    for (charge, included_units, rows) in table {
        let scheme = Scheme { included_units, ..scheme(charge.clone()) };
        let version = price(1, EGRESS, scheme, 0);
        for (units, micros) in rows {
            let found = value(&rated(std::slice::from_ref(&version), &[bytes(units)]));
            assert_eq!(found, micros, "{units} units, {included_units} included: {charge:?}");
        }
    }
}

#[test]
fn a_price_change_splits_to_the_microsecond() {
    let mut old = price(1, PODS, Scheme::per_hour(3_600_000), 0);
    let mut new = price(2, PODS, Scheme::per_hour(7_200_000), 0);
    let change = jiff::Timestamp::from_microsecond(at(10).as_microsecond() + 250_000).unwrap();
    old.until = Some(change);
    new.from = change;
    let usage = [interval(Meter::PodSeconds, Quantity::PerSecond(1), 0, 20)];
    let rated = rated(&[new, old], &usage);
    let found: Vec<_> =
        rated.lines.iter().map(|line| (line.quantity_micros, line.value_micros)).collect();
    assert_eq!(found, [(10_250_000, 10_250), (9_750_000, 19_500)]);
}

#[test]
fn included_units_and_tiers_count_from_the_beginning_of_the_period() {
    let graduated = Charge::Graduated { per: 1, tiers: tiers() };
    let mut old = price(1, EGRESS, Scheme { included_units: 4, ..scheme(graduated) }, 0);
    let mut new = PriceVersion { id: price(2, EGRESS, old.scheme.clone(), 0).id, ..old.clone() };
    (old.until, new.from) = (Some(at(50)), at(50));
    let alone = value(&rated(std::slice::from_ref(&old), &[]));
    assert_eq!(alone, 0, "no usage, no line");
    // Twelve units before the change and twelve after it: 8 × 100, then 2 × 100 + 10 × 50.
    let usage = [
        interval(Meter::EgressBytes, Quantity::Total(12), 0, 50),
        interval(Meter::EgressBytes, Quantity::Total(12), 50, 100),
    ];
    let split = rated(&[old, new], &usage);
    let values: Vec<_> = split.lines.iter().map(|line| line.value_micros).collect();
    assert_eq!(values, [800, 700]);
}

#[test]
fn minimums_discounts_and_overrides_change_what_an_org_pays() {
    let list = price(1, PODS, Scheme::per_hour(3_600_000), 0);
    let usage = [interval(Meter::PodSeconds, Quantity::PerSecond(1), 0, 100)];
    let amounts = |versions: &[PriceVersion], discounts: &[_]| -> Vec<(i64, i64)> {
        let rated =
            rate(&terms(1000), &PriceList { versions, discounts, subscriptions: &[] }, &usage)
                .unwrap();
        rated.lines.iter().map(|line| (line.amount_micros, line.minimum_micros)).collect()
    };
    assert_eq!(amounts(std::slice::from_ref(&list), &[]), [(100_000, 0)]);

    let minimum = Scheme { minimum_micros: 5_000_000, ..list.scheme.clone() };
    let minimum = PriceVersion { scheme: minimum, ..list.clone() };
    assert_eq!(amounts(&[minimum], &[]), [(5_000_000, 4_900_000)]);

    let mine = PriceVersion { org: Some(given::org()), ..price(2, PODS, Scheme::per_hour(0), 0) };
    let theirs = PriceVersion { org: Some(other_org()), ..price(3, PODS, Scheme::per_hour(9), 0) };
    assert_eq!(amounts(&[list.clone(), mine, theirs], &[]), [(0, 0)]);

    // Of two discounts the larger one counts; it holds for half of the time.
    let discounts = [discount(1, 100_000, 0, 1000), discount(2, 500_000, 0, 50)];
    let found = amounts(std::slice::from_ref(&list), &discounts);
    assert_eq!(found, [(30_000, 0), (50_000, 0)], "25,000 and 45,000 in cents");
}

#[test]
fn usage_without_a_price_is_listed_and_never_free() {
    let mut version = price(1, PODS, Scheme::per_hour(3_600_000), 0);
    version.until = Some(at(40));
    let in_dollars = PriceVersion { currency: "USD".parse().unwrap(), ..version.clone() };
    let usage = [interval(Meter::PodSeconds, Quantity::PerSecond(1), 0, 100)];
    let reasons = |versions: &[PriceVersion]| -> Vec<_> {
        let found = rated(versions, &usage).unpriced;
        found.iter().map(|one| (one.segment.span, one.reason)).collect()
    };
    assert_eq!(reasons(&[]), [(span(0, 100), UnpricedReason::NotSold)]);
    assert_eq!(reasons(&[in_dollars]), [(span(0, 100), UnpricedReason::OtherCurrency)]);
    assert_eq!(reasons(&[version]), [(span(40, 100), UnpricedReason::NotInForce)]);
}

#[test]
fn half_is_rounded_away_from_zero_and_once() {
    let table = [(5, 10, 1, 1), (-5, 10, 1, -1), (4, 10, 1, 0), (14_999, 1, 10_000, 10_000)];
    for (numerator, denominator, unit, expected) in table {
        let exact = Ratio::new(numerator, denominator).unwrap();
        assert_eq!(exact.round_to(unit), Ok(expected), "{numerator}/{denominator} to {unit}");
    }
    // 0.0149996 would be 0.02 if it were rounded to millionths first.
    assert_eq!(Ratio::new(149_996, 10).unwrap().round_to(10_000), Ok(10_000));
    assert_eq!(Ratio::new(i128::MAX, 1).unwrap().round_to(1), Err(NotComputable));
    assert_eq!(Ratio::new(1, 0), Err(NotComputable));
    let unit = |text: &str| minor_unit(text.parse().unwrap());
    assert_eq!((minor_unit(eur()), unit("JPY"), unit("KWD")), (10_000, 1_000_000, 1000));
}

#[test]
fn invalid_prices_are_refused() {
    let good = price(1, PODS, Scheme::per_hour(1), 0);
    let check = |change: fn(&mut PriceVersion)| {
        let mut version = price(2, PODS, Scheme::per_hour(1), 100);
        change(&mut version);
        check_price(&version, std::slice::from_ref(&good))
    };
    let overlap = Err(PriceError::Overlap { with: good.id });
    let volume = |tiers| scheme(Charge::Volume { per: 1, tiers });
    assert_eq!(check(|_| {}), overlap, "the old one has no end");
    assert_eq!(check(|new| (new.from, new.until) = (at(-9), Some(at(0)))), Ok(()));
    assert_eq!(check(|new| new.currency = "USD".parse().unwrap()), Ok(()));
    assert_eq!(check(|new| new.org = Some(given::org())), Ok(()));
    assert_eq!(check(|new| new.until = Some(new.from)), Err(PriceError::EmptyValidity));
    assert_eq!(check(|new| new.scheme.minimum_micros = -1), Err(PriceError::Negative));
    assert_eq!(check(|new| new.scheme = Scheme::per_hour(-1)), Err(PriceError::Negative));
    let nothing = |new: &mut PriceVersion| {
        new.scheme = scheme(Charge::Package { micros: 1, units: 0 });
    };
    assert_eq!(check(nothing), Err(PriceError::NoUnits));
    for bounds in [vec![], vec![Some(1)], vec![Some(2), Some(2), None], vec![None, None]] {
        let tiers = bounds.into_iter().map(|up_to| Tier { up_to, micros: 1 }).collect();
        let version = price(2, EGRESS, volume(tiers), 0);
        assert_eq!(check_price(&version, &[]), Err(PriceError::Tiers));
    }
    assert_eq!(check_discount(&discount(1, 1_000_001, 0, 1)), Err(PriceError::Discount));
    assert_eq!(check_discount(&discount(1, 10, 1, 1)), Err(PriceError::EmptyValidity));
}

#[test]
fn months_meet_without_a_hole_whatever_the_time_zone_does() {
    // Berlin, Lord Howe Island (half an hour), and a zone whose summer begins with a month, at midnight.
    for zone in [
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "<-03>3<-02>,J91/0,J274/0",
    ] {
        let zone = TimeZone::posix(zone).unwrap();
        let first = month(&zone, at(0)).unwrap();
        let mut end = first.until;
        for _ in 1..30 {
            let next = month(&zone, end).unwrap();
            assert_eq!(next.from, end);
            let last = jiff::Timestamp::from_microsecond(next.until.as_microsecond() - 1).unwrap();
            assert_eq!(month(&zone, last), Some(next));
            end = next.until;
        }
    }
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let hours =
        |text: &str| month(&berlin, text.parse().unwrap()).unwrap().micros() / 3_600_000_000;
    assert_eq!(hours("2030-03-10T00:00:00Z"), 31 * 24 - 1);
    assert_eq!(hours("2030-10-10T00:00:00Z"), 31 * 24 + 1);
}

proptest! {
    #![proptest_config(seed::cases(256))]

    /// P6: intervals that are split, repeated and reordered cost the same.
    #[test]
    fn split_intervals_cost_the_same(
        which in 0..4_usize,
        included_units in 0..30_u64,
        units in 1..9_u64,
        cuts in prop::collection::btree_set(1..99_i64, 0..6),
    ) {
        let charge = charges()[which].clone();
        let version = price(1, PODS, Scheme { included_units, ..scheme(charge) }, 0);
        let one = |from, until| interval(Meter::PodSeconds, Quantity::PerSecond(units), from, until);
        let whole = rated(std::slice::from_ref(&version), &[one(0, 99)]);
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([99]);
        let parts: Vec<_> = starts.zip(ends).map(|(from, until)| one(from, until)).collect();
        let again: Vec<_> = parts.iter().rev().chain(&parts).cloned().collect();
        let split = rated(std::slice::from_ref(&version), &again);
        let sums = |rated: &Rated| -> Vec<_> {
            rated.lines.iter().map(|line| (line.quantity_micros, line.value_micros)).collect()
        };
        prop_assert_eq!(sums(&whole), sums(&split));
    }

    /// P8: the periods of any split add up to the whole.
    #[test]
    fn periods_add_up_to_all_time(cut in 1..99_i64, units in 1..9_u64) {
        let version = price(1, PODS, Scheme::per_hour(3_600_000), 0);
        let usage = [interval(Meter::PodSeconds, Quantity::PerSecond(units), 0, 99)];
        let value_in = |period: Span| {
            let terms = trueup_rules::rate::Terms { period, ..terms(99) };
            let prices = PriceList { versions: std::slice::from_ref(&version), discounts: &[], subscriptions: &[] };
            value(&rate(&terms, &prices, &usage).unwrap())
        };
        prop_assert_eq!(value_in(span(0, cut)) + value_in(span(cut, 99)), value_in(span(0, 99)));
    }

    /// P9: shares are within one millionth of exact, and nothing is lost.
    #[test]
    fn shares_add_up(total in 0..1_000_000_i64, weights in prop::collection::vec(0..1000_i128, 1..9)) {
        let shares = allocate(total, &weights).unwrap();
        prop_assert_eq!(shares.iter().sum::<i64>(), total);
        let sum: i128 = weights.iter().sum();
        prop_assume!(sum > 0);
        for (share, weight) in shares.iter().zip(&weights) {
            let exact = i128::from(total) * weight;
            prop_assert!((i128::from(*share) * sum - exact).abs() < sum);
        }
    }
}
