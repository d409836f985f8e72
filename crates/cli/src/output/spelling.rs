//! "Did you mean …?": the nearest known word, if close enough to be a typo.

use trueup_rules::spelling::distance;

/// The known word that differs in at most two letters, and in less than half of them.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= 2 && *distance * 2 < word.chars().count().max(2))
        .min()
        .map(|(_, candidate)| candidate)
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
}
