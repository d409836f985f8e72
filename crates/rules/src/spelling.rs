//! "Did you mean …?": the known word that is nearest to a mistyped one.

/// The known word that begins with this one, or else has the smallest [`distance`]; of several, the
/// first one.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .min_by_key(|candidate| (!candidate.starts_with(word), distance(word, candidate)))
}

/// How many letters must be added, removed or changed (Levenshtein). Upper and lower case differ.
#[must_use]
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut left = index.saturating_add(1);
        let mut next = vec![left];
        for (other, (above_left, above)) in other.iter().zip(row.iter().zip(row.iter().skip(1))) {
            let changed = above_left.saturating_add(usize::from(letter != *other));
            left = changed.min(left.saturating_add(1)).min(above.saturating_add(1));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table = [
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
            ("deployment", "Deployment", 1),
            ("replicsa", "replicas", 2),
        ];
        for (one, other, expected) in table {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    #[test]
    fn the_nearest_word_is_found() {
        let known = ["enforce", "adopt", "ignore"];
        assert_eq!(nearest("ignored", known), Some("ignore"));
        assert_eq!(nearest("adapt", known), Some("adopt"));
        assert_eq!(nearest("auto", ["keep", "automatic"]), Some("automatic"));
        assert_eq!(nearest("x", []), None);
    }
}
