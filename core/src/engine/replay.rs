//! Replays a journal's inputs (semantics 12.2), which `journal.rs` records.

use super::Engine;
use super::hold::PathHash;
use super::journal::{Answer, Input};

impl Engine {
    /// Applies inputs one after the other, and returns the engine's answers. In a fresh engine with the journal's
    /// seed and options, they equal the original answers.
    pub fn replay(&mut self, inputs: impl IntoIterator<Item = Input>) -> Vec<Answer> {
        inputs.into_iter().map(|input| self.apply(input)).collect()
    }

    /// Applies one input.
    pub fn apply(&mut self, input: Input) -> Answer {
        match input {
            Input::Policy { policy } => Answer::Policy(self.policy(*policy)),
            Input::Pool { pool, now } => Answer::Pool(self.pool(*pool, now)),
            Input::Route { policy, key, now } => Answer::Route(self.route(policy, &key, now)),
            Input::Path { route, path, now } => {
                Answer::Path(self.name_path(route, || PathHash::of_label(&path), now))
            }
            Input::Begin { route, request, now } => {
                let (call, step) = self.begin(route, &request, now);
                self.desk.weighed = None;
                Answer::Begin(call, step)
            }
            Input::Weights { weights } => {
                self.weigh_next(weights);
                Answer::Noted
            }
            Input::Settle { call, attempt, name, total, now } => {
                Answer::Settled(self.settle_weight(call, attempt, &name, total, now))
            }
            Input::Left { call, left, now } => {
                self.note_quotas(call, left, now);
                Answer::Noted
            }
            Input::Wall { wall, now } => {
                self.note_wall(wall, now);
                Answer::Noted
            }
            Input::On { call, event, now } => Answer::Step(self.on(call, event, now)),
            Input::Retune { policy, to, now } => Answer::Retuned(self.retune(policy, *to, now)),
            Input::Release { policy, keep, now } => {
                self.release_policy(policy, keep, now);
                Answer::Noted
            }
            Input::RetunePool { to, now } => Answer::Retuned(self.retune_pool(*to, now)),
            Input::Force { policy, route, on, now } => Answer::Flags(self.force_open(policy, route, on, now)),
            Input::ForceTarget { group, target, on, now } => {
                Answer::Retuned(self.force_target(&group, &target, on, now))
            }
            Input::Fallback { route, ok, now } => {
                self.note_fallback(route, ok, now);
                Answer::Noted
            }
            Input::Restore { saved, elapsed, now } => Answer::Restored(self.restore(&saved, elapsed, now)),
            Input::Fork { seed, now } => Answer::Flags(self.after_fork(seed, now)),
            Input::Wakes => {
                let mut wakes = Vec::new();
                self.take_wakes(&mut wakes);
                Answer::Wakes(wakes)
            }
            Input::Store { kind, namespace, process, now } => {
                Answer::Flags(self.attach_store(kind, &namespace, process, now))
            }
            Input::Reply { command, reply, now } => {
                Answer::Flags(self.on_reply(command, reply.as_reply(), now))
            }
            Input::Commands => {
                let mut commands = Vec::new();
                self.take_commands(&mut commands);
                Answer::Commands(commands)
            }
            Input::Link { link, now } => {
                self.set_link(link, now);
                Answer::Noted
            }
            Input::LiftBudgets { on } => {
                self.lift_budgets(on);
                Answer::Noted
            }
            Input::Dropped { .. } => Answer::Noted,
        }
    }
}
