//! Ledger entries of rated lines: double entry, balanced, and posted once.
//!
//! An entry brings the ledger from what was posted for a line to what the line says now. If nothing
//! changed there is no entry, so rating and posting may be repeated. Late usage, a retracted
//! interval and a correction are the same thing: another difference, on the line's own period.

use std::collections::{BTreeMap, BTreeSet};

use trueup_model::OrgId;
use trueup_model::id::ServiceId;
use trueup_model::money::Currency;
use trueup_model::usage::{EvidenceHash, Span};

use super::account::Account;
use super::line::{Line, LineClass, LineKey};
use crate::usage::hash;

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
    /// How much usage it adds, in millionths of the meter's unit.
    pub quantity_micros: i128,
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
pub type Balances = BTreeMap<(Account, Option<ServiceId>), i64>;

/// What the ledger has about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The line.
    pub line: LineKey,
    /// The currency of its amounts.
    pub currency: Currency,
    /// How many entries there are about it.
    pub entries: u64,
    /// The usage that they add up to, in millionths of the meter's unit.
    pub quantity_micros: i128,
    /// The sums of their postings.
    pub balances: Balances,
}

impl Posted {
    /// What these entries say about each line.
    #[must_use]
    pub fn of(entries: &[JournalEntry]) -> Vec<Self> {
        let mut lines: BTreeMap<&LineKey, Self> = BTreeMap::new();
        for entry in entries {
            let Some(key) = &entry.line else { continue };
            let posted = lines.entry(key).or_insert_with(|| Self {
                line: key.clone(),
                currency: entry.currency,
                entries: 0,
                quantity_micros: 0,
                balances: Balances::new(),
            });
            posted.entries = posted.entries.saturating_add(1);
            posted.quantity_micros = posted.quantity_micros.saturating_add(entry.quantity_micros);
            for posting in &entry.postings {
                let sum = posted.balances.entry((posting.account, posting.service)).or_default();
                *sum = sum.saturating_add(posting.micros);
            }
        }
        lines.into_values().collect()
    }
}

/// The entries that bring the ledger to these lines, given what was posted already.
///
/// `lines` are all lines of one org and period. A line that was posted and is no longer among them
/// is reversed. What was posted for other orgs and periods is ignored.
#[must_use]
pub fn accrue(org: OrgId, period: Span, posted: &[Posted], lines: &[Line]) -> Vec<JournalEntry> {
    let is_here = |key: &LineKey| key.org == org && key.period == period;
    let before: BTreeMap<&LineKey, &Posted> = posted
        .iter()
        .filter(|posted| is_here(&posted.line))
        .map(|posted| (&posted.line, posted))
        .collect();
    let current: BTreeMap<&LineKey, &Line> = lines.iter().map(|line| (&line.key, line)).collect();
    let keys: BTreeSet<&LineKey> = before.keys().chain(current.keys()).copied().collect();
    keys.into_iter()
        .filter_map(|key| difference(key, before.get(key).copied(), current.get(key).copied()))
        .collect()
}

/// The entry from what was posted for a line to what it says now; `None` if they are the same.
fn difference(key: &LineKey, before: Option<&Posted>, line: Option<&Line>) -> Option<JournalEntry> {
    let mut open: Balances = line.map(balances).unwrap_or_default();
    for (account, micros) in before.into_iter().flat_map(|posted| &posted.balances) {
        let left = open.entry(*account).or_default();
        *left = left.saturating_sub(*micros);
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
        line.map(|line| line.currency).or_else(|| before.map(|posted| posted.currency))?;
    let evidence = line.map_or(EvidenceHash::new([0; 32]), Line::evidence);
    let step = before.map_or(0, |posted| posted.entries);
    // Two processes that post the same step compute the same key, and only one of them succeeds.
    let mut texts = vec!["trueup entry 1".to_owned()];
    texts.extend(key.texts());
    texts.extend([step.to_string(), evidence.to_string()]);
    let used = line.map_or(0, |line| line.quantity_micros);
    let posted = before.map_or(0, |posted| posted.quantity_micros);
    Some(JournalEntry {
        key: hash::fields(&texts),
        org: key.org,
        line: Some(key.clone()),
        evidence,
        quantity_micros: used.saturating_sub(posted),
        currency,
        postings,
    })
}

/// What the ledger says about a line once it is posted.
fn balances(line: &Line) -> Balances {
    let Some(debtor) = debtor(line) else { return Balances::new() };
    let revenue = line.key.item.meter().map_or(Account::Fees, Account::Revenue);
    let residue = line.residue_micros();
    let mut balances = Balances::new();
    let mut add = |account: Account, service: Option<ServiceId>, micros: i64| {
        let balance = balances.entry((account, service)).or_default();
        *balance = balance.saturating_add(micros);
    };
    add(debtor, None, line.value_micros.saturating_add(residue));
    add(Account::Rounding, None, residue.saturating_neg());
    if line.shares.is_empty() {
        // A fee is of the org and of none of its services.
        add(revenue, None, line.value_micros.saturating_neg());
    }
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

/// An entry without usage between two accounts: a debit of the first, a credit of the second.
///
/// The reference says what it is about, and makes it unique.
#[must_use]
pub fn transfer(
    org: OrgId,
    currency: Currency,
    (debit, credit): (Account, Account),
    micros: i64,
    reference: &str,
) -> JournalEntry {
    let texts = ["trueup transfer 1", reference].map(str::to_owned);
    let accounts = [org.to_string(), debit.to_string(), credit.to_string(), micros.to_string()];
    let key = hash::fields(&texts.into_iter().chain(accounts).collect::<Vec<_>>());
    let postings = vec![
        Posting { account: debit, service: None, micros },
        Posting { account: credit, service: None, micros: micros.saturating_neg() },
    ];
    let quantity_micros = 0;
    JournalEntry { key, org, line: None, evidence: key, quantity_micros, currency, postings }
}
