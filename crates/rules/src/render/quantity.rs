//! Kubernetes quantities in the canonical form that the API server returns.
//!
//! The server rewrites "1000m" to "1"; any other form would look like drift.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Thousandths of a core.
pub(super) fn cpu(millis: u32) -> Quantity {
    if millis.is_multiple_of(1000) { count(millis / 1000) } else { Quantity(format!("{millis}m")) }
}

/// A plain number.
pub(super) fn count(number: u32) -> Quantity {
    Quantity(scaled(u64::from(number), 1000, &["", "k", "M", "G"]))
}

/// Mebibytes.
pub(super) fn memory(mebibytes: u32) -> Quantity {
    Quantity(scaled(u64::from(mebibytes), 1024, &["Mi", "Gi", "Ti", "Pi"]))
}

/// Gibibytes.
pub(super) fn disk(gibibytes: u32) -> Quantity {
    Quantity(scaled(u64::from(gibibytes), 1024, &["Gi", "Ti", "Pi"]))
}

fn scaled(mut amount: u64, step: u64, suffixes: &[&str]) -> String {
    let mut chosen = 0;
    while amount > 0 && amount.is_multiple_of(step) && chosen + 1 < suffixes.len() {
        amount /= step;
        chosen += 1;
    }
    if amount == 0 { "0".to_owned() } else { format!("{amount}{}", suffixes[chosen]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_in_canonical_form() {
        assert_eq!(cpu(250).0, "250m");
        assert_eq!(cpu(2000).0, "2");
        assert_eq!(memory(512).0, "512Mi");
        assert_eq!(memory(2048).0, "2Gi");
        assert_eq!(memory(1536).0, "1536Mi");
        assert_eq!(disk(10).0, "10Gi");
        assert_eq!(disk(2048).0, "2Ti");
        assert_eq!(count(2000).0, "2k");
        assert_eq!(count(500).0, "500");
        assert_eq!(count(2_000_000).0, "2M");
        assert_eq!(cpu(0).0, "0");
        assert_eq!(memory(0).0, "0");
    }
}
