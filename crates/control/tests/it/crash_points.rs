//! Every crash point is reached by one service's life; a point that no work passes tests nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use trueup_model::crash::{self, Fate, POINTS};

use crate::rig::{Rig, deleted};

#[tokio::test]
async fn a_life_from_declaration_to_receipt_reaches_every_crash_point() {
    let reached: Rc<RefCell<BTreeSet<&str>>> = Rc::default();
    let notes = Rc::clone(&reached);
    crash::script(move |point| {
        notes.borrow_mut().insert(point);
        Fate::GoOn
    });
    let mut rig = Rig::new().await;
    rig.start("one");
    rig.declare_project().await;
    rig.declare("web", "web:1").await;
    rig.until_running("web").await;
    let id = rig.delete("web").await;
    rig.until(&id, deleted).await;
    rig.until_wakes(0).await;
    crash::end_script();
    let missed: Vec<&str> =
        POINTS.into_iter().filter(|point| !reached.borrow().contains(point)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}
