//! Pages of text and lines.

use pdf_writer::{Content, Name, Pdf, Rect, Ref, Str};

use super::text::{encoded, width};

/// The margins and the size of A4, in points.
pub(super) const LEFT: f32 = 56.0;
pub(super) const RIGHT: f32 = 539.0;
pub(super) const BOTTOM: f32 = 90.0;
const TOP: f32 = 770.0;
const SIZE: (f32, f32) = (595.0, 842.0);
/// The brightness of secondary text.
const GREY: f32 = 0.42;

/// A standard font.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Font {
    Plain,
    Bold,
}

impl Font {
    /// How much wider its letters are than those of the plain font, about.
    const fn stretch(self) -> f32 {
        match self {
            Self::Plain => 1.0,
            Self::Bold => 1.06,
        }
    }

    const fn name(self) -> Name<'static> {
        match self {
            Self::Plain => Name(b"F1"),
            Self::Bold => Name(b"F2"),
        }
    }
}

/// The pages of a file; text goes onto the last one.
pub(super) struct Pages {
    done: Vec<Content>,
    last: Content,
}

impl Pages {
    pub(super) fn new() -> Self {
        Self { done: Vec::new(), last: Content::new() }
    }

    /// Begins the next page; returns its first line.
    pub(super) fn turn(&mut self) -> f32 {
        self.done.push(std::mem::replace(&mut self.last, Content::new()));
        TOP
    }

    /// Writes text that begins at `x`.
    pub(super) fn left(&mut self, x: f32, y: f32, font: Font, size: f32, text: &str) {
        self.write((x, y), font, size, 0.0, text);
    }

    /// Writes text that ends at `x`.
    pub(super) fn right(&mut self, x: f32, y: f32, font: Font, size: f32, text: &str) {
        let width = width(text, size) * font.stretch();
        self.write((x - width, y), font, size, 0.0, text);
    }

    /// Writes secondary text that begins at `x`.
    pub(super) fn grey(&mut self, x: f32, y: f32, size: f32, text: &str) {
        self.write((x, y), Font::Plain, size, GREY, text);
    }

    /// Writes secondary text that ends at `x`.
    pub(super) fn grey_right(&mut self, x: f32, y: f32, size: f32, text: &str) {
        self.write((x - width(text, size), y), Font::Plain, size, GREY, text);
    }

    /// Draws a line across the page.
    pub(super) fn rule(&mut self, y: f32) {
        self.last.set_stroke_gray(0.8).set_line_width(0.7);
        self.last.move_to(LEFT, y).line_to(RIGHT, y).stroke();
    }

    fn write(&mut self, (x, y): (f32, f32), font: Font, size: f32, grey: f32, text: &str) {
        self.last.set_fill_gray(grey).begin_text().set_font(font.name(), size);
        self.last.next_line(x, y).show(Str(&encoded(text))).end_text();
    }

    /// The file, with these lines and the number at the foot of each page.
    pub(super) fn finish(mut self, foot: &[&str]) -> Vec<u8> {
        self.done.push(std::mem::replace(&mut self.last, Content::new()));
        let count = self.done.len();
        let mut next = 1..;
        let mut id = || Ref::new(next.next().unwrap_or(i32::MAX));
        let (catalog, tree, plain, bold) = (id(), id(), id(), id());
        let ids: Vec<(Ref, Ref)> = self.done.iter().map(|_| (id(), id())).collect();
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(tree);
        pdf.pages(tree)
            .kids(ids.iter().map(|(page, _)| *page))
            .count(i32::try_from(count).unwrap_or(i32::MAX));
        let pages = std::mem::take(&mut self.done);
        for ((number, content), (page, stream)) in (1..).zip(pages).zip(&ids) {
            self.last = content;
            let number: usize = number;
            let numbered = format!("Page {number} of {count}");
            self.grey_right(RIGHT, 40.0, 8.0, &numbered);
            for (line, y) in foot.iter().zip([52.0, 40.0]) {
                self.grey(LEFT, y, 7.0, line);
            }
            let content = std::mem::replace(&mut self.last, Content::new());
            pdf.stream(*stream, &content.finish());
            let mut leaf = pdf.page(*page);
            leaf.media_box(Rect::new(0.0, 0.0, SIZE.0, SIZE.1)).parent(tree).contents(*stream);
            leaf.resources().fonts().pair(Font::Plain.name(), plain).pair(Font::Bold.name(), bold);
        }
        for (id, base) in [(plain, "Helvetica"), (bold, "Helvetica-Bold")] {
            pdf.type1_font(id)
                .base_font(Name(base.as_bytes()))
                .encoding_predefined(Name(b"WinAnsiEncoding"));
        }
        pdf.finish()
    }
}
