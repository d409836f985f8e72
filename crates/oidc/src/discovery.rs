//! What providers publish about themselves, and for how long it is believed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openidconnect::core::CoreProviderMetadata;
use openidconnect::{DiscoveryError, IssuerUrl};
use trueup_model::provider::ProviderError;

use crate::client::unavailable;
use crate::transport::{Transport, TransportError};

/// How long a discovery document and its keys are used without being read again.
const FRESH: Duration = Duration::from_secs(300);
/// Keys are not read again for an unknown one sooner than this: the key of a forged token is always unknown.
const AGAIN: Duration = Duration::from_secs(2);
/// The most providers that are remembered; when there are more, all are read again.
const MOST: usize = 200;

#[derive(Debug, Clone)]
struct Known {
    metadata: CoreProviderMetadata,
    read_at: Duration,
}

/// The discovery documents and keys that were read.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    known: Mutex<BTreeMap<String, Known>>,
}

impl Discovery {
    /// The metadata of an issuer, with its keys.
    pub(crate) async fn metadata(
        &self,
        transport: &Transport,
        issuer: &str,
        now: Duration,
    ) -> Result<CoreProviderMetadata, ProviderError> {
        match self.known(issuer) {
            Some(known) if now.saturating_sub(known.read_at) < FRESH => Ok(known.metadata),
            Some(_) | None => self.read(transport, issuer, now).await,
        }
    }

    /// The metadata as it is now, after a key was not found in it; none if it was read just now.
    pub(crate) async fn renewed(
        &self,
        transport: &Transport,
        issuer: &str,
        now: Duration,
    ) -> Result<Option<CoreProviderMetadata>, ProviderError> {
        match self.known(issuer) {
            Some(known) if now.saturating_sub(known.read_at) < AGAIN => Ok(None),
            Some(_) | None => self.read(transport, issuer, now).await.map(Some),
        }
    }

    async fn read(
        &self,
        transport: &Transport,
        issuer: &str,
        now: Duration,
    ) -> Result<CoreProviderMetadata, ProviderError> {
        let url = IssuerUrl::new(issuer.to_owned())
            .map_err(|error| ProviderError::NotValid(format!("the issuer is no URL: {error}")))?;
        let read = CoreProviderMetadata::discover_async(url, transport).await;
        let metadata = read.map_err(|error| refused(&error))?;
        let known = Known { metadata: metadata.clone(), read_at: now };
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(issuer.to_owned(), known);
        Ok(metadata)
    }

    fn known(&self, issuer: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(issuer).cloned()
    }
}

fn refused(error: &DiscoveryError<TransportError>) -> ProviderError {
    match error {
        DiscoveryError::Validation(why) => {
            ProviderError::NotValid(format!("its discovery document is of another issuer: {why}"))
        }
        other => unavailable("its discovery document cannot be read", other),
    }
}
