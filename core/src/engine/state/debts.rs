//! The debts of evicted routes in a saved state (ADR 0019): the nonempty cells of each sketch.

use super::stage::{self, Named};
use crate::debt::{Debt, Unit};
use crate::engine::Entry;
use crate::engine::desk::Desk;
use crate::engine::pages::SavePages;
use crate::engine::place::PoolAt;
use crate::engine::policies::Policies;
use crate::engine::rate_queue::OF_SET;
use crate::engine::route::Routes;
use crate::engine::route::debts::{Debts, NARROWEST, Owner, ROWS, WIDEST};
use crate::engine::route::evict::budgets;
use crate::limit::RateSettings;
use crate::state::{Damage, Loader, Moments, Saver, Value};
use crate::time::{Duration, Time};

/// Cells that one page of a saved state visits, and those that it writes.
const LOOKED_AT: usize = 8_192;
const WRITTEN: usize = 512;

const OWNERS: [(Owner, &str); 6] = [
    (Owner::Rate, "rate"),
    (Owner::Budget, "budget"),
    (Owner::Window, "window"),
    (Owner::HedgeBudget, "hedge_budget"),
    (Owner::HedgeWindow, "hedge_window"),
    (Owner::Overflow, "overflow"),
];

const KINDS: [&str; 4] = ["earned", "ratio", "tokens", "quota"];

/// Debts in the process of being saved, page by page.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct DebtPages {
    text: String,
    /// The sketch being written, and its next cell.
    at: Option<((u16, Owner), usize)>,
    /// The last cell written.
    last: usize,
    /// Number of changes of meaning before the first page.
    changes: u64,
    /// Cells in the pages so far, for tests.
    pub looked_at: usize,
}

impl DebtPages {
    /// The text of all pages; empty without debts.
    pub fn finish(self) -> String {
        self.text
    }

    /// Whether the meaning of the debts has changed since they were written.
    pub fn is_outdated(&self, debts: &Debts) -> bool {
        !self.text.is_empty() && self.changes != debts.changes
    }
}

/// A sketch read from a saved state.
#[derive(Debug)]
struct Staged {
    number: u16,
    owner: Owner,
    unit: Unit,
    in_force: bool,
    /// Row, column and debt of each cell.
    cells: Vec<(usize, usize, Debt)>,
}

/// The debts of a saved state, read and checked.
#[derive(Debug, Default)]
pub(super) struct StagedDebts {
    secret: u64,
    width: usize,
    sketches: Vec<Staged>,
}

fn cells(from: &mut Loader<'_>, width: usize) -> Result<Vec<(usize, usize, Debt)>, Damage> {
    let (mut cells, mut place) = (Vec::new(), 0_usize);
    while from.has_more() {
        place = place.saturating_add(from.count()? as usize);
        if place >= ROWS * width || cells.len() > place {
            return Err(Damage("must be within its rows"));
        }
        let amount = from.whole()?;
        let until = from.maybe()?.unwrap_or(Time::NEVER);
        cells.push((place / width, place % width, Debt { amount, until }));
    }
    Ok(cells)
}

