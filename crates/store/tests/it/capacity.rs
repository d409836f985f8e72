//! Capacity: computed from stored usage, day by day, and checked.

use trueup_model::usage::{Meter, Unsold};
use trueup_store::CapacityDay;

use crate::stage::at;
use crate::usage::MeterRig;

const HOUR: i64 = 3600;
/// Seconds from the beginning of the tests' time, at 8 o'clock, until midnight.
const MIDNIGHT: i64 = 16 * HOUR;
/// The node of the rig has four cores from its first second on.
const CORES: i128 = 4000;

impl MeterRig {
    async fn balance(&self, second: i64) -> trueup_store::CapacityCheck {
        let worker = &self.stage.db.worker;
        worker.balance_capacity(self.observer.lease, at(second)).await.unwrap()
    }

    async fn days(&self) -> Vec<CapacityDay> {
        self.stage.db.app.list_capacity_days(None, 7).await.unwrap()
    }
}

#[tokio::test]
async fn the_parts_of_each_day_add_up_to_what_the_nodes_had() {
    let rig = MeterRig::new().await;
    rig.run_sized("a", 10, None).await;
    rig.hear(MIDNIGHT + HOUR).await;
    rig.meter(MIDNIGHT + HOUR).await;
    let found = rig.balance(MIDNIGHT + HOUR + 1).await;
    assert_eq!((found.computed, found.broken.len()), (2, 0));
    let days = rig.days().await;
    let cpu = days.iter().map(|day| day.accounts[&Meter::CpuMilliSeconds]).collect::<Vec<_>>();
    let micros = |millis: i128, seconds: i64| millis * i128::from(seconds) * 1_000_000;
    assert_eq!(cpu[0].capacity, micros(CORES, HOUR), "today, as far as it is known");
    assert_eq!(cpu[1].capacity, micros(CORES, MIDNIGHT - 1));
    for (day, account) in days.iter().zip(&cpu) {
        assert!(day.holds());
        assert!(account.delivered > 0);
        let parts = account.delivered
            + account.idle
            + account.orphan
            + account.gap
            + account.under_delivered;
        assert_eq!(parts, account.capacity, "{}", day.day);
    }
    // A later round computes what is not complete, and what changed since.
    rig.hear(MIDNIGHT + 2 * HOUR).await;
    assert_eq!(rig.balance(MIDNIGHT + 2 * HOUR).await.computed, 1, "only today");
    rig.run_sized("a", 10, Some(HOUR)).await;
    rig.hear(MIDNIGHT + 3 * HOUR).await;
    rig.meter(MIDNIGHT + 3 * HOUR).await;
    assert_eq!(rig.balance(MIDNIGHT + 3 * HOUR).await.computed, 2, "its end is known since");
    let former = rig.days().await[1].accounts[&Meter::CpuMilliSeconds];
    assert!(former.delivered < cpu[1].delivered);
}

#[tokio::test]
async fn what_does_not_fit_into_the_nodes_is_named_by_the_verification_of_the_platform() {
    let rig = MeterRig::new().await;
    rig.run_sized("a", 10, Some(HOUR)).await;
    rig.hear(2 * HOUR).await;
    rig.meter(2 * HOUR).await;
    rig.balance(2 * HOUR).await;
    let verify = async || {
        let app = &rig.stage.db.app;
        let platform = trueup_model::org::PLATFORM;
        app.verify_ledger(platform, &rig.settings, at(2 * HOUR)).await.unwrap().difference
    };
    assert_eq!(verify().await, None);
    // A pod of eighty cores on a node of four.
    sqlx::query(
        r#"insert into usage_intervals
           select (jsonb_populate_record(u, jsonb_build_object(
               'id', gen_random_uuid(), 'object', 'impossible',
               'quantities', '{"cpu_milli_seconds": {"per_second": 80000}}'::jsonb))).*
           from usage_intervals u where u.object = 'a' limit 1"#,
    )
    .execute(&rig.stage.owner)
    .await
    .unwrap();
    rig.hear(3 * HOUR).await;
    let found = rig.balance(3 * HOUR).await;
    assert_eq!(found.broken, ["2027-01-15"]);
    let named = verify().await.unwrap();
    assert!(named.contains("2027-01-15") && named.contains("millicore"), "{named}");
}

#[tokio::test]
async fn what_was_not_observed_has_a_price() {
    let rig = MeterRig::new().await;
    rig.run_sized("a", 10, None).await;
    rig.hear(HOUR).await;
    rig.meter(HOUR).await;
    rig.vanish(HOUR, 3 * HOUR).await;
    rig.hear(3 * HOUR).await;
    rig.meter(3 * HOUR).await;
    rig.balance(3 * HOUR).await;
    let days = rig.days().await;
    assert!(days[0].accounts[&Meter::CpuMilliSeconds].gap > 0);
    // Two hours of the plan of the template.
    let costs: Vec<_> = days[0].costs.iter().map(|(why, cost)| (*why, cost.micros)).collect();
    assert_eq!(costs, [(Unsold::Gap, 12_000)]);
}
