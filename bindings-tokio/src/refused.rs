//! Statuses of failed answers that calls inside others must not repeat, for those others (semantics 1.6.7). A client makes errors of
//! its own from an answer, and these may have nothing of it but the status: `reqwest::Response::error_for_status`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate::{CallId, Opinion, Outcome};

use crate::scope;

/// Most statuses that are kept. A call may end without asking for the one that was left for it, and then a newer one replaces it.
const MOST: usize = 256;

type Refused = ((u64, CallId), u16);

static REFUSED: Mutex<VecDeque<Refused>> = Mutex::new(VecDeque::new());
/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Leaves a status for the innermost call around.
pub(crate) fn leave(status: u16) {
    let Some(call) = scope::innermost() else { return };
    let mut refused = REFUSED.lock();
    if refused.len() == MOST {
        refused.pop_front();
    }
    refused.push_back((call, status));
    ANY.store(true, Ordering::Release);
}

/// Whether any status is kept. If not, a call need not become the innermost one before it judges a result.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// The outcome of an error with this status: not to be repeated if the status was left for the innermost call around. It counts
/// once.
pub(crate) fn judged(status: u16, own: Outcome) -> Outcome {
    let Some(call) = scope::innermost().filter(|_| any()) else { return own };
    let mut refused = REFUSED.lock();
    let Some(place) = refused.iter().position(|left| *left == (call, status)) else { return own };
    refused.remove(place);
    ANY.store(!refused.is_empty(), Ordering::Release);
    Outcome { opinion: Opinion::DoNot, ..own }
}
