//! Text in the encoding and the widths of the standard fonts.

/// The width of most characters, in thousandths of the size of the font.
const USUAL: u16 = 556;

/// The widths of the characters that differ from [`USUAL`], as the fonts define them.
const WIDTHS: [(&str, u16); 10] = [
    ("ijl'", 222),
    (" .,:;!/\\ftI[]|", 278),
    ("-()r\"`", 333),
    ("*", 389),
    ("ckvsxyzJ", 500),
    ("+=<>~", 584),
    ("FTZ", 611),
    ("ABEKPSVXY&", 667),
    ("CDHNRUw", 722),
    ("GOQ", 778),
];
const WIDE: [(&str, u16); 3] = [("M", 833), ("m", 833), ("W", 944)];

/// How wide a text is at a size.
pub(super) fn width(text: &str, size: f32) -> f32 {
    let units: u32 = text.chars().map(|one| u32::from(units(one))).sum();
    // A line of text has far fewer units than a float holds exactly.
    f32::from(u16::try_from(units).unwrap_or(u16::MAX)) * size / 1000.0
}

fn units(one: char) -> u16 {
    let all = WIDTHS.iter().chain(&WIDE);
    let found = all.into_iter().find(|(some, _)| some.contains(one));
    found.map_or(USUAL, |(_, width)| *width)
}

/// The bytes of a text in the encoding of Windows; what it lacks is a question mark.
pub(super) fn encoded(text: &str) -> Vec<u8> {
    text.chars().map(byte).collect()
}

fn byte(one: char) -> u8 {
    match one {
        '€' => 0x80,
        '…' => 0x85,
        '–' => 0x96,
        '—' => 0x97,
        '’' => 0x92,
        ' '..='~' | '\u{a0}'..='\u{ff}' => u8::try_from(u32::from(one)).unwrap_or(b'?'),
        _ => b'?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_the_letters_of_western_europe() {
        assert_eq!(encoded("Müller €"), b"M\xfcller \x80");
        assert_eq!(encoded("日本"), b"??");
    }

    #[test]
    fn digits_are_equally_wide() {
        assert_eq!(width("0123456789", 10.0), 55.6);
        assert!(width("WWW", 10.0) > width("iii", 10.0));
    }
}
