//! Records the panics of a thread, including caught ones: each is a defect.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Records the panics of this thread from now on, instead of printing them.
pub fn watch() {
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let recorded = SEEN.try_with(|seen| {
                let mut seen = seen.try_borrow_mut().ok()?;
                seen.as_mut().map(|seen| seen.push(info.to_string()))
            });
            if !matches!(recorded, Ok(Some(()))) {
                print(info);
            }
        }));
    });
    SEEN.with_borrow_mut(|seen| *seen = Some(Vec::new()));
}

/// Returns the recorded panics; from now on panics are printed again.
#[must_use]
pub fn take() -> Vec<String> {
    SEEN.with_borrow_mut(Option::take).unwrap_or_default()
}
