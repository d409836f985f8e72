//! Active hours through the door: edges, persons, budgets and clocks. A test begins on a Friday at 08:00 UTC.

use serde_json::json;
use trueup_model::active_hours::{ActiveHours, Turn};
use trueup_model::billing::BillingSettings;
use trueup_model::budget::AtLimit;
use trueup_model::money::{Currency, Money};
use trueup_model::service::DesiredState;
use trueup_rules::admit::AdmissionRequest;
use trueup_rules::admit::operation::ServiceOperation;
use trueup_store::ServiceRow;
use trueup_store::door::{BudgetRequest, Refusal, ServiceRequest};

use crate::stage::{PROJECT, Stage, at, web};

const HOUR: i64 = 3600;

/// From 09:00 to 17:00 UTC: on after an hour, off after nine.
pub(crate) fn day() -> ActiveHours {
    let window = json!({"from": "09:00", "to": "17:00"});
    serde_json::from_value(json!({"zone": "UTC", "windows": [window]})).unwrap()
}

impl Stage {
    /// Declares `web` with hours, so many seconds into the test.
    async fn with_hours(&self, seconds: i64) -> ServiceRow {
        let request = AdmissionRequest { active: Some(day()), ..web("shop:1") };
        self.try_declare("web", &request, None, seconds).await.unwrap().row
    }

    async fn act_at(&self, action: &ServiceOperation, seconds: i64) -> ServiceRow {
        let wanted = ServiceRequest::act(PROJECT, "web", action);
        let app = &self.db.app;
        let accepted =
            app.accept_service(self.db.org, &wanted, &self.context(), at(seconds)).await.unwrap();
        assert!(accepted.changed, "{action:?}");
        accepted.row
    }

    /// Follows what is due; returns what was done to each service.
    async fn follow(&self, seconds: i64) -> Vec<Option<Turn>> {
        let due = self.db.worker.due_schedules(self.db.cluster, at(seconds), 9).await.unwrap();
        let mut turns = Vec::new();
        for (org, service) in due {
            turns.push(self.db.app.follow_hours(org, service, at(seconds)).await.unwrap());
        }
        turns
    }

    /// The next edge, in seconds into the test.
    async fn next(&self) -> Option<i64> {
        let next = self.db.worker.next_schedule(self.db.cluster).await.unwrap();
        next.map(|next| next.as_second() - at(0).as_second())
    }

    /// The desired state, and whether its hours paused it.
    async fn state(&self) -> (DesiredState, bool) {
        let service = self.find("web").await.unwrap().service;
        (service.desired, service.scheduled_off)
    }
}

const OFF: (DesiredState, bool) = (DesiredState::Paused, true);
const ON: (DesiredState, bool) = (DesiredState::Active, false);
const HELD: (DesiredState, bool) = (DesiredState::Paused, false);

#[tokio::test]
async fn service_follows_its_hours_with_a_generation_and_an_event_each() {
    let stage = Stage::new().await;
    let row = stage.with_hours(1).await;
    assert_eq!((stage.state().await, stage.next().await), (OFF, Some(HOUR)));
    let quota =
        async || -> i64 { stage.one("select sum(cpu_millis)::bigint from reservations").await };
    let reserved = quota().await;
    assert!(stage.follow(HOUR - 1).await.is_empty(), "not yet");
    assert_eq!(stage.follow(HOUR).await, [Some(Turn::On)]);
    assert_eq!((stage.state().await, stage.next().await), (ON, Some(9 * HOUR)));
    assert!(stage.follow(HOUR).await.is_empty(), "once");
    // Late by a night and more: what holds now counts, not each edge that was missed.
    assert_eq!(stage.follow(24 * HOUR).await, [Some(Turn::Off)]);
    assert_eq!((stage.state().await, stage.next().await), (OFF, Some(25 * HOUR)));
    assert_eq!(quota().await, reserved, "a paused service keeps its share");
    assert_eq!(stage.find("web").await.unwrap().service.generation, 3);
    let events = stage.events_of(row.service.id.uuid()).await;
    let queued = "ServiceQueued";
    let (on, off) = ("ServiceScheduledOn", "ServiceScheduledOff");
    assert_eq!(events, [queued, off, queued, on, queued, off]);
    let actions: Vec<String> =
        stage.all("select action || ' ' || principal from releases order by generation").await;
    assert_eq!(actions[1..], ["schedule active-hours", "schedule active-hours"]);
}

