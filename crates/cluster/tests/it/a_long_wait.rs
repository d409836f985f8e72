//! Tests that wait for minutes on a real cluster: scheduled runs, expiring node leases.
//! Tests start in the order of their names, so this one runs beside all others.

use crate::{real_node, simulated_cron, simulated_node};

/// F35, lost nodes, and behaviour that only a real node shows.
#[tokio::test]
async fn f35_failed_cron_runs_and_lost_nodes_are_reported() {
    tokio::join!(
        simulated_cron::failed_runs_report_their_cause(),
        simulated_node::lost_nodes_are_named_until_they_return_or_are_given_up(),
        real_node::pods_on_a_real_node(),
    );
}
