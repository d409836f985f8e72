//! Prices: immutable, dated versions of what an item costs.
//!
//! A new version never changes the past: it begins where the one before it ends. Every amount is an
//! integer number of millionths of the currency's unit, for a stated number of units, so that a
//! price per hour is exact for every second.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{DiscountId, OrgId, PriceVersionId};
use crate::money::Currency;
use crate::name::Name;
use crate::usage::Meter;

/// The seconds of an hour, for prices per hour of meters that count seconds.
pub const SECONDS_PER_HOUR: u64 = 3600;

/// What has a price.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PriceItem {
    /// A pod of a plan, by the second.
    Pod {
        /// The plan.
        plan: Name,
    },
    /// A gibibyte of disk of a service with a plan, by the second.
    DiskGib {
        /// The plan.
        plan: Name,
    },
    /// A meter, for usage without a plan and for meters that plans do not cover.
    Meter(Meter),
    /// The fee of a subscription, by the billing period.
    Subscription {
        /// The offer.
        offer: Name,
    },
}

impl PriceItem {
    /// The item that usage of a meter is charged as.
    #[must_use]
    pub fn of(meter: Meter, plan: Option<&Name>) -> Self {
        match (meter, plan) {
            (Meter::PodSeconds, Some(plan)) => Self::Pod { plan: plan.clone() },
            (Meter::DiskGibSeconds, Some(plan)) => Self::DiskGib { plan: plan.clone() },
            (
                Meter::PodSeconds
                | Meter::CpuMilliSeconds
                | Meter::MemoryMibSeconds
                | Meter::GpuSeconds
                | Meter::DiskGibSeconds
                | Meter::EgressBytes,
                _,
            ) => Self::Meter(meter),
        }
    }

    /// The meter that its quantity comes from; none for a fee.
    #[must_use]
    pub const fn meter(&self) -> Option<Meter> {
        match self {
            Self::Pod { .. } => Some(Meter::PodSeconds),
            Self::DiskGib { .. } => Some(Meter::DiskGibSeconds),
            Self::Meter(meter) => Some(*meter),
            Self::Subscription { .. } => None,
        }
    }

    /// The unit of its quantity.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.meter().map_or("month", Meter::unit)
    }
}

/// Prints `pod:small`, `disk_gib:small` or the meter.
impl fmt::Display for PriceItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { plan } => write!(f, "pod:{plan}"),
            Self::DiskGib { plan } => write!(f, "disk_gib:{plan}"),
            Self::Meter(meter) => write!(f, "{meter}"),
            Self::Subscription { offer } => write!(f, "subscription:{offer}"),
        }
    }
}

/// A text that is not an item with a price.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("must be `pod:PLAN`, `disk_gib:PLAN` or a meter, such as egress_bytes")]
pub struct ParsePriceItemError;

impl FromStr for PriceItem {
    type Err = ParsePriceItemError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = |plan: &str| plan.parse::<Name>().map_err(|_| ParsePriceItemError);
        match text.split_once(':') {
            Some(("pod", plan)) => Ok(Self::Pod { plan: name(plan)? }),
            Some(("disk_gib", plan)) => Ok(Self::DiskGib { plan: name(plan)? }),
            Some(("subscription", offer)) => Ok(Self::Subscription { offer: name(offer)? }),
            Some(_) => Err(ParsePriceItemError),
            None => text.parse().map(Self::Meter).map_err(|_| ParsePriceItemError),
        }
    }
}

impl TryFrom<String> for PriceItem {
    type Error = ParsePriceItemError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PriceItem> for String {
    fn from(item: PriceItem) -> Self {
        item.to_string()
    }
}

/// One dated price of an item in one currency. It never changes; only its end may be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceVersion {
    /// Its id.
    pub id: PriceVersionId,
    /// What it is the price of.
    pub item: PriceItem,
    /// The org that it overrides the list price for; none for the list price itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<OrgId>,
    /// The currency of its amounts. There is no conversion.
    pub currency: Currency,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; none while it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How the price is computed.
    pub scheme: Scheme,
}

