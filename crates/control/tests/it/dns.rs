//! One contract for both DNS clients: the real one with a real server, and the fake one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use trueup_control::dns::{Dns, Indeterminate, Names};
use trueup_testkit::real_dns::RealDns;

use crate::rig::{LONG, POLL};

/// A DNS record.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// A TXT record of these strings.
    Text(Vec<String>),
    /// A CNAME.
    Alias(&'static str),
    /// An A record, which is no text.
    Address,
}

fn text(strings: &[&str]) -> Record {
    Record::Text(strings.iter().map(|&string| string.to_owned()).collect())
}

/// A fake DNS client that is authoritative for `example.org`.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeNames {
    state: Arc<Mutex<State>>,
    unblocked: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<String, Vec<Record>>,
    errors: BTreeMap<String, Indeterminate>,
    blocked: BTreeSet<String>,
    queries: Vec<String>,
}

impl FakeNames {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the records of a name.
    pub(crate) fn set_records(&self, name: &str, records: Vec<Record>) {
        self.state().records.insert(name.to_owned(), records);
    }

    /// Sets this text as the only record of a name.
    pub(crate) fn set_text(&self, name: &str, value: &str) {
        self.set_records(name, vec![text(&[value])]);
    }

    /// Makes queries for this name fail.
    pub(crate) fn set_indeterminate(&self, name: &str, error: Indeterminate) {
        self.state().errors.insert(name.to_owned(), error);
    }

    /// Blocks queries for this name until `unblock`.
    pub(crate) fn block(&self, name: &str) {
        self.state().blocked.insert(name.to_owned());
    }

    /// Answers all blocked queries.
    pub(crate) fn unblock(&self) {
        self.state().blocked.clear();
        self.unblocked.send_replace(());
    }

    /// The names that were queried, in order.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.state().queries.clone()
    }

    fn answer(&self, name: &str) -> Result<Vec<String>, Indeterminate> {
        let state = self.state();
        if name.len() > 253 {
            return Err(Indeterminate::TooLong);
        }
        if let Some(error) = state.errors.get(name) {
            return Err(*error);
        }
        if name.ends_with(".broken.org") {
            return Err(Indeterminate::Failed);
        }
        if !name.ends_with(".example.org") {
            return Err(Indeterminate::Refused);
        }
        let mut texts = Vec::new();
        for record in state.records.get(name).into_iter().flatten() {
            match record {
                Record::Text(strings) => texts.push(strings.concat()),
                Record::Address => {}
                Record::Alias(other) => {
                    let other = (*other).to_owned();
                    drop(state);
                    return self.answer(&other);
                }
            }
        }
        Ok(texts)
    }
}

impl Names for FakeNames {
    fn texts<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, Indeterminate>> {
        async move {
            let mut unblocked = self.unblocked.subscribe();
            self.state().queries.push(name.to_owned());
            while self.state().blocked.contains(name) {
                unblocked.changed().await.expect("the sender should be alive");
            }
            self.answer(name)
        }
        .boxed()
    }
}

/// The records that the contract uses.
fn records() -> Vec<(&'static str, Vec<Record>)> {
    let long = (0..60).map(|number| text(&[&format!("{number:03}").repeat(60)])).collect();
    vec![
        ("_trueup.one.example.org", vec![text(&["dom_x"])]),
        ("_trueup.other.example.org", vec![text(&["v=spf1 -all"])]),
        (
            "_trueup.some.example.org",
            vec![text(&["v=spf1 -all"]), text(&["dom_x"]), text(&["a b; \"c\""])],
        ),
        ("_trueup.split.example.org", vec![text(&["do", "m_", "", "x"])]),
        ("_trueup.empty.example.org", vec![text(&[""])]),
        ("_trueup.long.example.org", long),
        ("_trueup.address.example.org", vec![Record::Address]),
        ("_trueup.alias.example.org", vec![Record::Alias("proofs.example.org")]),
        ("_trueup.chain.example.org", vec![Record::Alias("_trueup.alias.example.org")]),
        ("_trueup.nowhere.example.org", vec![Record::Alias("gone.example.org")]),
        ("_trueup.abroad.example.org", vec![Record::Alias("proofs.example.net")]),
        ("proofs.example.org", vec![text(&["dom_y"])]),
    ]
}

