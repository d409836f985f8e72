//! What people see of what is frozen: the truth, and who holds it up.

use trueup_model::report::Outcome;
use trueup_model::service::DesiredState::Paused as Resting;
use trueup_model::status::Health::{Degraded, Error, Healthy, Progressing, Unknown};
use trueup_model::status::Inputs;
use trueup_model::status::Phase::{Accepted, Blocked, Paused, Running, Updating};
use trueup_rules::status::project;

use crate::given::at;
use crate::projection::{Twist, check, inputs, nothing_seen, pods, ran, seen};

/// It ran as promised in this very generation, and a freeze holds what there is to do.
fn held(inputs: &mut Inputs) {
    ran(inputs);
    inputs.observation.applied = false;
    inputs.outcome = Outcome::Frozen { why: "the service is frozen".to_owned() };
}

#[test]
fn a_freeze_repairs_nothing_and_hides_nothing() {
    let gone: Twist = |i| {
        held(i);
        nothing_seen(i);
    };
    check(&[
        ("something else differs", Running, held, Running, Healthy),
        (
            "one of two pods",
            Running,
            |i| {
                held(i);
                seen(i, pods(1, 2));
            },
            Running,
            Degraded,
        ),
        (
            "no pod",
            Running,
            |i| {
                held(i);
                seen(i, pods(0, 2));
            },
            Blocked,
            Error,
        ),
        ("the workload is gone", Running, gone, Blocked, Error),
        ("it stays so", Blocked, gone, Blocked, Error),
        (
            "a pause is not missed",
            Paused,
            |i| {
                held(i);
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
                held(i);
                i.generation = 2;
                i.observation.generation = 2;
            },
            Updating,
            Progressing,
        ),
        (
            "nothing was made yet",
            Accepted,
            |i| {
                held(i);
                nothing_seen(i);
                i.previous.applied_generation = None;
            },
            Accepted,
            Unknown,
        ),
    ]);
    let mut given = inputs(Running);
    gone(&mut given);
    let told: Vec<_> = project(&given, at(9)).conditions;
    let told: Vec<&str> = told.iter().map(|condition| condition.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "the service is frozen",
            "what makes its pods is gone, and its pods with it; \
             Trueup does nothing about it while it is frozen"
        ]
    );
}
