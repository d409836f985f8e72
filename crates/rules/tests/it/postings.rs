//! Ledger entries: a worked example to check by hand, balance, and posting once.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trueup_model::key::Kind;
use trueup_model::money::Money;
use trueup_model::price::{PriceItem, PriceVersion, Scheme};
use trueup_model::transition::{Size, What};
use trueup_model::usage::{Delivery, GapPolicy, Meter, Quantity, UsageInterval};
use trueup_rules::rate::account::Account;
use trueup_rules::rate::line::Line;
use trueup_rules::rate::posting::{JournalEntry, Posted, accrue, transfer};
use trueup_rules::rate::{PriceList, Terms, rate};
use trueup_rules::usage::hash;

use crate::given::{self, at};
use crate::seed;
use crate::usage_given::{GIB, Story, eur, heard, interval, name, plan, price, terms, used};

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;

fn lines(terms: &Terms, versions: &[PriceVersion], usage: &[UsageInterval]) -> Vec<Line> {
    rate(terms, &PriceList { versions, discounts: &[], subscriptions: &[] }, usage).unwrap().lines
}

/// What all entries together say about each account.
fn balances(entries: &[JournalEntry]) -> BTreeMap<String, i64> {
    let mut balances: BTreeMap<String, i64> = BTreeMap::new();
    for posting in entries.iter().flat_map(|entry| &entry.postings) {
        *balances.entry(posting.account.to_string()).or_default() += posting.micros;
    }
    balances.retain(|_, micros| *micros != 0);
    balances
}

/// One GPU pod with a disk on one morning, as in the billing guide.
///
/// - 10:20:00 the pod starts, at 2.40 EUR an hour, with a disk of 20 GiB at 0.0001 EUR a GiB-hour;
/// - 10:30:00 its node is lost, and answers again at 10:35:00;
/// - 11:00:00 the pod's price becomes 3.00 EUR an hour;
/// - 11:45:30 the pod ends; at 12:00:00 its claim is deleted, which existed since 10:00:00.
fn morning() -> (Story, Vec<PriceVersion>) {
    let mut story = Story::default();
    let size = Size { cpu_millis: 8000, memory_bytes: 32 * GIB, gpus: 1, disk_bytes: 0 };
    let claim = (Kind::PersistentVolumeClaim, "claim-1");
    let disk = Size { disk_bytes: 20 * GIB, ..Size::default() };
    let clock = |hour: i64, minute: i64, second: i64| hour * HOUR + minute * MINUTE + second;
    story.node("gpu-1", "gpu", size);
    story.add(claim, What::Sized(disk), None, clock(10, 0, 0));
    story.pod("pod-1", size, "gpu-1", clock(10, 19, 50));
    story.start("pod-1", 0, clock(10, 20, 0));
    story.ready("gpu-1", false, clock(10, 30, 0));
    story.ready("gpu-1", true, clock(10, 35, 0));
    story.end("pod-1", clock(10, 20, 0), clock(11, 45, 30));
    story.failed("pod-1", clock(11, 45, 30));
    story.gone(claim, None, clock(12, 0, 0));

    let pod = PriceItem::Pod { plan: name("gpu") };
    let mut old = price(1, pod.clone(), Scheme::per_hour(2_400_000), 0);
    let new = price(2, pod, Scheme::per_hour(3_000_000), clock(11, 0, 0));
    old.until = Some(new.from);
    let disk = price(3, PriceItem::DiskGib { plan: name("gpu") }, Scheme::per_hour(100), 0);
    (story, vec![old, new, disk])
}

