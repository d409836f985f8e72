//! Which plan a pod is metered with: releases are joined by time, because pods carry no plan.

use proptest::prelude::*;
use trueup_model::key::Kind;
use trueup_model::transition::Size;
use trueup_model::usage::{GapPolicy, Meter};
use trueup_rules::usage::{AcceptedPlan, Held, plan_at};

use crate::given::at;
use crate::seed;
use crate::usage_given::{Story, heard, plan, small, used};

/// Plans with the CPU and the node class of their pods. The first two differ in price only.
const OFFERS: [(&str, u64, &str); 4] = [
    ("small", 250, "standard"),
    ("promo", 250, "standard"),
    ("gold", 250, "gold"),
    ("large", 500, "standard"),
];

fn size(cpu_millis: u64) -> Size {
    Size { cpu_millis, ..small() }
}

#[test]
fn the_newest_release_that_renders_such_a_pod_is_in_force() {
    let plans = [
        plan(0, "small", size(250), Some("standard")),
        plan(100, "large", size(500), Some("standard")),
        plan(200, "promo", size(250), Some("standard")),
        plan(300, "gold", size(250), Some("gold")),
    ];
    let borrowed: Vec<&AcceptedPlan> = plans.iter().collect();
    let table = [
        (250, "standard", 50, "small"),
        // The old pod keeps its plan while the rollout replaces it.
        (250, "standard", 101, "small"),
        (500, "standard", 101, "large"),
        // A change of nothing but the price holds at once.
        (250, "standard", 200, "promo"),
        (250, "standard", 301, "promo"),
        (250, "gold", 301, "gold"),
        // Its timestamps are cut to whole seconds, so it seems older than its release.
        (500, "standard", 99, "large"),
        (250, "gold", 299, "gold"),
        // Something else set its size: only time decides.
        (123, "standard", 150, "large"),
    ];
    for (cpu, class, second, expected) in table {
        let held = Held { pod: Some(size(cpu)), class: Some(class) };
        let found = plan_at(&borrowed, &held, at(second)).map(|name| name.as_str());
        assert_eq!(found, Some(expected), "{cpu} {class} at {second}");
    }
    let disk = Held::default();
    assert_eq!(plan_at(&borrowed, &disk, at(150)).map(|name| name.as_str()), Some("large"));
    assert_eq!(plan_at(&[], &disk, at(150)), None);
}

/// What a pod is, and with which plan since when.
#[derive(Debug, Clone)]
struct Live {
    uid: String,
    offer: usize,
    started: i64,
    since: i64,
}

/// A service with one pod, that knows which plan the pod really has.
#[derive(Debug, Default)]
struct Rollout {
    story: Story,
    plans: Vec<AcceptedPlan>,
    pods: u32,
    live: Option<Live>,
    truth: Vec<(String, i64, i64, &'static str)>,
}

impl Rollout {
    fn create(&mut self, offer: usize, second: i64) {
        self.pods += 1;
        let uid = format!("pod-{:04}", self.pods);
        let (_, cpu, class) = OFFERS[offer];
        self.story.pod(&uid, size(cpu), class, second);
        self.story.start(&uid, 0, second + 1);
        self.live = Some(Live { uid, offer, started: second + 1, since: second + 1 });
    }

    fn finish(&mut self, second: i64) {
        self.relabel(second);
        let Some(live) = self.live.take() else { return };
        self.story.end(&live.uid, live.started, second);
        self.story.gone((Kind::Pod, &live.uid), None, second + 1);
    }

    /// Notes what the pod had until now.
    fn relabel(&mut self, second: i64) {
        if let Some(live) = &mut self.live {
            self.truth.push((live.uid.clone(), live.since, second, OFFERS[live.offer].0));
            live.since = second;
        }
    }

    /// Accepts a plan; so many seconds later the pod is replaced, if it has to be. Meanwhile it may
    /// be evicted and come back as it was.
    fn accept(&mut self, offer: usize, now: i64, latency: i64, evicted: bool) {
        let (name, cpu, class) = OFFERS[offer];
        self.plans.push(plan(now, name, size(cpu), Some(class)));
        let before = self.live.as_ref().map(|live| live.offer);
        let template = |offer: usize| (OFFERS[offer].1, OFFERS[offer].2);
        match before {
            Some(same) if same == offer => {}
            Some(other) if template(other) == template(offer) => {
                self.relabel(now);
                if let Some(live) = &mut self.live {
                    live.offer = offer;
                }
            }
            Some(other) => {
                if evicted {
                    self.finish(now + 1);
                    self.create(other, now + 2);
                }
                self.finish(now + latency);
                self.create(offer, now + latency);
            }
            None => self.create(offer, now + latency),
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(usize, i64, i64, bool)>> {
    prop::collection::vec((0..OFFERS.len(), 30..300_i64, 6..20_i64, any::<bool>()), 1..10)
}

proptest! {
    #![proptest_config(seed::cases(256))]

    #[test]
    fn every_second_of_a_pod_is_metered_with_the_plan_it_had(changes in changes()) {
        let mut rollout = Rollout::default();
        for class in ["standard", "gold"] {
            rollout.story.node(class, class, size(4000));
        }
        let mut now = 0;
        for (offer, wait, latency, evicted) in changes {
            now += wait;
            rollout.accept(offer, now, latency, evicted);
        }
        let last = now + 50;
        rollout.relabel(last);
        let usage =
            used(&rollout.story.transitions, &rollout.plans, &heard(last), GapPolicy::Free);
        let pods = usage.intervals.iter().filter(|one| one.meter == Meter::PodSeconds);
        let found: Vec<_> = pods
            .map(|one| {
                let second = |time: jiff::Timestamp| time.duration_since(at(0)).as_secs();
                let plan = one.plan.as_ref().map(ToString::to_string).unwrap_or_default();
                (one.object.clone(), second(one.span.from), second(one.span.until), plan)
            })
            .collect();
        let mut truth: Vec<_> = rollout.truth.into_iter()
            .map(|(uid, from, until, plan)| (uid, from, until, plan.to_owned()))
            .collect();
        truth.sort();
        prop_assert_eq!(found, truth);
    }
}

#[test]
fn a_plan_that_is_accepted_after_the_end_changes_nothing() {
    let mut story = Story::with_pod();
    story.start("p1", 0, 3);
    story.end("p1", 3, 60);
    story.failed("p1", 60);
    let odd = Size { cpu_millis: 1, ..small() };
    let first = plan(0, "small", odd, None);
    let before =
        used(&story.transitions, std::slice::from_ref(&first), &heard(70), GapPolicy::Free);
    // It fits the pod better than the first one, and comes too late for it.
    let plans = [first, plan(100, "large", small(), None)];
    let after = used(&story.transitions, &plans, &heard(200), GapPolicy::Free);
    assert_eq!(before.intervals, after.intervals);
    assert!(
        before
            .intervals
            .iter()
            .all(|one| one.plan.as_ref().is_some_and(|it| it.as_str() == "small"))
    );
}
