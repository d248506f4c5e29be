//! Targets: the key by which a policy names a group, and what it may not have beside it.

use super::prelude::*;

keys! {
    /// The key of a group of targets.
    KEYS:
    TARGETS = "targets", Domain::Name, "",
        "A group of targets (models, providers, regions, keys) that is declared as one; each attempt goes to one of them.";
}

/// Keys of which a policy with targets has none: its targets have breakers of their own, and the choice of a target is
/// its last stage.
const NOT_BESIDE: [&str; 2] = ["breaker.", "throttle."];

/// What a group of targets adds to policies.
pub(in crate::policy) const COMPONENT: Component = Component {
    keys: KEYS,
    check: |settings, errors| {
        if !settings.given(TARGETS) {
            return;
        }
        let mut fail = |key: &str, value: String, rule: &str| errors.push(PolicyError::new(key, value, rule));
        for table in NOT_BESIDE {
            if settings.uses(table) {
                let rule =
                    "stands beside targets: give the members of the group a breaker, and the policy none";
                fail(&table[..table.len() - 1], "(given)".into(), rule);
            }
        }
        if settings.uses("cooldown.") {
            let rule = "stands beside targets: give the members of the group a cooldown, and the policy none";
            fail("cooldown", "(given)".into(), rule);
        }
        if settings.flag(retry::HOLD) {
            fail(
                retry::HOLD,
                "true".into(),
                "stands beside targets: a throttled target is left to another one",
            );
        }
        if settings.word(retry::SEND_RATE) != "none" {
            let rule = "stands beside targets: give the members of the group a rate_limit";
            fail(retry::SEND_RATE, settings.shown_value(retry::SEND_RATE), rule);
        }
    },
    ..NOTHING
};
