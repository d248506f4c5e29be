//! Calls with weights, and what their attempts settle (semantics 3.5 and 3.6). Conversions and nothing else.

use tidegate::answer::Quotas;
use tidegate::{CallId, PolicyId, RouteId, Value as CoreValue, WallTime, WeightError, wire};

use crate::{Begun, Engine, Header, Invalid};

/// What a call will use of the limits that count one weight.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Weight {
    /// The weight's name.
    pub name: String,
    /// The amount.
    pub amount: u64,
}

/// The limit of a set that refused a call.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct Refusal {
    /// The limit's name.
    pub limit: String,
    /// The weight that it counts; nothing for a limit that counts calls.
    pub weight: Option<String>,
    /// The call's amount of that weight.
    pub amount: Option<u64>,
    /// All this in words.
    pub text: String,
}

fn invalid(error: &WeightError) -> Invalid {
    Invalid::Argument { reason: error.to_string() }
}

#[uniffi::export]
impl Engine {
    /// Begins a call as `begin` does, with amounts of the weights that its limits count.
    ///
    /// # Errors
    /// A weight that no limit counts, one without amount and default, and an amount of 2^53 or more.
    #[allow(clippy::too_many_arguments)] // the words of a request, and its weights
    pub fn begin_weighted(
        &self,
        route: u64,
        flags: u32,
        remaining: u64,
        parent: u64,
        target: u64,
        weights: Vec<Weight>,
        now: u64,
    ) -> Result<Option<Begun>, Invalid> {
        let Some(request) = wire::unpack_request(flags.into(), remaining, parent, target) else {
            return Ok(None);
        };
        let route = RouteId::from_word(route);
        let mut state = self.state.lock();
        let now = state.time(now);
        state.note_wall(now);
        let named = weights.iter().map(|weight| (weight.name.as_str(), weight.amount));
        let (call, step) = match state.core.weights(route, named) {
            Ok(weights) => state.core.begin_weighted(route, &request, weights, now),
            Err(WeightError::StaleRoute) => state.core.begin(route, &request, now), // its answer says so
            Err(error) => return Err(invalid(&error)),
        };
        state.drain(step.flags());
        Ok(Some(Begun { call: call.to_word(), step: wire::pack_step(step) }))
    }

    /// Checks that calls of a route need to name no weights.
    ///
    /// # Errors
    /// A limit counts a weight and has no default.
    pub fn check_unweighted(&self, route: u64) -> Result<(), Invalid> {
        match self.state.lock().core.weights(RouteId::from_word(route), []) {
            Err(error @ WeightError::Missing { .. }) => Err(invalid(&error)),
            _ => Ok(()),
        }
    }

    /// The limit of a set that refused a call; nothing where no set refused it. Ask after the step that ended the call.
    pub fn refusal_of(&self, call: u64) -> Option<Refusal> {
        let state = self.state.lock();
        let refusal = state.core.refusal_of(CallId::from_word(call))?;
        let (weight, amount) = refusal.weight.unzip();
        let (limit, weight) = (refusal.limit.to_owned(), weight.map(str::to_owned));
        Some(Refusal { limit, weight, amount, text: refusal.to_string() })
    }

    /// Settles the total that an attempt has used of a weight so far. False where the attempt has ended, or counts no such weight.
    pub fn settle(&self, call: u64, attempt: u8, name: &str, total: u64, now: u64) -> bool {
        let mut state = self.state.lock();
        let now = state.time(now);
        state.core.settle_weight(CallId::from_word(call), attempt, name, total, now)
    }

    /// Reports the headers of an answer to a call, which may say what is left of the service's quotas.
    pub fn note_quotas(&self, call: u64, headers: Vec<Header>, now: u64) {
        let headers: Vec<_> = headers.iter().map(|it| (it.name.as_bytes(), it.value.as_bytes())).collect();
        let left = Quotas::read(&headers, WallTime::from_unix_micros(0)).left();
        let mut state = self.state.lock();
        let now = state.time(now);
        state.core.note_quotas(CallId::from_word(call), left, now);
    }

    /// Do limits of a policy count weights?
    pub fn counts_weights(&self, policy: u32) -> bool {
        let state = self.state.lock();
        let Some(policy) = state.core.policy_of(PolicyId::from_word(policy)) else { return false };
        let weighted = |(key, value): &(&str, CoreValue<'_>)| {
            key.ends_with("limits") && matches!(value, CoreValue::Text(text) if text.contains(" weight="))
        };
        let pool = match policy.value("rate_limit.pool") {
            Some(CoreValue::Text(name)) => state.core.pool_of(name),
            _ => None,
        };
        pool.map_or_else(|| policy.to_pairs(), tidegate::Pool::to_pairs).iter().any(weighted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Value};

    const FLAGS: u32 = 2 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7;

    fn metered(engine: &Engine) -> u32 {
        let limit =
            |text: &str| Pair { key: "rate_limit.limits".into(), value: Value::Word { value: text.into() } };
        let limits =
            ["rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens"];
        engine.policy("metered", limits.map(limit).into()).unwrap()
    }

    #[test]
    fn an_attempt_reserves_and_settles() {
        let engine = Engine::new(7, 10, false, 0);
        let policy = metered(&engine);
        assert!(engine.counts_weights(policy));
        let route = engine.route(policy, "eu", 0);
        let weights = vec![Weight { name: "tokens".into(), amount: 4_000 }];
        let call = engine.begin_weighted(route, FLAGS, 0, 0, 0, weights, 0).unwrap().unwrap().call;
        assert!(engine.settle(call, 1, "tokens", 5_500, 0));
        engine.on(call, 4 | 1 << 3, 0).unwrap();
        assert!(!engine.settle(call, 1, "tokens", 9_000, 0), "it has ended");
        let snapshot = engine.snapshot(0);
        let limits = &snapshot.routes[0].rate.as_ref().unwrap().limits;
        assert_eq!((limits["tpm"].tokens, limits["tpm"].settled, limits["rpm"].tokens), (4_500, 5_500, 2));
    }

    #[test]
    fn a_wrong_or_missing_weight_is_one_clear_error() {
        let engine = Engine::new(7, 10, false, 0);
        let route = engine.route(metered(&engine), "eu", 0);
        let weights = vec![Weight { name: "token".into(), amount: 5 }];
        let unknown = engine.begin_weighted(route, FLAGS, 0, 0, 0, weights, 0).unwrap_err().to_string();
        assert_eq!(unknown, "weights = \"token\": no limit counts it; the weights are tokens");
        let missing = engine.check_unweighted(route).unwrap_err().to_string();
        let rule = "weights: the rate limit counts tokens; give each call an amount, or the limit a default";
        assert_eq!(missing, rule);
        let deadline = Pair { key: "deadline".into(), value: Value::Number { value: 1e6 } };
        let plain = engine.policy("plain", vec![deadline]).unwrap();
        assert!(!engine.counts_weights(plain));
        assert_eq!(engine.check_unweighted(engine.route(plain, "eu", 0)), Ok(()));
    }
}
