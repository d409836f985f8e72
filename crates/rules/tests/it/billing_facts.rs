//! The facts about money, one after another, for the stored form of every fact.

use trueup_model::budget::AtLimit;
use trueup_model::event::{
    BalanceExhausted, BillingAccountChanged, BudgetChanged, BudgetReached, CreditGranted, Fact,
    InvoiceIssued, InvoicePaid, InvoiceVoided, OfferPublished, SubscriptionChanged,
    TemplatePublished,
};
use trueup_model::id::{CreditId, InvoiceId, SubscriptionId};
use trueup_model::money::Currency;

/// The fact after this one.
pub(crate) fn after_billing(fact: &Fact) -> Option<Fact> {
    let (invoice, number) =
        (InvoiceId::from_uuid(uuid::Uuid::from_u128(22)), "ACME-0001".to_owned());
    let (template, principal) = ("web@1".parse().expect("a template"), "owner".to_owned());
    Some(match fact {
        Fact::QuotaChanged(_) => Fact::BillingAccountChanged(BillingAccountChanged {
            currency: Currency::EUR,
            time_zone: "Europe/Berlin".to_owned(),
            tax_ppm: 190_000,
            principal,
        }),
        Fact::BillingAccountChanged(_) => {
            let (limit_micros, at_limit) = (Some(50_000_000), AtLimit::Refuse);
            Fact::BudgetChanged(BudgetChanged { limit_micros, at_limit, principal })
        }
        Fact::BudgetChanged(_) => Fact::BudgetReached(BudgetReached {
            percent: 80,
            spent_micros: 40_000_000,
            limit_micros: 50_000_000,
            currency: Currency::EUR,
        }),
        Fact::BudgetReached(_) => {
            let (offer, version) = ("team".parse().expect("a name"), 2);
            Fact::OfferPublished(OfferPublished { offer, version, retired: false, principal })
        }
        Fact::OfferPublished(_) => Fact::SubscriptionChanged(SubscriptionChanged {
            subscription: SubscriptionId::from_uuid(uuid::Uuid::from_u128(23)),
            offer: "team".parse().expect("a name"),
            version: 2,
            from: "2026-02-01T00:00:00Z".parse().expect("a time"),
            principal,
        }),
        Fact::SubscriptionChanged(_) => Fact::BalanceExhausted(BalanceExhausted {
            balance_micros: -10_000,
            currency: Currency::EUR,
            at_zero: AtLimit::Pause,
        }),
        Fact::BalanceExhausted(_) => Fact::CreditGranted(CreditGranted {
            credit: CreditId::from_uuid(uuid::Uuid::from_u128(21)),
            micros: 25_000_000,
            currency: Currency::EUR,
            principal,
        }),
        Fact::CreditGranted(_) => Fact::InvoiceIssued(InvoiceIssued {
            invoice,
            number,
            period_from: "2026-01-01T00:00:00Z".parse().expect("a time"),
            due_micros: 12_340_000,
            currency: Currency::EUR,
            hash: "c60d".to_owned(),
            principal,
        }),
        Fact::InvoiceIssued(_) => Fact::InvoicePaid(InvoicePaid { invoice, number, principal }),
        Fact::InvoicePaid(_) => Fact::InvoiceVoided(InvoiceVoided { invoice, number, principal }),
        Fact::InvoiceVoided(_) => {
            Fact::TemplatePublished(TemplatePublished { template, principal })
        }
        _ => return None,
    })
}
