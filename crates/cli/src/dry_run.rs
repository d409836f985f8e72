//! `--dry-run`, shared by every command that writes.

use trueup_api::Client;
use trueup_api::client::DryRunClient;

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::preview;

/// The `--dry-run` flag.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DryRun {
    /// Show what would happen without changing anything
    #[arg(long)]
    dry_run: bool,
}

/// The client that a command writes with, real or dry-run.
#[derive(Debug)]
pub struct WriteClient {
    client: Client,
    dry_run: Option<DryRunClient>,
}

impl DryRun {
    pub const fn is_dry(self) -> bool {
        self.dry_run
    }

    /// The client to write with: `client` itself, or a dry-run copy of it.
    pub fn begin(self, client: &Client) -> WriteClient {
        let dry_run = self.dry_run.then(|| client.dry_run());
        let client = dry_run.as_ref().map_or(client, DryRunClient::client).clone();
        WriteClient { client, dry_run }
    }
}

impl WriteClient {
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// In a dry run, prints the preview of the last write and returns true.
    pub fn previewed(&self, subject: &str, context: &Context) -> anyhow::Result<bool> {
        let Some(dry_run) = &self.dry_run else { return Ok(false) };
        let preview = dry_run.seen().ok_or_else(|| {
            Failure::new(Exit::Failed, "the server sent no preview")
                .hint("check that client and server have the same version")
        })?;
        preview::show(subject, &preview, context)?;
        Ok(true)
    }
}
