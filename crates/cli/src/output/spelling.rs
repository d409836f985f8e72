//! "Did you mean …?": the nearest known word, if close enough to be a typo.

/// The known word that differs in at most two letters, and in less than half of them.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= 2 && *distance * 2 < word.chars().count().max(2))
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, removed or changed (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut next = vec![i + 1];
        let mut left = i + 1;
        for (b, pair) in other.iter().zip(row.windows(2)) {
            let (above_left, above) = match pair {
                [above_left, above] => (*above_left, *above),
                _ => continue,
            };
            left = (left + 1).min(above + 1).min(above_left + usize::from(a != *b));
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
    fn only_typos_have_a_nearest_word() {
        let known = ["kind", "name", "project", "template", "parameters"];
        assert_eq!(nearest("templat", &known), Some("template"));
        assert_eq!(nearest("paramters", &known), Some("parameters"));
        assert_eq!(nearest("nmae", &known), None);
        assert_eq!(nearest("names", &known), Some("name"));
        assert_eq!(nearest("replicas", &known), None);
        assert_eq!(nearest("x", &known), None);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
