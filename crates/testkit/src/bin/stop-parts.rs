//! Stops the Postgres and the Kubernetes that test processes share and leave running for each other.

use trueup_local::layout::cache_dir;
use trueup_local::{kube, postgres};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    kube::stop_left(&cache_dir(), &cache_dir().join("test-kube")).await?;
    postgres::stop_left(&cache_dir().join("test-postgres")).await?;
    Ok(())
}
