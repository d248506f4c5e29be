//! Weights of calls and their settlement, as hosts tell them (semantics 3.5, 3.6). `weigh.rs` has the decisions.

use core::fmt;

use super::Engine;
use super::arena::flag;
use super::automaton::State;
use super::journal::Input;
use super::place::RouteAt;
use super::sheets::{Amounts, WEIGHTS};
use crate::action::{CallId, Request, RouteId};
use crate::limit::MOST;
use crate::step::Step;
use crate::time::Time;

/// The weights of a call, one amount for each weight of its route's limits. [`Engine::weights`] makes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weights {
    pub(in crate::engine) amounts: Amounts,
    /// Mark of the set whose weights these are.
    pub(in crate::engine) mark: u64,
}

/// Why amounts are not the weights of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WeightError {
    /// The rate limit has no weight of this name; the names that it has.
    Unknown {
        /// The name as given.
        name: String,
        /// The names of the weights of the route's limits.
        known: Vec<String>,
    },
    /// The call names no amount, and the limit has no default.
    Missing {
        /// Name of the weight.
        name: String,
    },
    /// The amount is no whole number below 2^53.
    TooLarge {
        /// Name of the weight.
        name: String,
        /// The amount as given.
        amount: u64,
    },
    /// The id names no route.
    StaleRoute,
}

impl fmt::Display for WeightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } if known.is_empty() => {
                write!(
                    f,
                    "weights = \"{}\": the policy's rate limit has no weights; leave weights out",
                    shown(name)
                )
            }
            Self::Unknown { name, known } => {
                write!(
                    f,
                    "weights = \"{}\": no limit counts it; the weights are {}",
                    shown(name),
                    known.join(", ")
                )
            }
            Self::Missing { name } => {
                write!(
                    f,
                    "weights: the rate limit counts {name}; give each call an amount, or the limit a default"
                )
            }
            Self::TooLarge { name, amount } => {
                write!(f, "weights = {name} {amount}: must be a whole number below 2^53")
            }
            Self::StaleRoute => f.write_str("weights: the route has been evicted; ask for it again"),
        }
    }
}

impl std::error::Error for WeightError {}

/// A name in a text. Not by `Debug`, which the WebAssembly modules are built without.
fn shown(name: &str) -> core::str::EscapeDebug<'_> {
    name.escape_debug()
}

impl Engine {
    /// The weights of a call on a route, from the amounts that its caller names. A weight that is not named takes its
    /// limit's default.
    ///
    /// # Errors
    /// A name that no limit counts, an amount of 2^53 or more, and a weight without amount and default.
    pub fn weights<'a>(
        &self,
        route: RouteId,
        named: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Weights, WeightError> {
        let at = self.desk.routes.find(route).ok_or(WeightError::StaleRoute)?;
        let limits = self.desk.routes.limits(self.desk.routes[at].rate_at);
        let names = limits.map_or(&[][..], |limits| &limits.weights);
        let mut given = [None; WEIGHTS];
        for (name, amount) in named {
            let Some(weight) = names.iter().position(|known| **known == *name) else {
                let known = names.iter().map(|name| String::from(&**name)).collect();
                return Err(WeightError::Unknown { name: name.into(), known });
            };
            if amount > MOST {
                return Err(WeightError::TooLarge { name: name.into(), amount });
            }
            given[weight] = Some(amount);
        }
        let mut amounts = [0; WEIGHTS];
        for (weight, name) in names.iter().enumerate() {
            let amount = given[weight].or_else(|| limits?.default_of(weight));
            amounts[weight] = amount.ok_or_else(|| WeightError::Missing { name: String::from(&**name) })?;
        }
        Ok(Weights { amounts, mark: limits.map_or(0, |limits| limits.mark) })
    }

