//! The port to identity providers: lets the API, which makes no requests to other servers, ask them.

use std::sync::Arc;

use anyhow::anyhow;
use futures::FutureExt;
use futures::future::BoxFuture;
use trueup_control::IdentityReconciler;
use trueup_control::dns::Names;
use trueup_http::SignInProviders;
use trueup_model::provider::{
    Authorization, Claims, ProviderConnection, ProviderError, ReturnedCode,
};
use trueup_oidc::{Client, Settings};

use super::{Options, System};

/// The page of the dashboard that providers send browsers back to.
const CALLBACK: &str = "/sign-in/callback";

/// Asks providers with the only client.
#[derive(Debug, Clone)]
pub(super) struct Providers {
    client: Arc<Client>,
    redirect_uri: String,
    allow_private: bool,
}

impl Providers {
    /// Providers send browsers back to this install at `address`.
    pub(super) fn new(system: &System, options: &Options, address: &str) -> anyhow::Result<Self> {
        let redirect_uri = format!("{}{CALLBACK}", address.trim_end_matches('/'));
        let allow_private = options.config.allow_private_providers;
        let settings = Settings {
            redirect: redirect_uri.clone(),
            allow_private,
            clock: system.clock(),
            decryptor: system.keys.shared().decryptor(),
        };
        let client = Client::new(settings).map_err(|error| anyhow!("cannot use TLS: {error}"))?;
        Ok(Self { client: Arc::new(client), redirect_uri, allow_private })
    }

    /// The loop that confirms the people of all providers.
    pub(super) fn reconciler(&self, system: &System, names: Arc<dyn Names>) -> IdentityReconciler {
        IdentityReconciler {
            worker: system.worker.clone(),
            app: system.app.clone(),
            signals: system.signals.clone(),
            clock: system.clock(),
            providers: Arc::clone(&self.client),
            encryptor: system.keys.shared().encryptor(),
            names,
        }
    }
}

impl SignInProviders for Providers {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn allows_private(&self) -> bool {
        self.allow_private
    }

    fn authorize<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        login_hint: &'a str,
    ) -> BoxFuture<'a, Result<Authorization, ProviderError>> {
        self.client.authorize(provider, login_hint).boxed()
    }

    fn exchange<'a>(
        &'a self,
        provider: &'a ProviderConnection,
        returned: &'a ReturnedCode,
    ) -> BoxFuture<'a, Result<Claims, ProviderError>> {
        self.client.exchange(provider, returned).boxed()
    }
}