#[test]
fn the_worked_example_can_be_checked_by_hand() {
    let (story, prices) = morning();
    let size = Size { cpu_millis: 8000, memory_bytes: 32 * GIB, gpus: 1, disk_bytes: 0 };
    let plans = [plan(0, "gpu", size, None)];
    let usage = used(&story.transitions, &plans, &heard(13 * HOUR), GapPolicy::Free);
    let terms = terms(24 * HOUR);
    let lines = lines(&terms, &prices, &usage.intervals);

    let euros = |micros: i64| Money { micros, currency: eur() }.to_string();
    let text: Vec<String> = lines
        .iter()
        .map(|line| {
            let seconds = line.quantity_micros / 1_000_000;
            let (value, amount) = (euros(line.value_micros), euros(line.amount_micros));
            let class = line.key.class.as_str();
            format!("{} {class}: {seconds} s, worth {value}, pays {amount}", line.key.item)
        })
        .collect();
    assert_eq!(
        text,
        [
            // 35 minutes at 2.40: forty until eleven, less five on a lost node.
            "pod:gpu charged: 2100 s, worth 1.40 EUR, pays 1.40 EUR",
            // 45.5 minutes at 3.00.
            "pod:gpu charged: 2730 s, worth 2.275 EUR, pays 2.28 EUR",
            // 5 minutes at 2.40, which the provider bears.
            "pod:gpu under_delivered: 300 s, worth 0.20 EUR, pays 0.00 EUR",
            // 20 GiB for 2 hours at 0.0001.
            "disk_gib:gpu charged: 144000 s, worth 0.004 EUR, pays 0.00 EUR",
        ]
    );

    let entries = accrue(terms.org, terms.period, &[], &lines);
    assert!(entries.iter().all(|entry| entry.sum() == 0));
    let org = terms.org;
    let expected = [
        (Account::Receivable(org), 3_680_000),
        (Account::Revenue(Meter::PodSeconds), -3_875_000),
        (Account::Revenue(Meter::DiskGibSeconds), -4_000),
        (Account::Drift(Delivery::UnderDelivered), 200_000),
        (Account::Rounding, -1_000),
    ];
    let expected = expected.map(|(account, micros)| (account.to_string(), micros));
    assert_eq!(balances(&entries), BTreeMap::from(expected));

    // P10: every part of a line leads to an interval, and every interval to transitions.
    for segment in lines.iter().flat_map(|line| &line.segments) {
        let interval = usage.intervals.iter().find(|one| hash::content(one) == segment.interval);
        let evidence = &interval.expect("the interval of a segment").provenance;
        assert!(evidence.first.transition.is_some() && evidence.last.transition.is_some());
    }
}

#[test]
fn a_correction_posts_the_difference_on_the_period_of_its_line() {
    let versions = [price(1, PriceItem::Meter(Meter::PodSeconds), Scheme::per_hour(3_600_000), 0)];
    let terms = terms(1000);
    let usage = |until| [interval(Meter::PodSeconds, Quantity::PerSecond(1), 0, until)];
    let mut posted = accrue(terms.org, terms.period, &[], &lines(&terms, &versions, &usage(100)));
    assert_eq!(balances(&posted)[&Account::Receivable(terms.org).to_string()], 100_000);

    // The end was observed late: the pod had run for 60 seconds only.
    let corrected = lines(&terms, &versions, &usage(60));
    let correction = accrue(terms.org, terms.period, &Posted::of(&posted), &corrected);
    assert_eq!(correction.len(), 1);
    assert_eq!(correction[0].line, posted[0].line);
    assert_eq!(balances(&correction)[&Account::Receivable(terms.org).to_string()], -40_000);
    posted.extend(correction);
    assert_eq!(accrue(terms.org, terms.period, &Posted::of(&posted), &corrected), []);

    // It was another org's pod: everything is reversed, and nothing is deleted.
    let reversal = accrue(terms.org, terms.period, &Posted::of(&posted), &[]);
    posted.extend(reversal);
    assert_eq!(balances(&posted), BTreeMap::new());
    let keys: BTreeSet<_> = posted.iter().map(|entry| entry.key).collect();
    assert_eq!(keys.len(), 3);
}

#[test]
fn simulated_usage_is_posted_only_if_it_is_charged() {
    let versions = [price(1, PriceItem::Meter(Meter::PodSeconds), Scheme::per_hour(3_600_000), 0)];
    let usage = [UsageInterval {
        simulated: true,
        ..interval(Meter::PodSeconds, Quantity::PerSecond(1), 0, 100)
    }];
    for (charge_simulated, entries, amount) in [(true, 1, 100_000), (false, 0, 0)] {
        let terms = Terms { charge_simulated, ..terms(1000) };
        let lines = lines(&terms, &versions, &usage);
        assert_eq!(lines[0].simulated_micros, lines[0].quantity_micros, "the line says so");
        assert_eq!(lines[0].amount_micros, amount);
        assert_eq!(accrue(terms.org, terms.period, &[], &lines).len(), entries);
    }
}

