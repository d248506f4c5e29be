//! The host's wall clock, by which limits of sets refill that do so by windows (semantics 3.8).

use super::Engine;
use super::desk::Desk;
use super::journal::Input;
use crate::policy::Policy;
use crate::time::{Time, Wall, WallTime};

impl Desk {
    /// Notes that a policy or a pool that the engine takes in has windows.
    pub(super) fn look_for_windows(&mut self, policy: &Policy) {
        let set = policy.rate_limit.as_ref().and_then(|limit| limit.limits.as_ref());
        self.windows |= set.is_some_and(|set| set.has_windows());
    }
}

impl Engine {
    /// Whether a limit refills by windows of the wall clock, so that the host has to report it
    /// ([`Engine::note_wall`]).
    #[inline]
    pub fn needs_wall(&self) -> bool {
        self.desk.windows
    }

    /// Reports the host's wall clock. A host whose engine needs it ([`Engine::needs_wall`]) reports it before it restores a
    /// state, and before each call begins. From a report on, the engine counts with its own time, so a clock that is set
    /// counts from the next report on.
    ///
    /// ```
    /// use tidegate::{Action, Engine, Options, Policy, Request, Time, Value, WallTime};
    /// let mut engine = Engine::new(7, Options::default().wall_clock(true));
    /// let daily = [("rate_limit.limits", Value::Text("day: permits=1 per=24h refill=window"))];
    /// let policy = engine.policy(Policy::from_pairs("batch", &daily).unwrap()).unwrap();
    /// assert!(engine.needs_wall());
    /// let at = Time::from_micros;
    /// let hour = 3_600_000_000;
    /// engine.note_wall(WallTime::from_unix_micros(20_000 * 24 * hour + 23 * hour), at(0)); // 23:00 UTC
    /// let route = engine.route(policy, "eu", at(0));
    /// let mut begin = |now| engine.begin(route, &Request::default(), now).1.action();
    /// assert!(matches!(begin(at(0)), Action::Attempt { .. }));
    /// assert!(matches!(begin(at(hour - 1)), Action::Done { .. }));
    /// assert!(matches!(begin(at(hour)), Action::Attempt { .. })); // midnight
    /// ```
    pub fn note_wall(&mut self, wall: WallTime, now: Time) {
        self.journal.write(|| Input::Wall { wall, now });
        let now = self.clock.observe(now);
        self.desk.routes.wall = Wall::new(wall, now);
    }
}
