//! Budgets of retries and of hedges: their keys, and their settings in a policy.

use super::prelude::*;
use crate::retry::{
    BudgetSettings, EarnedSettings, QuotaSettings, RatioSettings, Rounding, ShareSettings, TokenSettings,
    WindowSettings,
};

/// The table of the retry budget.
pub(super) const OF_RETRIES: &str = "retry.budget";
/// The table of the budget that hedges may have of their own.
pub(super) const OF_HEDGES: &str = "hedge.budget";
/// The key that names a shared retry budget.
pub(super) const POOL: &str = "retry.budget.pool";

const KINDS_OF_HEDGES: Domain =
    Domain::Choice(&["shared", "earned", "window", "ratio", "share", "tokens", "quota", "none"]);

/// The keys that each table has, besides `kind`: those of kinds that every engine has, and the others.
macro_rules! budget_keys {
    (every engine: $table:literal) => {
        &[
            key(concat!($table, ".ttl"), span(Duration::from_micros(10)), "10s",
                "How long a call or a retry counts."),
            key(concat!($table, ".min_retries_per_sec"), real(0.0, 1e9), "10",
                "Retries per second that are free of any ratio."),
            key(concat!($table, ".percent_can_retry"), real(0.0, 1e6), "0.2",
                "Retries allowed per recent call, as a fraction."),
            key(concat!($table, ".rounding"), Domain::Choice(&["floor", "ceil"]), "floor",
                "How the share of calls is rounded."),
            key(concat!($table, ".ratio"), real(1e-6, 1.0), "",
                "earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call earns. tokens: what a success gives back."),
            key(concat!($table, ".start"), count(0, 1_000_000_000), "",
                "earned: retries that a new budget has; where absent max_attempts less 1, at most 4, and 2 in a pool."),
        ]
    };
    (full engines: $table:literal) => {
        &[
            key(
                concat!($table, ".min_throughput"),
                count(0, 1_000_000_000),
                "0",
                "ratio: retries are free until this many calls have been made.",
            ),
            key(
                concat!($table, ".share"),
                real(0.0, 1e6),
                "0.2",
                "share: retries in flight per call in flight.",
            ),
            key(
                concat!($table, ".min_retries"),
                count(0, 1_000_000_000),
                "3",
                "share: retries in flight that are always allowed.",
            ),
            key(
                concat!($table, ".max"),
                count(1, 1_000),
                "",
                "tokens: tokens when full; retries need more than half.",
            ),
            key(concat!($table, ".capacity"), count(1, 1_000_000_000), "500", "quota: tokens when full."),
            key(concat!($table, ".cost"), count(1, 65_535), "5", "quota: what a retry costs."),
            key(
                concat!($table, ".timeout_cost"),
                count(1, 65_535),
                "10",
                "quota: what a retry after an attempt timeout costs.",
            ),
            key(
                concat!($table, ".throttled_cost"),
                count(1, 65_535),
                concat!($table, ".cost"),
                "quota: what a retry after a throttled outcome costs.",
            ),
        ]
    };
}

/// What the retry budget adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    table: OF_RETRIES,
    doc: "What bounds the load that retries add, per route.",
    keys: &[key(
        "retry.budget.kind",
        Domain::Choice(whole::BUDGETS),
        "earned",
        "What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost.",
    )],
    ..NOTHING
};

/// What pools add to it.
pub(in crate::policy) const SHARED: Component = Component {
    table: OF_RETRIES,
    keys: &[key(
        POOL,
        Domain::Name,
        "",
        "A shared budget that is declared as a pool; its own keys stand there.",
    )],
    ..NOTHING
};

/// What its kinds add.
pub(in crate::policy) const KEYS: Component =
    Component { table: OF_RETRIES, keys: budget_keys!(every engine: "retry.budget"), ..NOTHING };

/// What the kinds of full engines add.
pub(in crate::policy) const MORE: Component = Component {
    table: OF_RETRIES,
    keys: budget_keys!(full engines: "retry.budget"),
    needed: &[
        ("retry.budget.kind", "ratio", "retry.budget.ratio"),
        ("retry.budget.kind", "tokens", "retry.budget.ratio"),
        ("retry.budget.kind", "tokens", "retry.budget.max"),
    ],
    ..NOTHING
};

