//! `--dry-run`: every writing command takes it, and each of them is rehearsed in the same way.

use trueup_api::Client;
use trueup_api::client::DryRunClient;

use crate::connect::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::preview;

/// Whether a command only says what it would do.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DryRun {
    /// Say what would happen and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// What a command writes with.
#[derive(Debug)]
pub struct Writing {
    client: Client,
    rehearsal: Option<DryRunClient>,
}

impl DryRun {
    pub const fn is_dry(self) -> bool {
        self.dry_run
    }

    /// The client to write with, whether it is meant or only rehearsed.
    pub fn begin(self, client: &Client) -> Writing {
        let rehearsal = self.dry_run.then(|| client.dry_run());
        let client = rehearsal.as_ref().map_or(client, DryRunClient::client).clone();
        Writing { client, rehearsal }
    }
}

impl Writing {
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Shows what the last write would have done, and says whether that was all.
    pub fn previewed(&self, subject: &str, context: &Context) -> anyhow::Result<bool> {
        let Some(rehearsal) = &self.rehearsal else { return Ok(false) };
        let preview = rehearsal.seen().ok_or_else(|| {
            Failure::new(Exit::Failed, "the server sent no preview")
                .hint("check that client and server have the same version")
        })?;
        preview::show(subject, &preview, context)?;
        Ok(true)
    }
}
