//! An invoice as CSV: a row for each line.

use trueup_model::invoice::{InvoiceDocument, InvoiceLine};
use trueup_rules::rate::invoice::decimal;

const COLUMNS: [&str; 13] = [
    "invoice",
    "line",
    "item",
    "unit",
    "quantity",
    "from",
    "until",
    "price_version",
    "price_per_hour",
    "amount",
    "currency",
    "correction",
    "evidence",
];

/// The file, with a header row.
pub(super) fn render(document: &InvoiceDocument) -> String {
    let header = COLUMNS.map(str::to_owned);
    let lines = document.lines.iter().map(|line| row(document, line));
    let rows: Vec<String> = std::iter::once(header).chain(lines).map(|row| joined(&row)).collect();
    rows.concat()
}

fn row(document: &InvoiceDocument, line: &InvoiceLine) -> [String; 13] {
    [
        document.number.clone(),
        line.id.clone(),
        line.item.to_string(),
        line.item.unit().to_owned(),
        line.quantity.clone(),
        line.from.to_string(),
        line.period.until.to_string(),
        line.price.to_string(),
        line.hourly_micros.map(|micros| decimal(micros.into())).unwrap_or_default(),
        decimal(line.amount_micros.into()),
        document.currency.to_string(),
        line.correction.to_string(),
        line.evidence.clone(),
    ]
}

/// One row. A field with a separator is quoted; one that a spreadsheet would take for a formula
/// is a text.
pub(crate) fn joined(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    format!("{}\r\n", quoted.join(","))
}

fn quote(field: &str) -> String {
    let is_number = field.parse::<f64>().is_ok();
    let looks_like_formula = field.starts_with(['=', '+', '-', '@', '\t']) && !is_number;
    let text = if looks_like_formula { format!("'{field}") } else { field.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_are_texts() {
        let fields = ["a,b", "say \"hi\"", "=1+1", "-1.5", "plain"].map(str::to_owned);
        assert_eq!(joined(&fields), "\"a,b\",\"say \"\"hi\"\"\",'=1+1,-1.5,plain\r\n");
    }
}