    /// Begins a call with weights, as [`Engine::begin`] begins one whose weights are their defaults. A weight without
    /// amount and default, and one above its limit's burst, is refused as `cost_above_burst`.
    pub fn begin_weighted(
        &mut self,
        route: RouteId,
        request: &Request,
        weights: Weights,
        now: Time,
    ) -> (CallId, Step) {
        self.weigh_next(weights);
        let begun = self.begin(route, request, now);
        self.desk.weighed = None;
        begun
    }

    /// Notes the weights of the next call; its begin is the next input.
    pub(in crate::engine) fn weigh_next(&mut self, weights: Weights) {
        self.journal.write(|| Input::Weights { weights });
        self.desk.weighed = Some(weights);
    }

    /// Notes that an attempt has used so much of a weight so far; the host may tell it any number of times. What exceeds
    /// the reservation is charged now, and a lower total than before is ignored. At the attempt's end, the last total
    /// holds. Returns false if the attempt has ended or counts no such weight, which is counted
    /// ([`super::Snapshot::late_settlements`]).
    pub fn settle_weight(&mut self, call: CallId, attempt: u8, name: &str, total: u64, now: Time) -> bool {
        self.journal.write(|| Input::Settle { call, attempt, name: name.into(), total, now });
        let now = self.clock.observe(now);
        let told = self.settled_weight(call, attempt, name, total.min(MOST), now);
        self.desk.late_settlements += u64::from(!told);
        told
    }

    fn settled_weight(&mut self, call: CallId, attempt: u8, name: &str, total: u64, now: Time) -> bool {
        let Some(slot) = self.desk.calls.find(call) else { return false };
        let (home, mark) = match self.desk.calls.weights(slot) {
            Some((mark, _)) => (self.desk.routes[self.desk.calls[slot].route].rate_at, mark),
            None => return false,
        };
        let Some(limits) = self.desk.routes.limits(home).filter(|limits| limits.mark == mark) else {
            return false;
        };
        let Some(weight) = limits.weights.iter().position(|known| **known == *name) else { return false };
        let Some(beyond) = self.desk.calls.tell_total(slot, attempt, (weight, total)) else { return false };
        if beyond > 0
            && let Some(limits) = self.desk.routes.limits_mut(home)
        {
            limits.charge(weight, beyond, now);
        }
        true
    }

    /// Checks the sets of limits: what is queued, and that each attempt that counts has a reservation.
    pub(super) fn check_weights(&self, route: RouteAt) -> Result<(), String> {
        let Some(limits) = self.desk.routes.limits(route.own()) else { return Ok(()) };
        let here =
            self.desk.calls.iter().filter(|(_, call)| self.desk.routes[call.route].rate_at == route.own());
        // An attempt that started while a retune had taken the set away has no reservation.
        let of = &self.desk.routes[route];
        let was_retuned = of.is_pool() || self.desk.policies[usize::from(of.policy)].changes.last > 0;
        let (mut queued, mut waiting) = ([0_u128; WEIGHTS], Vec::new());
        for (slot, call) in here {
            if call.state() == State::Paced && call.listed() && !call.has(flag::SENDING) {
                let costs = self.desk.costs(slot, route.own());
                for (sum, cost) in queued.iter_mut().zip(costs) {
                    *sum += u128::from(cost);
                }
                waiting.push((slot, costs));
            }
            if self.desk.calls.weights(slot).is_some_and(|(mark, _)| mark == limits.mark) {
                let reserved = self.desk.calls.unsettled(slot);
                let out = call.attempt_slots;
                if reserved & !out != 0 || reserved != out && !was_retuned {
                    return Err(format!(
                        "call {slot}: attempts {out:b} are out, {reserved:b} have reservations"
                    ));
                }
            }
        }
        if limits.queued() != queued {
            return Err(format!(
                "route {route}: {:?} tokens queued, the waiters take {queued:?}",
                limits.queued()
            ));
        }
        if let Some(order) = &limits.order {
            order.check(&waiting).map_err(|error| format!("route {route}: {error}"))?;
        }
        Ok(())
    }
}
