//! The crate against a real Postgres: its guarantees about transactions, order and isolation depend
//! on Postgres, so nothing here is mocked.

// Clippy treats helpers as test code only below `cfg(test)`.
#[cfg(test)]
mod active_hours;
#[cfg(test)]
mod bootstrap;
#[cfg(test)]
mod budget;
#[cfg(test)]
mod capacity;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod charge;
#[cfg(test)]
mod conflict;
#[cfg(test)]
mod dns_check;
#[cfg(test)]
mod domain;
#[cfg(test)]
mod door_act;
#[cfg(test)]
mod door_change;
#[cfg(test)]
mod door_config;
#[cfg(test)]
mod door_declare;
#[cfg(test)]
mod door_delete;
#[cfg(test)]
mod door_refuse;
#[cfg(test)]
mod drift;
#[cfg(test)]
mod drift_decision;
#[cfg(test)]
mod endpoint;
#[cfg(test)]
mod event;
#[cfg(test)]
mod finding;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod invoice;
#[cfg(test)]
mod lane;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod life;
#[cfg(test)]
mod life_newer;
#[cfg(test)]
mod life_people;
#[cfg(test)]
mod order;
#[cfg(test)]
mod org;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod overview;
#[cfg(test)]
mod page;
#[cfg(test)]
mod people;
#[cfg(test)]
mod preview_request;
#[cfg(test)]
mod price;
#[cfg(test)]
mod project;
#[cfg(test)]
mod project_limits;
#[cfg(test)]
mod projection;
#[cfg(test)]
mod projects_wall;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod race;
#[cfg(test)]
mod reachability;
#[cfg(test)]
mod receipt;
#[cfg(test)]
mod report;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod seal;
#[cfg(test)]
mod secret;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod statement;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod subscription;
#[cfg(test)]
mod system;
#[cfg(test)]
mod template;
#[cfg(test)]
mod tenant;
#[cfg(test)]
mod token;
#[cfg(test)]
mod transition;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod variable_patch;
#[cfg(test)]
mod wake;
#[cfg(test)]
mod wall;
#[cfg(test)]
mod write;
