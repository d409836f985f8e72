//! Charges as rows of the FinOps Open Cost and Usage Specification (FOCUS) 1.4, dataset Cost and
//! Usage.
//!
//! Every column is an entry of one table: its name and how it is computed. Costs have six decimal
//! places and are those of the ledger. Columns that begin with `x_` lead back into Trueup.

mod amount;

use std::collections::BTreeMap;

use jiff::Timestamp;
use trueup_model::billing::{BillingAccount, Seller};
use trueup_model::id::{OrgId, ProjectId, ServiceId};
use trueup_model::price::{PriceItem, PriceVersion};
use trueup_model::usage::{Meter, Span};

use super::charge::{Charge, ChargeKind};
use super::invoice::line_id;
use super::line::LineKey;
use amount::{cost, list_cost, pricing_quantity, unit_price};

/// The version of the specification.
pub const VERSION: &str = "1.4";

/// Where a service is, with the names that people know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePlace {
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: ProjectId,
    /// The name of its project.
    pub project_name: String,
    /// The name of its cluster.
    pub cluster: String,
}

/// What all rows of an export have in common.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The org.
    pub org: OrgId,
    /// Its name.
    pub org_name: String,
    /// How it is billed.
    pub account: BillingAccount,
    /// Who sells.
    pub seller: Seller,
    /// The billing period.
    pub period: Span,
    /// The prices.
    pub prices: Vec<PriceVersion>,
    /// The services, deleted ones included.
    pub places: BTreeMap<ServiceId, ServicePlace>,
}

/// A charge with what its columns need.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    dataset: &'a Dataset,
    charge: &'a Charge,
    /// The line, for usage and rounding.
    line: Option<&'a LineKey>,
    /// The price of the line.
    version: Option<&'a PriceVersion>,
    place: Option<&'a ServicePlace>,
}

type Column = (&'static str, fn(&Row<'_>) -> String);

/// The columns in the order of a file. An empty text is null.
const COLUMNS: [Column; 43] = [
    ("BilledCost", |row| cost(row.charge.micros)),
    ("BillingAccountId", |row| row.dataset.org.to_string()),
    ("BillingAccountName", |row| row.account_name()),
    ("BillingCurrency", |row| row.dataset.account.currency.to_string()),
    ("BillingPeriodEnd", |row| moment(row.dataset.period.until)),
    ("BillingPeriodStart", |row| moment(row.dataset.period.from)),
    ("ChargeCategory", |row| row.category().to_owned()),
    ("ChargeClass", |row| row.class()),
    ("ChargeDescription", |row| row.description()),
    ("ChargeFrequency", |row| row.frequency().to_owned()),
    ("ChargePeriodEnd", |row| moment(row.span().until)),
    ("ChargePeriodStart", |row| moment(row.span().from)),
    ("ConsumedQuantity", |row| row.of_meter(|_| amount::units(row.charge.quantity_micros))),
    ("ConsumedUnit", |row| row.of_meter(|meter| consumed_unit(meter).to_owned())),
    ("ContractedCost", |row| cost(row.charge.micros)),
    ("ContractedUnitPrice", |row| row.price(row.version)),
    ("EffectiveCost", |row| cost(row.charge.micros)),
    ("HostProviderName", |row| row.seller()),
    ("InvoiceDetailId", |row| row.invoice_detail()),
    ("InvoiceId", |row| row.charge.invoice.clone().unwrap_or_default()),
    ("InvoiceIssuerName", |row| row.seller()),
    ("ListCost", |row| row.list()),
    ("ListUnitPrice", |row| row.price(row.list_version())),
    ("PricingCategory", |row| row.of_usage(|_| "Standard".to_owned())),
    ("PricingQuantity", |row| {
        row.of_usage(|line| pricing_quantity(line.item.meter(), row.charge.quantity_micros))
    }),
    ("PricingUnit", |row| {
        row.of_usage(|line| amount::pricing_unit(line.item.meter()).0.to_owned())
    }),
    ("RegionId", |row| row.of_place(|place| place.cluster.clone())),
    ("RegionName", |row| row.of_place(|place| place.cluster.clone())),
    ("ResourceId", |row| row.charge.service.map(|id| id.to_string()).unwrap_or_default()),
    ("ResourceName", |row| row.of_place(|place| place.name.clone())),
    ("ResourceType", |row| row.charge.service.map(|_| "Service".to_owned()).unwrap_or_default()),
    ("ServiceCategory", |row| row.service()[0].to_owned()),
    ("ServiceName", |row| row.service()[1].to_owned()),
    ("ServiceProviderName", |row| row.seller()),
    ("ServiceSubcategory", |row| row.service()[2].to_owned()),
    ("SkuId", |row| row.of_usage(|line| line.item.to_string())),
    ("SkuMeter", |row| row.of_meter(|meter| meter.to_string())),
    ("SkuPriceDetails", |row| row.of_usage(|line| price_details(&line.item))),
    ("SkuPriceId", |row| row.of_usage(|line| line.item.to_string())),
    ("SubAccountId", |row| row.of_place(|place| place.project.to_string())),
    ("SubAccountName", |row| row.of_place(|place| place.project_name.clone())),
    ("x_LedgerEntries", |row| format!("{}-{}", row.charge.entries.0, row.charge.entries.1)),
    ("x_PriceVersionId", |row| row.of_usage(|line| line.version.to_string())),
];

