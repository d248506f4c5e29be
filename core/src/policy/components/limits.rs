//! The limits of a set: several named limits that a call takes all at once (semantics 3.4).
//!
//! A pair writes a limit as one text, `tpm: permits=200000 per=1m weight=tokens`; a document has a table of its own.

use super::order::QueueOrder;
use super::prelude::*;
use super::rate_limit::{BURST, LEASE, ON_LOSS, PER, PERMITS, STORE, UNIT};
use crate::full::{Full, Name, Rare};
use crate::limit::{MOST, Refill, WeightedSettings};
use crate::policy::OnLoss;
use crate::policy::domain::is_short_name;
use crate::policy::span;

/// The most limits in a set, and hence the most weights.
pub(crate) const MOST_LIMITS: usize = 4;

keys! {
    KEYS:
    LIMITS = "rate_limit.limits", Domain::Limits, "",
        "Several limits by name, at most 4, that a call takes all at once or none: instead of permits, per and burst. A limit with a weight counts the amount that each call names, such as tokens.";
    SETTLE_UNKNOWN = "rate_limit.settle_unknown", Domain::Choice(&["reservation", "zero"]), "reservation",
        "limits: what an attempt counts that may have been served and of which no amount was settled: what it had reserved, or nothing.";
    LEARN = "rate_limit.learn", Domain::Choice(&["none", "down"]), "none",
        "limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and never raises one, none ignores it.";
    ESTIMATE_QUANTILE = "rate_limit.estimate_quantile", domains::QUANTILE, "",
        "limits: from 20 settled attempts on, what a call names of a weight is scaled by this quantile of what attempts have used of it, between a 16th and 16 times.";
}

/// What sets of limits add to a rate limit.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: "rate_limit",
    keys: KEYS,
    beside: &[(SETTLE_UNKNOWN, LIMITS), (LEARN, LIMITS), (ESTIMATE_QUANTILE, LIMITS)],
    check: |settings, errors| {
        if !settings.given(LIMITS) {
            return;
        }
        let mut fail =
            |key: &str, value: String, rule: String| errors.push(PolicyError::new(key, value, rule));
        for key in [PERMITS, PER, BURST] {
            if settings.given(key) {
                let rule =
                    text::of(&["belongs to one limit: put it into each of ", LIMITS, ", or leave these out"]);
                fail(key, settings.shown_value(key), rule);
            }
        }
        if settings.given(LEASE) {
            let rule = text::of(&[
                "belongs to a single rate: a process leases of each of ",
                LIMITS,
                " what 50 ms bring",
            ]);
            fail(LEASE, settings.shown_value(LEASE), rule);
        }
        let limits = settings.limits();
        for limit in limits.iter().filter(|_| settings.in_fleet(STORE)) {
            let WeightedSettings { permits, burst, max_debt, refill, .. } = limit.bucket;
            if refill != Refill::Continuous {
                let rule = text::of(&[
                    "refill must be continuous where ",
                    STORE,
                    " is fleet: leave refill out, or keep the limit local",
                ]);
                fail(LIMITS, (*limit.name).into(), rule);
            }
            let largest = permits.max(burst).max(max_debt);
            if largest > MOST_SHARED {
                let rule = text::of(&[
                    &text::whole(largest),
                    " must be at most ",
                    &text::whole(MOST_SHARED),
                    " where ",
                    STORE,
                    " is fleet",
                ]);
                fail(LIMITS, (*limit.name).into(), rule);
            }
        }
        if limits.len() > MOST_LIMITS {
            let count = text::of(&["(", &text::whole(limits.len() as u64), " limits)"]);
            fail(
                LIMITS,
                count,
                text::of(&["a set has at most ", &text::whole(MOST_LIMITS as u64), " limits"]),
            );
        }
        for (at, limit) in limits.iter().enumerate() {
            if limits[..at].iter().any(|other| other.name == limit.name) {
                fail(LIMITS, (*limit.name).into(), "is given more than once".into());
            }
        }
        if settings.given(ESTIMATE_QUANTILE) && limits.iter().all(|limit| limit.weight.is_none()) {
            let rule =
                text::of(&["needs a limit of ", LIMITS, " with a weight, because only weights settle"]);
            fail(ESTIMATE_QUANTILE, settings.shown_value(ESTIMATE_QUANTILE), rule);
        }
        if limits.iter().any(|limit| limit.weight.is_some())
            && settings.given(UNIT)
            && settings.word(UNIT) == "call"
        {
            let rule = text::of(&[
                "must be attempt where a limit of ",
                LIMITS,
                " has a weight, because attempts settle",
            ]);
            fail(UNIT, "call".into(), rule);
        }
    },
    ..NOTHING
};

