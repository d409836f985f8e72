//! From an encrypted row to what containers read, and what happens when a key is missing (S40,
//! S42).

use serde_json::{Value, json};
use trueup_model::key::Kind;
use trueup_model::order::SecretValue;
use trueup_model::status::Reason;
use trueup_model::variable::VariableName;
use trueup_rules::envelope::{Keyring, SharedKeyring};
use trueup_store::door::{EntryKind, EntryRequest, RequestContext, SecretRequest};
use trueup_store::{EventQuery, ServiceDetail};

use crate::log::Log;
use crate::rig::{Rig, deleted, running};

const CANARY: &str = "canary-c3d9e1";

impl Rig {
    async fn set_secret(&self, service: Option<&str>, name: &str, value: &str) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let name: VariableName = name.parse().expect("a test's name should be valid");
        let entry = EntryRequest { project: "shop", service, name: &name, if_version: None };
        let value = SecretValue::new(value.to_owned());
        let encryptor = self.keys.encryptor();
        let wanted = SecretRequest { entry, value: &value, encryptor: &encryptor };
        let set = self.db.app.set_secret(self.db.org, &wanted, &context, self.clock.now()).await;
        set.expect("a secret should be set");
        self.signals.wake();
        self.signals.event();
    }

    async fn delete_secret(&self, service: Option<&str>, name: &str) {
        let owner = self.db.owner();
        let context = RequestContext::new(&owner, None);
        let name: VariableName = name.parse().expect("a test's name should be valid");
        let entry = EntryRequest { project: "shop", service, name: &name, if_version: None };
        let gone = self
            .db
            .app
            .delete_entry(self.db.org, EntryKind::Secret, &entry, &context, self.clock.now())
            .await;
        gone.expect("a secret should be deleted");
        self.signals.wake();
    }

    /// The encoded value under this name in the only Secret of the cluster.
    fn secret_data(&self, name: &str) -> Value {
        let secrets = self.fake.objects(Kind::Secret);
        assert_eq!(secrets.len(), 1, "{secrets:?}");
        secrets[0]["data"][name].clone()
    }

    fn fingerprint(&self) -> Value {
        let deployment = self.fake.objects(Kind::Deployment).remove(0);
        deployment["spec"]["template"]["metadata"]["annotations"]["trueup.dev/config"].clone()
    }
}

fn encoded(text: &str) -> Value {
    json!(data_encoding::BASE64.encode(text.as_bytes()))
}

fn locked(detail: &ServiceDetail) -> bool {
    let conditions = &detail.row.status.conditions;
    conditions.iter().any(|condition| condition.reason == Reason::SecretsLocked)
}

#[tokio::test]
async fn containers_read_the_secrets_that_were_set() {
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.set_secret(None, "SHARED", "of the project").await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    assert_eq!(rig.secret_data("SHARED"), encoded("of the project"));
    let before = rig.fingerprint();

    rig.set_secret(Some("web"), "SHARED", "of the service").await;
    rig.until_running("web").await;
    assert_eq!(rig.secret_data("SHARED"), encoded("of the service"));
    assert_ne!(rig.fingerprint(), before, "pods roll");
    let rolled = rig.fingerprint();

    // The same value again is a new generation and rolls nothing.
    rig.set_secret(Some("web"), "SHARED", "of the service").await;
    let detail = rig.until_running("web").await;
    assert_eq!(detail.row.service.generation, 3);
    assert_eq!(rig.fingerprint(), rolled);

    rig.delete_secret(Some("web"), "SHARED").await;
    rig.until_running("web").await;
    assert_eq!(rig.secret_data("SHARED"), encoded("of the project"));
    assert_eq!(rig.fingerprint(), before);
    rig.delete_secret(None, "SHARED").await;
    rig.until_running("web").await;
    assert_eq!(rig.secret_data("SHARED"), Value::Null);
    assert!(rig.secret_data("APP_KEY").is_string(), "generated secrets are not touched");

    let id = rig.delete("web").await;
    let detail = rig.until(&id, deleted).await;
    assert!(rig.fake.objects(Kind::Secret).is_empty());
    let receipt = detail.receipt.expect("a receipt should be there");
    assert!(receipt.absent.iter().any(|absent| absent.key.kind == Kind::Secret));
}

