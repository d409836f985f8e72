//! What a fresh install knows: templates, its cluster, the demo org and two tokens.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use trueup_model::ClusterId;
use trueup_model::plan::Plan;
use trueup_model::principal::Role;
use trueup_model::template::Template;
use trueup_rules::envelope::Keyring;
use trueup_store::{Setup, Shipped};

use super::Options;
use crate::install::Install;

/// Shipped templates, each a version-1 row.
const TEMPLATES: [&str; 8] = [
    include_str!("../../../../templates/web.yaml"),
    include_str!("../../../../templates/worker.yaml"),
    include_str!("../../../../templates/cron.yaml"),
    include_str!("../../../../templates/postgres.yaml"),
    include_str!("../../../../templates/redis.yaml"),
    include_str!("../../../../templates/minecraft.yaml"),
    include_str!("../../../../templates/job.yaml"),
    include_str!("../../../../templates/gpu-job.yaml"),
];

/// Shipped plans, and those that only a real node of this machine can keep.
const PLANS: &str = include_str!("../../../../plans/plans.yaml");
const REAL_PLANS: &str = include_str!("../../../../plans/local.yaml");

/// The node ports that endpoints get: a part of what Kubernetes gives out unless told otherwise.
const ENDPOINT_PORTS: RangeInclusive<u16> = 30_000..=30_999;

/// What the rest of the process needs of it.
#[derive(Debug)]
pub(super) struct Seeded {
    pub(super) cluster: ClusterId,
    pub(super) owner_token: String,
}

/// Makes sure that it is all there.
pub(super) async fn seed(
    install: &Install,
    owner_url: &str,
    keys: &Keyring,
    options: &Options,
    now: Timestamp,
) -> anyhow::Result<Seeded> {
    let setup = Setup::connect(owner_url).await?;
    if !setup.has_name_index().await? {
        tracing::warn!(
            "searching services by name will be slow: install the Postgres extensions pg_trgm and \
             btree_gin (postgresql-contrib), or let the role trueup_owner create them, and start again"
        );
    }
    for text in TEMPLATES {
        ship(&setup, &template(text)?).await?;
    }
    let real_node = options.expects_real_node();
    for plan in plans(if real_node { &[PLANS, REAL_PLANS] } else { &[PLANS] })? {
        setup.ensure_plan(&plan).await?;
    }
    let cluster = setup.ensure_cluster("local", now).await?;
    setup.ensure_endpoint_pool(cluster, ENDPOINT_PORTS).await?;
    let org = setup.ensure_org("demo", now).await?;
    let owner_token = install.owner_token()?;
    let (owner, operator) = token_names(install, options)?;
    setup.ensure_token(&owner_token, &owner, Role::Owner, Some(org), now).await?;
    setup.ensure_token(&install.operator_token()?, &operator, Role::Operator, None, now).await?;
    seal_anew(&setup, keys).await?;
    Ok(Seeded { cluster, owner_token })
}

/// What the tokens of this install are called. A token replaces the one of its name, so replicas that
/// share a database name theirs after themselves.
fn token_names(install: &Install, options: &Options) -> anyhow::Result<(String, String)> {
    let whose = match options.database {
        Some(_) => format!(" of {}", install.holder()?),
        None => String::new(),
    };
    Ok((format!("demo owner{whose}"), format!("operator{whose}")))
}

/// Publishes a shipped template where it is new, and says so where an older install has another body.
async fn ship(setup: &Setup, template: &Template) -> anyhow::Result<()> {
    let name = &template.name;
    match setup.ensure_template(template).await? {
        Shipped::New | Shipped::Known => {}
        Shipped::Next { version } => {
            tracing::warn!(
                template = %name, version,
                "this release ships another body of a template; it is published as the next version, and \
                 services stay with theirs until somebody changes them"
            );
        }
        Shipped::CannotFollow { version, errors } => {
            let why: Vec<String> =
                errors.into_iter().map(|one| format!("{} {}", one.field, one.message)).collect();
            tracing::error!(
                template = %name, version, why = why.join("; "),
                "this release ships a body of a template that its last version cannot become; it is not \
                 published. Publish it under another name with `trueup template publish`"
            );
        }
    }
    Ok(())
}

/// Seals the orgs' keys with the newest key of this install, where an older one still does.
async fn seal_anew(setup: &Setup, keys: &Keyring) -> anyhow::Result<()> {
    let (count, locked) = setup.rewrap_org_keys(keys).await?;
    if count > 0 {
        tracing::info!(key = keys.newest(), count, "orgs' keys were sealed anew");
    }
    for (org, error) in locked {
        // Everything else goes on; what needs these secrets says so.
        tracing::error!(%org, %error, "an org's key does not open");
    }
    Ok(())
}

fn plans(files: &[&str]) -> anyhow::Result<Vec<Plan>> {
    let mut plans = Vec::new();
    for text in files {
        plans.extend(serde_saphyr::from_str::<Vec<Plan>>(text)?);
    }
    Ok(plans)
}

fn template(text: &str) -> anyhow::Result<Template> {
    Ok(serde_saphyr::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use trueup_rules::admit::template::check;

    use super::*;

    #[test]
    fn every_shipped_template_has_a_plan_that_is_sold() {
        let sold: Vec<_> =
            plans(&[PLANS, REAL_PLANS]).unwrap().into_iter().map(|plan| plan.name).collect();
        for text in TEMPLATES {
            let template = template(text).unwrap();
            let plan = template.plan.unwrap_or_else(|| panic!("{} has no plan", template.name));
            assert!(sold.contains(&plan), "{}: {plan}", template.name);
        }
    }

    #[test]
    fn every_shipped_template_could_be_published() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), TEMPLATES.len());
        for text in TEMPLATES {
            let template = template(text).unwrap();
            assert_eq!(check(&template), [], "{}", template.name);
        }
    }
}
