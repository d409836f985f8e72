//! The lines of events about identity providers.

use trueup_model::event::{
    Fact, IdentityEnded, IdentityLinked, ProviderAnswers, ProviderChanged, ProviderCheckRequested,
    ProviderDeleted, ProviderDomainVerified, ProviderSignInRefused, ProviderUnavailable,
};

use super::{by, requested};
use crate::output::style::Paint;

/// The line of a fact about providers; of any other fact there is none.
pub(super) fn sentence(fact: &Fact) -> Option<(Paint, &'static str, String)> {
    if let Fact::ProviderChanged(ProviderChanged { name, issuer, principal, .. }) = fact {
        return Some((
            Paint::Strong,
            "provider declared",
            format!("{name} at {issuer}{}", by(principal)),
        ));
    }
    if let Fact::ProviderDeleted(ProviderDeleted { provider, principal }) = fact {
        let detail = format!("{provider}{}", by(principal));
        return Some((Paint::Strong, "provider deleted", detail));
    }
    if let Fact::ProviderCheckRequested(ProviderCheckRequested { provider, principal }) = fact {
        let detail = format!("{provider}: {}", requested(principal));
        return Some((Paint::Busy, "check requested", detail));
    }
    if let Fact::ProviderDomainVerified(ProviderDomainVerified { provider, host }) = fact {
        return Some((Paint::Good, "domain proved", format!("{host} of {provider}")));
    }
    if let Fact::ProviderUnavailable(ProviderUnavailable { provider, why }) = fact {
        return Some((Paint::Bad, "provider is away", format!("{provider}: {why}")));
    }
    if let Fact::ProviderAnswers(ProviderAnswers { provider }) = fact {
        return Some((Paint::Good, "provider answers", provider.to_string()));
    }
    if let Fact::ProviderSignInRefused(ProviderSignInRefused { provider, why }) = fact {
        return Some((Paint::Busy, "sign-in refused", format!("{provider}: {why}")));
    }
    if let Fact::IdentityLinked(IdentityLinked { provider, user, .. }) = fact {
        return Some((Paint::Plain, "vouched for", format!("{user} by {provider}")));
    }
    if let Fact::IdentityEnded(ended) = fact {
        let IdentityEnded { provider, user, reason, evidence, .. } = ended;
        let detail = format!("{user} by {provider}: {reason} ({evidence})");
        return Some((Paint::Strong, "no longer vouched", detail));
    }
    None
}
