//! The latencies that a bulkhead's stage shares with the fleet.

use crate::engine::fleet::FleetDesk;
use crate::engine::fleet::command::{self, Subject};
use crate::engine::place::{PoolAt, Slot};
use crate::engine::stage::missing;
use crate::fleet::{DIGEST, MOST_ITEMS};
use crate::outcome::Class;
use crate::time::Time;

impl FleetDesk<'_> {
    /// Counts the latency of an attempt, and passes the fleet's quantile to the limit.
    #[inline(never)]
    pub(in crate::engine) fn share_latency(
        &mut self,
        slot: Slot,
        home: PoolAt,
        (class, started): (Class, Time),
        now: Time,
    ) {
        let (every, within) = (
            self.desk.policies.of(&self.desk.calls[slot]).store_exchange,
            self.desk.policies.of(&self.desk.calls[slot]).store_timeout,
        );
        self.watch_store(now);
        let up = self.store.is_up(&self.desk.routes, home, command::Part::Digest);
        let it = &mut self.desk.routes[home];
        let (Some(digest), Some(pool)) = (&mut it.digest, &mut it.pool) else {
            return missing("the latencies of a pool of the fleet's");
        };
        (digest.every, digest.within) = (every, within);
        let latency = now.since(started);
        let counts = match class {
            Class::Ok => true,
            Class::Transient | Class::Permanent => latency > digest.settings.latency_threshold,
            _ => false,
        };
        digest.count(counts.then_some(latency), up, now);
        let due = digest.asked_at.is_none_or(|asked| now.since(asked) >= every) && !digest.out;
        pool.limiter.follow(digest.outside(pool.limiter.last_cut(), up, now));
        if !due
            || !self.store.may_send(
                (self.desk.routes.lasting_id(home.route()), command::Part::Digest),
                self.desk.seed,
                now,
            )
        {
            return;
        }
        let Some(digest) = &mut self.desk.routes[home].digest else {
            return missing("the latencies of a pool of the fleet's");
        };
        let ppm = (digest.quantile * 1e6) as u64;
        let mut args = vec![digest.slice().as_micros(), ppm];
        for _ in 0..MOST_ITEMS {
            let Some((bucket, count)) = digest.counts.pop_first() else { break };
            args.extend([u64::from(bucket.unsigned_abs()), count]);
        }
        (digest.asked_at, digest.out) = (Some(now), true);
        self.store.send(
            &DIGEST,
            (self.desk.routes.address(&self.desk.policies, home), Subject::Digest),
            (None, &args),
            within,
            now,
        );
    }
}
