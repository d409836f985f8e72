//! The page of faults is true: every number is there, and every test that it names.

use std::fs;

use crate::edges::root;

/// How many faults there are.
const FAULTS: usize = 72;

/// Whether a source file has a test of this name that runs with all others.
fn is_run(text: &str, test: &str) -> Result<(), &'static str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let name = format!("fn {test}(");
    let declared = |line: &&str| {
        let line = line.trim_start_matches("async ");
        line.starts_with(&name)
    };
    let place = lines.iter().position(declared).ok_or("there is no such function")?;
    let above = lines[..place].iter().rev();
    let attributes: Vec<&&str> =
        above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
    let has = |wanted: &str| attributes.iter().any(|line| line.starts_with(wanted));
    if !has("#[test]") && !has("#[tokio::test") {
        return Err("the function is no test");
    }
    if has("#[ignore") {
        return Err("the test is left out of every run");
    }
    Ok(())
}

#[test]
fn only_a_test_that_runs_holds_a_fault() {
    let page =
        "#[test]\nfn plain() {}\n/// F01.\n#[tokio::test(start_paused = true)]\nasync fn waits() {}
        fn helper() {}\n#[test]\n#[ignore]\nfn left() {}\n// fn commented()\n";
    assert_eq!((is_run(page, "plain"), is_run(page, "waits")), (Ok(()), Ok(())));
    for not_run in ["helper", "left", "commented", "missing"] {
        assert!(is_run(page, not_run).is_err(), "{not_run}");
    }
}

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
            if let Err(why) = is_run(&text, test) {
                panic!("{number} {file} {test}: {why}");
            }
        }
    }
    assert!(held > 30, "only {held} faults are held");
}
