//! Answers longer than a number, as JSON. Fields have JavaScript's names; spans that people read are in milliseconds.

use std::fmt::Write;

use tidegate::{
    BreakerState, BreakerView, Counts, Duration, LimitView, PoolView, RateView, Restored, RouteView,
    SharedView, Snapshot, TargetView, Verdict,
};

/// A JSON text under construction.
#[derive(Default)]
pub struct Json {
    pub text: String,
}

impl Json {
    /// Writes a comma, unless a list or object has just been opened.
    fn next(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.text.push(',');
        }
    }

    pub fn string(&mut self, text: &str) {
        self.next();
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.text.extend(['\\', c]),
                c if u32::from(c) < 0x20 => drop(write!(self.text, "\\u{:04x}", u32::from(c))),
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    pub fn key(&mut self, name: &str) {
        self.string(name);
        self.text.push(':');
    }

    pub fn whole(&mut self, number: u64) {
        self.next();
        let _ = write!(self.text, "{number}");
    }

    pub fn real(&mut self, number: f64) {
        self.next();
        if number.is_finite() {
            let _ = write!(self.text, "{number}");
        } else {
            self.text.push_str("null");
        }
    }

    pub fn literal(&mut self, text: &str) {
        self.next();
        self.text.push_str(text);
    }

    fn within(&mut self, open: char, close: char, work: impl FnOnce(&mut Self)) {
        self.next();
        self.text.push(open);
        work(self);
        self.text.push(close);
    }

    pub fn object(&mut self, work: impl FnOnce(&mut Self)) {
        self.within('{', '}', work);
    }

    pub fn list(&mut self, work: impl FnOnce(&mut Self)) {
        self.within('[', ']', work);
    }

    /// A field with a count.
    pub fn count(&mut self, name: &str, number: impl Into<u64>) {
        self.key(name);
        self.whole(number.into());
    }

    /// A field that is null if there is no value.
    pub fn maybe<T>(&mut self, name: &str, value: Option<T>, work: impl FnOnce(&mut Self, T)) {
        self.key(name);
        match value {
            Some(value) => work(self, value),
            None => self.literal("null"),
        }
    }

    fn permits(&mut self, of: &PoolView) {
        self.object(|json| {
            json.count("limit", of.limit);
            json.key("kind");
            json.string(of.kind.name());
            json.count("inFlight", of.in_flight);
            json.count("waiting", of.waiting);
            json.count("maxQueue", of.max_queue);
        });
    }

    fn tokens(&mut self, of: RateView, limits: &[LimitView]) {
        self.object(|json| {
            json.count("tokens", of.tokens);
            json.count("waiting", of.waiting);
            json.key("limits");
            json.object(|json| {
                for of in limits {
                    json.key(&of.name);
                    json.limit(of);
                }
            });
        });
    }

    fn limit(&mut self, of: &LimitView) {
        self.object(|json| {
            json.maybe("weight", of.weight.as_deref(), Self::string);
            json.key("tokens");
            json.literal(&of.tokens.to_string());
            for (name, number) in [
                ("burst", of.burst),
                ("reserved", of.reserved),
                ("settled", of.settled),
                ("forgiven", of.forgiven),
            ] {
                json.count(name, number);
            }
        });
    }

    fn counts(&mut self, of: &Counts) {
        self.object(|json| {
            json.count("attempts", of.attempts);
            json.count("retries", of.retries);
            json.count("hedges", of.hedges);
            json.key("ends");
            json.object(|json| {
                for verdict in Verdict::ALL {
                    if of.ended(*verdict) > 0 {
                        json.count(verdict.name(), of.ended(*verdict));
                    }
                }
            });
            json.count("fallbacks", of.fallbacks);
            json.count("fallbackFailures", of.fallback_failures);
        });
    }

    fn route(&mut self, of: &RouteView) {
        self.object(|json| {
            json.key("policy");
            json.string(&of.policy);
            json.key("key");
            json.string(&of.key);
            json.count("active", of.active);
            json.key("forced");
            json.literal(if of.forced { "true" } else { "false" });
            json.maybe("budget", of.budget, Self::whole);
            json.maybe("pool", of.pool.as_ref(), Self::permits);
            json.maybe("rate", of.rate, |json, rate| json.tokens(rate, &of.limits));
            json.maybe("send", of.send, |json, of| {
                json.object(|json| {
                    json.maybe("rate", of.rate, Self::real);
                    json.count("waiting", of.waiting);
                });
            });
            json.maybe("breaker", of.breaker, Self::breaker);
            json.maybe("throttle", of.throttle, |json, of| {
                json.object(|json| {
                    json.count("requests", of.requests);
                    json.count("accepts", of.accepts);
                    json.key("probability");
                    json.real(of.probability);
                });
            });
            json.maybe("hedge", of.hedge, |json, of| {
                json.object(|json| {
                    json.key("delay");
                    json.real(millis(of.delay));
                    json.maybe("budget", of.budget, Self::whole);
                });
            });
            json.maybe("hold", of.hold, |json, of| {
                json.object(|json| {
                    json.count("held", of.held);
                    json.count("holds", of.holds);
                });
            });
            json.maybe("cooldown", of.cooldown, |json, of| {
                json.object(|json| {
                    json.key("state");
                    json.string(of.state.name());
                    json.maybe("retryIn", of.retry_in, |json, span| json.real(millis(span)));
                    json.count("places", of.places);
                    json.count("taken", of.taken);
                    json.count("waiting", of.waiting);
                });
            });
        });
    }

    fn breaker(&mut self, of: BreakerView) {
        self.object(|json| {
            json.key("state");
            json.string(match of.state {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::HalfOpen => "half_open",
            });
            json.count("failures", of.failures);
            json.count("throughput", of.throughput);
            json.maybe("retryIn", of.retry_in.map(millis), Self::real);
        });
    }

    fn target(&mut self, of: &TargetView) {
        self.object(|json| {
            json.key("group");
            json.string(&of.group);
            json.key("name");
            json.string(&of.name);
            json.key("forced");
            json.literal(if of.forced { "true" } else { "false" });
            json.count("attempts", of.attempts);
            json.count("skipped", of.skipped);
            json.count("inFlight", of.in_flight);
            json.maybe("estimate", of.estimate.map(millis), Self::real);
            json.maybe("pool", of.pool.as_ref(), Self::permits);
            json.maybe("rate", of.rate, |json, rate| json.tokens(rate, &[]));
            json.maybe("breaker", of.breaker, Self::breaker);
        });
    }

    fn shared(&mut self, of: &SharedView) {
        self.object(|json| {
            json.key("kind");
            json.string(of.kind.name());
            json.maybe("budget", of.budget, Self::whole);
            json.maybe("pool", of.pool.as_ref(), Self::permits);
            json.maybe("rate", of.rate, |json, rate| json.tokens(rate, &of.limits));
        });
    }
}