/// The names of the columns.
#[must_use]
pub fn header() -> Vec<String> {
    COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

impl Dataset {
    /// A charge as the fields of a row.
    #[must_use]
    pub fn row(&self, charge: &Charge) -> Vec<String> {
        let line = charge.line.as_ref();
        let version =
            line.and_then(|line| self.prices.iter().find(|price| price.id == line.version));
        let place = charge.service.and_then(|service| self.places.get(&service));
        let row = Row { dataset: self, charge, line, version, place };
        COLUMNS.iter().map(|(_, field)| field(&row)).collect()
    }
}

impl Row<'_> {
    fn account_name(&self) -> String {
        let account = &self.dataset.account;
        let name = if account.legal_name.is_empty() {
            &self.dataset.org_name
        } else {
            &account.legal_name
        };
        name.clone()
    }

    /// Who sells. The column may not be empty.
    fn seller(&self) -> String {
        let name = &self.dataset.seller.name;
        if name.is_empty() { "Trueup".to_owned() } else { name.clone() }
    }

    /// What is used in a former period and billed in this one is a correction.
    fn class(&self) -> String {
        let is_late = self.line.is_some_and(|line| line.period != self.dataset.period);
        if is_late { "Correction".to_owned() } else { String::new() }
    }

    fn description(&self) -> String {
        let item = self.line.map(|line| item_text(&line.item)).unwrap_or_default();
        match self.charge.kind {
            ChargeKind::Usage => item,
            ChargeKind::Rounding => format!("Rounding to payable amounts: {item}"),
            ChargeKind::Tax => "Tax".to_owned(),
            ChargeKind::Credit if self.charge.micros > 0 => "Credit note kept as credit".to_owned(),
            ChargeKind::Credit => "Paid with credit".to_owned(),
        }
    }

    /// When it was used: as long as the price of the line holds within its period.
    fn span(&self) -> Span {
        let Some(line) = self.line else { return self.dataset.period };
        let end = self.version.and_then(|version| version.until);
        let until = end.map_or(line.period.until, |end| end.min(line.period.until));
        Span { from: line.from, until }
    }

    fn invoice_detail(&self) -> String {
        let id = match (self.charge.kind, self.line) {
            (ChargeKind::Usage | ChargeKind::Rounding, Some(line)) => line_id(line),
            (ChargeKind::Tax, _) => "tax".to_owned(),
            (ChargeKind::Usage | ChargeKind::Rounding | ChargeKind::Credit, _) => {
                "credit".to_owned()
            }
        };
        self.charge.invoice.as_ref().map(|_| id).unwrap_or_default()
    }

    /// The list price in force when that of the line began to hold.
    fn list_version(&self) -> Option<&PriceVersion> {
        let (line, dataset) = (self.line?, self.dataset);
        dataset.prices.iter().find(|price| {
            price.org.is_none()
                && price.item == line.item
                && price.currency == dataset.account.currency
                && price.holds_at(line.from)
        })
    }

    fn list(&self) -> String {
        let listed = (self.charge.kind == ChargeKind::Usage)
            .then(|| list_cost(self.list_version()?, self.version?, self.charge))
            .flatten();
        cost(listed.unwrap_or(self.charge.micros))
    }

    fn price(&self, version: Option<&PriceVersion>) -> String {
        self.of_usage(|line| {
            let scheme = version.map(|version| &version.scheme);
            unit_price(scheme, line.item.meter(), self.charge)
        })
    }

    /// The category, the name and the subcategory of what was sold.
    fn service(&self) -> [&'static str; 3] {
        let Some(line) = self.line.filter(|_| self.charge.kind == ChargeKind::Usage) else {
            return ["Other", "Billing", "Other (Other)"];
        };
        match line.item.meter() {
            Some(Meter::PodSeconds | Meter::CpuMilliSeconds | Meter::MemoryMibSeconds) => {
                ["Compute", "Pods", "Containers"]
            }
            Some(Meter::GpuSeconds) => ["Compute", "GPUs", "Containers"],
            Some(Meter::DiskGibSeconds) => ["Storage", "Disks", "Block Storage"],
            Some(Meter::EgressBytes) => ["Networking", "Traffic", "Other (Networking)"],
            None => ["Other", "Subscriptions", "Other (Other)"],
        }
    }

    /// The fee of a subscription is bought again each period; everything else follows from use.
    fn category(&self) -> &'static str {
        match self.charge.kind {
            ChargeKind::Usage if self.is_fee() => "Purchase",
            ChargeKind::Usage => "Usage",
            ChargeKind::Rounding => "Adjustment",
            ChargeKind::Tax => "Tax",
            ChargeKind::Credit => "Credit",
        }
    }

    fn frequency(&self) -> &'static str {
        match self.charge.kind {
            ChargeKind::Usage if self.is_fee() => "Recurring",
            ChargeKind::Usage => "Usage-Based",
            ChargeKind::Rounding | ChargeKind::Tax | ChargeKind::Credit => "One-Time",
        }
    }

    fn is_fee(&self) -> bool {
        self.line.is_some_and(|line| line.item.meter().is_none())
    }

    fn of_meter(&self, text: impl FnOnce(Meter) -> String) -> String {
        self.of_usage(|line| line.item.meter().map(text).unwrap_or_default())
    }

    fn of_usage(&self, text: impl FnOnce(&LineKey) -> String) -> String {
        let line = self.line.filter(|_| self.charge.kind == ChargeKind::Usage);
        line.map(text).unwrap_or_default()
    }

    fn of_place(&self, text: impl FnOnce(&ServicePlace) -> String) -> String {
        self.place.map(text).unwrap_or_default()
    }
}

fn item_text(item: &PriceItem) -> String {
    match item {
        PriceItem::Pod { plan } => format!("Pods of plan {plan}"),
        PriceItem::DiskGib { plan } => format!("Disks of plan {plan}"),
        PriceItem::Meter(Meter::EgressBytes) => "Outgoing traffic".to_owned(),
        PriceItem::Meter(meter) => format!("Meter {meter}"),
        PriceItem::Subscription { .. } => format!("Fee of {item}"),
    }
}

fn price_details(item: &PriceItem) -> String {
    match item {
        PriceItem::Pod { plan } | PriceItem::DiskGib { plan } => {
            format!("{{\"InstanceType\":\"{plan}\"}}")
        }
        PriceItem::Meter(_) | PriceItem::Subscription { .. } => String::new(),
    }
}

const fn consumed_unit(meter: Meter) -> &'static str {
    match meter {
        Meter::PodSeconds | Meter::CpuMilliSeconds | Meter::GpuSeconds => "Seconds",
        Meter::MemoryMibSeconds => "MiB-Seconds",
        Meter::DiskGibSeconds => "GiB-Seconds",
        Meter::EgressBytes => "Bytes",
    }
}

/// A moment in the format of the specification, to the second.
fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
