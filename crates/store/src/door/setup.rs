//! Sets an install up: its first account.

use jiff::Timestamp;
use trueup_model::event::{Fact, MemberAdded};
use trueup_model::id::UserId;
use trueup_model::org::PLATFORM;
use trueup_model::principal::Role;
use trueup_model::user::EmailAddress;

use super::invitation::{Account, account};
use super::write::Write;
use super::{Refusal, RequestContext, member, system_principal};
use crate::App;
use crate::db::clock::sql;
use crate::db::setup::token_hash;

impl App {
    /// Creates the first account of an install: an operator of the platform. The code works once, and only
    /// while nobody has an account.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub async fn set_up(
        &self,
        code: &str,
        email: &EmailAddress,
        first: &Account<'_>,
        trace: Option<String>,
        now: Timestamp,
    ) -> Result<UserId, Refusal> {
        let nobody = system_principal(PLATFORM, "nobody");
        let context = RequestContext::new(&nobody, trace);
        self.write(PLATFORM, &context, now, |write| begin(write, code, email, first)).await
    }
}

async fn begin(
    mut write: Write<'_>,
    code: &str,
    email: &EmailAddress,
    first: &Account<'_>,
) -> Result<UserId, Refusal> {
    let (used,): (bool,) = sqlx::query_as("select use_setup_code($1, $2)")
        .bind(token_hash(code))
        .bind(sql(write.now))
        .fetch_one(&mut *write.tx)
        .await?;
    if !used {
        return Err(Refusal::CodeNotValid);
    }
    let user = account(&mut write, email, first).await?;
    member::insert(&mut write, user, Role::Operator).await?;
    let fact = Fact::MemberAdded(MemberAdded {
        user,
        role: Role::Operator,
        invitation: None,
        principal: user.to_string(),
    });
    write.record(fact).await?;
    write.finish(user).await
}
