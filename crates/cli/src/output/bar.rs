//! Bars: a number as a length, for charts in a terminal.

/// The eighths of a block, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A bar that is `width` long for the largest number.
pub fn bar(number: i64, largest: i64, width: usize) -> String {
    let width = i64::try_from(width).unwrap_or(i64::MAX);
    let scaled = i128::from(number.max(0)).saturating_mul(i128::from(width)).saturating_mul(8);
    let eighths = scaled.checked_div(i128::from(largest)).unwrap_or(0);
    let whole = usize::try_from(eighths / 8).unwrap_or(0);
    let rest = usize::try_from(eighths % 8).ok().and_then(|rest| rest.checked_sub(1));
    let mut bar = "█".repeat(whole);
    bar.extend(rest.and_then(|rest| EIGHTHS.get(rest)));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let table = [(0, ""), (1, "▍"), (8, "███▏"), (10, "████"), (-5, "")];
        for (number, expected) in table {
            assert_eq!(bar(number, 10, 4), expected, "{number}");
        }
        assert_eq!(bar(5, 0, 4), "");
    }
}
