//! Secrets at rest: theft, edited rows and interrupted key rotation (S42).

use sqlx::AssertSqlSafe;
use trueup_model::OrgId;
use trueup_model::order::{Body, SecretValue};
use trueup_model::variable::VariableName;
use trueup_rules::envelope::{Decryptor, EnvelopeError, Keyring};
use trueup_store::door::{EntryRequest, Refusal, SecretRequest};

use crate::door_config::encryptor;
use crate::stage::{PROJECT, Stage, at};

const CANARY: &str = "canary-5f2d41";

fn decryptor() -> Decryptor {
    Keyring::new(&[7; 32]).decryptor()
}

impl Stage {
    /// Decrypts a service's secret as the driver does.
    pub(crate) async fn decrypted(
        &self,
        service: &str,
        name: &str,
        decryptor: &Decryptor,
    ) -> Result<SecretValue, EnvelopeError> {
        let order = self.order_of(service).await;
        let Body::Service(body) = &order.body else { panic!("a service") };
        assert!(!format!("{order:?}").contains(CANARY));
        decryptor.open(&body.sealed[name])
    }

    async fn run(&self, statement: &str) -> u64 {
        let done = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&self.owner).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}")).rows_affected()
    }
}

async fn with_secret() -> Stage {
    let stage = Stage::new().await;
    stage.declare("web", "nginx:1").await;
    stage.set_secret(Some("web"), "KEY", CANARY).await.unwrap();
    stage
}

#[tokio::test]
async fn a_secret_reaches_the_driver_encrypted_and_is_decrypted_there() {
    let stage = with_secret().await;
    let value = stage.decrypted("web", "KEY", &decryptor()).await.unwrap();
    assert_eq!(value.reveal(), CANARY);
    let order = stage.order_of("web").await;
    assert!(order.recorded.keys().any(|key| key.name.ends_with("-secret")), "its key is recorded");
}

/// S40: no table of the database contains the value.
#[tokio::test]
async fn no_row_of_any_table_contains_the_value() {
    let stage = with_secret().await;
    stage.order_of("web").await;
    stage.seal().await;
    let mut checked = 0;
    for table in stage.tables().await {
        let rows: Vec<String> =
            stage.all(&format!("select to_jsonb(t)::text from {table} t")).await;
        for row in rows {
            checked += 1;
            assert!(!row.contains(CANARY), "{table}");
            // bytea is shown in hex.
            let hex: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert!(!row.contains(&hex), "{table}");
        }
    }
    assert!(checked > 10);
}

#[tokio::test]
async fn swapped_ciphertexts_cannot_be_decrypted() {
    let stage = with_secret().await;
    stage.declare("other", "nginx:1").await;
    stage.set_secret(Some("other"), "KEY", "theirs").await.unwrap();
    stage.set_secret(Some("web"), "KEY2", "more").await.unwrap();
    assert!(stage.decrypted("other", "KEY", &decryptor()).await.is_ok());
    let swaps = [
        // Between services.
        "update secrets a set sealed = b.sealed, nonce = b.nonce from secrets b
         where a.name = 'KEY' and b.name = 'KEY' and a.service_id <> b.service_id",
        // Between names of one service.
        "update secrets a set sealed = b.sealed, nonce = b.nonce from secrets b
         where a.name in ('KEY', 'KEY2') and b.name in ('KEY', 'KEY2') and a.name <> b.name
           and a.service_id = b.service_id",
    ];
    for swap in swaps {
        assert_eq!(stage.run(swap).await, 2);
        let decrypted = stage.decrypted("web", "KEY", &decryptor()).await;
        assert_eq!(decrypted, Err(EnvelopeError::DoesNotOpen), "{swap}");
        assert_eq!(stage.run(swap).await, 2);
        assert!(stage.decrypted("web", "KEY", &decryptor()).await.is_ok());
    }
    // The ciphertext of an older version with the newer version number.
    stage.run("create table kept as select * from secrets where name = 'KEY'").await;
    stage.set_secret(Some("web"), "KEY", "newer").await.unwrap();
    let back = "update secrets s set sealed = k.sealed, nonce = k.nonce from kept k
                where s.service_id = k.service_id and s.name = k.name";
    assert_eq!(stage.run(back).await, 2);
    assert_eq!(stage.decrypted("web", "KEY", &decryptor()).await, Err(EnvelopeError::DoesNotOpen));
}

#[tokio::test]
async fn a_ciphertext_of_another_org_cannot_be_decrypted() {
    let stage = with_secret().await;
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(theirs).await;
    set_for(&stage, theirs, "theirs").await.unwrap();
    let copy = format!(
        "update secrets a set sealed = b.sealed, nonce = b.nonce, version = b.version
         from secrets b where b.org_id = '{}' and a.org_id <> b.org_id",
        theirs.uuid()
    );
    assert_eq!(stage.run(&copy).await, 1);
    assert_eq!(stage.decrypted("web", "KEY", &decryptor()).await, Err(EnvelopeError::DoesNotOpen));
    // Nor with the other org's key.
    let keys = "update org_keys a set key = b.key, nonce = b.nonce, sealed = b.sealed
                from org_keys b where a.org_id <> b.org_id";
    assert_eq!(stage.run(keys).await, 2);
    assert_eq!(stage.decrypted("web", "KEY", &decryptor()).await, Err(EnvelopeError::DoesNotOpen));
}

