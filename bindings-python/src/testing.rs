//! Test modes of an engine: inactive policies, or a fixed number of attempts without waits. They replace core's policies
//! by other policies of core and back; this module makes no decisions about calls.

use tidegate::{Clash, Document, Flags, Policy, PolicyError, PolicyId, Time, Value};

use crate::state::State;

/// The name of the policy that calls go by while an engine is not active.
const INACTIVE: &str = "tidegate.inactive";

/// The policy as it is tested: another number of attempts, and no wait between them. One without retries stays as it is.
fn tested(policy: &Policy, attempts: u8, cap: bool) -> Policy {
    let Some(Value::Number(own)) = policy.value("retry.max_attempts") else { return policy.clone() };
    let most = if cap { own.min(f64::from(attempts)) } else { f64::from(attempts) };
    let replaced = ["retry.max_attempts", "retry.respect_retry_after", "retry.hold", "retry.max_held"];
    let mut pairs = policy.to_pairs();
    pairs.retain(|(key, _)| !key.starts_with("retry.backoff.") && !replaced.contains(key));
    pairs.extend([
        ("retry.max_attempts", Value::Number(most)),
        ("retry.respect_retry_after", Value::Number(0.0)),
        ("retry.backoff.base", Value::Number(0.0)),
        ("retry.backoff.max", Value::Number(0.0)),
    ]);
    Policy::from_pairs(policy.name(), &pairs).unwrap_or_else(|_| policy.clone())
}

impl State {
    /// Takes a policy in, as it is tested.
    pub fn take_in(&mut self, policy: Policy) -> Result<PolicyId, Clash> {
        let Some((attempts, cap)) = self.mode.attempts else { return self.core.policy(policy) };
        if let Some(id) = self.core.policy_named(policy.name()) {
            let same = self.mode.originals.get(&id.to_word()) == Some(&policy);
            let present = self.core.policy_of(id).filter(|_| same).cloned();
            return self.core.policy(present.unwrap_or(policy));
        }
        let id = self.core.policy(tested(&policy, attempts, cap))?;
        self.mode.originals.insert(id.to_word(), policy);
        Ok(id)
    }

    /// Gives a policy other settings, as they are tested.
    pub fn change(&mut self, id: PolicyId, to: Policy, now: Time) -> Result<Flags, Clash> {
        let Some((attempts, cap)) = self.mode.attempts else { return self.core.retune(id, to, now) };
        let flags = self.core.retune(id, tested(&to, attempts, cap), now)?;
        self.mode.originals.insert(id.to_word(), to);
        Ok(flags)
    }

    /// Goes over to a newer document, its policies as they are tested.
    pub fn reload(&mut self, from: &Document, to: &Document, now: Time) -> Result<Flags, Vec<PolicyError>> {
        let Some((attempts, cap)) = self.mode.attempts else { return self.core.reload(from, to, now) };
        let policies: Document = to.policies().map(|policy| tested(policy, attempts, cap)).collect();
        let flags = self.core.reload(from, &policies.with_pools(to.pools().cloned()), now)?;
        for policy in to.policies() {
            if let Some(id) = self.core.policy_named(policy.name()) {
                self.mode.originals.insert(id.to_word(), policy.clone());
            }
        }
        Ok(flags)
    }

    /// Tests the engine in another way from now on; the calls that can go on because of it.
    pub fn test(
        &mut self,
        active: bool,
        attempts: Option<(u8, bool)>,
        now: Time,
    ) -> Result<Option<Vec<u64>>, Clash> {
        let mut flags = Flags::default();
        for (id, policy) in std::mem::take(&mut self.mode.originals) {
            let id = PolicyId::from_word(id);
            if self.core.policy_of(id).is_some() {
                flags = self.core.retune(id, policy, now)?;
            }
        }
        self.mode.attempts = attempts;
        self.core.lift_budgets(attempts.is_some());
        if let Some((attempts, cap)) = attempts {
            let named: Vec<_> = self.core.snapshot(now).policies;
            for id in named.iter().filter_map(|(name, _)| self.core.policy_named(name)).collect::<Vec<_>>() {
                let Some(policy) = self.core.policy_of(id).cloned() else { continue };
                if policy.name() != INACTIVE {
                    flags = self.core.retune(id, tested(&policy, attempts, cap), now)?;
                    self.mode.originals.insert(id.to_word(), policy);
                }
            }
        }
        self.mode.inactive = None;
        if !active {
            let pairs = [("retry.max_attempts", Value::Number(1.0))];
            if let Ok(policy) = Policy::from_pairs(INACTIVE, &pairs) {
                let id = self.core.policy(policy)?;
                self.mode.inactive = Some(self.core.route(id, "default", now));
            }
        }
        Ok(self.woken(flags))
    }
}
