//! The ledger: entries, the sums of accounts, and verification.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use trueup_api::Code;
use trueup_api::ledger::{
    AccountBalance, AccountList, LedgerEntry, LedgerPage, LedgerPosting, LedgerVerification,
};
use trueup_api::schema::{LedgerPosition, PageLimit};
use trueup_model::money::Money;
use trueup_model::principal::Permission;

use crate::AppState;
use crate::front::caller::Caller;
use crate::front::cursor;
use crate::front::extract::Query;
use crate::front::problem::{Answer, Failure};
use crate::plan::money;

/// A page of the ledger.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// The `next` of the previous page.
    #[param(value_type = Option<LedgerPosition>)]
    after: Option<i64>,
    /// The page size, up to 1000; the default is 100.
    #[param(value_type = Option<PageLimit>)]
    limit: Option<i64>,
}

/// Lists the entries of the org's ledger, oldest first. Entries are never changed.
#[utoipa::path(get, path = "/v1/ledger", operation_id = "ledger_list", tag = "billing", params(Page),
    responses((status = 200, body = LedgerPage)))]
pub(crate) async fn ledger_list(
    State(state): State<AppState>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Answer<Json<LedgerPage>> {
    caller.must(Permission::ReadBilling)?;
    let (limit, after) = (cursor::limit(page.limit)?, page.after.unwrap_or(0));
    if after < 0 {
        let detail = "`after` must be the `next` of a page, or 0 for the beginning";
        return Err(Failure::new(Code::BadRequest, detail));
    }
    let found = state.app.list_ledger(caller.org, after, limit).await?;
    let full = usize::try_from(limit).is_ok_and(|limit| found.len() == limit);
    let next = found.last().filter(|_| full).map(|last| last.seq);
    Ok(Json(LedgerPage { items: found.iter().map(entry).collect(), next }))
}

/// Shows the sum of every account of the org. They sum to zero.
#[utoipa::path(get, path = "/v1/ledger/accounts", operation_id = "ledger_accounts", tag = "billing",
    responses((status = 200, body = AccountList)))]
pub(crate) async fn ledger_accounts(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<AccountList>> {
    caller.must(Permission::ReadBilling)?;
    let balances = state.app.account_balances(caller.org).await?;
    let view = |balance: &trueup_store::AccountBalance| AccountBalance {
        account: balance.account.to_string(),
        sum: money(balance.sum),
    };
    Ok(Json(AccountList { items: balances.iter().map(view).collect() }))
}

/// Computes usage and costs again from transitions, and compares them with what is stored.
#[utoipa::path(get, path = "/v1/ledger/verification", operation_id = "ledger_verify", tag = "billing",
    responses((status = 200, body = LedgerVerification)))]
pub(crate) async fn ledger_verify(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<Json<LedgerVerification>> {
    caller.must(Permission::ReadBilling)?;
    let found = state.app.verify_ledger(caller.org, &state.billing, state.clock.now()).await?;
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Ok(Json(LedgerVerification {
        entries: found.entries,
        objects: count(found.objects),
        lines: count(found.lines),
        pending: count(found.pending),
        difference: found.difference,
    }))
}

pub(crate) fn entry(entry: &trueup_store::LedgerEntry) -> LedgerEntry {
    let posting = |posting: &trueup_store::LedgerPosting| LedgerPosting {
        account: posting.account.to_string(),
        service: posting.service.map(|service| service.to_string()),
        amount: money(Money { micros: posting.micros, currency: entry.currency }),
    };
    LedgerEntry {
        seq: entry.seq,
        kind: entry.kind.clone(),
        item: entry.line.as_ref().map(|line| line.item.to_string()),
        period_from: entry.line.as_ref().map(|line| line.period.from),
        reference: entry.reference.clone(),
        evidence: entry.evidence.to_string(),
        posted_at: entry.posted_at,
        postings: entry.postings.iter().map(posting).collect(),
    }
}
