//! Interface for hosts: taking commands and returning answers.

use crate::action::Flags;
use crate::engine::fleet::command::{Pending, Subject, escaped};
use crate::engine::fleet::{Fleet, FleetDesk, LONGEST_NAMESPACE, NAMESPACE, slots};
use crate::engine::{Engine, Input};
use crate::fleet::{CommandId, Loss, Reply, StoreCommand, StoreKind};
use crate::full::{self, Full};
use crate::time::Time;

impl FleetDesk<'_> {
    fn answered(&mut self, command: CommandId, pending: Pending, reply: Reply<'_>, now: Time) {
        let why = match reply {
            Reply::Bytes(bytes) => match pending.subject.read(bytes) {
                Some(answer) => {
                    let place = (pending.home, pending.subject.part());
                    let back = self.store_answered(command, place, now);
                    self.on_component_reply(command, &pending, &answer, now);
                    self.store_is_back(back, &pending, now);
                    return;
                }
                None => Loss::GARBLED,
            },
            Reply::Error(text) if text.starts_with(b"NOSCRIPT") && pending.by_name => {
                // The command had no effect. If its answer is overdue, the waiters have already moved on.
                if !pending.overdue {
                    self.sender().send_source(pending, now);
                }
                return;
            }
            Reply::Error(text) => Loss::of_error(text),
            // A host gives up when the time is over; a client without a connection knows at once.
            Reply::Lost if pending.due <= now => Loss::TIMEOUT,
            Reply::Lost => Loss::CONNECTION,
        };
        self.store_objected(command, &pending, why, now);
    }

    /// Applies the answer to a component's command.
    fn on_component_reply(&mut self, command: CommandId, pending: &Pending, answer: &[u64], now: Time) {
        let Some(home) = self.desk.routes.still_fleets(pending) else {
            if let Subject::Slots { op: slots::Op::Acquire, count } = pending.subject {
                self.store.slots_unclaimed(pending, count, answer, now);
            }
            return;
        };
        match pending.subject {
            Subject::Rate { want, need, call } => {
                self.on_rate_reply(home.own(), (want, need, call), answer, now);
            }
            Subject::Set(asked) => self.on_set_reply(home.own(), asked, answer, now),
            Subject::Breaker { op } => self.on_breaker_reply(home, (command, op, pending.sent), answer, now),
            Subject::Cooldown { span } => {
                self.on_cooldown_reply(home, (command, span, pending.sent), answer, now);
            }
            Subject::Digest => self.desk.routes.on_digest_reply(home.own(), pending.sent, answer, now),
            Subject::Slots { op, count } => {
                self.on_slots_reply(home.own(), (op, count), pending, answer, now);
            }
            Subject::Window { link, wanted } => {
                self.on_window_reply(home.own(), (link, wanted), pending, answer, now);
            }
            Subject::Mark { link, op, duration } => {
                self.on_mark_reply(home, (link, op, duration), (command, pending), answer, now);
            }
        }
    }
}

impl Engine {
    /// Attaches the store through which a fleet shares its state, before the first policy with `store = "fleet"`. The
    /// engine does no I/O itself: its host takes commands ([`Engine::take_commands`]) and returns the results
    /// ([`Engine::on_reply`]).
    ///
    /// Keys begin with `namespace`; an empty one means `tidegate`. Unrelated fleets that share a server need
    /// different namespaces. Braces, bars and control characters in it are escaped, and it is cut at 100 bytes. An
    /// engine has one store: attaching another changes nothing.
    ///
    /// `process` is 64 random bits from the platform, drawn for each call of this method. They name the process in
    /// the store, where two processes of the same name would count as one. The engine's seed cannot serve, because
    /// tests and deployments may set it.
    ///
    /// ```
    /// use tidegate::fleet::{MemoryStore, Reply, StoreKind};
    /// use tidegate::{Action, Engine, Event, Options, Policy, Request, Time, Value::{Number, Text}, Wait};
    /// let (mut engine, mut store) = (Engine::new(7, Options::default()), MemoryStore::new());
    /// let now = Time::from_micros(0);
    /// let _ = engine.attach_store(StoreKind::Lua, "shop", 0x5eed, now);
    /// let policy = Policy::from_pairs("partner", &[
    ///     ("rate_limit.permits", Number(500.0)),
    ///     ("rate_limit.per", Number(1e6)),
    ///     ("rate_limit.store", Text("fleet")),
    /// ]).unwrap();
    /// let policy = engine.policy(policy).unwrap();
    /// let route = engine.route(policy, "api", now);
    ///
    /// // The first call asks the store, for itself and for those to come.
    /// let (call, step) = engine.begin(route, &Request::default(), now);
    /// assert!(matches!(step.action(), Action::Wait { why: Wait::Store }) && step.flags().commands);
    /// let mut commands = Vec::new();
    /// while { engine.take_commands(&mut commands); !commands.is_empty() } {
    ///     let command = commands.remove(0);
    ///     let answer = store.execute(&command.words, 1_000_000);
    ///     let reply = answer.as_ref().map_or_else(|text| Reply::Error(text.as_bytes()), |it| Reply::Bytes(it));
    ///     let _ = engine.on_reply(command.id, reply, now);
    /// }
    /// assert!(matches!(engine.on(call, Event::Poll, now).action(), Action::Attempt { .. }));
    /// // The next one finds a token at hand.
    /// assert!(matches!(engine.begin(route, &Request::default(), now).1.action(), Action::Attempt { .. }));
    /// ```
    pub fn attach_store(&mut self, kind: StoreKind, namespace: &str, process: u64, now: Time) -> Flags {
        self.journal.write(|| Input::Store { kind, namespace: namespace.into(), process, now });
        self.clock.observe(now);
        if let (None, Some(full)) = (&self.store.fleet, Full::here()) {
            let name = if namespace.is_empty() { NAMESPACE } else { namespace };
            let cut = name.char_indices().find(|(place, c)| place + c.len_utf8() > LONGEST_NAMESPACE);
            let name = cut.map_or(name, |(end, _)| &name[..end]);
            self.store.fleet = Some(full::Part::new(Fleet::new(kind, escaped(name).into(), process), full));
        }
        self.flags()
    }

    /// Moves the commands for the store into `out`, oldest first. Take them under the same lock as the step that set
    /// the flag. Run each detached from any call, so that no call is cancelled or delayed with it.
    pub fn take_commands(&mut self, out: &mut Vec<StoreCommand>) {
        if !self.store.commands.is_empty() {
            self.journal.write(|| Input::Commands);
        }
        out.append(&mut self.store.commands);
    }

    /// Handles the result of a command. The first answer counts. Later ones, and answers to commands that this engine
    /// never gave or that belong to a fork's parent, change nothing. Drain wakes and commands under the same lock.
    pub fn on_reply(&mut self, command: CommandId, reply: Reply<'_>, now: Time) -> Flags {
        self.journal.write(|| Input::Reply { command, reply: reply.into(), now });
        let now = self.clock.observe(now);
        self.desk.chores.begin_step();
        self.fleet_desk().watch_store(now);
        if let Some(pending) = self.store.fleet.as_mut().and_then(|fleet| fleet.pending.remove(&command)) {
            if !self.desk.chores.is_empty()
                && let Some(route) = self.desk.routes.find_lasting(pending.home)
            {
                self.fleet_desk().catch_up(route, now);
            }
            if !pending.overdue {
                self.desk.routes.settled(&pending);
            }
            self.fleet_desk().answered(command, pending, reply, now);
        }
        self.flags()
    }
}
