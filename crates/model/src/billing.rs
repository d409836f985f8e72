//! Billing: the settings of an installation, and the account of each org.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::money::Currency;
use crate::usage::GapPolicy;

/// How this installation bills, from its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillingSettings {
    /// The currency of orgs that have set none.
    pub currency: Currency,
    /// Whether usage on simulated nodes is charged. It is always marked.
    pub charge_simulated: bool,
    /// What a time without observation costs.
    pub gap_policy: GapPolicy,
    /// How often usage is posted to the ledger.
    pub accrue_every: Duration,
    /// How long after its end a billing period is invoiced: late usage arrives within this time.
    pub invoice_after: Duration,
    /// Who sells, as printed on invoices.
    pub seller: Seller,
}

impl Default for BillingSettings {
    fn default() -> Self {
        Self {
            currency: Currency::EUR,
            charge_simulated: true,
            gap_policy: GapPolicy::Free,
            accrue_every: Duration::from_secs(3600),
            invoice_after: Duration::from_secs(3600),
            seller: Seller::default(),
        }
    }
}

/// Who sells, as printed on invoices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seller {
    /// The name.
    pub name: String,
    /// The address; lines are separated by line feeds.
    pub address: String,
    /// The tax number.
    pub tax_id: String,
}

/// How an org is billed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BillingAccount {
    /// The currency. Prices in another one do not apply.
    pub currency: Currency,
    /// The IANA name of the time zone that billing periods are computed in.
    pub time_zone: String,
    /// The tax on invoices, in millionths.
    pub tax_ppm: u32,
    /// Who pays, as printed on invoices.
    pub legal_name: String,
    /// Their address, as printed on invoices.
    pub address: String,
}

impl BillingAccount {
    /// The account of an org that has set nothing.
    #[must_use]
    pub fn default_in(currency: Currency) -> Self {
        let (legal_name, address) = (String::new(), String::new());
        Self { currency, time_zone: "UTC".to_owned(), tax_ppm: 0, legal_name, address }
    }

    /// Its time zone; UTC if this machine does not know the name, which admission prevents.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC)
    }
}
