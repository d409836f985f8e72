//! Facts about billing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::money::Currency;

/// The billing account of an org was changed. Its name and address are personal data and are not
/// part of the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BillingAccountChanged {
    /// The currency.
    pub currency: Currency,
    /// The time zone of billing periods.
    pub time_zone: String,
    /// The tax on invoices, in millionths.
    pub tax_ppm: u32,
    /// Who requested it.
    pub principal: String,
}
