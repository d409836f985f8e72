//! Declares services as clients do: several clients at once, each with one request at a time.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use trueup_api::Client;
use trueup_api::client::Terms;
use trueup_api::service::ServiceManifest;

use crate::install::Install;
use crate::wait::until;

/// How many clients run at once.
pub(crate) const CALLERS: usize = 8;
/// How many services are in one project.
pub(crate) const IN_PROJECT: usize = 100;
const SOON: Duration = Duration::from_secs(120);

/// Creates the projects for this many services, and waits until they are healthy.
pub(crate) async fn projects(install: &Install, services: usize) -> anyhow::Result<()> {
    let count = services.div_ceil(IN_PROJECT);
    for number in 0..count {
        install.client.project_put(&project(number), &serde_json::from_value(json!({}))?).await?;
    }
    until("the projects to be healthy", SOON, || async {
        let healthy =
            "select count(*) from statuses where subject_kind = 'project' and health = 'healthy'";
        Ok(usize::try_from(install.count(healthy).await?)? >= count)
    })
    .await
}

/// Which kind of service is declared.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Made {
    /// Four objects: an anchor, a ConfigMap, a Service and a Deployment.
    Addressed,
    /// Without a Service. The API server scans all allocated cluster IPs whenever it allocates one,
    /// so ten thousand of them take most of ten minutes.
    Unaddressed,
}

/// Declares the services with these numbers; returns how long each request took.
pub(crate) async fn declare(
    client: &Client,
    made: Made,
    numbers: std::ops::Range<usize>,
) -> anyhow::Result<Vec<Duration>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (client, numbers) = (client.clone(), numbers.clone());
        callers.spawn(async move {
            let mut times = Vec::new();
            for number in numbers.skip(caller).step_by(CALLERS) {
                let began = Instant::now();
                declare_one(&client, made, number).await?;
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller??);
    }
    Ok(times)
}

/// Declares the service with this number.
async fn declare_one(client: &Client, made: Made, number: usize) -> anyhow::Result<()> {
    let template = match made {
        Made::Addressed => "bench@1",
        Made::Unaddressed => "bench-unaddressed@1",
    };
    let manifest: ServiceManifest = serde_json::from_value(json!({
        "template": template,
        "parameters": {"variables": {"NUMBER": number.to_string(), "REGION": "here", "LEVEL": "info"}},
    }))?;
    let project = project(number / IN_PROJECT);
    client.service_put(&project, &format!("s{number}"), &manifest, &Terms::PLAIN).await?;
    Ok(())
}

fn project(number: usize) -> String {
    format!("p{number}")
}
