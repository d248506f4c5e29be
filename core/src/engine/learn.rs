//! What answers say about a service's own quotas, as hosts report it, lowers limits of sets (semantics 3.7).

use super::Engine;
use super::automaton::State;
use super::journal::Input;
use super::limits::Left;
use crate::action::CallId;
use crate::time::Time;

impl Engine {
    /// Reports what an answer to a call, of any status, says is left of the service's quotas
    /// ([`Quotas::left`](crate::answer::Quotas::left)), before the event that it causes. Where the rate limit of the call's
    /// policy has `learn = "down"`, that lowers the limit that counts the same. It never raises one, and takes away at most
    /// a burst and half of what flows in.
    ///
    /// A host may call this for the answers of such policies alone: those whose [`Engine::setting`] of
    /// `rate_limit.learn` is `down`. For other calls, and for one that has ended, it does nothing.
    ///
    /// ```
    /// use tidegate::answer::Quotas;
    /// use tidegate::{Engine, Options, Policy, Request, Time, Value, WallTime};
    /// let mut engine = Engine::new(7, Options::default().quotas(true));
    /// let pairs = [
    ///     ("rate_limit.limits", Value::Text("rpm: permits=500 per=1m")),
    ///     ("rate_limit.learn", Value::Text("down")),
    /// ];
    /// let policy = engine.policy(Policy::from_pairs("chat", &pairs).unwrap()).unwrap();
    /// let now = Time::from_micros(0);
    /// let route = engine.route(policy, "eu", now);
    /// let (call, _) = engine.begin(route, &Request::default(), now);
    /// let headers: [(&[u8], &[u8]); 1] = [(b"x-ratelimit-remaining-requests", b"3")];
    /// let quotas = Quotas::read(&headers, WallTime::from_unix_micros(0));
    /// engine.note_quotas(call, quotas.left(), now);
    /// assert_eq!(engine.snapshot(now).routes[0].limits[0].tokens, 3);
    /// ```
    pub fn note_quotas(&mut self, call: CallId, left: Left, now: Time) {
        let Some(slot) = self.desk.calls.find(call) else { return };
        if matches!(self.desk.calls[slot].state(), State::Ended | State::Lost) {
            return;
        }
        let home = self.desk.routes[self.desk.calls[slot].route].rate_at;
        let Some(limits) = self.desk.routes.limits_mut(home) else { return };
        if limits.learns() && left.iter().any(Option::is_some) {
            self.journal.write(|| Input::Left { call, left, now });
            limits.learn(&left, self.clock.observe(now));
        }
    }
}
