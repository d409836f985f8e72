//! Tests that wait for minutes on a real cluster: scheduled runs, expiring node leases.
//! Tests start in the order of their names, so this one runs beside all others.

use std::time::Duration;

use tokio::time::timeout;

use crate::{real_node, simulated_cron, simulated_node};

/// Longer than any of these takes on a busy machine; each of their waits has its own limit.
const ALL: Duration = Duration::from_secs(380);

/// F35, lost nodes, and behaviour that only a real node shows.
#[tokio::test]
async fn f35_failed_cron_runs_and_lost_nodes_are_reported() {
    let (cron, lost, real) = tokio::join!(
        timeout(ALL, simulated_cron::failed_runs_report_their_cause()),
        timeout(ALL, simulated_node::lost_nodes_are_named_until_they_return_or_are_given_up()),
        timeout(ALL, real_node::pods_on_a_real_node()),
    );
    for (what, ended) in [("simulated_cron", cron), ("simulated_node", lost), ("real_node", real)] {
        assert!(ended.is_ok(), "{what} did not end");
    }
}