/// The same records, as lines of a zone file.
fn zone(records: &[(&'static str, Vec<Record>)]) -> Vec<String> {
    let line = |name: &str, record: &Record| match record {
        Record::Text(strings) => {
            let quoted: Vec<String> =
                strings.iter().map(|one| format!("\"{}\"", one.replace('"', "\\\""))).collect();
            format!("{name}. TXT {}", quoted.join(" "))
        }
        Record::Alias(other) => format!("{name}. CNAME {other}."),
        Record::Address => format!("{name}. A 127.0.0.1"),
    };
    let lines = |(name, of_name): &(&str, Vec<Record>)| {
        of_name.iter().map(|record| line(name, record)).collect::<Vec<_>>()
    };
    records.iter().flat_map(lines).collect()
}

/// The answers that a client must give for those records.
async fn contract(names: &dyn Names) {
    let long: Vec<String> = (0..60).map(|number| format!("{number:03}").repeat(60)).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let too_long = format!("_trueup.{}example.org", "a.".repeat(120));
    let conclusive: [(&str, &[&str]); 11] = [
        ("_trueup.one.example.org", &["dom_x"]),
        ("_trueup.other.example.org", &["v=spf1 -all"]),
        ("_trueup.some.example.org", &["a b; \"c\"", "dom_x", "v=spf1 -all"]),
        ("_trueup.split.example.org", &["dom_x"]),
        ("_trueup.empty.example.org", &[""]),
        ("_trueup.long.example.org", &long),
        ("_trueup.address.example.org", &[]),
        ("_trueup.absent.example.org", &[]),
        ("_trueup.alias.example.org", &["dom_y"]),
        ("_trueup.chain.example.org", &["dom_y"]),
        ("_trueup.nowhere.example.org", &[]),
    ];
    for (name, expected) in conclusive {
        let answer = texts(names, name).await.map(|mut texts| {
            texts.sort();
            texts
        });
        assert_eq!(answer.as_deref(), Ok(&expected.map_owned()[..]), "{name}");
    }
    let indeterminate = [
        ("_trueup.www.broken.org", Indeterminate::Failed),
        ("_trueup.www.example.net", Indeterminate::Refused),
        ("_trueup.abroad.example.org", Indeterminate::Refused),
        (too_long.as_str(), Indeterminate::TooLong),
    ];
    for (name, error) in indeterminate {
        assert_eq!(texts(names, name).await, Err(error), "{name}");
    }
}

/// The texts of a name; a timeout, as on a busy machine, is retried.
async fn texts(names: &dyn Names, name: &str) -> Result<Vec<String>, Indeterminate> {
    let answer = tokio::time::timeout(LONG, async {
        loop {
            let answer = names.texts(name).await;
            if answer != Err(Indeterminate::Silent) {
                return answer;
            }
        }
    });
    answer.await.unwrap_or(Err(Indeterminate::Silent))
}

/// Converts to owned texts.
trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

#[tokio::test]
async fn fake_dns_meets_the_contract() {
    let names = FakeNames::default();
    for (name, records) in records() {
        names.set_records(name, records);
    }
    contract(&names).await;
}

#[tokio::test]
async fn real_dns_client_meets_the_contract() {
    let Some(mut server) = RealDns::start(&zone(&records())).await else { return };
    let names = Dns::servers(&[server.address()]);
    contract(&names).await;

    // A record published later is found although the name was queried before: there is no cache.
    // Each name has its own wait, because a server that reloads its zones may still answer from the
    // old ones after its first answer from the new ones.
    server.publish(&["_trueup.absent.example.org. TXT \"dom_z\"".to_owned()]);
    until_texts(&names, "_trueup.absent.example.org", &["dom_z"]).await;
    until_texts(&names, "_trueup.one.example.org", &[]).await;
}

/// Waits until a name has these texts.
async fn until_texts(names: &Dns, name: &str, texts: &[&str]) {
    let wanted = Ok(texts.map_owned());
    let seen = tokio::time::timeout(LONG, async {
        while names.texts(name).await != wanted {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(seen.await.is_ok(), "{name} should have the texts {texts:?}");
}

/// Without an answer the result is indeterminate, within a bounded time.
#[tokio::test]
async fn unresponsive_dns_server_is_indeterminate() {
    let [silent, gone] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let [silent_address, gone_address] = [&silent, &gone]
        .map(|socket| socket.local_addr().expect("a socket should have an address"));
    drop(gone);
    let name = "_trueup.www.example.org";
    let servers: [&[SocketAddr]; 3] = [&[silent_address], &[gone_address], &[]];
    let [of_silent, of_gone, of_none] = servers.map(Dns::servers);
    let answers = tokio::join!(of_silent.texts(name), of_gone.texts(name), of_none.texts(name));
    assert_eq!(answers.0, Err(Indeterminate::Silent));
    assert!(matches!(answers.1, Err(Indeterminate::Silent | Indeterminate::Unread)), "{answers:?}");
    assert!(answers.2.is_err(), "{answers:?}");
}
