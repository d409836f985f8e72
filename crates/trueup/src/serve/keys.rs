//! The secrets keys of the serving process: those of the data directory, read again every few
//! seconds, so that a rotated or restored key takes effect without a restart.

use std::time::Duration;

use anyhow::Context as _;
use trueup_model::Clock;
use trueup_model::secret::MasterKey;
use trueup_rules::envelope::{Keyring, SharedKeyring};
use trueup_store::Setup;

use crate::install::Install;

/// How often the key files are read. There are few, and they are small.
const READ_INTERVAL: Duration = Duration::from_secs(3);

/// How long the re-encryption of all orgs' keys may take.
const REWRAP_LIMIT: Duration = Duration::from_secs(120);

/// The secrets keys in use, and where they come from.
pub(super) struct LiveKeys {
    install: Install,
    master_key: MasterKey,
    owner_url: String,
    shared: SharedKeyring,
}

impl LiveKeys {
    /// Reads the keys of this install.
    pub(super) fn read(
        install: &Install,
        master_key: MasterKey,
        owner_url: String,
    ) -> anyhow::Result<Self> {
        let shared = SharedKeyring::new(install.keyring(master_key.reveal())?);
        Ok(Self { install: install.clone(), master_key, owner_url, shared })
    }

    /// The keys, as they are from now on.
    pub(super) const fn shared(&self) -> &SharedKeyring {
        &self.shared
    }

    /// Reads the key files for ever. When there is a new key, every org's key is re-encrypted with
    /// it.
    pub(super) async fn follow(&self, clock: &dyn Clock) {
        let mut rewrapped_with = self.shared.current();
        let mut readable = true;
        loop {
            clock.sleep(READ_INTERVAL).await;
            match self.install.keyring(self.master_key.reveal()) {
                Ok(read) => {
                    self.shared.update(read);
                    readable = true;
                }
                Err(error) => {
                    if readable {
                        let error = format!("{error:#}");
                        tracing::error!(error, "cannot read the secrets keys; the known ones stay");
                    }
                    readable = false;
                }
            }
            let current = self.shared.current();
            if current != rewrapped_with {
                let rewrapped = self.rewrap(&current).await;
                match rewrapped {
                    Ok(()) => rewrapped_with = current,
                    Err(error) => {
                        tracing::warn!(%error, "cannot re-encrypt the orgs' keys; will retry");
                    }
                }
            }
        }
    }

    async fn rewrap(&self, keys: &Keyring) -> anyhow::Result<()> {
        let rewrapped =
            async { rewrap_org_keys(&Setup::connect(&self.owner_url).await?, keys).await };
        // A database that hangs must not keep the key files from being read.
        tokio::time::timeout(REWRAP_LIMIT, rewrapped).await.context("the database timed out")?
    }
}

/// Re-encrypts the orgs' keys with the newest secrets key of this install.
pub(super) async fn rewrap_org_keys(setup: &Setup, keys: &Keyring) -> anyhow::Result<()> {
    let (count, locked) = setup.rewrap_org_keys(keys).await?;
    if count > 0 {
        tracing::info!(key = keys.newest(), count, "re-encrypted org keys");
    }
    for (org, error) in locked {
        // Not fatal: services that need these secrets report it.
        tracing::error!(%org, %error, "cannot decrypt an org's key");
    }
    Ok(())
}