/// The largest number of a limit that a store counts: sums of two of them are exact in its scripts.
const MOST_SHARED: u64 = 1 << 51;

/// One limit of a set.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NamedLimit {
    pub(crate) name: Name,
    pub(crate) bucket: WeightedSettings,
    /// Name of the weight that it counts; without one, it counts each call's cost.
    pub(crate) weight: Option<Name>,
    /// The weight of a call that names none.
    pub(crate) default: Option<u64>,
}

impl NamedLimit {
    /// The limit as a pair writes it, without keys that have their defaults: one text for each meaning.
    pub(in crate::policy) fn text(&self) -> String {
        let WeightedSettings { permits, per, burst, max_debt, refill } = self.bucket;
        let mut all = text::of(&[&self.name, ": permits=", &text::whole(permits), " per=", &per.text()]);
        let mut add = |key: &str, value: &str| all += &text::of(&[" ", key, "=", value]);
        if burst != permits {
            add("burst", &text::whole(burst));
        }
        if let Some(weight) = &self.weight {
            add("weight", weight);
        }
        if let Some(default) = self.default {
            add("default", &text::whole(default));
        }
        if self.weight.is_some() && max_debt != burst {
            add("max_debt", &if max_debt == 0 { "none".into() } else { text::whole(max_debt) });
        }
        if let Refill::Window(anchor) = refill {
            add("refill", "window");
            if anchor > Duration::ZERO {
                add("anchor", &anchor.text());
            }
        }
        all
    }
}

/// The limits of a set, and what its attempts count without a settlement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LimitSet {
    pub(crate) limits: Vec<NamedLimit>,
    /// Whether an attempt without a settlement counts nothing, instead of what it had reserved.
    pub(crate) unknown_is_zero: bool,
    /// Whether what answers say is left of the service's quotas lowers the limits.
    pub(crate) learns: bool,
    /// What holds while the store is gone, if the limits are the fleet's.
    pub(crate) fleet: Option<OnLoss>,
    /// The quantile of what attempts use of what their calls name, by which reservations are scaled.
    pub(crate) quantile: Option<f64>,
    /// The order of the queue, if it is not that of arrival.
    pub(crate) order: Option<QueueOrder>,
}

impl LimitSet {
    pub(crate) fn is_weighted(&self) -> bool {
        self.limits.iter().any(|limit| limit.weight.is_some())
    }

    /// Whether a limit refills by windows of the host's wall clock.
    pub(crate) fn has_windows(&self) -> bool {
        self.limits.iter().any(|limit| limit.bucket.refill != Refill::Continuous)
    }
}

impl Settings {
    /// The limits of the set, in the order in which they were given.
    fn limits(&self) -> Vec<NamedLimit> {
        let texts = self.texts(LIMITS);
        texts.iter().filter_map(|text| limit(text).ok()).collect()
    }

    /// The set of limits, if there is one.
    pub(super) fn limit_set(&self) -> Option<Rare<LimitSet>> {
        let full = Full::here().filter(|_| self.given(LIMITS))?;
        let unknown_is_zero = self.word(SETTLE_UNKNOWN) == "zero";
        let learns = self.word(LEARN) == "down";
        let fleet = self.in_fleet(STORE).then(|| self.on_loss(ON_LOSS));
        let quantile = self.given(ESTIMATE_QUANTILE).then(|| self.real(ESTIMATE_QUANTILE));
        let (limits, order) = (self.limits(), self.queue_order());
        Some(Rare::new(LimitSet { limits, unknown_is_zero, learns, fleet, quantile, order }, full))
    }
}