pub(crate) async fn set_for(stage: &Stage, org: OrgId, value: &str) -> Result<(), Refusal> {
    let name: VariableName = "KEY".parse().unwrap();
    let entry = EntryRequest { project: PROJECT, service: None, name: &name, if_version: None };
    let value = SecretValue::new(value.to_owned());
    let wanted = SecretRequest { entry, value: &value, encryptor: &encryptor() };
    stage.db.app.set_secret(org, &wanted, &stage.context(), at(3)).await.map(drop)
}

pub(crate) async fn set_variable_for(stage: &Stage, org: OrgId) {
    let name: VariableName = "PLAIN".parse().unwrap();
    let wanted = EntryRequest { project: PROJECT, service: None, name: &name, if_version: None };
    stage.db.app.set_variable(org, &wanted, "a", &stage.context(), at(3)).await.unwrap();
}

#[tokio::test]
async fn with_the_wrong_key_nothing_is_decrypted_or_encrypted() {
    let stage = with_secret().await;
    let wrong = Keyring::new(&[8; 32]);
    let decrypted = stage.decrypted("web", "KEY", &wrong.clone().decryptor()).await;
    assert_eq!(decrypted, Err(EnvelopeError::DoesNotOpen));
    let before = stage.rows().await;
    let name: VariableName = "MORE".parse().unwrap();
    let value = SecretValue::new(CANARY.to_owned());
    let entry = EntryRequest { project: PROJECT, service: None, name: &name, if_version: None };
    let wanted = SecretRequest { entry, value: &value, encryptor: &wrong.encryptor() };
    let refused = stage.db.app.set_secret(stage.db.org, &wanted, &stage.context(), at(3)).await;
    assert!(matches!(refused, Err(Refusal::CannotEncrypt(_))), "{refused:?}");
    assert!(!format!("{refused:?}").contains(CANARY));
    assert_eq!(stage.grown(&before).await, []);
}

#[tokio::test]
async fn an_interrupted_key_rotation_continues() {
    let stage = with_secret().await;
    let theirs = stage.db.setup.ensure_org("other", at(0)).await.unwrap();
    stage.project(theirs).await;
    set_for(&stage, theirs, "theirs").await.unwrap();
    let rotated = Keyring::new(&[7; 32]).with(2, &[9; 32]);

    // An interrupted rotation: one org's row has the old key.
    stage.run("create table kept as select * from org_keys").await;
    let (count, failed) = stage.db.setup.rewrap_org_keys(&rotated).await.unwrap();
    assert_eq!((count, failed.len()), (2, 0));
    let undo = format!(
        "update org_keys o set key = k.key, nonce = k.nonce, sealed = k.sealed
         from kept k where k.org_id = o.org_id and o.org_id = '{}'",
        stage.db.org.uuid()
    );
    assert_eq!(stage.run(&undo).await, 1);
    let keys: Vec<i32> = stage.all("select key from org_keys order by key").await;
    assert_eq!(keys, [1, 2]);
    let decryptor = rotated.clone().decryptor();
    assert_eq!(stage.decrypted("web", "KEY", &decryptor).await.unwrap().reveal(), CANARY);

    let (count, _) = stage.db.setup.rewrap_org_keys(&rotated).await.unwrap();
    assert_eq!(count, 1, "it continues where it was interrupted");
    let (count, _) = stage.db.setup.rewrap_org_keys(&rotated).await.unwrap();
    assert_eq!(count, 0, "nothing is left to do");
    assert_eq!(stage.decrypted("web", "KEY", &decryptor).await.unwrap().reveal(), CANARY);
    // The old master key alone decrypts nothing, and the error names the missing key.
    let old = Keyring::new(&[7; 32]);
    let decrypted = stage.decrypted("web", "KEY", &old.clone().decryptor()).await;
    assert_eq!(decrypted, Err(EnvelopeError::MissingKey { key: 2 }));
    let (count, failed) = stage.db.setup.rewrap_org_keys(&old).await.unwrap();
    assert_eq!((count, failed.len()), (0, 2), "an install with old keys changes nothing");
    assert_eq!(stage.decrypted("web", "KEY", &decryptor).await.unwrap().reveal(), CANARY);
}

#[tokio::test]
async fn without_the_org_key_nothing_can_be_decrypted() {
    let stage = with_secret().await;
    stage.run("delete from org_keys").await;
    // The order still contains it: without it the Secret would be empty.
    assert_eq!(stage.decrypted("web", "KEY", &decryptor()).await, Err(EnvelopeError::NoOrgKey));
    // A new value is encrypted with a new org key.
    stage.set_secret(Some("web"), "KEY", CANARY).await.unwrap();
    assert_eq!(stage.decrypted("web", "KEY", &decryptor()).await.unwrap().reveal(), CANARY);
}