/// What the budget of hedges adds to policies.
pub(in crate::policy) const HEDGES: Component = Component {
    table: OF_HEDGES,
    doc: "What bounds the load that hedges add, per route.",
    keys: &[key(
        "hedge.budget.kind",
        KINDS_OF_HEDGES,
        "shared",
        "What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn, window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota what retries cost.",
    )],
    needed: &[
        ("hedge.budget.kind", "ratio", "hedge.budget.ratio"),
        ("hedge.budget.kind", "tokens", "hedge.budget.ratio"),
        ("hedge.budget.kind", "tokens", "hedge.budget.max"),
    ],
    ..NOTHING
};

/// What its kinds add.
pub(in crate::policy) const HEDGES_KEYS: Component =
    Component { table: OF_HEDGES, keys: budget_keys!(every engine: "hedge.budget"), ..NOTHING };

/// What its other kinds add.
pub(in crate::policy) const HEDGES_MORE: Component =
    Component { table: OF_HEDGES, keys: budget_keys!(full engines: "hedge.budget"), ..NOTHING };

impl Settings {
    /// The budget whose keys stand in this table.
    pub(in crate::policy) fn budget(&self, table: &str) -> Option<BudgetSettings> {
        let key = |name: &str| text::of(&[table, ".", name]);
        let (whole, real) = (|name: &str| self.whole(&key(name)), |name: &str| self.real(&key(name)));
        Some(match self.budget_kind(table) {
            "earned" => BudgetSettings::Earned(EarnedSettings {
                ratio: if self.given(&key("ratio")) {
                    real("ratio")
                } else {
                    EarnedSettings::default().ratio
                },
                start: if self.given(&key("start")) { whole("start") } else { self.start(table) },
            }),
            "window" => BudgetSettings::Window(WindowSettings {
                ttl: self.span(&key("ttl")),
                min_retries_per_sec: real("min_retries_per_sec"),
                percent_can_retry: real("percent_can_retry"),
                rounding: match self.word(&key("rounding")) {
                    "ceil" => Rounding::Ceil,
                    _ => Rounding::Floor,
                },
            }),
            kind => return self.rare_budget(kind, table),
        })
    }

    /// A budget of the kinds of full engines.
    pub(in crate::policy) fn budget_of_kind(&self, kind: &str, table: &str) -> Option<BudgetSettings> {
        let key = |name: &str| text::of(&[table, ".", name]);
        let (whole, real) = (|name: &str| self.whole(&key(name)), |name: &str| self.real(&key(name)));
        let throttled = if self.given(&key("throttled_cost")) { "throttled_cost" } else { "cost" };
        Some(match kind {
            "ratio" => BudgetSettings::Ratio(RatioSettings {
                ratio: real("ratio"),
                min_throughput: whole("min_throughput"),
            }),
            "share" => BudgetSettings::Share(ShareSettings {
                share: real("share"),
                min_retries: whole("min_retries"),
            }),
            "tokens" => BudgetSettings::Tokens(TokenSettings { max: whole("max"), ratio: real("ratio") }),
            "quota" => BudgetSettings::Quota(QuotaSettings {
                capacity: whole("capacity"),
                cost: whole("cost") as u16,
                timeout_cost: whole("timeout_cost") as u16,
                throttled_cost: whole(throttled) as u16,
            }),
            _ => return None,
        })
    }

    /// Retries that an earned budget has at the start: as many as one call may need, at most 4.
    fn start(&self, table: &str) -> u32 {
        let retries = self.uses(RETRY) && self.whole(retry::MAX_ATTEMPTS) > 1;
        let most = if retries && table == OF_RETRIES { retry::MAX_ATTEMPTS } else { hedge::MAX_ATTEMPTS };
        self.whole(most).saturating_sub(1).min(4)
    }

    /// The kind of a budget. Keys that only a window has make it one where no kind is given.
    pub(in crate::policy) fn budget_kind(&self, table: &str) -> &'static str {
        let given = |key: &str| self.given(&text::of(&[table, ".", key]));
        let own = ["ttl", "min_retries_per_sec", "percent_can_retry", "rounding"];
        if !given("kind") && own.into_iter().any(given) {
            return "window";
        }
        self.word(&text::of(&[table, ".kind"]))
    }
}
