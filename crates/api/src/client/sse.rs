//! A parser for server-sent events.
//!
//! Chunks can end anywhere, so the parser keeps the unfinished line and frame between chunks. Their
//! size is limited: an endless frame is an error and does not exhaust memory.

/// The longest line or frame that is accepted, in bytes.
const MOST: usize = 1 << 20;

/// One dispatched frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// The newest `id:` seen so far, in this frame or an earlier one.
    pub(super) id: Option<String>,
    /// The lines of `data:`, joined.
    pub(super) data: String,
}

/// A line or frame exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The state between chunks.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    data: Option<String>,
    id: Option<String>,
    after_cr: bool,
    started: bool,
}

impl Parser {
    /// The frames that this chunk completes.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, TooLong> {
        let mut frames = Vec::new();
        for &byte in chunk {
            let second_half = std::mem::take(&mut self.after_cr) && byte == b'\n';
            match byte {
                _ if second_half => {}
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    frames.extend(self.end_of_line(&line)?);
                }
                _ if self.line.len() < MOST => self.line.push(byte),
                _ => return Err(TooLong),
            }
        }
        Ok(frames)
    }

    fn end_of_line(&mut self, line: &[u8]) -> Result<Option<Frame>, TooLong> {
        let mut line = String::from_utf8_lossy(line);
        if !std::mem::replace(&mut self.started, true) {
            line = line.trim_start_matches('\u{feff}').to_owned().into();
        }
        if line.is_empty() {
            return Ok(self.data.take().map(|data| Frame { id: self.id.clone(), data }));
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) if data.len() + value.len() >= MOST => return Err(TooLong),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // An empty field is a comment; `event` and `retry` are not used by Trueup.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: Option<&str>, data: &str) -> Frame {
        Frame { id: id.map(str::to_owned), data: data.to_owned() }
    }

    fn table() -> Vec<(&'static str, &'static str, Vec<Frame>)> {
        vec![
            ("nothing", "", vec![]),
            ("a frame", "id: 7\ndata: {}\n\n", vec![frame(Some("7"), "{}")]),
            ("no end", "id: 7\ndata: {}\n", vec![]),
            ("comments", ": hello\n\n:\ndata: a\n: b\n\n", vec![frame(None, "a")]),
            ("lines of data", "data: a\ndata:\ndata:  b\n\n", vec![frame(None, "a\n\n b")]),
            ("CRLF", "id: 1\r\ndata: a\r\n\r\n", vec![frame(Some("1"), "a")]),
            (
                "CR",
                "id: 1\rdata: a\r\rdata: b\r\r",
                vec![frame(Some("1"), "a"), frame(Some("1"), "b")],
            ),
            ("no space", "id:1\ndata:a\n\n", vec![frame(Some("1"), "a")]),
            (
                "id stays",
                "id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n",
                vec![frame(Some("1"), "a"), frame(Some("1"), "b"), frame(Some("2"), "c")],
            ),
            ("id alone", "id: 5\n\ndata: a\n\n", vec![frame(Some("5"), "a")]),
            ("id with NUL", "id: a\0b\ndata: a\n\n", vec![frame(None, "a")]),
            ("other fields", "event: x\nretry: 9\nwhat\ndata: a\n\n", vec![frame(None, "a")]),
            ("field alone", "data\n\n", vec![frame(None, "")]),
            ("byte order mark", "\u{feff}data: a\n\n", vec![frame(None, "a")]),
            ("more than ASCII", "data: ü→🌍\n\n", vec![frame(None, "ü→🌍")]),
            ("colons", "data: a:b: c\n\n", vec![frame(None, "a:b: c")]),
        ]
    }

    #[test]
    fn result_does_not_depend_on_chunk_boundaries() {
        for (name, text, expected) in table() {
            let bytes = text.as_bytes();
            for cut in 0..=bytes.len() {
                let mut parser = Parser::default();
                let mut frames = parser.feed(&bytes[..cut]).unwrap();
                frames.extend(parser.feed(&bytes[cut..]).unwrap());
                assert_eq!(frames, expected, "{name}, cut at {cut}");
            }
            let mut parser = Parser::default();
            let mut frames = Vec::new();
            for byte in bytes {
                frames.extend(parser.feed(&[*byte]).unwrap());
            }
            assert_eq!(frames, expected, "{name}, byte by byte");
        }
    }

    #[test]
    fn endless_lines_and_frames_are_rejected() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(&vec![b'a'; MOST + 1]), Err(TooLong));
        let mut parser = Parser::default();
        let line = format!("data: {}\n", "a".repeat(1000));
        assert_eq!(parser.feed(line.repeat(1100).as_bytes()), Err(TooLong));
    }
}
