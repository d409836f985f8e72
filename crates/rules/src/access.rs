//! Authorization: whether a principal may act in an org, and which tokens it may create and revoke.

use std::collections::BTreeSet;

use jiff::Timestamp;
use trueup_model::id::OrgId;
use trueup_model::principal::{Permission, Principal, Role};
use trueup_model::token::TokenSpec;

/// Whether a principal may do this in this org.
///
/// A token of another org is refused as if the org did not exist.
#[must_use]
pub fn allows(principal: &Principal, org: OrgId, permission: Permission) -> bool {
    let in_org = match principal.role {
        Role::Operator => true,
        Role::Viewer | Role::Developer | Role::Owner => principal.org == Some(org),
    };
    in_org && granted(principal.role, principal.permissions.as_ref()).contains(&permission)
}

/// The permissions of a role, or the subset that a narrowed token keeps.
#[must_use]
pub fn granted(role: Role, narrowed: Option<&BTreeSet<Permission>>) -> BTreeSet<Permission> {
    let included = Permission::ALL.into_iter().filter(|permission| role >= least_role(*permission));
    included.filter(|permission| narrowed.is_none_or(|only| only.contains(permission))).collect()
}

/// The lowest role that includes a permission.
#[must_use]
pub const fn least_role(permission: Permission) -> Role {
    match permission {
        Permission::Read => Role::Viewer,
        Permission::ManageServices | Permission::ManageSecrets => Role::Developer,
        Permission::ManageProjects | Permission::ManageTokens => Role::Owner,
        Permission::ManagePlatform => Role::Operator,
    }
}

/// Why a token may not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefused {
    /// The role is above the creator's own.
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
    if wanted.role > creator.role {
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
}

/// Whether a token may be revoked: another one that can create tokens must be left.
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
    let from_above = context.role == Role::Operator && target.role != Role::Operator;
    from_above || !target.can_create_tokens(now) || others.any(|other| other.can_create_tokens(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::TokenId;
    use trueup_model::principal::PrincipalId;

    use Permission::{
        ManagePlatform, ManageProjects, ManageSecrets, ManageServices, ManageTokens, Read,
    };

    fn principal(role: Role, org: Option<u128>) -> Principal {
        Principal {
            id: PrincipalId::Token(TokenId::from_uuid(uuid::Uuid::from_u128(9))),
            name: "tester".to_owned(),
            role,
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
            permissions: permissions.map(|some| some.iter().copied().collect()),
            expires_at: end.map(at),
        }
    }

    #[test]
    fn each_role_has_the_permissions_of_its_row() {
        let here = OrgId::from_uuid(uuid::Uuid::from_u128(1));
        let wants =
            [Read, ManageServices, ManageSecrets, ManageProjects, ManageTokens, ManagePlatform];
        let table = [
            (Role::Viewer, [true, false, false, false, false, false]),
            (Role::Developer, [true, true, true, false, false, false]),
            (Role::Owner, [true, true, true, true, true, false]),
        ];
        for (role, expected) in table {
            let got = wants.map(|permission| allows(&principal(role, Some(1)), here, permission));
            assert_eq!(got, expected, "{role:?}");
            let elsewhere =
                wants.map(|permission| allows(&principal(role, Some(2)), here, permission));
            assert_eq!(elsewhere, [false; 6], "{role:?} of another org");
        }
        let everything =
            wants.map(|permission| allows(&principal(Role::Operator, None), here, permission));
        assert_eq!(everything, [true; 6]);
    }

    #[test]
    fn a_narrowed_token_has_only_named_permissions_of_its_role() {
        let here = OrgId::from_uuid(uuid::Uuid::from_u128(1));
        let only = BTreeSet::from([Read, ManagePlatform]);
        let narrow = Principal { permissions: Some(only), ..principal(Role::Owner, Some(1)) };
        let allowed: Vec<Permission> =
            Permission::ALL.into_iter().filter(|wanted| allows(&narrow, here, *wanted)).collect();
        assert_eq!(allowed, [Read]);
    }

    /// Every creator against every token: a created token never exceeds its creator.
    #[test]
    fn created_tokens_never_exceed_their_creator() {
        let sets: Vec<Option<BTreeSet<Permission>>> = (0..64_u32)
            .map(|bits| {
                let chosen = (0..).zip(Permission::ALL).filter(|(bit, _)| bits & (1 << bit) != 0);
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
                        assert!(token.role <= creator.role);
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
            Err(TokenRefused::Permissions(vec![ManageServices, ManageSecrets]))
        );
        assert_eq!(
            try_it(&owner, token(Role::Viewer, None, Some(101))),
            Err(TokenRefused::Outlives(at(100)))
        );
        assert_eq!(try_it(&owner, token(Role::Viewer, None, Some(10))), Err(TokenRefused::Past));
        let inherited = try_it(&owner, token(Role::Viewer, None, None)).unwrap();
        assert_eq!(inherited.expires_at, Some(at(100)));
        let unlimited = try_it(&narrow, token(Role::Viewer, None, None)).unwrap();
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
            (&owner, full.clone(), vec![key(Role::Owner, None, Some(11))], true),
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