/// Reads a limit of a set; the error is the rule that it breaks.
pub(in crate::policy) fn limit(text: &str) -> Result<NamedLimit, String> {
    let form =
        "must be name: permits=… per=…, perhaps with burst, weight, default, max_debt, refill and anchor";
    let Some(full) = Full::here() else { return Err(String::new()) };
    let (name, rest) = text.split_once(':').ok_or(form)?;
    if !is_short_name(name) {
        return Err(
            "the name of a limit has a to z, 0 to 9 and _, at most 50, and begins with a letter".into()
        );
    }
    let (mut permits, mut per, mut burst, mut weight, mut default, mut max_debt) =
        (None, None, None, None, None, None);
    let (mut refill, mut anchor) = (None, None);
    for part in rest.split_ascii_whitespace() {
        let (key, value) = part.split_once('=').ok_or(form)?;
        let whole = |least: u64| match value.parse::<u64>() {
            Ok(n) if (least..=MOST).contains(&n) => Ok(Some(n)),
            _ => Err(text::of(&[
                key,
                " must be a whole number from ",
                &text::whole(least),
                " to ",
                &text::whole(MOST),
            ])),
        };
        let place = match key {
            "permits" => &mut permits,
            "burst" => &mut burst,
            "default" => &mut default,
            "max_debt" => &mut max_debt,
            "per" if per.is_none() => {
                let micros = span::parse(value).ok().filter(|it| (1..=YEAR.as_micros()).contains(it));
                per = Some(micros.ok_or(r#"per must be a span such as "1m", from 1us to 365 days"#)?);
                continue;
            }
            "anchor" if anchor.is_none() => {
                let rule = r#"anchor must be a span after midnight UTC such as "8h", below per"#;
                anchor = Some(span::parse(value).ok().ok_or(rule)?);
                continue;
            }
            "refill" if refill.is_none() => {
                refill = match value {
                    "window" | "continuous" => Some(value == "window"),
                    _ => return Err("refill must be continuous or window".into()),
                };
                continue;
            }
            "weight" if weight.is_none() => {
                if !is_short_name(value) {
                    return Err(
                        "the name of a weight has a to z, 0 to 9 and _, at most 50, and begins with a letter"
                            .into(),
                    );
                }
                weight = Some(Name::new(value, full));
                continue;
            }
            "per" | "weight" | "refill" | "anchor" => {
                return Err(text::of(&[key, " is given more than once"]));
            }
            _ => {
                let rule =
                    "the keys of a limit are permits, per, burst, weight, default, max_debt, refill, anchor";
                return Err(text::of(&["no key ", key, "; ", rule]));
            }
        };
        if place.is_some() {
            return Err(text::of(&[key, " is given more than once"]));
        }
        *place = match (key, value) {
            ("max_debt", "none") => Some(0),
            ("default" | "max_debt", _) => whole(0)?,
            _ => whole(1)?,
        };
    }
    let (Some(permits), Some(per)) = (permits, per) else { return Err("needs permits and per".into()) };
    let windows = refill == Some(true);
    if windows && burst.is_some_and(|burst| burst != permits) {
        return Err(
            "burst must be permits where refill is window: all permits of a window come at once".into()
        );
    }
    if anchor.is_some() && !windows {
        return Err("anchor means something only beside refill = window".into());
    }
    if anchor.is_some_and(|anchor| anchor >= per) {
        return Err("anchor must be below per, because windows follow each other".into());
    }
    let burst = burst.unwrap_or(permits);
    if weight.is_none() && (default.is_some() || max_debt.is_some()) {
        return Err("default and max_debt mean something only beside weight".into());
    }
    if default.is_some_and(|it| it > burst) {
        return Err("default must be at most burst".into());
    }
    let max_debt = if weight.is_some() { max_debt.unwrap_or(burst) } else { 0 };
    let anchor = Duration::from_micros(anchor.unwrap_or(0));
    let refill = if windows { Refill::Window(anchor) } else { Refill::Continuous };
    let bucket = WeightedSettings { permits, per: Duration::from_micros(per), burst, max_debt, refill };
    Ok(NamedLimit { name: Name::new(name, full), bucket, weight, default })
}
