//! Fights: fields that other writers change again each time they are reverted.
//!
//! Most fields are left alone until a person decides. What is always enforced cannot be left alone, so
//! its reverts are spaced: Trueup neither gives up nor writes as fast as the other writer.

use jiff::Timestamp;
use trueup_model::drift::{
    DriftOrder, FIGHT_PAUSE, FIGHT_ROUNDS, FIGHT_WINDOW, FieldDecision, FieldRef,
};

use super::decide::{decision, includes};

/// Whether a field was reverted or adopted too often. A revert of what contains it counts as well.
#[must_use]
pub fn is_fight(drift: &DriftOrder, at: &FieldRef, now: Timestamp) -> bool {
    recent_rounds(drift, at, now).count() >= FIGHT_ROUNDS
}

/// Until when the next revert of a field waits, if it does.
///
/// A person who decided to enforce the field accepts the fight: then nothing waits.
#[must_use]
pub fn paused_until(drift: &DriftOrder, at: &FieldRef, now: Timestamp) -> Option<Timestamp> {
    let accepted = matches!(decision(drift, at, now), Some(FieldDecision::Enforce { .. }));
    if accepted || !is_fight(drift, at, now) {
        return None;
    }
    let last = recent_rounds(drift, at, now).max()?;
    last.checked_add(FIGHT_PAUSE).ok().filter(|until| now < *until)
}

/// When a field was reverted or adopted, within the window of a fight.
fn recent_rounds<'a>(
    drift: &'a DriftOrder,
    at: &'a FieldRef,
    now: Timestamp,
) -> impl Iterator<Item = Timestamp> + 'a {
    let rounds = drift.rounds.iter().filter(move |(field, _)| includes(field, at));
    let recent = move |time: &Timestamp| now.duration_since(*time) < FIGHT_WINDOW;
    rounds.flat_map(|(_, times)| times.iter().copied()).filter(recent)
}
