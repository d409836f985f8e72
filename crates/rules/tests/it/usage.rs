//! Usage from transitions: what is metered, for how long, and what is not known.

use jiff::SignedDuration;
use trueup_model::key::Kind;
use trueup_model::transition::{Size, What};
use trueup_model::usage::{Basis, Delivery, GapPolicy, Meter, Quantity, Source};
use trueup_rules::usage::{Nodes, capacity, silent_meters};

use crate::given::at;
use crate::usage_given::{GIB, Story, heard, seconds, small, span, used};

#[test]
fn a_pod_is_metered_from_its_first_start_to_its_last_end_with_crash_loops() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 3);
    story.end("p1", 3, 60);
    let waiting = used(&story.transitions, &[], &heard(64), GapPolicy::Free);
    assert_eq!(seconds(&waiting, Meter::PodSeconds), [(3, 60, Delivery::Delivered)]);
    assert!(waiting.intervals[0].open, "another run may follow");

    story.start("p1", 1, 65);
    story.end("p1", 65, 120);
    story.failed("p1", 120);
    let usage = used(&story.transitions, &[], &heard(500), GapPolicy::Free);
    let rates: Vec<_> = usage.intervals.iter().map(|one| (one.meter, one.quantity)).collect();
    assert_eq!(
        rates,
        [
            (Meter::PodSeconds, Quantity::PerSecond(1)),
            (Meter::CpuMilliSeconds, Quantity::PerSecond(250)),
            (Meter::MemoryMibSeconds, Quantity::PerSecond(256)),
        ]
    );
    for meter in [Meter::PodSeconds, Meter::CpuMilliSeconds, Meter::MemoryMibSeconds] {
        assert_eq!(seconds(&usage, meter), [(3, 120, Delivery::Delivered)]);
    }
    assert!(usage.intervals.iter().all(|interval| !interval.open));
}

#[test]
fn a_program_that_restarts_within_a_second_is_still_running() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 3);
    story.end("p1", 3, 3);
    let usage = used(&story.transitions, &[], &heard(100), GapPolicy::Free);
    assert_eq!(usage.intervals, [], "it ran for less than a second");
    story.start("p1", 1, 3);
    let usage = used(&story.transitions, &[], &heard(100), GapPolicy::Free);
    assert_eq!(seconds(&usage, Meter::PodSeconds), [(3, 100, Delivery::Delivered)]);
}

#[test]
fn the_open_end_reaches_as_far_as_every_source_was_heard() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 3);
    let mut watermarks = heard(100);
    let usage = used(&story.transitions, &[], &watermarks, GapPolicy::Free);
    assert_eq!(seconds(&usage, Meter::PodSeconds), [(3, 100, Delivery::Delivered)]);
    watermarks.extend(heard(40).into_iter().filter(|(source, _)| *source == Source::Nodes));
    let usage = used(&story.transitions, &[], &watermarks, GapPolicy::Free);
    assert_eq!(seconds(&usage, Meter::PodSeconds), [(3, 40, Delivery::Delivered)]);
    watermarks.remove(&Source::Nodes);
    let usage = used(&story.transitions, &[], &watermarks, GapPolicy::Free);
    let empty = [(3, 3, Delivery::Delivered)];
    assert_eq!(seconds(&usage, Meter::PodSeconds), empty, "no evidence after the start");

    let limit = SignedDuration::from_secs(30);
    let meters = [Meter::PodSeconds, Meter::DiskGibSeconds];
    assert_eq!(silent_meters(&meters, &watermarks, at(120), limit), [Meter::PodSeconds]);
    assert_eq!(silent_meters(&meters, &heard(100), at(131), limit), meters);
    assert_eq!(silent_meters(&meters, &heard(100), at(130), limit), []);
}

#[test]
fn time_on_a_lost_node_is_under_delivered() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 10);
    story.ready("n1", false, 100);
    story.ready("n1", true, 160);
    story.ready("n1", false, 200);
    // The pod is removed by force; the end of its container was not observed.
    story.gone((Kind::Pod, "p1"), None, 500);
    let usage = used(&story.transitions, &[], &heard(600), GapPolicy::Free);
    assert_eq!(
        seconds(&usage, Meter::PodSeconds),
        [
            (10, 100, Delivery::Delivered),
            (100, 160, Delivery::UnderDelivered),
            (160, 200, Delivery::Delivered),
            (200, 500, Delivery::UnderDelivered),
        ]
    );
    assert!(usage.intervals.iter().all(|interval| !interval.open));
}

