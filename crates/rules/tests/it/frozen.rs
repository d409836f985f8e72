//! The status of a frozen service.

use trueup_model::report::Outcome;
use trueup_model::service::DesiredState::Paused as Resting;
use trueup_model::status::Health::{Degraded, Error, Healthy, Progressing, Unknown};
use trueup_model::status::Inputs;
use trueup_model::status::Phase::{Accepted, Blocked, Paused, Running, Updating};
use trueup_rules::status::project;

use crate::given::at;
use crate::projection::{Twist, check, inputs, nothing_seen, pods, ran, seen};

/// It ran in this generation, and a freeze prevents writes.
fn frozen(inputs: &mut Inputs) {
    ran(inputs);
    inputs.observation.applied = false;
    inputs.outcome = Outcome::Frozen { why: "the service is frozen".to_owned() };
}

#[test]
fn a_freeze_repairs_nothing_and_shows_the_real_status() {
    let gone: Twist = |i| {
        frozen(i);
        nothing_seen(i);
    };
    check(&[
        ("something else differs", Running, frozen, Running, Healthy),
        (
            "one of two pods",
            Running,
            |i| {
                frozen(i);
                seen(i, pods(1, 2));
            },
            Running,
            Degraded,
        ),
        (
            "no pod",
            Running,
            |i| {
                frozen(i);
                seen(i, pods(0, 2));
            },
            Blocked,
            Error,
        ),
        ("the workload is gone", Running, gone, Blocked, Error),
        ("it stays so", Blocked, gone, Blocked, Error),
        (
            "paused pods are not missing",
            Paused,
            |i| {
                frozen(i);
                i.desired = Resting;
                seen(i, pods(0, 0));
            },
            Paused,
            Healthy,
        ),
        (
            "a change waits, and the old pods serve",
            Running,
            |i| {
                frozen(i);
                i.generation = 2;
                i.observation.generation = 2;
            },
            Updating,
            Progressing,
        ),
        (
            "nothing was created yet",
            Accepted,
            |i| {
                frozen(i);
                nothing_seen(i);
                i.previous.applied_generation = None;
            },
            Accepted,
            Unknown,
        ),
    ]);
    let mut given = inputs(Running);
    gone(&mut given);
    let conditions = project(&given, at(9)).conditions;
    let messages: Vec<&str> =
        conditions.iter().map(|condition| condition.message.as_str()).collect();
    assert_eq!(
        messages,
        ["the service is frozen", "the workload and its pods are gone; not repaired while frozen"]
    );
}
