//! Integration tests of the pure rules: scenarios, properties and tables.
//!
//! `world` simulates an API server, so that plans run until they converge. The behaviour of a real
//! server is tested by the executor's contract suite.

mod active_hours;
mod admission;
#[cfg(test)]
mod adoption;
#[cfg(test)]
mod billing_facts;
#[cfg(test)]
mod causes;
mod chain;
mod closed;
#[cfg(test)]
mod comparison;
mod conditions;
mod deletion_blockers;
#[cfg(test)]
mod domains;
#[cfg(test)]
mod drift_admission;
#[cfg(test)]
mod drift_decisions;
#[cfg(test)]
mod drift_plans;
#[cfg(test)]
mod drift_price;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod entries;
#[cfg(test)]
mod envelope;
mod event_drafts;
mod event_findings;
mod exact;
#[cfg(test)]
mod federation;
mod forbidden;
mod former;
mod frozen;
mod given;
mod hostile_text;
#[cfg(test)]
mod machines;
mod manifests;
mod observation;
mod operations;
mod outdated_runs;
#[cfg(test)]
mod postings;
mod previews;
mod projection;
mod properties;
mod publishing;
#[cfg(test)]
mod rating;
mod reconciliation;
#[cfg(test)]
mod regressions;
mod runs;
mod scenarios;
mod script;
#[cfg(test)]
mod seed;
mod server;
mod stated;
#[cfg(test)]
mod subscriptions;
#[cfg(test)]
mod survey;
mod transcript;
#[cfg(test)]
mod transitions;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod usage_given;
#[cfg(test)]
mod usage_plans;
#[cfg(test)]
mod usage_properties;
#[cfg(test)]
mod volumes;
#[cfg(test)]
mod why;
mod world;
