//! A server that is shared: whose it is, is asked before anything is changed.

use trueup_store::{RolePasswords, is_ours};
use trueup_testkit::test_db::{passwords, server};

#[tokio::test]
async fn roles_with_other_passwords_belong_to_somebody_else() {
    let admin = server().await;
    assert!(is_ours(admin, "trueup_is_not_there", &passwords()).await.unwrap());
    let text = || "another".to_owned();
    let other = RolePasswords { owner: text(), app: text(), worker: text() };
    assert!(!is_ours(admin, "trueup_is_not_there", &other).await.unwrap());
}