fn millis(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

fn list(work: impl FnOnce(&mut Json)) -> String {
    let mut json = Json::default();
    json.list(work);
    json.text
}

/// JSON texts, as a list.
pub fn listed(texts: impl Iterator<Item = String>) -> String {
    list(|json| texts.for_each(|text| json.literal(&text)))
}

/// Routes of a snapshot, as a list.
pub fn routes(views: &[RouteView]) -> String {
    list(|json| views.iter().for_each(|of| json.route(of)))
}

pub fn snapshot(view: &Snapshot) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.count("live", view.live);
        json.count("lingering", view.lingering);
        json.count("lost", view.lost);
        json.count("waiting", view.waiting);
        json.count("routeOverflows", view.route_overflows);
        json.count("routeEvictions", view.route_evictions);
        json.count("pathOverflows", view.path_overflows);
        json.count("lateSettlements", view.late_settlements);
        json.key("policies");
        json.object(|json| {
            for (name, counts) in &view.policies {
                json.key(name);
                json.counts(counts);
            }
        });
        json.key("routes");
        json.list(|json| view.routes.iter().for_each(|of| json.route(of)));
        json.key("pools");
        json.object(|json| {
            for of in &view.pools {
                json.key(&of.name);
                json.shared(of);
            }
        });
        json.key("targets");
        json.list(|json| view.targets.iter().for_each(|of| json.target(of)));
    });
    json.text
}

pub fn restored(of: &Restored) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.count("routes", of.routes);
        json.count("leftOut", of.left_out);
        json.key("unknown");
        json.list(|json| {
            for (kind, name) in &of.unknown {
                json.list(|json| [kind, name.as_str()].into_iter().for_each(|text| json.string(text)));
            }
        });
        json.key("dropped");
        json.list(|json| {
            for (kind, name, component) in &of.dropped {
                json.list(|json| {
                    for text in [kind, name.as_str(), component] {
                        json.string(text);
                    }
                });
            }
        });
    });
    json.text
}
