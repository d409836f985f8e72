//! Checks docs/faults.md: every fault has a row, and every test it names exists and runs.

use std::fs;

use crate::edges::root;

/// The number of faults.
const FAULTS: usize = 72;

/// Checks that a source file has a test of this name that is not ignored.
fn is_run(text: &str, test: &str) -> Result<(), &'static str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let name = format!("fn {test}(");
    let declared = |line: &&str| {
        let line = line.trim_start_matches("async ");
        line.starts_with(&name)
    };
    let place = lines.iter().position(declared).ok_or("no function of this name")?;
    let above = lines[..place].iter().rev();
    let attributes: Vec<&&str> =
        above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
    let has = |wanted: &str| attributes.iter().any(|line| line.starts_with(wanted));
    if !has("#[test]") && !has("#[tokio::test") {
        return Err("the function is not a test");
    }
    if has("#[ignore") {
        return Err("the test is ignored");
    }
    Ok(())
}

#[test]
fn helpers_and_ignored_tests_do_not_cover_a_fault() {
    let page =
        "#[test]\nfn plain() {}\n/// F01.\n#[tokio::test(start_paused = true)]\nasync fn waits() {}
        fn helper() {}\n#[test]\n#[ignore]\nfn left() {}\n// fn commented()\n";
    assert_eq!((is_run(page, "plain"), is_run(page, "waits")), (Ok(()), Ok(())));
    for not_run in ["helper", "left", "commented", "missing"] {
        assert!(is_run(page, not_run).is_err(), "{not_run}");
    }
}

#[test]
fn every_fault_has_a_row_and_its_tests_exist() {
    let page = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| F")).collect();
    assert_eq!(rows.len(), FAULTS);
    let mut covered = 0;
    for (index, row) in rows.iter().enumerate() {
        let number = format!("| F{:02} |", index + 1);
        assert!(row.starts_with(&number), "{number} should come next: {row}");
        let by = row.split('|').nth(3).unwrap_or_default();
        let tests: Vec<(&str, &str)> =
            by.split('`').filter_map(|code| code.split_once("::")).collect();
        assert!(
            !tests.is_empty() || by.contains("later: "),
            "{number} names no test and no `later:`"
        );
        covered += usize::from(!tests.is_empty());
        for (file, test) in tests {
            let text = fs::read_to_string(root().join(file));
            let text = text.unwrap_or_else(|error| panic!("{number} {file}: {error}"));
            if let Err(why) = is_run(&text, test) {
                panic!("{number} {file} {test}: {why}");
            }
        }
    }
    assert!(covered > 30, "only {covered} faults have a test");
}
