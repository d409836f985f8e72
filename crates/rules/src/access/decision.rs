//! One decision: whether a principal may do something in an org or in one of its projects, and why.

use std::collections::BTreeSet;
use std::fmt;

use trueup_model::id::{OrgId, ProjectId};
use trueup_model::principal::{Permission, Principal, ProjectRole, Role};

use super::permissions;

/// What a permission is asked for: an org as a whole, or one project in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// The org.
    pub org: OrgId,
    /// The project.
    pub project: Option<ProjectId>,
}

impl Resource {
    /// An org as a whole.
    #[must_use]
    pub const fn org(org: OrgId) -> Self {
        Self { org, project: None }
    }

    /// One project.
    #[must_use]
    pub const fn project(org: OrgId, project: ProjectId) -> Self {
        Self { org, project: Some(project) }
    }
}

/// The role that a decision is based on, and where it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The role.
    pub role: Role,
    /// The org it was given in; none for the platform.
    pub org: Option<OrgId>,
    /// The only project it was given in, with its name if it still has one.
    pub project: Option<(ProjectId, Option<String>)>,
}

/// Why something is allowed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The role includes it.
    Granted,
    /// The role does not include it.
    NotInRole,
    /// The role includes it, but the token was narrowed to less.
    Narrowed,
    /// The role was given in another org.
    OtherOrg,
    /// The role includes it, but was given in a project and not in the whole org.
    InProjectAlone,
}

/// Whether a principal may do something, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What was asked for.
    pub permission: Permission,
    /// Why it is allowed or not.
    pub reason: Reason,
    /// The role that decided.
    pub binding: Binding,
}

impl Decision {
    /// Whether it is allowed.
    #[must_use]
    pub const fn allowed(&self) -> bool {
        matches!(self.reason, Reason::Granted)
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role `{}`", self.role.into_str())?;
        match &self.project {
            None => Ok(()),
            Some((_, Some(name))) => write!(f, " in project `{name}`"),
            Some((id, None)) => write!(f, " in project {id}"),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (binding, permission) = (&self.binding, self.permission.into_str());
        match self.reason {
            Reason::Granted => write!(f, "{binding} includes `{permission}`"),
            Reason::NotInRole => write!(f, "{binding} does not include `{permission}`"),
            Reason::Narrowed => {
                write!(f, "the token is narrowed to fewer permissions than {binding} has")
            }
            Reason::OtherOrg => write!(f, "{binding} was given in another org"),
            Reason::InProjectAlone => {
                write!(f, "{binding} includes `{permission}`, but not in the whole org")
            }
        }
    }
}

/// Whether a principal may do this there.
///
/// A role in another org decides as if the org did not exist. A role in the org counts in each of its
/// projects; a role in a project counts there alone.
#[must_use]
pub fn decide(principal: &Principal, permission: Permission, resource: Resource) -> Decision {
    let decision = |reason, binding| Decision { permission, reason, binding };
    let binding = Binding { role: principal.role, org: principal.org, project: None };
    if !principal.role.is_of_platform() && principal.org != Some(resource.org) {
        return decision(Reason::OtherOrg, binding);
    }
    let narrowed = principal.permissions.as_ref();
    let granted = if narrowed.is_some_and(|only| !only.contains(&permission)) {
        Reason::Narrowed
    } else {
        Reason::Granted
    };
    if permissions(principal.role).contains(&permission) {
        return decision(granted, binding);
    }
    let with_it = |one: &&ProjectRole| permissions(one.role).contains(&permission);
    let of_project = |one: &ProjectRole| Binding {
        role: one.role,
        project: Some((one.project, one.name.clone())),
        ..binding.clone()
    };
    match resource.project {
        Some(project) => {
            let own = principal.projects.iter().find(|one| one.project == project);
            match own {
                Some(one) if with_it(&one) => decision(granted, of_project(one)),
                Some(one) => decision(Reason::NotInRole, of_project(one)),
                None => decision(Reason::NotInRole, binding),
            }
        }
        None => match principal.projects.iter().find(with_it) {
            Some(one) => decision(Reason::InProjectAlone, of_project(one)),
            None => decision(Reason::NotInRole, binding),
        },
    }
}

/// Where in an org a principal may do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Everywhere in it.
    Org,
    /// In these projects alone; in none at all if there are none.
    Projects(BTreeSet<ProjectId>),
}

/// Where in this org a principal may do this.
#[must_use]
pub fn reach(principal: &Principal, permission: Permission, org: OrgId) -> Reach {
    if decide(principal, permission, Resource::org(org)).allowed() {
        return Reach::Org;
    }
    let projects = principal.projects.iter().map(|one| one.project);
    let allowed = |project: &ProjectId| {
        decide(principal, permission, Resource::project(org, *project)).allowed()
    };
    Reach::Projects(projects.filter(allowed).collect())
}

#[cfg(test)]
mod tests {
    use trueup_model::id::TokenId;
    use trueup_model::principal::PrincipalId;
    use uuid::Uuid;

    use super::*;

    use Permission::{ManageMembers, ManageServices, ManageTokens, Read, ReadBilling, ReadContent};

    const HERE: OrgId = OrgId::from_uuid(Uuid::from_u128(1));
    const ELSEWHERE: OrgId = OrgId::from_uuid(Uuid::from_u128(2));
    const SHOP: ProjectId = ProjectId::from_uuid(Uuid::from_u128(11));
    const BLOG: ProjectId = ProjectId::from_uuid(Uuid::from_u128(12));

