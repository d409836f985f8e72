//! Facts about plans and templates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::PriceVersionId;
use crate::money::Currency;
use crate::name::Name;
use crate::template::TemplateRef;

/// A plan was created, updated or retired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanChanged {
    /// Which.
    pub plan: Name,
    /// Whether it is retired.
    pub retired: bool,
    /// Who requested it.
    pub principal: String,
    /// The price that was published; absent if the price did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PublishedPrice>,
}

/// A new list price of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublishedPrice {
    /// The price version.
    pub version: PriceVersionId,
    /// The price of a pod per hour, in millionths of the currency.
    pub hourly_micros: i64,
    /// The price of a GiB of disk per hour, in millionths of the currency.
    pub disk_gib_hourly_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// The first moment it holds.
    pub from: Timestamp,
}

/// A template version was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplatePublished {
    /// Which.
    pub template: TemplateRef,
    /// Who requested it.
    pub principal: String,
}

/// A template version was deprecated: it accepts no new services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateDeprecated {
    /// Which.
    pub template: TemplateRef,
    /// What to use instead.
    pub instead: String,
    /// Who requested it.
    pub principal: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_without_a_price_keep_their_form() {
        let before = json!({"plan": "small", "retired": true, "principal": "tok_1"});
        let read: PlanChanged = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(read.price, None);
        assert_eq!(serde_json::to_value(&read).unwrap(), before);
        let price = json!({
            "version": "prc_00000000000000000000000008", "hourly_micros": 6000,
            "disk_gib_hourly_micros": 130, "currency": "EUR", "from": "2026-01-02T03:04:05Z",
        });
        let after = json!({"plan": "small", "retired": true, "principal": "tok_1", "price": price});
        let read: PlanChanged = serde_json::from_value(after.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), after);
    }
}
