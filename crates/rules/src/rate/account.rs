//! Accounts of the ledger.

use std::fmt;
use std::str::FromStr;

use trueup_model::OrgId;
use trueup_model::usage::{Delivery, Meter};

/// An account of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// What an org owes.
    Receivable(OrgId),
    /// What was sold, by meter, at its value to the millionth.
    Revenue(Meter),
    /// What was sold as fees of subscriptions.
    Fees,
    /// What the provider bears, because it was not delivered or has no owner.
    Drift(Delivery),
    /// What rounding to payable amounts added or took off.
    Rounding,
    /// What an org paid in advance or was granted, and has not used.
    Credit(OrgId),
    /// What the provider granted to customers as credit.
    Granted,
    /// The tax on invoices, which the provider passes on.
    Tax,
    /// What was paid, by any method.
    Cash,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receivable(org) => write!(f, "receivable:{org}"),
            Self::Revenue(meter) => write!(f, "revenue:{meter}"),
            Self::Fees => f.write_str("revenue:subscription"),
            Self::Drift(delivery) => write!(f, "drift:{delivery}"),
            Self::Rounding => f.write_str("rounding"),
            Self::Credit(org) => write!(f, "credit:{org}"),
            Self::Granted => f.write_str("granted"),
            Self::Tax => f.write_str("tax"),
            Self::Cash => f.write_str("cash"),
        }
    }
}

/// A text that is not an account.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("unknown account `{0}`")]
pub struct ParseAccountError(String);

impl FromStr for Account {
    type Err = ParseAccountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = match text.split_once(':') {
            None if text == "rounding" => Some(Self::Rounding),
            None if text == "granted" => Some(Self::Granted),
            None if text == "tax" => Some(Self::Tax),
            None if text == "cash" => Some(Self::Cash),
            Some(("receivable", org)) => org.parse().ok().map(Self::Receivable),
            Some(("credit", org)) => org.parse().ok().map(Self::Credit),
            Some(("revenue", "subscription")) => Some(Self::Fees),
            Some(("revenue", meter)) => meter.parse().ok().map(Self::Revenue),
            Some(("drift", delivery)) => delivery.parse().ok().map(Self::Drift),
            None | Some(_) => None,
        };
        parsed.ok_or_else(|| ParseAccountError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_parse_back_from_their_text() {
        let org = OrgId::from_uuid(uuid::Uuid::from_u128(7));
        let accounts = [
            Account::Receivable(org),
            Account::Revenue(Meter::PodSeconds),
            Account::Fees,
            Account::Drift(Delivery::Orphan),
            Account::Rounding,
            Account::Credit(org),
            Account::Granted,
            Account::Tax,
            Account::Cash,
        ];
        for account in accounts {
            assert_eq!(account.to_string().parse(), Ok(account));
        }
        for bad in ["", "revenue", "revenue:gold", "receivable:svc_1", "drift:"] {
            assert!(bad.parse::<Account>().is_err(), "{bad}");
        }
    }
}
