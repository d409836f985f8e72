//! Money: an integer number of millionths of a currency's unit, never a float.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A currency, by its three capital letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; 3]);

impl Currency {
    /// The euro.
    pub const EUR: Self = Self(*b"EUR");
}

/// A text that is not three capital letters.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("must be a currency of three capital letters, such as EUR")]
pub struct ParseCurrencyError;

impl FromStr for Currency {
    type Err = ParseCurrencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| ParseCurrencyError)?;
        let capital = letters.iter().all(u8::is_ascii_uppercase);
        if capital { Ok(Self(letters)) } else { Err(ParseCurrencyError) }
    }
}

impl TryFrom<String> for Currency {
    type Error = ParseCurrencyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.to_string()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| write!(f, "{}", char::from(*letter)))
    }
}

/// An amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// Millionths of the currency's unit.
    pub micros: i64,
    /// The currency.
    pub currency: Currency,
}

impl Money {
    /// This amount times `count`, saturating.
    #[must_use]
    pub const fn times(self, count: i64) -> Self {
        Self { micros: self.micros.saturating_mul(count), ..self }
    }

    /// This amount plus `micros` of the same currency, saturating.
    #[must_use]
    pub const fn plus(self, micros: i64) -> Self {
        Self { micros: self.micros.saturating_add(micros), ..self }
    }
}

/// Prints at least two decimal places, and as many as the amount has.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.micros < 0 { "-" } else { "" };
        let micros = self.micros.unsigned_abs();
        let fraction = format!("{:06}", micros % 1_000_000);
        let digits = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{}.{} {}", micros / 1_000_000, &fraction[..digits], self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_prints_at_least_two_decimal_places() {
        let table = [
            (0, "0.00 EUR"),
            (12_340_000, "12.34 EUR"),
            (6_850, "0.00685 EUR"),
            (-1_500_000, "-1.50 EUR"),
            (i64::MIN, "-9223372036854.775808 EUR"),
        ];
        for (micros, text) in table {
            let money = Money { micros, currency: "EUR".parse().unwrap() };
            assert_eq!(money.to_string(), text);
        }
    }

    #[test]
    fn only_three_capital_letters_are_a_currency() {
        assert_eq!("USD".parse::<Currency>().unwrap().to_string(), "USD");
        for bad in ["", "EU", "eur", "EURO", "E1R", "é "] {
            assert_eq!(bad.parse::<Currency>(), Err(ParseCurrencyError), "{bad}");
        }
    }
}
