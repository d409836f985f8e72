//! `trueup invoice`: invoices, their files, and what each line was computed from.

mod explain;

use std::path::PathBuf;

use anyhow::Context as _;
use trueup_api::Client;
use trueup_api::client::ClientError;
use trueup_api::invoice::{
    Invoice, InvoiceIssueBody, InvoiceLine, InvoiceList, InvoicePayBody, InvoiceVoidBody,
};
use trueup_model::invoice::InvoiceState;

use crate::command::get::show;
use crate::connect::context::Context;
use crate::dry_run::DryRun;
use crate::failure::Exit;
use crate::output::human::{clean, moment};
use crate::output::style::Paint;
use crate::output::table::{Cell, Table};

/// What a draft has instead of a number.
const DRAFT: &str = "draft";

/// List invoices, show and save one, and open a line down to what was observed
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show an invoice with its lines
    Show {
        /// Number or id
        invoice: String,
    },
    /// Save an invoice as a file
    Save {
        /// Number or id
        invoice: String,
        /// Where to; default: the number with the format's ending
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// The format
        #[arg(long, value_parser = ["pdf", "csv", "json"], default_value = "pdf")]
        format: String,
    },
    /// Open a line: ledger entries, intervals, transitions and hashes
    Explain {
        /// Number or id
        invoice: String,
        /// The id of the line; default: the first one
        line: Option<String>,
    },
    /// Show what an invoice would say now (operators)
    Draft {
        /// The month, such as 2030-01; default: the current one
        #[arg(long, value_name = "MONTH")]
        period: Option<String>,
    },
    /// Invoice what was used and no invoice has (operators); happens by itself after each month
    Issue {
        /// The month, such as 2030-01; default: the current one
        #[arg(long, value_name = "MONTH")]
        period: Option<String>,
        /// Also if the month is not over
        #[arg(long)]
        early: bool,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Record that an invoice was paid (operators)
    Pay {
        /// Number or id
        invoice: String,
        /// How, such as `bank transfer`
        #[arg(long, default_value = "manual")]
        method: String,
        #[command(flatten)]
        dry: DryRun,
    },
    /// Withdraw an invoice that is not paid: its usage is on the next one (operators)
    Void {
        /// Number or id
        invoice: String,
        /// Why
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        dry: DryRun,
    },
}

pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect()?.client;
    let Some(command) = args.command else { return list(&client, context).await };
    let (subject, writing, invoice) = match command {
        Command::Show { invoice } => {
            let found = context.wait("reading the invoice", client.invoice_get(&invoice)).await?;
            return shown(&found, context);
        }
        Command::Save { invoice, to, format } => {
            let to = to.unwrap_or_else(|| PathBuf::from(format!("{invoice}.{format}")));
            let reading = client.invoice_document(&invoice, &format);
            let file = context.wait("reading the invoice", reading).await?;
            std::fs::write(&to, file).with_context(|| format!("cannot write {}", to.display()))?;
            context.terminal.line(&format!("saved {}", to.display()))?;
            return Ok(Exit::Ok);
        }
        Command::Explain { invoice, line } => {
            return explain::run(&client, &invoice, line, context).await;
        }
        Command::Draft { period } => {
            let body = InvoiceIssueBody { period, early: true };
            let rehearsal = client.dry_run();
            let issuing = rehearsal.client().invoice_issue(&body);
            let mut draft = context.wait("computing the invoice", issuing).await?;
            DRAFT.clone_into(&mut draft.number);
            return shown(&draft, context);
        }
        Command::Issue { period, early, dry } => {
            let writing = dry.begin(&client);
            let body = InvoiceIssueBody { period, early };
            let issued =
                context.wait("issuing the invoice", writing.client().invoice_issue(&body)).await?;
            ("the invoice", writing, issued)
        }
        Command::Pay { invoice, method, dry } => {
            let writing = dry.begin(&client);
            let body = InvoicePayBody { method };
            let paying = writing.client().invoice_pay(&invoice, &body);
            let paid = context.wait("recording the payment", paying).await?;
            ("the payment", writing, paid)
        }
        Command::Void { invoice, reason, dry } => {
            let writing = dry.begin(&client);
            let body = InvoiceVoidBody { reason };
            let voiding = writing.client().invoice_void(&invoice, &body);
            let voided = context.wait("voiding the invoice", voiding).await?;
            ("the void invoice", writing, voided)
        }
    };
    if writing.previewed(subject, context)? {
        return Ok(Exit::Ok);
    }
    shown(&invoice, context)
}

