//! The total of several documents: what their services take of the quota together, and their
//! price.
//!
//! Each dry run is decided alone and stores nothing, so each finds the whole quota that is left
//! now. An apply would not: a service finds what the services before it leave.

use std::collections::BTreeMap;

use serde::Serialize;
use trueup_api::plan::Amount;
use trueup_api::preview::{Preview, PreviewUnitKind};
use trueup_api::quota::Quota;
use trueup_model::money::{Currency, Money};
use trueup_model::quota::{Amounts, Quota as Limits, Resource};

use crate::output::human::count;
use crate::output::preview::quota_line;

/// Adds up services in the order of their documents.
#[derive(Debug)]
pub(super) struct RunningTotal {
    /// The quota before the first of them.
    before: Quota,
    /// By service: a second document for the same service replaces the first.
    services: BTreeMap<String, Share>,
}

/// What one service takes of the quota, and its price per month.
#[derive(Debug)]
struct Share {
    takes: Amounts,
    monthly_before: Option<Amount>,
    monthly_after: Option<Amount>,
}

impl RunningTotal {
    pub(super) const fn new(before: Quota) -> Self {
        Self { before, services: BTreeMap::new() }
    }

    /// Adds a service. Its preview then says what is left after this service and those before it.
    ///
    /// Returns the resources of which too little is left for it.
    pub(super) fn add(
        &mut self,
        subject: &str,
        preview: &mut Preview,
        monthly: Option<Amount>,
    ) -> Vec<Shortage> {
        let after = preview.quota.as_ref().map_or(self.before.used, |quota| quota.used);
        let takes = after.less(self.before.used);
        let unit = preview.units.iter().find(|unit| unit.kind == PreviewUnitKind::Service);
        // A service that does not change costs what it costs now.
        let monthly_before = unit.map_or(&monthly, |unit| &unit.monthly_before).clone();
        let share = Share { takes, monthly_before, monthly_after: monthly };
        self.services.insert(subject.to_owned(), share);
        if let Some(quota) = &mut preview.quota {
            *quota = self.quota();
        }
        let mut over_quota = self.over_quota();
        over_quota.retain(|short| takes.get(short.resource) > 0);
        over_quota
    }

    /// The total of the services added so far.
    pub(super) fn total(&self) -> Total {
        let shares = || self.services.values();
        Total {
            services: self.services.len(),
            quota: self.quota(),
            over_quota: self.over_quota(),
            monthly_before: sums(shares().filter_map(|share| share.monthly_before.as_ref())),
            monthly_after: sums(shares().filter_map(|share| share.monthly_after.as_ref())),
        }
    }

    /// What all of them take.
    fn takes(&self) -> Amounts {
        self.services.values().fold(Amounts::default(), |sum, share| plus(sum, share.takes))
    }

    /// The quota with all of them.
    fn quota(&self) -> Quota {
        let (limit, used) = (self.before.limit, plus(self.before.used, self.takes()));
        Quota { limit, used, left: limit.less(used), source: self.before.source }
    }

    fn over_quota(&self) -> Vec<Shortage> {
        let limits =
            Limits { limit: self.before.limit, used: self.before.used, source: self.before.source };
        let needed = self.takes();
        let short = limits.short_of(needed);
        short
            .map(|(resource, left)| Shortage { resource, needed: needed.get(resource), left })
            .collect()
    }
}

/// The total of all services, as it is printed.
#[derive(Debug, Serialize)]
pub(super) struct Total {
    pub(super) services: usize,
    /// The quota when all of them are applied.
    quota: Quota,
    /// Resources of which too little is left; nothing is applied then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) over_quota: Vec<Shortage>,
    /// The price of all of them now, one amount per currency.
    monthly_before: Vec<Amount>,
    /// The price of all of them afterwards.
    monthly_after: Vec<Amount>,
}

impl Total {
    /// The lines after the last document.
    pub(super) fn lines(&self) -> Vec<String> {
        let price = self.price().map(|price| format!(": {price}")).unwrap_or_default();
        let mut lines = vec![format!("total of {}{price}", count(self.services, "service"))];
        if self.over_quota.is_empty() {
            lines.push(format!("  {}", quota_line(&self.quota)));
        } else {
            lines.extend(
                self.over_quota.iter().map(|short| format!("  over quota: {}", short.text())),
            );
        }
        lines
    }

    fn price(&self) -> Option<String> {
        let text = |amounts: &[Amount]| {
            let texts: Vec<&str> = amounts.iter().map(|amount| amount.text.as_str()).collect();
            texts.join(" and ")
        };
        let after = text(&self.monthly_after);
        match (self.monthly_before.as_slice(), self.monthly_after.as_slice()) {
            (_, []) => None,
            ([], _) => Some(format!("{after} a month")),
            (same, now) if same == now => Some(format!("{after} a month, unchanged")),
            (before, _) => Some(format!("{after} a month instead of {}", text(before))),
        }
    }
}

