//! The client commands, one file per command.

pub mod api;
pub mod apply;
pub mod audit;
pub mod billing;
pub mod budget;
pub mod can_i;
pub mod catalog;
pub mod cluster;
pub mod compare;
pub mod conflicts;
pub mod context;
pub mod cost;
pub mod credit;
pub mod delete;
pub mod describe;
pub mod domain;
pub mod drift;
pub mod endpoint;
pub mod entry_preview;
pub mod env;
pub mod events;
pub mod exact;
pub mod explain;
pub mod findings;
pub mod freeze;
pub mod get;
pub mod history;
pub mod invoice;
pub mod ledger;
pub mod logs;
pub mod lookup;
pub mod members;
pub mod operation;
pub mod org;
pub mod plan;
pub mod provider;
pub mod quota;
pub mod receipt;
pub mod run;
pub mod secret;
pub mod services;
pub mod session;
pub mod status;
pub mod subscription;
pub mod template;
pub mod token;
pub mod variable;
pub mod version;
pub mod volume;
pub mod wakes;
pub mod watch;
pub mod why;

use clap::Subcommand;

use crate::connect::context::Context;
use crate::failure::Exit;

/// A command that talks to a server.
#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::Args),

    // Services.
    #[command(alias = "diff")]
    Plan(plan::Args),
    #[command(alias = "create")]
    Apply(apply::Args),
    #[command(alias = "ps", alias = "list", alias = "ls")]
    Get(get::Args),
    Describe(describe::Args),
    Compare(compare::Args),
    History(history::Args),
    Why(why::Args),
    Watch(watch::Args),
    Logs(logs::Args),
    #[command(alias = "stop")]
    Pause(operation::PauseArgs),
    #[command(alias = "start")]
    Resume(operation::ResumeArgs),
    Restart(operation::RestartArgs),
    Scale(operation::ScaleArgs),
    Resize(operation::ResizeArgs),
    Hours(operation::HoursArgs),
    Rollback(operation::RollbackArgs),
    Reconcile(freeze::ReconcileArgs),
    Freeze(freeze::FreezeArgs),
    Unfreeze(freeze::UnfreezeArgs),
    Drift(drift::Args),
    Approve(drift::ApproveArgs),
    Conflicts(conflicts::Args),
    Cost(cost::Args),
    Subscription(subscription::Args),
    Quota(quota::Args),
    Invoice(invoice::Args),
    Credit(credit::Args),
    Ledger(ledger::Args),
    Budget(budget::Args),
    Billing(billing::Args),
    Run(run::Args),
    #[command(alias = "rm")]
    Delete(delete::Args),
    Receipts(receipt::ListArgs),
    Receipt(receipt::Args),
    Events(events::Args),
    Lookup(lookup::Args),
    Audit(audit::Args),
    Api(api::Args),
    Explain(explain::Args),
    Template(template::Args),

    // Access and operation.
    Login(session::LoginArgs),
    Logout(session::LogoutArgs),
    Join(session::JoinArgs),
    Whoami(token::WhoamiArgs),
    CanI(can_i::Args),
    Members(members::Args),
    Invite(members::InviteArgs),
    Provider(provider::Args),
    Token(token::Args),
    Org(org::Args),
    Wakes(wakes::Args),
    Findings(findings::Args),
    Cluster(cluster::Args),
    Context(context::Args),

    Env(env::Args),
    Variable(variable::Args),
    Secret(secret::Args),
    Domain(domain::Args),
    Endpoint(endpoint::Args),
    Version(version::Args),
}

