//! One contract for whoever asks DNS: the real one on a real server, and the one that tests use.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use trueup_control::dns::{Dns, Indeterminate, Names};
use trueup_testkit::real_dns::RealDns;

use crate::rig::{LONG, LOOK};

/// What a name can have.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    /// A TXT record of these strings.
    Text(Vec<String>),
    /// Another name.
    Alias(&'static str),
    /// An address, and so no text.
    Address,
}

fn text(strings: &[&str]) -> Record {
    Record::Text(strings.iter().map(|&string| string.to_owned()).collect())
}

/// A stand-in for DNS that is responsible for `example.org`.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeNames {
    state: Arc<Mutex<State>>,
    let_go: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    records: BTreeMap<String, Vec<Record>>,
    doubts: BTreeMap<String, Indeterminate>,
    held: BTreeSet<String>,
    asked: Vec<String>,
}

impl FakeNames {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a name these records.
    pub(crate) fn has(&self, name: &str, records: Vec<Record>) {
        self.state().records.insert(name.to_owned(), records);
    }

    /// Gives a name this text and no other.
    pub(crate) fn says(&self, name: &str, said: &str) {
        self.has(name, vec![text(&[said])]);
    }

    /// Nobody knows about this name from now on.
    pub(crate) fn doubts(&self, name: &str, doubt: Indeterminate) {
        self.state().doubts.insert(name.to_owned(), doubt);
    }

    /// Whoever asks for this name hears nothing until it is let go.
    pub(crate) fn hold(&self, name: &str) {
        self.state().held.insert(name.to_owned());
    }

    /// Answers everybody who waits.
    pub(crate) fn let_go(&self) {
        self.state().held.clear();
        self.let_go.send_replace(());
    }

    /// Which names were asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    fn answer(&self, name: &str) -> Result<Vec<String>, Indeterminate> {
        let state = self.state();
        if name.len() > 253 {
            return Err(Indeterminate::TooLong);
        }
        if let Some(doubt) = state.doubts.get(name) {
            return Err(*doubt);
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
            let mut let_go = self.let_go.subscribe();
            self.state().asked.push(name.to_owned());
            while self.state().held.contains(name) {
                let_go.changed().await.expect("the test should still be there");
            }
            self.answer(name)
        }
        .boxed()
    }
}

/// The world that the contract speaks of.
fn world() -> Vec<(&'static str, Vec<Record>)> {
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

/// The same, as the lines of a zone.
fn zone(world: &[(&'static str, Vec<Record>)]) -> Vec<String> {
    let line = |name: &str, record: &Record| match record {
        Record::Text(strings) => {
            let quoted: Vec<String> =
                strings.iter().map(|one| format!("\"{}\"", one.replace('"', "\\\""))).collect();
            format!("{name}. TXT {}", quoted.join(" "))
        }
        Record::Alias(other) => format!("{name}. CNAME {other}."),
        Record::Address => format!("{name}. A 127.0.0.1"),
    };
    let lines = |(name, records): &(&str, Vec<Record>)| {
        records.iter().map(|record| line(name, record)).collect::<Vec<_>>()
    };
    world.iter().flat_map(lines).collect()
}

/// What everybody must answer who is asked about that world.
async fn contract(names: &dyn Names) {
    let long: Vec<String> = (0..60).map(|number| format!("{number:03}").repeat(60)).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let too_long = format!("_trueup.{}example.org", "a.".repeat(120));
    let yes: [(&str, &[&str]); 11] = [
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
    for (name, expected) in yes {
        let answer = heard(names, name).await.map(|mut texts| {
            texts.sort();
            texts
        });
        assert_eq!(answer.as_deref(), Ok(&expected.map_owned()[..]), "{name}");
    }
    let doubts = [
        ("_trueup.www.broken.org", Indeterminate::Failed),
        ("_trueup.www.example.net", Indeterminate::Refused),
        ("_trueup.abroad.example.org", Indeterminate::Refused),
        (too_long.as_str(), Indeterminate::TooLong),
    ];
    for (name, doubt) in doubts {
        assert_eq!(heard(names, name).await, Err(doubt), "{name}");
    }
}

/// What is answered about a name. On a busy machine an answer may come too late: then it is asked again.
async fn heard(names: &dyn Names, name: &str) -> Result<Vec<String>, Indeterminate> {
    let heard = tokio::time::timeout(LONG, async {
        loop {
            let answer = names.texts(name).await;
            if answer != Err(Indeterminate::Silent) {
                return answer;
            }
        }
    });
    heard.await.unwrap_or(Err(Indeterminate::Silent))
}

/// Texts that are owned.
trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

#[tokio::test]
async fn the_stand_in_answers_as_dns_does() {
    let names = FakeNames::default();
    for (name, records) in world() {
        names.has(name, records);
    }
    contract(&names).await;
}

#[tokio::test]
async fn a_real_dns_server_is_understood() {
    let Some(mut server) = RealDns::start(&zone(&world())).await else { return };
    let names = Dns::servers(&[server.address()]);
    contract(&names).await;

    // What is published later is seen, although it was asked for before: nothing is kept. Each by a wait
    // of its own: while it reads its zones again the server answers from the old ones now and then, also
    // after its first answer from the new ones.
    server.publish(&["_trueup.absent.example.org. TXT \"dom_z\"".to_owned()]);
    comes_to(&names, "_trueup.absent.example.org", &["dom_z"]).await;
    comes_to(&names, "_trueup.one.example.org", &[]).await;
}

/// Waits until these are the texts of a name.
async fn comes_to(names: &Dns, name: &str, texts: &[&str]) {
    let wanted = Ok(texts.map_owned());
    let seen = tokio::time::timeout(LONG, async {
        while names.texts(name).await != wanted {
            tokio::time::sleep(LOOK).await;
        }
    });
    assert!(seen.await.is_ok(), "{name} should come to {texts:?}");
}

/// Nobody says anything: neither a yes nor a no, and not for ever.
#[tokio::test]
async fn a_server_that_does_not_answer_is_a_doubt() {
    let [silent, gone] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
    let [of_silent, of_gone] = [&silent, &gone]
        .map(|socket| socket.local_addr().expect("a socket should have an address"));
    drop(gone);
    let name = "_trueup.www.example.org";
    let servers: [&[SocketAddr]; 3] = [&[of_silent], &[of_gone], &[]];
    let [silent_says, gone_says, nobody_says] = servers.map(Dns::servers);
    let answers =
        tokio::join!(silent_says.texts(name), gone_says.texts(name), nobody_says.texts(name));
    assert_eq!(answers.0, Err(Indeterminate::Silent));
    assert!(matches!(answers.1, Err(Indeterminate::Silent | Indeterminate::Unread)), "{answers:?}");
    assert!(answers.2.is_err(), "{answers:?}");
}
