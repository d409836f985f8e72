//! Demo data: declared through the front door, like anybody's.

use trueup_api::Client;
use trueup_api::client::Terms;

use trueup_cli::manifest::{Manifest, parse};

const DEMO: &str = include_str!("../../../demo/demo.yaml");

/// The project that is meant where a command names none.
pub(crate) const PROJECT: &str = "shop";

/// The plan of pods that really run, and the image that a real node has without any registry.
const REAL_PLAN: &str = "real";
const REAL_IMAGE: &str = "trueup.dev/local/sample:1";

/// Declares the demo's projects and services, if this org has no projects yet. With a real node, what
/// can really run does.
pub(crate) async fn declare(client: &Client, real_node: bool) -> anyhow::Result<()> {
    if !client.project_list().await?.items.is_empty() {
        return Ok(());
    }
    for (place, document) in parse("demo.yaml", DEMO) {
        let manifest = document
            .map_err(|wrong| anyhow::anyhow!("{place}: {}; {}", wrong.message, wrong.fix))?;
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