impl Desk {
    /// Reads saved debts.
    pub(super) fn staged_debts(
        (hash, debts): (Option<&Value>, &Value),
        policies: &[Named<'_>],
        of: &Moments,
    ) -> Result<StagedDebts, Damage> {
        let Some(hash) = hash else { return Ok(StagedDebts::default()) };
        let mut from = Loader::new(hash, of)?;
        let (high, low, width) = (from.count()?, from.count()?, from.count()?);
        if !width.is_power_of_two() || !(NARROWEST..=WIDEST).contains(&width) {
            return Err(Damage("must be a row of 256 to 65,536 cells, a power of two"));
        }
        let width = width as usize;
        let mut it =
            StagedDebts { secret: u64::from(high) << 32 | u64::from(low), width, sketches: Vec::new() };
        let mut from = Loader::new(debts, of)?;
        while from.has_more() {
            from.list(|from| {
                let (saved, owner, kind) = (from.count()?, from.text()?, from.text()?);
                let owner = OWNERS.iter().find(|(_, name)| *name == owner);
                let (owner, _) = *owner.ok_or(Damage("must be of a component that owes"))?;
                let (a, b, in_force) = (from.whole()?, from.whole()?, from.flag()?);
                let known = KINDS.into_iter().find(|known| *known == kind);
                let span = |micros: u64| Duration::from_micros(micros.max(1));
                let unit = match kind {
                    "rate" if a == 0 => Unit::Rate(OF_SET),
                    "rate" => {
                        let permits = u32::try_from(a).map_err(|_| Damage("must be below 2^32"))?;
                        Unit::Rate(RateSettings { permits, per: span(b), burst: 1 })
                    }
                    "window" => Unit::Window(span(a)),
                    "mark" => Unit::Mark,
                    _ => Unit::Budget(known.ok_or(Damage("must be a kind of budget"))?),
                };
                let cells = from.list(|from| cells(from, width))?;
                let known = policies.iter().find(|policy| policy.saved == saved);
                let known = known.ok_or(Damage("must be of a policy that is named"))?;
                if let Some(number) = known.number {
                    it.sketches.push(Staged { number, owner, unit, in_force, cells });
                }
                Ok(())
            })?;
        }
        Ok(it)
    }
}

impl Policies {
    /// Writes the next page of debts; false after the last page.
    pub(in crate::engine) fn save_debts_page(
        &self,
        routes: &Routes,
        pages: &mut SavePages,
        now: Time,
    ) -> bool {
        let debts = &routes.debts;
        let it = &mut pages.debts;
        if it.changes != debts.changes || it.text.is_empty() {
            // The meaning of the debts has changed, so the written pages are invalid.
            let Some((first, _)) = debts.sketches.iter().next() else {
                *it = DebtPages::default();
                return false;
            };
            *it = DebtPages { at: Some((*first, 0)), changes: debts.changes, ..DebtPages::default() };
            let (high, low) = (debts.secret >> 32, debts.secret & u64::from(u32::MAX));
            it.text = format!("\"hash\":[{high},{low},{}],\"debts\":[", debts.width);
        }
        let (mut looked_at, mut written) = (0, 0);
        while let Some((key, from)) = it.at {
            if looked_at >= LOOKED_AT || written >= WRITTEN {
                it.looked_at += looked_at;
                return true;
            }
            let Some(sketch) = debts.sketches.get(&key) else { return false };
            if from == 0 {
                it.text.push_str(if it.text.ends_with('[') { "[" } else { ",[" });
                it.text.push_str(&self.head_of(key, sketch.unit));
                it.last = 0;
            }
            let mut to = Saver::new(now);
            let mut cell = from;
            while cell < sketch.cells.len() && looked_at < LOOKED_AT && written < WRITTEN {
                let debt = sketch.read(cell);
                if debt.is_owed(now) {
                    to.whole((cell / 2 - it.last) as u64);
                    to.whole(debt.amount);
                    to.maybe(Some(debt.until).filter(|until| *until < Time::NEVER));
                    it.last = cell / 2;
                    written += 1;
                }
                (cell, looked_at) = (cell + 2, looked_at + 1);
            }
            let (text, _) = to.finish();
            if !text.is_empty() {
                it.text.push_str(if it.text.ends_with('[') { "" } else { "," });
                it.text.push_str(&text);
            }
            if cell < sketch.cells.len() {
                it.at = Some((key, cell));
                continue;
            }
            it.text.push_str("]]");
            it.at = debts.sketches.keys().find(|other| **other > key).map(|next| (*next, 0));
        }
        it.looked_at += looked_at;
        it.text.push_str("],");
        false
    }
}

impl Routes {
    /// Adds saved debts and those of `routes` to budgets that are no longer in use, and converts all of them to the
    /// present settings, as a retune does.
    pub(super) fn go_on_from_debts(
        &mut self,
        staged: StagedDebts,
        routes: &[stage::Staged<'_>],
        policies: &Policies,
        now: Time,
    ) {
        let mut in_force = Vec::new();
        if !staged.sketches.is_empty() {
            let changes = self.debts.changes + 1;
            self.debts = Debts { changes, ..Debts::new(staged.secret, self.debts.width) };
        }
        let debts = &mut self.debts;
        let width = debts.width as usize;
        for Staged { number, owner, unit, cells, in_force: was } in staged.sketches {
            if was {
                in_force.push((number, owner));
            }
            let Some(sketch) = debts.sketch(number, owner, unit) else { return };
            for (row, column, debt) in cells {
                // Columns correspond by their lower bits: one column of a narrower sketch maps to several here, or
                // several of a wider one share one.
                let first = column & (width - 1);
                for column in (first..width).step_by(staged.width.min(width)) {
                    sketch.add(2 * (row * width + column), debt, now);
                }
            }
        }
        // Before the conversion, which also creates the sketch of the budget that replaces theirs. Without it, the
        // state that this engine saves next would look like that of another budget.
        for route in routes {
            if let Some(key) = route.key {
                self.remember(route.number, key, &route.parts.lost, now);
            }
        }
        let debts = &mut self.debts;
        for (number, entry) in (0..=u16::MAX).zip(policies.iter()) {
            let Entry { policy, shared_pools, .. } = entry;
            match policy.rate_limit.as_ref().filter(|_| shared_pools.rate == PoolAt::NONE) {
                Some(to) => debts.retune_rate(number, to.bucket, now),
                None => debts.forget(number, Owner::Rate),
            }
            for (hedges, budget) in [false, true].into_iter().zip(budgets(policy)) {
                if let Some(to) = budget.as_ref().filter(|_| hedges || shared_pools.budget == PoolAt::NONE) {
                    let owner = Unit::of(to).map(|unit| Owner::of(unit, hedges));
                    let same = owner.is_some_and(|owner| in_force.contains(&(number, owner)));
                    debts.retune_budget(number, hedges, (to, !same), now);
                }
            }
        }
    }
}

impl Policies {
    /// Policy, owner, unit, and whether the policy has a component of this kind.
    fn head_of(&self, (policy, owner): (u16, Owner), unit: Unit) -> String {
        let (kind, [a, b]) = match unit {
            Unit::Rate(settings) => ("rate", [u64::from(settings.permits), settings.per.as_micros()]),
            Unit::Window(ttl) => ("window", [ttl.as_micros(), 0]),
            Unit::Budget(kind) => (kind, [0, 0]),
            Unit::Mark => ("mark", [0, 0]),
        };
        let name = OWNERS.iter().find(|(it, _)| *it == owner).map_or("", |(_, name)| name);
        let policy_of = &self[usize::from(policy)].policy;
        let in_force = [false, true].into_iter().zip(budgets(policy_of)).any(|(hedges, budget)| {
            budget.as_ref().and_then(Unit::of).is_some_and(|unit| Owner::of(unit, hedges) == owner)
        });
        format!("{policy},\"{name}\",\"{kind}\",{a},{b},{},[", u8::from(in_force))
    }
}