#[tokio::test]
async fn missing_key_keeps_running_services_and_their_secrets() {
    let mut rig = Rig::new().await;
    rig.keys = SharedKeyring::new(Keyring::new(&[7; 32]).with(2, &[9; 32]));
    let first = rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.set_secret(Some("web"), "KEY", CANARY).await;
    rig.until_running("web").await;
    first.cancel();
    rig.ended().await;
    let writes = rig.fake.journal().len();

    // The next process lost the rotated key.
    let part = SharedKeyring::new(Keyring::new(&[7; 32]));
    let whole = std::mem::replace(&mut rig.keys, part);
    let second = rig.start("two");
    let detail = rig.until("web", locked).await;
    let message = &detail.row.status.conditions[0].message;
    assert!(message.contains("`KEY`") && message.contains("key 2"), "{message}");
    assert_eq!(rig.secret_data("KEY"), encoded(CANARY), "the Secret is unchanged");
    assert_eq!(rig.fake.journal().len(), writes, "and nothing was written");
    // Other services are not affected.
    rig.declare("other", "web:1").await;
    rig.until_running("other").await;
    second.cancel();
    rig.ended().await;

    rig.keys = whole;
    rig.start("three");
    let detail = rig.until("web", |detail| running(detail) && !locked(detail)).await;
    assert!(detail.row.status.conditions.is_empty());
}

#[tokio::test]
async fn key_that_appears_unlocks_secrets_without_a_restart() {
    let mut rig = Rig::new().await;
    let whole = Keyring::new(&[7; 32]).with(2, &[9; 32]);
    rig.keys = SharedKeyring::new(whole.clone());
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.set_secret(Some("web"), "KEY", CANARY).await;
    // The process that works on the cluster lacks the rotated key.
    rig.keys = SharedKeyring::new(Keyring::new(&[7; 32]));
    rig.start("one");
    rig.until("web", locked).await;
    rig.keys.update(whole);
    rig.until("web", |detail| running(detail) && !locked(detail)).await;
    assert_eq!(rig.secret_data("KEY"), encoded(CANARY));
}

/// S40: the canary is in the cluster's Secret and nowhere else.
#[tokio::test]
async fn secret_appears_in_no_log_event_or_status() {
    let log = Log::begin();
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.set_secret(Some("web"), "KEY", CANARY).await;
    rig.until_running("web").await;
    // The Secret is deleted from outside, so that drift is found and recorded.
    let secret = rig.fake.objects(Kind::Secret).remove(0);
    let name = secret["metadata"]["name"].as_str().expect("it should have a name").to_owned();
    let detail = rig.get("web").await;
    let found = detail.resources.iter().find(|object| object.key.name == name);
    let key = found.expect("its key should be recorded").key.clone();
    rig.fake.remove(&key);
    // Secrets are not watched; they are read again when other drift is observed (ADR 0020).
    let address = detail.resources.iter().find(|object| object.key.kind == Kind::Service);
    rig.fake.remove(&address.expect("it should have an address").key);
    let back = tokio::time::timeout(crate::rig::LONG, async {
        while rig.fake.objects(Kind::Secret).is_empty() {
            tokio::time::sleep(crate::rig::POLL).await;
        }
    });
    back.await.expect("the Secret should be created again");
    let events = rig.until_event("ResourceDeletedExternally").await;
    let id = rig.delete("web").await;
    let gone = rig.until(&id, deleted).await;

    let logged = log.end();
    assert!(
        logged.contains("ordered"),
        "the log should contain something, or this test proves nothing"
    );
    let all = format!("{logged}{events:?}{:?}{gone:?}", rig.get(&id).await);
    let encoded = data_encoding::BASE64.encode(CANARY.as_bytes());
    for form in [CANARY, encoded.as_str()] {
        let at = all.find(form);
        assert_eq!(at, None, "{}", &all[at.unwrap_or(0).saturating_sub(300)..][..600]);
    }
}

impl Rig {
    /// Every event, once there is one of this type.
    async fn until_event(&self, kind: &str) -> Vec<trueup_store::SealedEvent> {
        let found = tokio::time::timeout(crate::rig::LONG, async {
            loop {
                let all = EventQuery { limit: 1000, ..EventQuery::default() };
                let events = self.db.app.list_events(self.db.org, &all).await;
                let events = events.expect("events should be listed");
                if events.iter().any(|event| event.kind == kind) {
                    return events;
                }
                tokio::time::sleep(crate::rig::POLL).await;
            }
        });
        found.await.expect("the event should be sealed")
    }
}
