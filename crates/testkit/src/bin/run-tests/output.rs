//! Parses the output of a test program line by line.

/// The result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// The test and its outcome, if this line reports one.
///
/// A test that bypasses output capture may print its own text before the outcome. Such a line is
/// not recognised.
pub(crate) fn outcome(line: &str) -> Option<(&str, Outcome)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    // `test a - should panic ... ok`
    let name = name.split(" - ").next().unwrap_or(name);
    let ended = match rest {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        _ if rest == "ignored" || rest.starts_with("ignored,") => Outcome::Ignored,
        _ => return None,
    };
    Some((name, ended))
}

/// The test that this line reports as slow.
pub(crate) fn slow(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" has been running for over 60 seconds")
}

/// Whether this is the summary line that a program prints after all of its tests.
pub(crate) fn is_end(line: &str) -> bool {
    line.starts_with("test result: ")
}

/// The captured output of one failed test.
pub(crate) fn section<'a>(log: &'a str, test: &str) -> &'a str {
    let head = format!("---- {test} stdout ----\n");
    let Some(start) = log.find(&head) else {
        return "no output: the test printed nothing, or its suite hung and was killed\n";
    };
    let rest = &log[start..];
    let after = &rest[head.len()..];
    let end = ["\n---- ", "\nfailures:\n"].iter().filter_map(|next| after.find(next)).min();
    &rest[..head.len() + end.unwrap_or(after.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_lines_are_parsed_and_others_ignored() {
        assert_eq!(outcome("test a::b ... ok"), Some(("a::b", Outcome::Passed)));
        assert_eq!(outcome("test a::b ... FAILED"), Some(("a::b", Outcome::Failed)));
        assert_eq!(outcome("test a::b ... ignored"), Some(("a::b", Outcome::Ignored)));
        assert_eq!(outcome("test a ... ignored, make soak"), Some(("a", Outcome::Ignored)));
        assert_eq!(outcome("test a - should panic ... ok"), Some(("a", Outcome::Passed)));
        for other in
            ["", "running 3 tests", "test result: ok. 3 passed", "a test ... ok", "test a ... k"]
        {
            assert_eq!(outcome(other), None, "{other}");
        }
    }

    #[test]
    fn slow_test_line_is_parsed() {
        assert_eq!(slow("test a::b has been running for over 60 seconds"), Some("a::b"));
        assert_eq!(slow("test a::b ... ok"), None);
    }

    #[test]
    fn section_ends_where_the_next_one_begins() {
        let log = "failures:\n\n---- a stdout ----\none\n\n---- b stdout ----\ntwo\n\nfailures:\n    a\n    b\n";
        assert_eq!(section(log, "a"), "---- a stdout ----\none\n");
        assert_eq!(section(log, "b"), "---- b stdout ----\ntwo\n");
        assert_eq!(
            section(log, "c"),
            "no output: the test printed nothing, or its suite hung and was killed\n"
        );
    }
}
