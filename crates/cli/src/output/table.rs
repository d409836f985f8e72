//! Tables with columns as wide as their content.

use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// One cell.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A cell with a colour.
    pub fn new(paint: Paint, text: &str) -> Self {
        Self { text: clean(text), paint }
    }

    /// A cell without colour.
    pub fn plain(text: &str) -> Self {
        Self::new(Paint::Plain, text)
    }
}

/// Rows below a heading.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|text| Cell::new(Paint::Strong, text)).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The text, without a line end at the end. The last column is not padded.
    pub fn render(&self, style: Style) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<Cell>| {
            let last = row.len().saturating_sub(1);
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                line.push_str(&style.paint(cell.paint, &cell.text));
                if column < last {
                    let wide = widths.get(column).copied().unwrap_or(0);
                    let pad = wide.saturating_sub(cell.text.chars().count()) + 3;
                    line.push_str(&" ".repeat(pad));
                }
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "PHASE", "AGE"]);
        table.row(vec![Cell::plain("web"), Cell::new(Paint::Good, "running"), Cell::plain("5m")]);
        table.row(vec![Cell::plain("grüße-1"), Cell::plain(""), Cell::plain("")]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        assert_eq!(
            table().render(Style::new(false)),
            "NAME      PHASE     AGE\nweb       running   5m\ngrüße-1"
        );
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let text = table().render(Style::new(true));
        assert!(text.contains("\u{1b}[32mrunning\u{1b}[0m   5m"), "{text:?}");
    }
}
