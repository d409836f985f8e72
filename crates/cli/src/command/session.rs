//! `trueup login`, `trueup join` and `trueup logout`: sessions of the command line.

use trueup_api::Client;
use trueup_api::invitation::InvitationAcceptance;
use trueup_api::session::{Session, SignIn};
use trueup_model::secret::SecretValue;
use trueup_model::session::PREFIX;

use crate::connect::connection::ClientFile;
use crate::connect::context::Context;
use crate::connect::contexts::{Contexts, NamedContext};
use crate::failure::{Exit, Failure};

/// The name that a session is saved under.
const SAVED: &str = "login";

/// Sign in with your address and password, and use the session from now on
#[derive(Debug, clap::Args)]
pub struct LoginArgs {
    /// Address of your account; the password is asked for, or read from stdin
    email: String,
    /// Name of the context that the session is saved in
    #[arg(long, value_name = "NAME", default_value = SAVED)]
    save: String,
}

/// Accept an invitation: create an account, or join with the one that you have
#[derive(Debug, clap::Args)]
pub struct JoinArgs {
    /// Link or code of the invitation; the password is asked for, or read from stdin
    invitation: String,
    /// Your name, if you have no account yet
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of the context that the session is saved in
    #[arg(long, value_name = "NAME", default_value = SAVED)]
    save: String,
}

/// End the session of the context in use, and remove the context
#[derive(Debug, clap::Args)]
pub struct LogoutArgs {}

pub async fn login(args: LoginArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = stranger(context)?;
    let password = context.terminal.secret("password")?;
    let wanted = SignIn { email: args.email, password };
    let begun = context.wait("signing in", client.session_create(&wanted)).await?;
    keep(&args.save, begun, &client, context)
}

pub async fn join(args: JoinArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = stranger(context)?;
    let password = context.terminal.secret("password")?;
    let code = args.invitation.rsplit('#').next().unwrap_or_default().to_owned().into();
    let wanted = InvitationAcceptance { code, name: args.name, password };
    let begun = context.wait("accepting", client.invitation_accept(&wanted)).await?;
    keep(&args.save, begun, &client, context)
}

pub async fn logout(_args: &LogoutArgs, context: &Context) -> anyhow::Result<Exit> {
    let chosen = context.credentials()?;
    if !chosen.token.reveal().starts_with(PREFIX) {
        let failure =
            Failure::new(Exit::Usage, "you are not signed in: these commands use a token");
        return Err(failure.hint("`trueup context remove NAME` forgets a token").into());
    }
    let client = context.connect()?.client;
    let ended = context.wait("signing out", client.session_delete()).await;
    let mut all = Contexts::read()?;
    let is_it = |named: &NamedContext| named.token == chosen.token;
    let names: Vec<String> = all
        .contexts
        .iter()
        .filter(|(_, named)| is_it(named))
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        all.contexts.remove(&name);
        all.current.take_if(|current| *current == name);
    }
    all.write()?;
    match ended {
        // It ended by itself before.
        Err(error) if error.code() != Some(trueup_api::Code::Unauthenticated) => Err(error.into()),
        Ok(()) | Err(_) => {
            context.terminal.note("signed out")?;
            Ok(Exit::Ok)
        }
    }
}

/// A client of the server that has no credential yet.
fn stranger(context: &Context) -> anyhow::Result<Client> {
    let url = match context.url() {
        Some(url) => url.to_owned(),
        None => match Contexts::read()?.choose(context.context())? {
            Some((_, named)) => named.url.clone(),
            None => ClientFile::read(&context.data_dir)?.map(|file| file.url).ok_or_else(|| {
                Failure::new(Exit::Usage, "no server address given").hint("pass --url")
            })?,
        },
    };
    Ok(Client::new(&url, "none")?)
}

/// Saves a session as the current context.
fn keep(
    name: &str,
    (session, token): (Session, SecretValue),
    client: &Client,
    context: &Context,
) -> anyhow::Result<Exit> {
    let mut all = Contexts::read()?;
    let url = client.base_url().to_owned();
    let org = context.org.clone().or_else(|| match session.orgs.as_slice() {
        [] | [_] => None,
        [first, ..] => Some(first.name.clone()),
    });
    let named = NamedContext { url, token, org: org.clone(), project: context.project.clone() };
    all.contexts.insert(name.to_owned(), named);
    all.current = Some(name.to_owned());
    all.write()?;
    if context.output.print(context.terminal, &session)? {
        return Ok(Exit::Ok);
    }
    let who = &session.principal.name;
    let place = org.or_else(|| session.org.map(|org| org.name));
    let place = place.unwrap_or_else(|| "the platform".to_owned());
    context.terminal.note(&format!(
        "signed in as {who} ({} of {place}); commands use context `{name}` until `trueup logout`",
        session.role
    ))?;
    Ok(Exit::Ok)
}
