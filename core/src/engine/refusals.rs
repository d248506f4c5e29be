//! Which limit of a set refused a call (semantics 3.4.6, 3.8.14).

use core::fmt;

use super::Engine;
use super::desk::Desk;
use super::place::PoolAt;
use crate::action::CallId;

/// The limit of a set that refused a call. `Display` is the text that errors of all hosts end with:
/// `limit usd, 250000 microdollars`, or `limit rpm` for a limit that counts calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal<'a> {
    /// The limit's name. Of several limits that lack tokens it is the one that frees last.
    pub limit: &'a str,
    /// The weight that the limit counts, and the call's amount of it; `None` for a limit that counts calls.
    pub weight: Option<(&'a str, u64)>,
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {}", self.limit)?;
        match self.weight {
            Some((weight, amount)) => write!(f, ", {amount} {weight}"),
            None => Ok(()),
        }
    }
}

/// The newest refusals by sets of limits. A host asks for a call's refusal after the step that ended it. Until then other
/// threads may begin calls that are refused too, so several are kept.
#[derive(Clone, Default, Debug)]
pub(super) struct Refusals {
    /// A ring: the oldest one is at `next` once it is full.
    kept: Vec<Noted>,
    next: usize,
}

/// Number of refusals kept. One step of a fleet can refuse all waiters of a set, and their hosts ask one by one. A host
/// that asks too late makes its error without the limit.
const KEPT: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Noted {
    call: CallId,
    home: PoolAt,
    limit: u8,
    amount: u64,
}

impl Refusals {
    /// Notes that a limit, by its place in the set, refuses a call that takes this amount of it.
    #[cold]
    pub fn note(&mut self, call: CallId, (home, limit, amount): (PoolAt, usize, u64)) {
        let noted = Noted { call, home, limit: limit as u8, amount };
        match self.kept.get_mut(self.next) {
            Some(oldest) => *oldest = noted,
            None => self.kept.push(noted),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The newest refusal.
    fn last(&self) -> Option<Noted> {
        self.kept.get((self.next + KEPT - 1) % KEPT).copied()
    }

    fn of(&self, call: CallId) -> Option<Noted> {
        self.kept.iter().find(|noted| noted.call == call).copied()
    }
}

impl Engine {
    /// The limit of a set that refused this call with `rate_limited` or `cost_above_burst`, asked after the step that ended
    /// the call. `None` where no set refused it, and after 256 later refusals.
    ///
    /// ```
    /// use tidegate::{Engine, Options, Policy, Request, Time, Value};
    /// let mut engine = Engine::new(7, Options::default().weights(true));
    /// let limits = [("rate_limit.limits", Value::Text("tpm: permits=1000 per=1m weight=tokens"))];
    /// let policy = engine.policy(Policy::from_pairs("chat", &limits).unwrap()).unwrap();
    /// let at = Time::from_micros(0);
    /// let route = engine.route(policy, "", at);
    /// let mut begin = || {
    ///     let weights = engine.weights(route, [("tokens", 600)]).unwrap();
    ///     engine.begin_weighted(route, &Request::default(), weights, at).0
    /// };
    /// let (served, refused) = (begin(), begin());
    /// assert_eq!(engine.refusal_of(served), None);
    /// assert_eq!(engine.refusal_of(refused).unwrap().to_string(), "limit tpm, 600 tokens");
    /// ```
    pub fn refusal_of(&self, call: CallId) -> Option<Refusal<'_>> {
        self.desk.refusal(self.desk.refusals.of(call)?)
    }

    /// The newest refusal by a set, whose call it may be, for programs with one thread. The step's `retry_in` says when the
    /// limit will have the tokens.
    pub fn last_refusal(&self) -> Option<Refusal<'_>> {
        self.desk.refusal(self.desk.refusals.last()?)
    }
}

impl Desk {
    fn refusal(&self, noted: Noted) -> Option<Refusal<'_>> {
        let limits = self.routes.limits(noted.home)?;
        let limit = limits.list.get(usize::from(noted.limit))?;
        let weight = limit.weight.and_then(|weight| Some((&**limits.weights.get(weight)?, noted.amount)));
        Some(Refusal { limit: &limit.name, weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Semantics 3.8.14.
    #[test]
    fn the_newest_refusals_are_kept() {
        let mut refusals = Refusals::default();
        let kept = KEPT as u64;
        for number in 0..3 * kept + 5 {
            refusals.note(CallId::from_word(number), (PoolAt::NONE, 0, number));
            assert_eq!(refusals.last().map(|it| it.amount), Some(number));
            let oldest = (number + 1).saturating_sub(kept);
            for still in [oldest, number] {
                assert_eq!(refusals.of(CallId::from_word(still)).map(|it| it.amount), Some(still));
            }
            assert!(oldest == 0 || refusals.of(CallId::from_word(oldest - 1)).is_none());
        }
        assert_eq!(refusals.kept.len(), KEPT);
    }
}
