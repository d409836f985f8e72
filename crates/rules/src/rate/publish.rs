//! When a published price begins, and which ones are refused.
//!
//! A price never changes the past, and a price that was published for later is not withdrawn: the
//! next one begins after it.

use jiff::{SignedDuration, Timestamp};
use trueup_model::plan::{Plan, PlanPrice};

use crate::admit::FieldError;

/// The moment at which the price of a plan begins; `None` if the plan has this price.
///
/// `prices` are the plan's, in any order, and empty for a new plan. Without `wanted` the price
/// begins at once.
///
/// # Errors
/// An amount is negative, or the price cannot begin then.
pub fn begins_at(
    prices: &[PlanPrice],
    plan: &Plan,
    wanted: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Vec<FieldError>> {
    check_amounts(plan)?;
    let begin = match prices.iter().max_by_key(|price| price.from) {
        Some(last) => next(prices, last, plan, wanted, now),
        None => first(wanted, now).map(Some),
    };
    begin.map_err(|message| vec![FieldError::at("effective_from", message)])
}

fn check_amounts(plan: &Plan) -> Result<(), Vec<FieldError>> {
    let amounts = [
        ("hourly_micros", plan.hourly.micros),
        ("disk_gib_hourly_micros", plan.disk_gib_hourly_micros),
    ];
    let negative = amounts.into_iter().filter(|(_, micros)| *micros < 0);
    let errors: Vec<FieldError> =
        negative.map(|(field, _)| FieldError::at(field, "must not be negative")).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// A new plan has a price from its creation on, so that it can be chosen at once.
fn first(wanted: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, String> {
    match wanted {
        Some(from) if from > now => {
            Err("must be omitted for a new plan: it needs a price from now on".to_owned())
        }
        Some(from) if from < now => Err(past(now)),
        Some(_) | None => Ok(now),
    }
}

fn next(
    prices: &[PlanPrice],
    last: &PlanPrice,
    plan: &Plan,
    wanted: Option<Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, String> {
    let is_scheduled = last.created_at < last.from;
    // A request that lost a race against the last one comes after it, whatever its clock says.
    let now = if is_scheduled { now } else { now.max(last.from) };
    let published = || {
        format!(
            "must be after {}: a price from then on is already published, and is not withdrawn",
            last.from
        )
    };
    match wanted {
        None => {
            let current = prices.iter().filter(|price| price.from <= now);
            let current = current.max_by_key(|price| price.from).unwrap_or(last);
            if current.is_of(plan) {
                return Ok(None);
            }
            if last.from > now {
                return Err(published());
            }
            Ok(Some(if last.from == now { just_after(now) } else { now }))
        }
        // The same manifest again, also after its price has begun or a later one is published.
        Some(from) if prices.iter().any(|price| price.from == from && price.is_of(plan)) => {
            Ok(None)
        }
        Some(from) if from >= last.from && last.is_of(plan) => Ok(None),
        Some(from) if from < now => Err(past(now)),
        Some(from) if from <= last.from => Err(published()),
        Some(from) => Ok(Some(from)),
    }
}

fn past(now: Timestamp) -> String {
    format!("must not be before the present, {now}: a price never changes the past")
}

/// The next moment that Postgres can store.
fn just_after(at: Timestamp) -> Timestamp {
    at.checked_add(SignedDuration::from_micros(1)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trueup_model::id::PriceVersionId;
    use trueup_model::money::Money;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn plan(micros: i64, currency: &str) -> Plan {
        serde_json::from_value(json!({
            "name": "small", "summary": "", "resources": {"cpu_millis": 250, "memory_mib": 256},
            "hourly": {"micros": micros, "currency": currency}, "disk_gib_hourly_micros": 100,
        }))
        .unwrap()
    }

    /// A price from a second on that was published then or before.
    fn price(micros: i64, from: i64, created_at: i64) -> PlanPrice {
        PlanPrice {
            version: PriceVersionId::from_parts(at(created_at), [1; 10]),
            hourly: Money { micros, currency: "EUR".parse().unwrap() },
            disk_gib_hourly_micros: 100,
            from: at(from),
            until: None,
            created_at: at(created_at),
            created_by: "op".to_owned(),
        }
    }

    /// The second at which the price begins, or what is said about it.
    fn begin(
        prices: &[PlanPrice],
        micros: i64,
        wanted: Option<i64>,
    ) -> Result<Option<i64>, String> {
        let begin = begins_at(prices, &plan(micros, "EUR"), wanted.map(at), at(50));
        begin
            .map(|from| from.map(Timestamp::as_second))
            .map_err(|errors| format!("{} {}", errors[0].field, errors[0].message))
    }

    #[test]
    fn a_price_begins_at_once_or_when_it_says() {
        let now = [price(6, 0, 0)];
        assert_eq!(begin(&[], 6, None), Ok(Some(50)));
        assert_eq!(begin(&now, 7, None), Ok(Some(50)));
        assert_eq!(begin(&now, 7, Some(50)), Ok(Some(50)));
        assert_eq!(begin(&now, 7, Some(60)), Ok(Some(60)));
        // The same price again, and the manifest of a price that began long ago.
        assert_eq!(begin(&now, 6, None), Ok(None));
        assert_eq!(begin(&now, 6, Some(0)), Ok(None));
        let other = begins_at(&now, &plan(6, "USD"), None, at(50));
        assert_eq!(other, Ok(Some(at(50))), "another currency is another price");
    }

    #[test]
    fn the_past_and_what_is_published_for_later_stay() {
        let (none, now): ([PlanPrice; 0], _) = ([], [price(6, 0, 0)]);
        let scheduled = [price(6, 0, 0), price(8, 60, 40)];
        let past = "effective_from must not be before the present";
        let published = "effective_from must be after 1970-01-01T00:01:00Z";
        for (prices, micros, wanted, said) in [
            (&none[..], 6, Some(60), "effective_from must be omitted for a new plan"),
            (&none[..], 6, Some(40), past),
            (&now[..], 7, Some(40), past),
            (&scheduled[..], 7, None, published),
            (&scheduled[..], 8, None, published),
            (&scheduled[..], 7, Some(60), published),
            (&scheduled[..], 7, Some(55), published),
            (&now[..], -1, None, "hourly_micros must not be negative"),
        ] {
            let refused = begin(prices, micros, wanted).unwrap_err();
            assert!(refused.starts_with(said), "{micros} from {wanted:?}: {refused}");
        }
        // The present price and the later one again change nothing; the next one may follow.
        assert_eq!(begin(&scheduled, 6, None), Ok(None));
        assert_eq!(begin(&scheduled, 8, Some(60)), Ok(None));
        assert_eq!(begin(&scheduled, 9, Some(70)), Ok(Some(70)));
    }

    #[test]
    fn a_lost_race_begins_just_after_the_price_that_won() {
        for won_at in [50, 51] {
            let won = [price(6, won_at, won_at)];
            let begin = begins_at(&won, &plan(7, "EUR"), None, at(50)).unwrap();
            assert_eq!(begin, Some(just_after(at(won_at))));
            assert_eq!(begins_at(&won, &plan(6, "EUR"), None, at(50)), Ok(None));
        }
    }
}