/// A resource of which too little is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Shortage {
    resource: Resource,
    /// What the services need more than they have.
    needed: i64,
    left: i64,
}

impl Shortage {
    /// `services: 3 more needed, 1 left`, as the server says it for a single service.
    pub(super) fn text(self) -> String {
        format!("{}: {} more needed, {} left", self.resource, self.needed, self.left)
    }
}

fn plus(one: Amounts, other: Amounts) -> Amounts {
    one.less(Amounts::default().less(other))
}

/// The sum of these amounts in each currency.
fn sums<'a>(amounts: impl Iterator<Item = &'a Amount>) -> Vec<Amount> {
    let mut sums: BTreeMap<Currency, Money> = BTreeMap::new();
    for amount in amounts {
        if let Ok(currency) = amount.currency.parse() {
            let sum = sums.entry(currency).or_insert(Money { micros: 0, currency });
            *sum = sum.plus(amount.micros);
        }
    }
    let amount = |sum: Money| Amount {
        micros: sum.micros,
        currency: sum.currency.to_string(),
        text: sum.to_string(),
    };
    sums.into_values().map(amount).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trueup_model::quota::LimitSource;

    use super::*;

    fn amounts(services: i64, cpu_millis: i64) -> Amounts {
        Amounts { services, cpu_millis, ..Amounts::default() }
    }

    /// One of ten services and 1 core CPU are left.
    fn running_total() -> RunningTotal {
        let (limit, used) = (amounts(10, 5000), amounts(9, 4000));
        let source = LimitSource::Default;
        RunningTotal::new(Quota { limit, used, left: limit.less(used), source })
    }

    fn euros(micros: i64) -> Amount {
        sums([Amount { micros, currency: "EUR".to_owned(), text: String::new() }].iter()).remove(0)
    }

    /// The dry run of a service of this price that would be the only change.
    fn preview(cpu_millis: i64, monthly_before: Option<&Amount>) -> Preview {
        let new = i64::from(monthly_before.is_none());
        let (limit, used) = (amounts(10, 5000), amounts(9 + new, 4000 + cpu_millis));
        let unit = json!({
            "kind": "service", "name": "shop/web", "generation": 1, "desired": "active",
            "replaces_pods": false, "objects": [], "monthly_before": monthly_before,
        });
        serde_json::from_value(json!({
            "changed": true, "units": [unit],
            "quota": {"limit": limit, "used": used, "left": limit.less(used)},
        }))
        .unwrap()
    }

    #[test]
    fn a_service_finds_what_the_services_before_it_leave() {
        let mut total = running_total();
        let mut first = preview(300, None);
        assert_eq!(total.add("service/shop/a", &mut first, Some(euros(1_000_000))), []);
        assert_eq!(first.quota.unwrap().left, amounts(0, 700));

        // Alone it would fit, too.
        let mut second = preview(300, None);
        let short = total.add("service/shop/b", &mut second, Some(euros(2_500_000)));
        let expected = Shortage { resource: Resource::Services, needed: 2, left: 1 };
        assert_eq!(short, [expected]);
        assert_eq!(expected.text(), "services: 2 more needed, 1 left");
        assert_eq!(second.quota.unwrap().left, amounts(-1, 400));

        // A service that exists takes no further one, so it does not lack any.
        let mut third = preview(100, Some(&euros(1_000_000)));
        assert_eq!(total.add("service/shop/c", &mut third, Some(euros(2_000_000))), []);
        let total = total.total();
        assert_eq!(total.over_quota, [expected]);
        assert_eq!(
            total.lines(),
            [
                "total of 3 services: 5.50 EUR a month instead of 1.00 EUR",
                "  over quota: services: 2 more needed, 1 left",
            ]
        );
    }

    #[test]
    fn unchanged_services_keep_their_price_and_take_nothing() {
        let mut total = running_total();
        let unchanged = json!({"changed": false, "units": []});
        let mut unchanged: Preview = serde_json::from_value(unchanged).unwrap();
        for subject in ["service/shop/a", "service/shop/b", "service/shop/b"] {
            assert_eq!(total.add(subject, &mut unchanged, Some(euros(1_000_000))), []);
        }
        assert_eq!(
            total.total().lines(),
            [
                "total of 2 services: 2.00 EUR a month, unchanged",
                "  quota left afterwards: 1 service, 1 core CPU, 0 MiB memory, 0 GiB disk, 0 GPUs",
            ]
        );
    }
}
