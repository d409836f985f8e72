//! Authorization: what a principal may do in an org or in one of its projects, and which roles and tokens
//! it may give.
//!
//! A role is a set of permissions. The sets are no ladder: one may run services without seeing what they
//! contain, and one may see what they cost without seeing them at all.

mod decision;

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_model::token::TokenSpec;

pub use decision::{Binding, Decision, Reach, Reason, Resource, decide, reach};

/// The permissions of a role.
#[must_use]
pub const fn permissions(role: Role) -> &'static [Permission] {
    use Permission::{
        ManageBilling, ManageMembers, ManageProjects, ManageSecrets, ManageServices, ManageTokens,
        Read, ReadBilling, ReadContent, ReadPlatform,
    };
    match role {
        Role::Member => &[],
        Role::Viewer => &[Read, ReadContent],
        Role::Billing => &[Read, ReadBilling, ManageBilling],
        Role::Developer => &[Read, ReadContent, ManageServices, ManageSecrets],
        Role::Admin => &[Read, ManageServices, ManageProjects],
        Role::Owner => &[
            Read,
            ReadContent,
            ReadBilling,
            ManageBilling,
            ManageServices,
            ManageSecrets,
            ManageProjects,
            ManageTokens,
            ManageMembers,
        ],
        Role::Auditor => &[Read, ReadBilling, ReadPlatform],
        Role::Operator => &Permission::ALL,
    }
}

/// The permissions of a role, or the subset that a narrowed token keeps.
#[must_use]
pub fn granted(role: Role, narrowed: Option<&BTreeSet<Permission>>) -> BTreeSet<Permission> {
    let all = permissions(role).iter().copied();
    all.filter(|permission| narrowed.is_none_or(|only| only.contains(permission))).collect()
}

/// The roles that include a permission.
pub fn roles_with(permission: Permission) -> impl Iterator<Item = Role> {
    Role::ALL.into_iter().filter(move |role| permissions(*role).contains(&permission))
}

/// Whether a principal may give somebody this role: it has every permission of the role itself, and only the
/// platform gives roles of the platform.
#[must_use]
pub fn may_give(giver: &Principal, role: Role) -> bool {
    let own = granted(giver.role, giver.permissions.as_ref());
    let everything = permissions(role).iter().all(|permission| own.contains(permission));
    everything && (giver.role.is_of_platform() || !role.is_of_platform())
}

/// Whether a member may lose their role: another one with the highest role of the org must be left.
///
/// The platform may take an org's last owner away, because it can invite a new one. The platform's last
/// operator stays.
#[must_use]
pub fn may_lose_role(
    principal: &Principal,
    role: Role,
    mut others: impl Iterator<Item = Role>,
) -> bool {
    let highest = [Role::Owner, Role::Operator];
    let from_above = principal.role.is_of_platform() && !role.is_of_platform();
    from_above || !highest.contains(&role) || others.any(|other| other == role)
}

/// Why a token may not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefused {
    /// The role has permissions that the creator's own role does not have.
    Role,
    /// These permissions are not part of the token's role.
    NotInRole(Vec<Permission>),
    /// The creator does not have these permissions.
    Permissions(Vec<Permission>),
    /// It would expire after the creator's own token, which expires then.
    Outlives(Timestamp),
    /// It would be expired already.
    Past,
}

/// Whether a principal may create this token: with at most its own permissions and lifetime.
///
/// Returns the token to create: without an expiry of its own, it gets the creator's.
///
/// # Errors
/// [`TokenRefused`] says what exceeds the creator's own rights.
pub fn may_create_token(
    creator: &Principal,
    wanted: TokenSpec,
    now: Timestamp,
) -> Result<TokenSpec, TokenRefused> {
    let unlimited = Principal { permissions: None, ..creator.clone() };
    if !may_give(&unlimited, wanted.role) {
        return Err(TokenRefused::Role);
    }
    let own = granted(creator.role, creator.permissions.as_ref());
    let given = granted(wanted.role, wanted.permissions.as_ref());
    let asked = wanted.permissions.clone().unwrap_or_default();
    let not_in_role: Vec<Permission> = asked.difference(&given).copied().collect();
    if !not_in_role.is_empty() {
        return Err(TokenRefused::NotInRole(not_in_role));
    }
    let too_much: Vec<Permission> = given.difference(&own).copied().collect();
    if !too_much.is_empty() {
        return Err(TokenRefused::Permissions(too_much));
    }
    let expires_at = wanted.expires_at.or(creator.expires_at);
    match (expires_at, creator.expires_at) {
        (Some(end), _) if end <= now => Err(TokenRefused::Past),
        (Some(end), Some(own)) if end > own => Err(TokenRefused::Outlives(own)),
        (Some(_) | None, Some(_) | None) => Ok(TokenSpec { expires_at, ..wanted }),
    }
}