impl PriceVersion {
    /// Whether it holds at a moment.
    #[must_use]
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// How the quantity of a billing period becomes an amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheme {
    /// The price of the units that are not included.
    pub charge: Charge,
    /// The first units of each period cost nothing.
    #[serde(default)]
    pub included_units: u64,
    /// The least that an org with any usage pays for the item in a period.
    #[serde(default)]
    pub minimum_micros: i64,
}

impl Scheme {
    /// A plain price per hour for a meter that counts seconds.
    #[must_use]
    pub const fn per_hour(micros: i64) -> Self {
        let charge = Charge::PerUnit { micros, per: SECONDS_PER_HOUR };
        Self { charge, included_units: 0, minimum_micros: 0 }
    }

    /// The price per hour; none if it is not a plain one.
    #[must_use]
    pub fn hourly_micros(&self) -> Option<i64> {
        let micros = match self.charge {
            Charge::PerUnit { micros, .. } => micros,
            Charge::Graduated { .. } | Charge::Volume { .. } | Charge::Package { .. } => {
                return None;
            }
        };
        (*self == Self::per_hour(micros)).then_some(micros)
    }
}

/// The price of units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", deny_unknown_fields)]
pub enum Charge {
    /// Every unit costs the same.
    PerUnit {
        /// The price of `per` units.
        micros: i64,
        /// The number of units that it is the price of.
        per: u64,
    },
    /// The units of each tier cost that tier's price.
    Graduated {
        /// The number of units that a tier's price is for.
        per: u64,
        /// The tiers, ascending. The last one has no bound.
        tiers: Vec<Tier>,
    },
    /// Every unit costs the price of the tier that the period's quantity reached.
    Volume {
        /// The number of units that a tier's price is for.
        per: u64,
        /// The tiers, ascending. The last one has no bound.
        tiers: Vec<Tier>,
    },
    /// Every package that was begun costs the same.
    Package {
        /// The price of a package.
        micros: i64,
        /// The units of a package.
        units: u64,
    },
}

/// A range of quantities with a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The last unit of the tier, counted from the first one that is not included; none for the last
    /// tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
    /// Its price, for the charge's number of units.
    pub micros: i64,
}

/// A discount of one org. Of several that hold at once, the largest one counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Discount {
    /// Its id.
    pub id: DiscountId,
    /// The org.
    pub org: OrgId,
    /// What it is for; none for everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<PriceItem>,
    /// The first moment it holds.
    pub from: Timestamp,
    /// The first moment it no longer holds; none while it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How many millionths of the price are taken off.
    pub off_ppm: u32,
}

impl Discount {
    /// Whether it holds for an item at a moment.
    #[must_use]
    pub fn holds_at(&self, item: &PriceItem, at: Timestamp) -> bool {
        let is_for = self.item.as_ref().is_none_or(|own| own == item);
        is_for && self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_parse_back_from_their_text() {
        let plan: Name = "small".parse().unwrap();
        for meter in Meter::ALL {
            for plan in [None, Some(&plan)] {
                let item = PriceItem::of(meter, plan);
                assert_eq!(item.to_string().parse::<PriceItem>(), Ok(item.clone()));
                assert_eq!(item.meter(), Some(meter));
            }
        }
        let fee = PriceItem::Subscription { offer: "team".parse().unwrap() };
        assert_eq!(fee.to_string().parse::<PriceItem>(), Ok(fee));
        for bad in ["", "pod", "pod:", "pod:Small", "cpu:small", "seconds"] {
            assert_eq!(bad.parse::<PriceItem>(), Err(ParsePriceItemError), "{bad}");
        }
    }

    #[test]
    fn only_a_plain_price_has_an_amount_per_hour() {
        let plain = Scheme::per_hour(6000);
        assert_eq!(plain.hourly_micros(), Some(6000));
        let per_second = Charge::PerUnit { micros: 6000, per: 1 };
        let package = Charge::Package { micros: 6000, units: SECONDS_PER_HOUR };
        for charge in [per_second, package] {
            assert_eq!(Scheme { charge, ..plain.clone() }.hourly_micros(), None);
        }
        assert_eq!(Scheme { included_units: 1, ..plain }.hourly_micros(), None);
    }
}
