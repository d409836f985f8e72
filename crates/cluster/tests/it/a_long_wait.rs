//! What takes minutes on a real cluster and is nothing but waiting: runs by the clock, leases that run out.
//! Tests start in the order of their names, so this one goes on beside all others.

use crate::{real_node, simulated_cron, simulated_node};

/// F35, lost nodes, and what only a real node shows.
#[tokio::test]
async fn f35_crons_that_go_wrong_and_nodes_that_are_lost_say_so() {
    tokio::join!(
        simulated_cron::runs_that_go_wrong_say_why(),
        simulated_node::lost_nodes_are_named_until_they_are_back_or_given_up(),
        real_node::pods_are_what_they_seem(),
    );
}
