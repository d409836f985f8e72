//! Values for the completion of a shell: words that commands know, and names that the server knows.
//!
//! A completion must not disturb the person who types: it prints no error, and without an answer
//! within a second there are no values.

use std::time::Duration;

use strum::VariantNames;
use trueup_api::client::ServiceQuery;
use trueup_model::event::EventType;
use trueup_model::status::Phase;

use crate::command::{explain, get};
use crate::connect::context::Context;

/// How long reading names may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many services are offered.
const OFFERED: u32 = 200;

/// What the value of an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// A service.
    Services,
    /// A kind, or a service.
    KindsAndServices,
    /// A project.
    Projects,
    /// A plan.
    Plans,
    /// A condition to wait for.
    Conditions,
    /// A type of events.
    EventTypes,
    /// What can be explained.
    Explained,
}

impl Values {
    /// The values that start with what was typed.
    #[must_use]
    pub fn starting_with(self, typed: &str, context: impl FnOnce() -> Context) -> Vec<String> {
        let mut values = match self {
            Self::Conditions => conditions(),
            Self::EventTypes => words(EventType::VARIANTS),
            Self::KindsAndServices => words(get::Kind::VARIANTS),
            Self::Explained => words(&explain::KINDS.map(|(kind, _)| kind)),
            Self::Services | Self::Projects | Self::Plans => Vec::new(),
        };
        values.extend(self.known_to_server(typed, context));
        values.retain(|value| value.starts_with(typed));
        values
    }

    /// The names that the server knows; none if it does not answer.
    fn known_to_server(self, typed: &str, context: impl FnOnce() -> Context) -> Vec<String> {
        if matches!(self, Self::Conditions | Self::EventTypes) {
            return Vec::new();
        }
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return Vec::new();
        };
        let reading = async { tokio::time::timeout(PATIENCE, self.names(typed, &context())).await };
        runtime.block_on(reading).ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn names(self, typed: &str, context: &Context) -> anyhow::Result<Vec<String>> {
        let connection = context.connect()?;
        let client = &connection.client;
        Ok(match self {
            Self::Services | Self::KindsAndServices => {
                let (project, name) = match typed.split_once('/') {
                    Some((project, name)) => (Some(project.to_owned()), name),
                    None => (context.project.clone(), typed),
                };
                let search = (!name.is_empty()).then(|| name.to_owned());
                let limit = Some(OFFERED);
                let query = ServiceQuery { project, search, limit, ..ServiceQuery::default() };
                let found = client.service_list(&query).await?.items;
                let is_typed = typed.contains('/');
                let shown = found.into_iter().map(|service| {
                    if is_typed {
                        format!("{}/{}", service.project, service.name)
                    } else {
                        service.name
                    }
                });
                shown.collect()
            }
            Self::Projects => {
                client.project_list().await?.items.into_iter().map(|it| it.name).collect()
            }
            Self::Plans => client.plan_list().await?.items.into_iter().map(|it| it.name).collect(),
            Self::Explained => {
                client.template_list().await?.items.into_iter().map(|it| it.name).collect()
            }
            Self::Conditions | Self::EventTypes => Vec::new(),
        })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The values of `--until`.
fn conditions() -> Vec<String> {
    let mut found = words(&["healthy", "settled"]);
    found.extend(words(Phase::VARIANTS));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_need_no_server() {
        let unused = || -> Context { panic!("the server is not needed") };
        let offered = Values::Conditions.starting_with("he", unused);
        assert_eq!(offered, ["healthy"]);
        let offered = Values::EventTypes.starting_with("DriftA", unused);
        assert_eq!(offered, ["DriftAdopted"]);
        assert!(conditions().contains(&"deleted".to_owned()));
    }
}
