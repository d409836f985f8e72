//! Tables with columns as wide as their content.

use crate::output::human::clean;
use crate::output::style::{Paint, Style};

/// The spaces between two columns.
const GAP: usize = 3;
/// The least width of a column that is shortened.
const LEAST: usize = 6;

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

/// Columns that are never shortened unless a table names them: a part of a name is of no use.
const WHOLE: [&str; 4] = ["NAME", "ID", "AGE", "NUMBER"];

/// Rows below a heading.
#[derive(Debug, Clone)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
    /// The columns that may be shortened; none for all that are not in [`WHOLE`].
    shortened: Option<&'static [&'static str]>,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|text| Cell::new(Paint::Strong, text)).collect();
        Self { rows: vec![heading], shortened: None }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Names the columns whose cells may be shortened.
    pub const fn shorten(&mut self, columns: &'static [&'static str]) {
        self.shortened = Some(columns);
    }

    /// The table with shortened cells, the widest first, until every line fits.
    ///
    /// A cell is cut in its middle: paths and names differ at their ends. Columns stay as wide as
    /// their headings.
    pub fn fitted(mut self, width: usize) -> Self {
        let heading: Vec<&str> =
            self.rows.first().into_iter().flatten().map(|cell| cell.text.as_str()).collect();
        let may = |name: &&str| match self.shortened {
            Some(columns) => columns.contains(name),
            None => !WHOLE.contains(name),
        };
        let least: Vec<Option<usize>> =
            heading.iter().map(|name| may(name).then(|| name.chars().count().max(LEAST))).collect();
        let mut widths = self.widths();
        let gaps = widths.len().saturating_sub(1) * GAP;
        while widths.iter().sum::<usize>() + gaps > width {
            let widest = widths
                .iter_mut()
                .zip(&least)
                .filter_map(|(wide, least)| least.filter(|least| *wide > *least).map(|_| wide))
                .max();
            let Some(widest) = widest else { break };
            *widest -= 1;
        }
        for row in &mut self.rows {
            for (cell, wide) in row.iter_mut().zip(&widths) {
                cell.text = shortened(&cell.text, *wide);
            }
        }
        self
    }

    /// The width of the widest cell of each column.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// The text, without a line end at the end. The last column is not padded.
    pub fn render(&self, style: Style) -> String {
        let widths = self.widths();
        let line = |row: &Vec<Cell>| {
            let last = row.len().saturating_sub(1);
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                line.push_str(&style.paint(cell.paint, &cell.text));
                if column < last {
                    let wide = widths.get(column).copied().unwrap_or(0);
                    let pad = wide.saturating_sub(cell.text.chars().count()) + GAP;
                    line.push_str(&" ".repeat(pad));
                }
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The text in at most this many characters, with `…` for what is left out of its middle.
fn shortened(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    let Some(over) = characters.len().checked_sub(width).filter(|over| *over > 0) else {
        return text.to_owned();
    };
    let start = width.saturating_sub(1) / 2;
    let before = characters.iter().take(start);
    let after = characters.iter().skip(start + over + 1);
    before.chain(['…'].iter()).chain(after).collect()
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
    fn widest_cells_are_cut_in_their_middle_until_lines_fit() {
        let mut wide = Table::new(&["ID", "FIELD", "BY"]);
        let cells = ["dvg_1234", "spec.template.spec.containers.main.image", "kubectl-edit"];
        wide.row(cells.map(Cell::plain).into());
        wide.shorten(&["FIELD", "BY"]);
        assert_eq!(
            wide.clone().fitted(40).render(Style::new(false)),
            "ID         FIELD            BY\ndvg_1234   spec.t…n.image   kubectl-edit"
        );
        assert_eq!(
            wide.fitted(0).render(Style::new(false)),
            "ID         FIELD    BY\ndvg_1234   sp…age   ku…dit",
            "other columns stay, and headings are legible"
        );
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let text = table().render(Style::new(true));
        assert!(text.contains("\u{1b}[32mrunning\u{1b}[0m   5m"), "{text:?}");
    }
}
