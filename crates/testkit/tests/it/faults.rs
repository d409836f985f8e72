//! The page of faults is true: every number is there, and every test that it names.

use std::fs;

use crate::edges::root;

/// How many faults there are.
const FAULTS: usize = 72;

#[test]
fn every_fault_has_a_row_and_every_test_it_names_exists() {
    let page = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| F")).collect();
    assert_eq!(rows.len(), FAULTS);
    let mut held = 0;
    for (index, row) in rows.iter().enumerate() {
        let number = format!("| F{:02} |", index + 1);
        assert!(row.starts_with(&number), "{number} should come next: {row}");
        let by = row.split('|').nth(3).unwrap_or_default();
        let tests: Vec<(&str, &str)> =
            by.split('`').filter_map(|code| code.split_once("::")).collect();
        assert!(!tests.is_empty() || by.contains("later: "), "{number} is held by nothing");
        held += usize::from(!tests.is_empty());
        for (file, test) in tests {
            let text = fs::read_to_string(root().join(file));
            let text = text.unwrap_or_else(|error| panic!("{number} {file}: {error}"));
            assert!(text.contains(&format!("fn {test}(")), "{number} {file} has no test {test}");
        }
    }
    assert!(held > 30, "only {held} faults are held");
}
