//! Seeds the database: templates, plans, the cluster, the demo org and two tokens.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use trueup_model::offer::Offer;
use trueup_model::plan::Plan;
use trueup_model::principal::Role;
use trueup_model::template::Template;
use trueup_model::{ClusterId, OrgId};
use trueup_rules::envelope::Keyring;
use trueup_rules::password::{self, Cost};
use trueup_store::{FirstUser, Setup, Shipped, new_salt};

use super::Options;
use super::keys::rewrap_org_keys;
use crate::install::Install;

/// Shipped templates. A published version never changes, so a change is a file of its own.
const TEMPLATES: [&str; 14] = [
    include_str!("../../../../templates/web.yaml"),
    include_str!("../../../../templates/worker.yaml"),
    include_str!("../../../../templates/cron.yaml"),
    include_str!("../../../../templates/postgres.yaml"),
    include_str!("../../../../templates/redis.yaml"),
    include_str!("../../../../templates/minecraft.yaml"),
    include_str!("../../../../templates/job.yaml"),
    include_str!("../../../../templates/gpu-job.yaml"),
    include_str!("../../../../templates/web-2.yaml"),
    include_str!("../../../../templates/worker-2.yaml"),
    include_str!("../../../../templates/cron-2.yaml"),
    include_str!("../../../../templates/postgres-2.yaml"),
    include_str!("../../../../templates/redis-2.yaml"),
    include_str!("../../../../templates/job-2.yaml"),
];

/// Shipped plans, and those for a real node on this machine.
const PLANS: &str = include_str!("../../../../plans/plans.yaml");
const REAL_PLANS: &str = include_str!("../../../../plans/local.yaml");

/// What orgs can subscribe to, and what the demo org has.
const OFFERS: &str = include_str!("../../../../plans/offers.yaml");
const DEMO_OFFER: &str = "team";

/// The node ports of endpoints: a part of Kubernetes' default range.
const ENDPOINT_PORTS: RangeInclusive<u16> = 30_000..=30_999;

/// Ids and tokens that the serving process needs.
#[derive(Debug)]
pub(super) struct Seeded {
    pub(super) cluster: ClusterId,
    pub(super) owner_token: String,
}

/// Creates whatever is missing.
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
            "searching services by name is slow: install the Postgres extensions pg_trgm and \
             btree_gin (postgresql-contrib), or let the role trueup_owner create them, and start again"
        );
    }
    for text in TEMPLATES {
        ship(&setup, &template(text)?).await?;
    }
    let real_node = options.config.expects_real_node();
    for plan in plans(if real_node { &[PLANS, REAL_PLANS] } else { &[PLANS] })? {
        setup.ensure_plan(&plan).await?;
    }
    for offer in serde_saphyr::from_str::<Vec<Offer>>(OFFERS)? {
        setup.ensure_offer(&offer).await?;
    }
    let cluster = setup.ensure_cluster("local", now).await?;
    setup.ensure_endpoint_pool(cluster, ENDPOINT_PORTS).await?;
    let org = setup.ensure_org("demo", now).await?;
    let owner_token = install.owner_token()?;
    let (owner, operator) = token_names(install, options)?;
    setup.ensure_token(&owner_token, &owner, Role::Owner, Some(org), now).await?;
    setup.ensure_token(&install.operator_token()?, &operator, Role::Operator, None, now).await?;
    people(install, &setup, options, org, now).await?;
    rewrap_org_keys(&setup, keys).await?;
    Ok(Seeded { cluster, owner_token })
}

/// The address of the demo org's owner, in a domain that nobody can own.
pub(crate) const OWNER: &str = "owner@example.com";

/// The owner of the demo org; without demo data the code that creates the first account.
async fn people(
    install: &Install,
    setup: &Setup,
    options: &Options,
    org: OrgId,
    now: Timestamp,
) -> anyhow::Result<()> {
    if options.config.demo {
        let password = install.owner_password()?;
        let password_hash = password::hash(password.reveal(), &new_salt(), Cost::RECOMMENDED)?;
        let email = OWNER.parse()?;
        let owner = FirstUser { email: &email, name: "Demo Owner", password_hash: &password_hash };
        let owner = setup.ensure_user(&owner, now).await?;
        setup.ensure_member(org, owner, Role::Owner, now).await?;
        setup.ensure_subscription(org, DEMO_OFFER, now).await?;
    }
    if setup.has_users().await? {
        install.forget_setup_code();
    } else {
        setup.ensure_setup_code(install.setup_code()?.reveal(), now).await?;
    }
    Ok(())
}

/// The names of this install's tokens.
///
/// A token replaces the one with the same name, so replicas on a shared database add their
/// identity.
fn token_names(install: &Install, options: &Options) -> anyhow::Result<(String, String)> {
    let suffix = match options.config.database {
        Some(_) => format!(" of {}", install.holder()?),
        None => String::new(),
    };
    Ok((format!("demo owner{suffix}"), format!("operator{suffix}")))
}

/// Publishes a shipped template; logs if its body differs from the stored version.
async fn ship(setup: &Setup, template: &Template) -> anyhow::Result<()> {
    let name = &template.name;
    match setup.ensure_template(template).await? {
        Shipped::New | Shipped::Known => {}
        Shipped::Next { version } => {
            tracing::warn!(
                template = %name, version,
                "this release changes a shipped template; published as the next version, existing \
                 services keep their version until they are changed"
            );
        }
        Shipped::CannotFollow { version, errors } => {
            let why: Vec<String> =
                errors.into_iter().map(|one| format!("{} {}", one.field, one.message)).collect();
            tracing::error!(
                template = %name, version, why = why.join("; "),
                "this release changes a shipped template incompatibly with its last version; not \
                 published. Publish it under another name with `trueup template publish`"
            );
        }
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
    use trueup_rules::rate::offer_check::check_offer;

    use super::*;

    #[test]
    fn every_shipped_template_has_a_shipped_plan() {
        let shipped: Vec<_> =
            plans(&[PLANS, REAL_PLANS]).unwrap().into_iter().map(|plan| plan.name).collect();
        for text in TEMPLATES {
            let template = template(text).unwrap();
            let plan = template.plan.unwrap_or_else(|| panic!("{} has no plan", template.name));
            assert!(shipped.contains(&plan), "{}: {plan}", template.name);
        }
    }

    #[test]
    fn every_shipped_offer_is_publishable() {
        let offers: Vec<Offer> = serde_saphyr::from_str(OFFERS).unwrap();
        assert!(offers.iter().any(|offer| offer.name.as_str() == DEMO_OFFER));
        for offer in &offers {
            assert_eq!(check_offer(offer), [], "{}", offer.name);
        }
    }

    #[test]
    fn every_shipped_template_is_publishable() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), TEMPLATES.len());
        for text in TEMPLATES {
            let template = template(text).unwrap();
            assert_eq!(check(&template), [], "{}", template.name);
        }
    }
}
