//! Clusters from outside: one contract, two implementations; one executor on either.

mod anchors;
mod causes;
mod contract_fake;
mod contract_real;
mod drift;
mod executor;
mod executor_absence;
mod executor_faults;
mod executor_runs;
mod executor_scale;
mod fake_controls;
mod faults;
mod handover;
mod large;
mod plans;
mod rbac;
mod real_node;
mod rehearsals;
mod resync;
mod rig;
mod simulated;
mod simulated_cron;
mod simulated_node;
mod sweep;
mod wire;
mod wire_plans;
