//! Demo data, declared through the API like any other.

use trueup_api::Client;
use trueup_api::client::Terms;

use trueup_cli::manifest::{Manifest, parse};

const DEMO: &str = include_str!("../../../demo/demo.yaml");

/// The default project of the demo install.
pub(crate) const PROJECT: &str = "shop";

/// The plan for pods on the real node, and the image that it has without a registry.
const REAL_PLAN: &str = "real";
const REAL_IMAGE: &str = "trueup.dev/local/sample:1";

/// Declares the demo's projects and services if the org has no projects yet.
///
/// With a real node, services with the local image run on it.
pub(crate) async fn declare(client: &Client, real_node: bool) -> anyhow::Result<()> {
    if !client.project_list().await?.items.is_empty() {
        return Ok(());
    }
    for (location, document) in parse("demo.yaml", DEMO) {
        let manifest = document
            .map_err(|error| anyhow::anyhow!("{location}: {}; {}", error.message, error.fix))?;
        match manifest {
            Manifest::Plan { name, body } => {
                client.plan_put(&name, &body).await?;
            }
            Manifest::Project { name, body } => {
                client.project_put(&name, &body).await?;
            }
            Manifest::Service { name, mut body } => {
                if real_node && body.parameters.get("image").is_some_and(|it| it == REAL_IMAGE) {
                    body.plan = Some(REAL_PLAN.to_owned());
                }
                let project = body.project.as_deref().unwrap_or(PROJECT);
                client.service_put(project, &name, &body, &Terms::PLAIN).await?;
            }
        }
    }
    Ok(())
}