#[tokio::test]
async fn person_who_resumes_wins_until_the_next_edge() {
    let stage = Stage::new().await;
    stage.with_hours(1).await;
    stage.act_at(&ServiceOperation::Resume, 2).await;
    assert_eq!((stage.state().await, stage.next().await), (ON, Some(HOUR)));
    // Another change at night pauses nothing.
    stage.act_at(&ServiceOperation::Restart, 3).await;
    assert_eq!(stage.state().await, ON);
    assert_eq!(stage.follow(HOUR).await, [None], "it runs already");
    assert_eq!(stage.follow(9 * HOUR).await, [Some(Turn::Off)]);
}

#[tokio::test]
async fn paused_by_a_person_stays_paused() {
    let stage = Stage::new().await;
    stage.with_hours(1).await;
    let row = stage.act_at(&ServiceOperation::Pause, 2).await;
    assert_eq!((stage.state().await, row.service.generation), (HELD, 2), "also while it is off");
    assert_eq!(stage.follow(HOUR).await, [None]);
    assert_eq!(stage.follow(9 * HOUR).await, [None]);
    assert_eq!(stage.state().await, HELD);
    stage.act_at(&ServiceOperation::Resume, 10 * HOUR).await;
    assert_eq!(stage.follow(25 * HOUR).await, [None]);
    assert_eq!(stage.follow(33 * HOUR).await, [Some(Turn::Off)]);
}

#[tokio::test]
async fn removed_hours_resume_what_they_paused() {
    let stage = Stage::new().await;
    stage.with_hours(1).await;
    stage.act_at(&ServiceOperation::Hours { active: None }, 2).await;
    assert_eq!((stage.state().await, stage.next().await), (ON, None));
    // Of a manifest without hours.
    stage.act_at(&ServiceOperation::Hours { active: Some(day()) }, 3).await;
    assert_eq!(stage.state().await, OFF);
    stage.try_declare("web", &web("shop:1"), None, 4).await.unwrap();
    assert_eq!((stage.state().await, stage.next().await), (ON, None));
}

#[tokio::test]
async fn edge_that_is_due_is_not_lost_by_another_change() {
    let stage = Stage::new().await;
    stage.with_hours(1).await;
    stage.act_at(&ServiceOperation::Resume, 2).await;
    stage.act_at(&ServiceOperation::Restart, 9 * HOUR + 1).await;
    assert_eq!(stage.next().await, Some(HOUR), "still due");
    assert_eq!(stage.follow(9 * HOUR + 2).await, [Some(Turn::Off)]);
    stage.act_at(&ServiceOperation::Delete, 9 * HOUR + 3).await;
    assert_eq!(stage.next().await, None, "what is being deleted has no edges");
}

#[tokio::test]
async fn spent_budget_keeps_it_paused_and_says_so() {
    let stage = Stage::new().await;
    let row = stage.with_hours(1).await;
    let limit = Money { micros: 1, currency: Currency::EUR };
    let wanted = Some(BudgetRequest { limit, at_limit: AtLimit::Refuse });
    let settings = BillingSettings::default();
    let (app, org, id) = (&stage.db.app, stage.db.org, row.service.id);
    app.put_budget((org, None), wanted, &settings, &stage.context(), at(2)).await.unwrap();
    let refused = app.follow_hours(org, id, at(HOUR)).await.unwrap_err();
    assert!(matches!(refused, Refusal::OverSpending { .. }), "{refused:?}");
    assert_eq!(stage.next().await, Some(HOUR), "nothing was written");
    app.refuse_hours(org, id, &refused.to_string(), at(HOUR)).await.unwrap();
    app.refuse_hours(org, id, "again", at(HOUR)).await.unwrap();
    assert_eq!((stage.state().await, stage.next().await), (OFF, Some(9 * HOUR)));
    let events = stage.events_of(id.uuid()).await;
    let refusals = events.iter().filter(|kind| *kind == "ServiceScheduleRefused");
    assert_eq!(refusals.count(), 1, "{events:?}");
}

#[tokio::test]
async fn clock_that_is_set_back_is_followed_from_then_on() {
    let stage = Stage::new().await;
    stage.with_hours(1).await;
    let rearm = async |seconds| {
        stage.db.worker.rearm_schedules(stage.db.cluster, at(seconds)).await.unwrap()
    };
    assert_eq!(rearm(2).await, 0, "the alarm is right");
    // The clock was two days ahead for a while, in a night.
    assert_eq!(stage.follow(48 * HOUR).await, [None]);
    assert_eq!(stage.next().await, Some(49 * HOUR));
    assert_eq!(rearm(3).await, 1);
    assert_eq!(stage.next().await, Some(HOUR));
    // Set back into the hours of a day: what was paused for the wrong time is resumed at once.
    assert_eq!(stage.follow(48 * HOUR).await, [None]);
    assert_eq!(rearm(2 * HOUR).await, 1);
    assert_eq!(stage.follow(2 * HOUR).await, [Some(Turn::On)]);
}
