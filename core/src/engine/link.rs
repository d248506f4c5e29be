//! The device's link, as its host knows it (semantics 2.22): when a waiting call asks whether it is back, and which
//! failures it explains. `Engine::wait_for_link` in `call.rs` waits.

use super::{Engine, Input};
use crate::action::Link;
use crate::outcome::Class;
use crate::rng::{self, Purpose};
use crate::time::{Duration, Time};

/// The time over which the calls that waited for the link come back.
const SPREAD: u64 = 1_000_000;

impl Engine {
    /// Tells the engine the state of the device's link to its networks. The first state is [`Link::Ok`].
    ///
    /// While the link is [`Link::Offline`], first attempts still start, because the system may know better. Retries
    /// and hedges wait until the link is back: at most until the deadline or `retry_time_limit`, without both
    /// `max_retry_after` after the failure. When it is back, they start within a second, spread evenly. While it is [`Link::Metered`],
    /// no hedges start.
    ///
    /// ```
    /// use tidegate::{Action, Class, Engine, Event, Link, Options, Outcome, Policy, Request, Time, Value, Wait};
    /// let mut engine = Engine::new(7, Options::default());
    /// let policy = engine.policy(Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap()).unwrap();
    /// let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
    /// let route = engine.route(policy, "eu", at(0));
    /// let (call, _) = engine.begin(route, &Request::default(), at(0));
    ///
    /// engine.set_link(Link::Offline, at(1));
    /// let failed = Event::Finished { attempt: 1, outcome: Outcome::of(Class::NeverSent) };
    /// engine.on(call, failed, at(1));
    /// // The backoff is long over, and the call waits for the link.
    /// let step = engine.on(call, Event::Poll, at(20));
    /// assert_eq!(step.action(), Action::Wait { why: Wait::Backoff });
    ///
    /// engine.set_link(Link::Ok, at(20));
    /// let step = engine.on(call, Event::Poll, at(21));
    /// assert!(matches!(step.action(), Action::Attempt { attempt: 2, .. }));
    /// ```
    pub fn set_link(&mut self, link: Link, now: Time) {
        self.journal.write(|| Input::Link { link, now });
        self.clock.observe(now);
        self.desk.link = link;
    }

    /// The last state that the host gave to [`Engine::set_link`].
    pub fn link(&self) -> Link {
        self.desk.link
    }
}

impl Link {
    /// Whether a failure of this class says nothing about the server, because the device is offline (semantics 1.3).
    #[inline]
    pub(super) fn explains(self, class: Class) -> bool {
        self == Self::Offline && matches!(class, Class::NeverSent | Class::Transient | Class::Timeout)
    }
}

/// The next moment after `now` at which a call asks whether the link is back: once a second, at a place within the
/// second that is drawn for the call.
pub(super) fn turn_of(seed: u64, ordinal: u64, now: Time) -> Time {
    let turn = rng::uniform(rng::bits(seed, ordinal, Purpose::Link, 0), 0, SPREAD - 1);
    let next = now.as_micros().saturating_add(1);
    let ahead = (turn + SPREAD - next % SPREAD) % SPREAD;
    Time::from_micros(next).after(Duration::from_micros(ahead))
}
