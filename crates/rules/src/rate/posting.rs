//! Ledger entries of rated lines: double entry, balanced, and posted once.
//!
//! An entry brings the ledger from what was posted for a line to what the line says now. If nothing
//! changed there is no entry, so rating and posting may be repeated. Late usage, a retracted
//! interval and a correction are the same thing: another difference, on the line's own period.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_model::OrgId;
use trueup_model::id::ServiceId;
use trueup_model::money::Currency;
use trueup_model::usage::{Delivery, EvidenceHash, Meter, Span};

use super::line::{Line, LineClass, LineKey};
use crate::usage::hash;

/// An account of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// What an org owes.
    Receivable(OrgId),
    /// What was sold, by meter, at its value to the millionth.
    Revenue(Meter),
    /// What the provider bears, because it was not delivered or has no owner.
    Drift(Delivery),
    /// What rounding to payable amounts added or took off.
    Rounding,
    /// What an org paid in advance or was granted, and has not used.
    Credit(OrgId),
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receivable(org) => write!(f, "receivable:{org}"),
            Self::Revenue(meter) => write!(f, "revenue:{meter}"),
            Self::Drift(delivery) => write!(f, "drift:{delivery}"),
            Self::Rounding => f.write_str("rounding"),
            Self::Credit(org) => write!(f, "credit:{org}"),
        }
    }
}

/// One debit or credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The account.
    pub account: Account,
    /// The service it is about, if it is about one.
    pub service: Option<ServiceId>,
    /// The amount: a debit if it is positive, a credit if it is negative.
    pub micros: i64,
}

/// Postings that are recorded together and sum to zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its identity. The ledger has each one once.
    pub key: EvidenceHash,
    /// The org.
    pub org: OrgId,
    /// The line it is about; none if it uses credit.
    pub line: Option<LineKey>,
    /// The hash of the line it was computed from; zeros if the line is gone.
    pub evidence: EvidenceHash,
    /// The currency of its amounts.
    pub currency: Currency,
    /// The postings.
    pub postings: Vec<Posting>,
}

impl JournalEntry {
    /// The sum of its postings: zero, or it must not be recorded.
    #[must_use]
    pub fn sum(&self) -> i128 {
        self.postings.iter().map(|posting| i128::from(posting.micros)).sum()
    }
}

/// Amounts by account and service.
type Balances = BTreeMap<(Account, Option<ServiceId>), i64>;

/// The entries that bring the ledger to these lines, given what was posted already.
///
/// `lines` are all lines of one org and period. A line that was posted and is no longer among them
/// is reversed. Entries of other orgs and periods are ignored.
#[must_use]
pub fn accrue(
    org: OrgId,
    period: Span,
    posted: &[JournalEntry],
    lines: &[Line],
) -> Vec<JournalEntry> {
    let mut history: BTreeMap<&LineKey, Vec<&JournalEntry>> = BTreeMap::new();
    for entry in posted {
        let key = entry.line.as_ref().filter(|key| key.org == org && key.period == period);
        if let Some(key) = key {
            history.entry(key).or_default().push(entry);
        }
    }
    let current: BTreeMap<&LineKey, &Line> = lines.iter().map(|line| (&line.key, line)).collect();
    let keys: BTreeSet<&LineKey> = history.keys().chain(current.keys()).copied().collect();
    keys.into_iter()
        .filter_map(|key| {
            let before = history.get(key).map(Vec::as_slice).unwrap_or_default();
            difference(key, before, current.get(key).copied())
        })
        .collect()
}

/// The entry from what was posted for a line to what it says now; `None` if they are the same.
fn difference(
    key: &LineKey,
    before: &[&JournalEntry],
    line: Option<&Line>,
) -> Option<JournalEntry> {
    let mut open: Balances = line.map(balances).unwrap_or_default();
    for posting in before.iter().flat_map(|entry| &entry.postings) {
        let left = open.entry((posting.account, posting.service)).or_default();
        *left = left.saturating_sub(posting.micros);
    }
    let postings: Vec<Posting> = open
        .into_iter()
        .filter(|(_, micros)| *micros != 0)
        .map(|((account, service), micros)| Posting { account, service, micros })
        .collect();
    if postings.is_empty() {
        return None;
    }
    let currency =
        line.map(|line| line.currency).or_else(|| before.first().map(|entry| entry.currency))?;
    let evidence = line.map_or(EvidenceHash::new([0; 32]), Line::evidence);
    // Two processes that post the same step compute the same key, and only one of them succeeds.
    let mut texts = vec!["trueup entry 1".to_owned()];
    texts.extend(key.texts());
    texts.extend([before.len().to_string(), evidence.to_string()]);
    let (org, line) = (key.org, Some(key.clone()));
    Some(JournalEntry { key: hash::fields(&texts), org, line, evidence, currency, postings })
}

/// What the ledger says about a line once it is posted.
fn balances(line: &Line) -> Balances {
    let Some(debtor) = debtor(line) else { return Balances::new() };
    let revenue = Account::Revenue(line.key.item.meter());
    let residue = line.residue_micros();
    let mut balances = Balances::new();
    let mut add = |account: Account, service: Option<ServiceId>, micros: i64| {
        let balance = balances.entry((account, service)).or_default();
        *balance = balance.saturating_add(micros);
    };
    add(debtor, None, line.value_micros.saturating_add(residue));
    add(Account::Rounding, None, residue.saturating_neg());
    for share in &line.shares {
        add(revenue, share.owner.service, share.value_micros.saturating_neg());
    }
    balances
}

/// The account that is debited; `None` for a line without a payer.
fn debtor(line: &Line) -> Option<Account> {
    match line.key.class {
        LineClass::Charged => Some(Account::Receivable(line.key.org)),
        LineClass::UnderDelivered | LineClass::Orphan => line.key.class.drift().map(Account::Drift),
        LineClass::Simulated => None,
    }
}

/// The entry that pays what is due from credit, as far as it reaches; `None` if nothing is paid.
///
/// The reference says what is paid, such as an invoice, and makes the entry unique.
#[must_use]
pub fn draw_credit(
    org: OrgId,
    currency: Currency,
    due_micros: i64,
    credit_micros: i64,
    reference: &str,
) -> Option<JournalEntry> {
    let micros = due_micros.min(credit_micros);
    if micros <= 0 {
        return None;
    }
    let texts = ["trueup credit 1".to_owned(), org.to_string(), reference.to_owned()];
    let key = hash::fields(&texts);
    let postings = vec![
        Posting { account: Account::Credit(org), service: None, micros },
        Posting { account: Account::Receivable(org), service: None, micros: -micros },
    ];
    Some(JournalEntry { key, org, line: None, evidence: key, currency, postings })
}