/// The properties of a token that decide whether another one may be revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its role.
    pub role: Role,
    /// The subset of its role's permissions, if narrowed.
    pub permissions: Option<BTreeSet<Permission>>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
}

impl Key {
    /// Whether it can create tokens now.
    fn can_create_tokens(&self, now: Timestamp) -> bool {
        let lives = self.expires_at.is_none_or(|end| end > now);
        lives && granted(self.role, self.permissions.as_ref()).contains(&Permission::ManageTokens)
    }

    /// Whether it can do everything that the other one can, and lives as long.
    fn replaces(&self, other: &Self, now: Timestamp) -> bool {
        let own = granted(self.role, self.permissions.as_ref());
        let can_as_much = own.is_superset(&granted(other.role, other.permissions.as_ref()));
        let lives_as_long = match (self.expires_at, other.expires_at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => own >= others,
        };
        self.can_create_tokens(now) && can_as_much && lives_as_long
    }
}

/// Whether a token may be revoked: if it can create tokens, another one that can do at least as much,
/// for at least as long, must be left. A narrowed or expiring token does not replace an owner's.
///
/// An operator may revoke an org's last such token, because operators can create a new one. The
/// last operator token cannot be revoked.
#[must_use]
pub fn may_revoke(
    context: &Principal,
    target: &Key,
    mut others: impl Iterator<Item = Key>,
    now: Timestamp,
) -> bool {
    let from_above = context.role == Role::Operator && !target.role.is_of_platform();
    from_above || !target.can_create_tokens(now) || others.any(|other| other.replaces(target, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::{OrgId, TokenId};
    use trueup_model::principal::PrincipalId;

    use Permission::{
        ManageBilling, ManageMembers, ManagePlatform, ManageProjects, ManageSecrets,
        ManageServices, ManageTokens, Read, ReadBilling, ReadContent, ReadPlatform,
    };

    fn principal(role: Role, org: Option<u128>) -> Principal {
        Principal {
            id: PrincipalId::Token(TokenId::from_uuid(uuid::Uuid::from_u128(9))),
            name: "tester".to_owned(),
            role,
            projects: Vec::new(),
            org: org.map(|n| OrgId::from_uuid(uuid::Uuid::from_u128(n))),
            permissions: None,
            expires_at: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(role: Role, permissions: Option<&[Permission]>, end: Option<i64>) -> TokenSpec {
        TokenSpec {
            name: "new".to_owned(),
            role,
            project: None,
            permissions: permissions.map(|some| some.iter().copied().collect()),
            expires_at: end.map(at),
        }
    }

    fn allowed(principal: &Principal, org: OrgId) -> Vec<Permission> {
        let allowed =
            |permission: &Permission| decide(principal, *permission, Resource::org(org)).allowed();
        Permission::ALL.into_iter().filter(allowed).collect()
    }

    #[test]
    fn each_role_has_the_permissions_of_its_row_in_its_own_org() {
        let here = OrgId::from_uuid(uuid::Uuid::from_u128(1));
        let content = [Read, ReadContent];
        let table: [(Role, &[Permission]); 5] = [
            (Role::Viewer, &content),
            (Role::Billing, &[Read, ReadBilling, ManageBilling]),
            (Role::Developer, &[Read, ReadContent, ManageServices, ManageSecrets]),
            (Role::Admin, &[Read, ManageServices, ManageProjects]),
            (
                Role::Owner,
                &[
                    Read,
                    ReadContent,
                    ReadBilling,
                    ManageBilling,
                    ManageServices,
                    ManageSecrets,
                    ManageProjects,
                    ManageTokens,
                    ManageMembers,
                ],
            ),
        ];
        for (role, expected) in table {
            assert_eq!(allowed(&principal(role, Some(1)), here), expected, "{role:?}");
            assert_eq!(allowed(&principal(role, Some(2)), here), [], "{role:?} of another org");
        }
        assert_eq!(allowed(&principal(Role::Operator, None), here), Permission::ALL);
        let reads = [Read, ReadBilling, ReadPlatform];
        assert_eq!(allowed(&principal(Role::Auditor, None), here), reads);
    }

    /// The lifecycle without the content, and the bill without either.
    #[test]
    fn roles_are_no_ladder() {
        let has = |role: Role, permission| permissions(role).contains(&permission);
        assert!(has(Role::Admin, ManageServices) && !has(Role::Admin, ReadContent));
        assert!(has(Role::Viewer, ReadContent) && !has(Role::Viewer, ManageServices));
        assert!(has(Role::Billing, ReadBilling) && !has(Role::Developer, ReadBilling));
        for role in Role::ALL {
            assert_eq!(has(role, Read), role != Role::Member, "{role:?}");
            assert_eq!(has(role, ReadPlatform), role.is_of_platform(), "{role:?}");
        }
        assert_eq!(
            roles_with(ReadContent).collect::<Vec<_>>(),
            [Role::Viewer, Role::Developer, Role::Owner, Role::Operator]
        );
    }

    #[test]
    fn nobody_gives_a_role_with_more_than_their_own() {
        let gives = |giver: Role, org| -> Vec<Role> {
            let giver = principal(giver, org);
            Role::ALL.into_iter().filter(|role| may_give(&giver, *role)).collect()
        };
        let tenants =
            [Role::Member, Role::Viewer, Role::Billing, Role::Developer, Role::Admin, Role::Owner];
        assert_eq!(gives(Role::Owner, Some(1)), tenants);
        assert_eq!(gives(Role::Operator, None), Role::ALL);
        assert_eq!(gives(Role::Admin, Some(1)), [Role::Member, Role::Admin]);
        let fewer = [Role::Member, Role::Viewer, Role::Developer];
        assert_eq!(gives(Role::Developer, Some(1)), fewer);
        assert_eq!(gives(Role::Auditor, None), [Role::Member, Role::Auditor]);
        let narrow = Principal {
            permissions: Some(BTreeSet::from([Read, ManageMembers])),
            ..principal(Role::Owner, Some(1))
        };
        assert!(!may_give(&narrow, Role::Viewer));
    }

    #[test]
    fn last_owner_and_last_operator_keep_their_role() {
        let (owner, operator) = (principal(Role::Owner, Some(1)), principal(Role::Operator, None));
        for (who, role, others, expected) in [
            (&owner, Role::Owner, vec![], false),
            (&owner, Role::Owner, vec![Role::Admin, Role::Viewer], false),
            (&owner, Role::Owner, vec![Role::Owner], true),
            (&owner, Role::Admin, vec![], true),
            (&operator, Role::Owner, vec![], true),
            (&operator, Role::Operator, vec![Role::Auditor], false),
            (&operator, Role::Operator, vec![Role::Operator], true),
            (&operator, Role::Auditor, vec![], true),
        ] {
            let case = format!("{role:?} {others:?}");
            assert_eq!(may_lose_role(who, role, others.into_iter()), expected, "{case}");
        }
    }

    #[test]
    fn a_narrowed_token_has_only_named_permissions_of_its_role() {
        let here = OrgId::from_uuid(uuid::Uuid::from_u128(1));
        let only = BTreeSet::from([Read, ManagePlatform]);
        let narrow = Principal { permissions: Some(only), ..principal(Role::Owner, Some(1)) };
        assert_eq!(allowed(&narrow, here), [Read]);
    }

    /// Every creator against every token: a created token never exceeds its creator.
    #[test]
    fn created_tokens_never_exceed_their_creator() {
        // Every set of the six permissions that distinguish the roles most.
        let some =
            [Read, ReadContent, ManageServices, ManageProjects, ManageTokens, ManagePlatform];
        let sets: Vec<Option<BTreeSet<Permission>>> = (0..64_u32)
            .map(|bits| {
                let chosen = (0..).zip(some).filter(|(bit, _)| bits & (1 << bit) != 0);
                Some(chosen.map(|(_, permission)| permission).collect())
            })
            .chain([None])
            .collect();
        let mut made = 0;
        for creator_role in Role::ALL {
            for creator_set in &sets {
                let creator = Principal {
                    permissions: creator_set.clone(),
                    expires_at: Some(at(100)),
                    ..principal(creator_role, Some(1))
                };
                for role in Role::ALL {
                    for (permissions, end) in
                        sets.iter().zip([None, Some(99), Some(100)].into_iter().cycle())
                    {
                        let wanted = TokenSpec {
                            permissions: permissions.clone(),
                            ..token(role, None, end)
                        };
                        let Ok(token) = may_create_token(&creator, wanted, at(1)) else { continue };
                        made += 1;
                        let has = granted(token.role, token.permissions.as_ref());
                        assert!(
                            has.is_subset(&granted(creator.role, creator.permissions.as_ref()))
                        );
                        let role = granted(token.role, None);
                        assert!(role.is_subset(&granted(creator.role, None)));
                        assert!(creator.role.is_of_platform() || !token.role.is_of_platform());
                        assert!(token.expires_at.is_some_and(|end| end <= at(100)));
                    }
                }
            }
        }
        assert!(made > 1000, "{made} tokens were created");
    }

    #[test]
    fn a_refusal_names_what_exceeds_the_creator() {
        let owner = Principal { expires_at: Some(at(100)), ..principal(Role::Owner, Some(1)) };
        let narrow = Principal {
            permissions: Some(BTreeSet::from([Read, ManageTokens])),
            ..principal(Role::Owner, Some(1))
        };
        let try_it = |creator: &Principal, wanted| may_create_token(creator, wanted, at(10));
        assert_eq!(try_it(&owner, token(Role::Operator, None, None)), Err(TokenRefused::Role));
        assert_eq!(
            try_it(&owner, token(Role::Viewer, Some(&[Read, ManageServices]), None)),
            Err(TokenRefused::NotInRole(vec![ManageServices]))
        );
        assert_eq!(
            try_it(&narrow, token(Role::Developer, None, None)),
            Err(TokenRefused::Permissions(vec![ReadContent, ManageServices, ManageSecrets]))
        );
        assert_eq!(
            try_it(&owner, token(Role::Viewer, None, Some(101))),
            Err(TokenRefused::Outlives(at(100)))
        );
        assert_eq!(try_it(&owner, token(Role::Viewer, None, Some(10))), Err(TokenRefused::Past));
        let inherited = try_it(&owner, token(Role::Viewer, None, None)).unwrap();
        assert_eq!(inherited.expires_at, Some(at(100)));
        let unlimited = try_it(&narrow, token(Role::Viewer, Some(&[Read]), None)).unwrap();
        assert_eq!(unlimited.expires_at, None);
    }
    #[test]
    fn the_last_token_that_can_create_tokens_is_not_revoked() {
        let key = |role, permissions: Option<&[Permission]>, end: Option<i64>| Key {
            role,
            permissions: permissions.map(|some| some.iter().copied().collect()),
            expires_at: end.map(at),
        };
        let owner = principal(Role::Owner, Some(1));
        let operator = principal(Role::Operator, None);
        let full = key(Role::Owner, None, None);
        let table = [
            (&owner, full.clone(), vec![], false),
            (&owner, full.clone(), vec![full.clone()], true),
            (&owner, full.clone(), vec![key(Role::Owner, Some(&[Read]), None)], false),
            (&owner, full.clone(), vec![key(Role::Owner, None, Some(10))], false),
            (&owner, full.clone(), vec![key(Role::Owner, None, Some(11))], false),
            (&owner, full.clone(), vec![key(Role::Owner, Some(&[ManageTokens]), None)], false),
            (&owner, key(Role::Owner, Some(&[ManageTokens]), None), vec![full.clone()], true),
            (&owner, key(Role::Owner, None, Some(11)), vec![full.clone()], true),
            (
                &owner,
                key(Role::Owner, None, Some(11)),
                vec![key(Role::Owner, None, Some(12))],
                true,
            ),
            (&owner, full.clone(), vec![key(Role::Developer, None, None)], false),
            (&owner, key(Role::Viewer, None, None), vec![], true),
            (&owner, key(Role::Owner, Some(&[Read]), None), vec![], true),
            (&operator, full, vec![], true),
            (&operator, key(Role::Operator, None, None), vec![], false),
        ];
        for (context, target, others, expected) in table {
            let case = format!("{context:?} {target:?} {others:?}");
            assert_eq!(
                may_revoke(context, &target, others.into_iter(), at(10)),
                expected,
                "{case}"
            );
        }
    }
}