#[test]
fn a_transfer_is_balanced_and_known_again_by_its_reference() {
    let accounts = (Account::Credit(given::org()), Account::Receivable(given::org()));
    let entry = |micros, reference| transfer(given::org(), eur(), accounts, micros, reference);
    let one = entry(200, "invoice-1");
    assert_eq!(one.sum(), 0);
    let receivable = Account::Receivable(given::org()).to_string();
    assert_eq!(balances(std::slice::from_ref(&one))[&receivable], -200);
    assert_eq!(one.key, entry(200, "invoice-1").key);
    assert_ne!(one.key, entry(200, "invoice-2").key);
}

/// Intervals of four pods of two services; each may be delivered or not.
fn usage() -> impl Strategy<Value = Vec<UsageInterval>> {
    let one = (0..4_usize, 0..900_i64, 1..90_i64, 1..4_u64, 0..3_u8);
    prop::collection::vec(one, 0..12).prop_map(|all| {
        let build = |(pod, from, length, units, delivery): (usize, i64, i64, u64, u8)| {
            let quantity = Quantity::PerSecond(units);
            let mut interval = interval(Meter::PodSeconds, quantity, from, from + length);
            interval.object = format!("pod-{pod}");
            if pod % 2 == 0 {
                interval.owner.service = None;
            }
            if delivery == 0 {
                interval.delivery = Delivery::UnderDelivered;
            }
            interval
        };
        all.into_iter().map(build).collect()
    })
}

proptest! {
    #![proptest_config(seed::cases(256))]

    /// P4 and P7: entries balance, posting twice adds nothing, and it does not matter in how many
    /// steps usage arrived.
    #[test]
    fn posting_in_steps_ends_where_posting_at_once_does(
        usage in usage(),
        steps in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        micros in 0..9_000_000_i64,
    ) {
        let mut old =
            price(1, PriceItem::Meter(Meter::PodSeconds), Scheme::per_hour(micros), 0);
        let new = price(2, old.item.clone(), Scheme::per_hour(micros / 3 + 1), 333);
        old.until = Some(at(333));
        let versions = [old, new];
        let terms = terms(1000);
        let all = lines(&terms, &versions, &usage);
        let at_once = accrue(terms.org, terms.period, &[], &all);

        let mut posted: Vec<JournalEntry> = Vec::new();
        for step in &steps {
            let known = &usage[..step.index(usage.len() + 1)];
            let entries =
                accrue(terms.org, terms.period, &Posted::of(&posted), &lines(&terms, &versions, known));
            posted.extend(entries);
        }
        let rest = accrue(terms.org, terms.period, &Posted::of(&posted), &all);
        posted.extend(rest);

        prop_assert!(posted.iter().all(|entry| entry.sum() == 0 && !entry.postings.is_empty()));
        prop_assert_eq!(balances(&posted), balances(&at_once));
        prop_assert_eq!(accrue(terms.org, terms.period, &Posted::of(&posted), &all), []);
        let keys: BTreeSet<_> = posted.iter().map(|entry| entry.key).collect();
        prop_assert_eq!(keys.len(), posted.len());
    }

    /// P9: an org pays the sum of its lines, and the books differ from it by the rounding only.
    #[test]
    fn receivable_is_the_sum_of_the_lines(usage in usage()) {
        let item = PriceItem::Meter(Meter::PodSeconds);
        let versions = [price(1, item, Scheme::per_hour(1_234_567), 0)];
        let terms = terms(1000);
        let lines = lines(&terms, &versions, &usage);
        let found = balances(&accrue(terms.org, terms.period, &[], &lines));
        let of = |account: Account| found.get(&account.to_string()).copied().unwrap_or(0);
        let paid: i64 = lines.iter().map(|line| line.amount_micros).sum();
        prop_assert_eq!(of(Account::Receivable(terms.org)), paid);
        let residue: i64 = lines.iter().map(Line::residue_micros).sum();
        prop_assert_eq!(of(Account::Rounding), -residue);
        for line in &lines {
            let shared: i64 = line.shares.iter().map(|share| share.value_micros).sum();
            prop_assert_eq!(shared, line.value_micros);
            prop_assert!(line.residue_micros().abs() <= terms.unit_micros / 2);
        }
    }
}