#[test]
fn an_unobserved_end_is_a_row_and_its_policy_decides() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 10);
    story.gone((Kind::Pod, "p1"), Some(100), 300);
    let table = [
        (GapPolicy::Free, vec![]),
        (GapPolicy::LastKnown, vec![(100, 300, Basis::LastKnown)]),
        (GapPolicy::Estimate, vec![(100, 200, Basis::Estimated)]),
    ];
    for (policy, filled) in table {
        let usage = used(&story.transitions, &[], &heard(400), policy);
        assert_eq!(usage.gaps.len(), 1, "a gap is a row, whatever it costs");
        assert_eq!((usage.gaps[0].span, usage.gaps[0].policy), (span(100, 300), policy));
        let pods = usage.intervals.iter().filter(|one| one.meter == Meter::PodSeconds);
        let mut expected = vec![(span(10, 100), Basis::Observed)];
        expected.extend(filled.into_iter().map(|(from, until, basis)| (span(from, until), basis)));
        assert_eq!(pods.map(|one| (one.span, one.basis)).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn impossible_and_late_timestamps_are_corrected_and_flagged() {
    // Stamp and observation of the start of a pod created at 0; then its beginning and flags.
    let table = [
        (10, 11, 10, (false, false)),
        (30, 11, 11, (false, true)),
        (-30, 11, 0, (false, true)),
        (10, 300, 10, (true, false)),
        (12, 11, 11, (false, false)),
    ];
    for (stamp, seen, from, (late, skewed)) in table {
        let mut story = Story::with_pod();
        let container = "main".to_owned();
        let what = What::ContainerStarted { container, restarts: 0 };
        story.add((Kind::Pod, "p1"), what, Some(stamp), seen);
        let usage = used(&story.transitions, &[], &heard(400), GapPolicy::Free);
        let first = &usage.intervals[0];
        assert_eq!(
            (first.span.from, first.flags.late, first.flags.skewed),
            (at(from), late, skewed)
        );
    }
}

#[test]
fn a_disk_is_metered_by_its_claim_and_split_where_it_grows() {
    let mut story = Story::default();
    let claim = (Kind::PersistentVolumeClaim, "c1");
    let disk = |gib: u64| Size { disk_bytes: gib * GIB, ..Size::default() };
    story.add(claim, What::Appeared, Some(0), 0);
    story.add(claim, What::Sized(disk(1)), None, 5);
    story.add((Kind::PersistentVolume, "v1"), What::Sized(disk(1)), None, 5);
    story.add(claim, What::Sized(disk(2)), None, 50);
    story.gone(claim, None, 80);
    let usage = used(&story.transitions, &[], &heard(100), GapPolicy::Free);
    let found: Vec<_> = usage.intervals.iter().map(|one| (one.span, one.quantity)).collect();
    let (one, two) = (Quantity::PerSecond(1), Quantity::PerSecond(2));
    assert_eq!(found, [(span(5, 50), one), (span(50, 80), two)]);
}

#[test]
fn an_object_that_is_created_again_within_a_second_is_another_one() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 3);
    story.gone((Kind::Pod, "p1"), None, 60);
    story.pod("p2", small(), "n1", 60);
    story.start("p2", 0, 60);
    let usage = used(&story.transitions, &[], &heard(90), GapPolicy::Free);
    let found = seconds(&usage, Meter::PodSeconds);
    assert_eq!(found, [(3, 60, Delivery::Delivered), (60, 90, Delivery::Delivered)]);
}

#[test]
fn capacity_is_delivered_idle_orphaned_unobserved_or_under_delivered() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 0);
    story.ready("n1", false, 40);
    story.ready("n1", true, 60);
    story.gone((Kind::Pod, "p1"), Some(80), 90);
    let usage = used(&story.transitions, &[], &heard(100), GapPolicy::LastKnown);
    let nodes = Nodes::of(&story.transitions);
    let day = span(0, 100);
    let balance =
        capacity::balance(Meter::CpuMilliSeconds, day, &nodes, &usage.intervals, &usage.gaps);
    let micros = |millis: i128, seconds: i128| millis * seconds * 1_000_000;
    assert_eq!(balance.capacity, micros(4000, 100));
    assert_eq!(balance.delivered, micros(250, 60));
    assert_eq!(balance.under_delivered, micros(250, 20));
    assert_eq!(balance.gap, micros(250, 10));
    assert_eq!(balance.idle(), micros(4000, 100) - micros(250, 90));
}