/// Lists them.
pub async fn list(client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let list = context.wait("reading the invoices", every_invoice(client)).await?;
    if context.output.print(context.terminal, &list)? {
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NUMBER", "PERIOD", "STATE", "TOTAL", "DUE", "ISSUED"]);
    for one in &list.items {
        table.row(vec![
            Cell::plain(&one.number),
            Cell::plain(&one.period.name),
            state(one.state),
            Cell::plain(&one.total.text),
            Cell::plain(&one.due.text),
            Cell::plain(&moment(one.issued_at)),
        ]);
    }
    let hint = || "a month is invoiced once it is over; `trueup cost` shows what it costs so far";
    show(&table, list.items.is_empty(), context, "invoices", hint)?;
    Ok(Exit::Ok)
}

async fn every_invoice(client: &Client) -> Result<InvoiceList, ClientError> {
    let mut all = InvoiceList { items: Vec::new(), next: None };
    loop {
        let page = client.invoice_list(all.next.as_deref()).await?;
        all.items.extend(page.items);
        all.next = page.next;
        if all.next.is_none() {
            return Ok(all);
        }
    }
}

fn state(state: InvoiceState) -> Cell {
    let paint = match state {
        InvoiceState::Issued => Paint::Busy,
        InvoiceState::Paid => Paint::Good,
        InvoiceState::Void => Paint::Plain,
    };
    Cell::new(paint, state.into_str())
}

fn shown(invoice: &Invoice, context: &Context) -> anyhow::Result<Exit> {
    if context.output.print_item(context.terminal, invoice)? {
        return Ok(Exit::Ok);
    }
    let terminal = context.terminal;
    let reason = invoice.reason.as_deref().map(|why| format!(": {}", clean(why)));
    let head = [
        ("INVOICE", format!("{}, {}{}", invoice.number, invoice.state, reason.unwrap_or_default())),
        ("PERIOD", invoice.period.name.clone()),
        ("BILLED TO", clean(billed_to(invoice))),
        ("DUE", moment(invoice.due_at)),
    ];
    for (label, text) in head {
        terminal.line(&format!("{:<11}{text}", terminal.style().paint(Paint::Strong, label)))?;
    }
    terminal.line("")?;
    context.table(&lines(invoice))?;
    terminal.line("")?;
    let tax = format!("tax {} %", invoice.tax_percent);
    let sums = [
        ("subtotal", &invoice.subtotal),
        (tax.as_str(), &invoice.tax),
        ("total", &invoice.total),
        ("credit", &invoice.credit),
        ("to pay", &invoice.due),
    ];
    for (label, amount) in sums {
        terminal.line(&format!("{label:>11}  {}", amount.text))?;
    }
    if invoice.number != DRAFT {
        let number = &invoice.number;
        terminal.note(&format!("open a line with `trueup invoice explain {number} LINE`"))?;
    }
    Ok(Exit::Ok)
}

fn billed_to(invoice: &Invoice) -> &str {
    let customer = &invoice.customer;
    if customer.name.is_empty() { &customer.reference } else { &customer.name }
}

fn lines(invoice: &Invoice) -> Table {
    let mut table = Table::new(&["LINE", "ITEM", "QUANTITY", "PER HOUR", "AMOUNT"]);
    for line in &invoice.lines {
        let item =
            if line.correction { format!("{} (correction)", line.item) } else { line.item.clone() };
        table.row(vec![
            Cell::plain(&line.id),
            Cell::plain(&item),
            Cell::plain(&format!("{} {}", line.quantity, line.unit)),
            Cell::plain(&per_hour(line)),
            Cell::plain(&line.amount.text),
        ]);
    }
    table
}

fn per_hour(line: &InvoiceLine) -> String {
    line.hourly.as_ref().map_or_else(|| "by tiers".to_owned(), |amount| amount.text.clone())
}