    fn principal(role: Role) -> Principal {
        Principal {
            id: PrincipalId::Token(TokenId::from_uuid(Uuid::from_u128(9))),
            name: "tester".to_owned(),
            role,
            projects: Vec::new(),
            org: Some(HERE),
            permissions: None,
            expires_at: None,
        }
    }

    /// Somebody with a role in the org and one in the project `shop`.
    fn bound(role: Role, in_shop: Role) -> Principal {
        let shop = ProjectRole { project: SHOP, name: Some("shop".to_owned()), role: in_shop };
        Principal { projects: vec![shop], ..principal(role) }
    }

    fn allowed(principal: &Principal, resource: Resource) -> Vec<Permission> {
        let allowed = |one: &Permission| decide(principal, *one, resource).allowed();
        Permission::ALL.into_iter().filter(allowed).collect()
    }

    #[test]
    fn role_in_a_project_counts_there_alone() {
        for role in Role::OF_PROJECT {
            let member = bound(Role::Member, role);
            let shop = Resource::project(HERE, SHOP);
            assert_eq!(allowed(&member, shop), permissions(role), "{role:?}");
            for outside in [
                Resource::org(HERE),
                Resource::project(HERE, BLOG),
                Resource::org(ELSEWHERE),
                Resource::project(ELSEWHERE, SHOP),
            ] {
                assert_eq!(allowed(&member, outside), [], "{role:?} {outside:?}");
            }
        }
    }

    #[test]
    fn role_in_the_org_counts_in_each_project_and_one_in_a_project_adds_to_it() {
        let viewer = bound(Role::Viewer, Role::Admin);
        assert_eq!(allowed(&viewer, Resource::org(HERE)), permissions(Role::Viewer));
        assert_eq!(allowed(&viewer, Resource::project(HERE, BLOG)), permissions(Role::Viewer));
        let shop = allowed(&viewer, Resource::project(HERE, SHOP));
        assert!(shop.contains(&ReadContent), "of the org: {shop:?}");
        assert!(shop.contains(&ManageServices), "of the project: {shop:?}");
        assert_eq!(reach(&viewer, Read, HERE), Reach::Org);
        let shop = Reach::Projects(BTreeSet::from([SHOP]));
        assert_eq!(reach(&viewer, ManageServices, HERE), shop);
        assert_eq!(reach(&viewer, ManageMembers, HERE), Reach::Projects(BTreeSet::new()));
        assert_eq!(reach(&viewer, ManageServices, ELSEWHERE), Reach::Projects(BTreeSet::new()));
    }

    /// The lifecycle of one project without its content, and nothing of the org.
    #[test]
    fn no_role_in_a_project_reaches_the_org() {
        let of_org = [ReadBilling, Permission::ManageBilling, ManageTokens, ManageMembers];
        for role in Role::OF_PROJECT {
            for permission in of_org {
                assert!(!permissions(role).contains(&permission), "{role:?} {permission:?}");
            }
            assert!(!role.is_of_platform());
        }
        let admin = allowed(&bound(Role::Member, Role::Admin), Resource::project(HERE, SHOP));
        assert!(admin.contains(&ManageServices) && !admin.contains(&ReadContent));
    }

    #[test]
    fn narrowed_token_has_no_more_in_a_project() {
        let only = Some(BTreeSet::from([Read]));
        let narrow = Principal { permissions: only, ..bound(Role::Member, Role::Developer) };
        assert_eq!(allowed(&narrow, Resource::project(HERE, SHOP)), [Read]);
        assert_eq!(reach(&narrow, ManageServices, HERE), Reach::Projects(BTreeSet::new()));
    }

    #[test]
    fn decision_names_its_reason_and_its_binding() {
        let viewer = principal(Role::Viewer);
        let narrow = Principal { permissions: Some(BTreeSet::from([Read])), ..viewer.clone() };
        for (principal, permission, org, reason, said) in [
            (&viewer, Read, HERE, Reason::Granted, "role `viewer` includes `read`"),
            (
                &viewer,
                ManageTokens,
                HERE,
                Reason::NotInRole,
                "role `viewer` does not include `manage_tokens`",
            ),
            (
                &narrow,
                ReadContent,
                HERE,
                Reason::Narrowed,
                "the token is narrowed to fewer permissions than role `viewer` has",
            ),
            (&viewer, Read, ELSEWHERE, Reason::OtherOrg, "role `viewer` was given in another org"),
        ] {
            let decision = decide(principal, permission, Resource::org(org));
            assert_eq!((decision.reason, decision.to_string().as_str()), (reason, said));
            let binding = Binding { role: Role::Viewer, org: Some(HERE), project: None };
            assert_eq!(decision.binding, binding);
        }
    }

    #[test]
    fn decision_in_a_project_names_the_project() {
        let admin = bound(Role::Member, Role::Admin);
        let (shop, blog) = (Resource::project(HERE, SHOP), Resource::project(HERE, BLOG));
        for (permission, resource, said) in [
            (Read, shop, "role `admin` in project `shop` includes `read`"),
            (ReadContent, shop, "role `admin` in project `shop` does not include `read_content`"),
            (Read, blog, "role `member` does not include `read`"),
            (
                Read,
                Resource::org(HERE),
                "role `admin` in project `shop` includes `read`, but not in the whole org",
            ),
        ] {
            assert_eq!(decide(&admin, permission, resource).to_string(), said);
        }
    }
}