/// Runs a command.
///
/// # Errors
/// The error to show to the user.
#[expect(clippy::cognitive_complexity, reason = "a table of commands, however many")]
pub async fn run(command: Command, context: &Context) -> anyhow::Result<Exit> {
    Ok(match command {
        Command::Status(args) => Box::pin(status::run(&args, context)).await?,
        Command::Plan(args) => Box::pin(plan::run(args, context)).await?,
        Command::Pause(args) => Box::pin(operation::pause(args, context)).await?,
        Command::Resume(args) => Box::pin(operation::resume(args, context)).await?,
        Command::Restart(args) => Box::pin(operation::restart(args, context)).await?,
        Command::Scale(args) => Box::pin(operation::scale(args, context)).await?,
        Command::Resize(args) => Box::pin(operation::resize(args, context)).await?,
        Command::Hours(args) => Box::pin(operation::hours(args, context)).await?,
        Command::Rollback(args) => Box::pin(operation::rollback(args, context)).await?,
        Command::Apply(args) => Box::pin(apply::run(args, context)).await?,
        Command::Get(args) => Box::pin(get::run(args, context)).await?,
        Command::Describe(args) => Box::pin(describe::run(args, context)).await?,
        Command::Compare(args) => Box::pin(compare::run(args, context)).await?,
        Command::History(args) => Box::pin(history::run(args, context)).await?,
        Command::Why(args) => Box::pin(why::run(args, context)).await?,
        Command::Watch(args) => Box::pin(watch::run(args, context)).await?,
        Command::Logs(args) => Box::pin(logs::run(args, context)).await?,
        Command::Reconcile(args) => Box::pin(freeze::reconcile(args, context)).await?,
        Command::Freeze(args) => Box::pin(freeze::freeze(args, context)).await?,
        Command::Unfreeze(args) => Box::pin(freeze::unfreeze(args, context)).await?,
        Command::Drift(args) => Box::pin(drift::run(args, context)).await?,
        Command::Approve(args) => Box::pin(drift::approve(args, context)).await?,
        Command::Conflicts(args) => Box::pin(conflicts::run(args, context)).await?,
        Command::Subscription(args) => Box::pin(subscription::run(args, context)).await?,
        Command::Quota(args) => Box::pin(quota::run(args, context)).await?,
        Command::Cost(args) => Box::pin(cost::run(args, context)).await?,
        Command::Invoice(args) => Box::pin(invoice::run(args, context)).await?,
        Command::Credit(args) => Box::pin(credit::run(args, context)).await?,
        Command::Ledger(args) => Box::pin(ledger::run(args, context)).await?,
        Command::Budget(args) => Box::pin(budget::run(args, context)).await?,
        Command::Billing(args) => Box::pin(billing::run(args, context)).await?,
        Command::Run(args) => Box::pin(run::run(args, context)).await?,
        Command::Delete(args) => Box::pin(delete::run(args, context)).await?,
        Command::Receipts(args) => Box::pin(receipt::list(args, context)).await?,
        Command::Receipt(args) => Box::pin(receipt::run(args, context)).await?,
        Command::Events(args) => Box::pin(events::run(args, context)).await?,
        Command::Lookup(args) => Box::pin(lookup::run(args, context)).await?,
        Command::Audit(args) => Box::pin(audit::run(args, context)).await?,
        Command::Api(args) => Box::pin(api::run(args, context)).await?,
        Command::Login(args) => Box::pin(session::login(args, context)).await?,
        Command::Logout(args) => Box::pin(session::logout(&args, context)).await?,
        Command::Join(args) => Box::pin(session::join(args, context)).await?,
        Command::CanI(args) => Box::pin(can_i::run(&args, context)).await?,
        Command::Members(args) => Box::pin(members::run(args, context)).await?,
        Command::Invite(args) => Box::pin(members::invite(args, context)).await?,
        Command::Provider(args) => Box::pin(provider::run(args, context)).await?,
        Command::Whoami(args) => Box::pin(token::whoami(&args, context)).await?,
        Command::Token(args) => Box::pin(token::run(args, context)).await?,
        Command::Wakes(args) => Box::pin(wakes::run(args, context)).await?,
        Command::Findings(args) => Box::pin(findings::run(args, context)).await?,
        Command::Cluster(args) => Box::pin(cluster::run(args, context)).await?,
        Command::Org(args) => Box::pin(org::run(args, context)).await?,
        Command::Context(args) => Box::pin(context::run(args, context)).await?,
        Command::Env(args) => env::run(&args, context)?,
        Command::Explain(args) => Box::pin(explain::run(args, context)).await?,
        Command::Template(args) => Box::pin(template::run(args, context)).await?,
        Command::Variable(args) => Box::pin(variable::run(args, context)).await?,
        Command::Secret(args) => Box::pin(secret::run(args, context)).await?,
        Command::Domain(args) => Box::pin(domain::run(args, context)).await?,
        Command::Endpoint(args) => Box::pin(endpoint::run(args, context)).await?,
        Command::Version(args) => version::run(&args, context)?,
    })
}
