//! The pure rooms seen from outside: stories that read as prose, properties, and tables.
//!
//! `world` stands in for an API server, so that a plan can be carried out and made again until
//! nothing is left to do. What a real server does beyond that is the executor's contract suite.

mod actions;
mod admission;
#[cfg(test)]
mod causes;
mod chain;
mod closed;
mod conditions;
#[cfg(test)]
mod domains;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod entries;
#[cfg(test)]
mod envelope;
mod exact;
mod facts;
mod forbidden;
mod former;
mod frozen;
mod given;
mod holds;
mod hostile_text;
#[cfg(test)]
mod machines;
mod manifests;
mod observation;
mod previews;
mod projection;
mod properties;
mod publishing;
mod reconciliation;
mod runs;
mod scenarios;
mod script;
#[cfg(test)]
mod seed;
mod server;
#[cfg(test)]
mod survey;
mod tell;
#[cfg(test)]
mod transitions;
#[cfg(test)]
mod why;
mod world;
