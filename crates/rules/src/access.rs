//! Who may do what: one function, asked before anything is read or recorded.

use trueup_model::id::OrgId;
use trueup_model::principal::{Permission, Principal, Role};

/// Whether a principal may do this in this org.
///
/// The org is part of the question: a token of another tenant is refused as if the org did not exist.
#[must_use]
pub fn allows(principal: &Principal, org: OrgId, permission: Permission) -> bool {
    let in_org = match principal.role {
        Role::Operator => true,
        Role::Viewer | Role::Developer | Role::Owner => principal.org == Some(org),
    };
    in_org && principal.role >= least_role(permission)
}

const fn least_role(permission: Permission) -> Role {
    match permission {
        Permission::Read => Role::Viewer,
        Permission::ManageServices | Permission::ManageSecrets => Role::Developer,
        Permission::ManageProjects | Permission::ManageTokens => Role::Owner,
        Permission::ManagePlatform => Role::Operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_model::id::TokenId;

    fn principal(role: Role, org: Option<u128>) -> Principal {
        Principal {
            token: TokenId::from_uuid(uuid::Uuid::from_u128(9)),
            name: "somebody".to_owned(),
            role,
            org: org.map(|n| OrgId::from_uuid(uuid::Uuid::from_u128(n))),
        }
    }

    #[test]
    fn each_role_may_do_what_its_row_says() {
        use Permission::{
            ManagePlatform, ManageProjects, ManageSecrets, ManageServices, ManageTokens, Read,
        };
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
}
