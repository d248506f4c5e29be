//! Debts of evicted routes, in a sketch of constant size (ADR 0019).
//!
//! A sketch has four rows of cells. A key has one cell in each row. A debt is written into all four cells, and each
//! keeps the greater debt. So the least of a key's four cells is at least the key's debt: no debt is ever forgotten.
//! A key without debts inherits one only if other keys have written into all four of its cells.

use crate::debt::{Debt, Unit};
use crate::limit::{RateSettings, TokenBucket};
use crate::retry::{Budget, BudgetSettings, WHOLE_FLOOR};
use crate::rng;
use crate::time::Time;
use std::collections::BTreeMap as Map;

/// Rows of a sketch.
pub(in crate::engine) const ROWS: usize = 4;
/// Smallest and largest number of cells in a row; between them, as many as the largest number of routes.
pub(in crate::engine) const NARROWEST: u32 = 256;
pub(in crate::engine) const WIDEST: u32 = 1 << 16;

/// Component that owns a debt. A budget has two sketches, because time pays the debts of a `window` and only
/// successes pay those of other kinds. While one kind of budget is in force, debts to the other are kept unchanged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) enum Owner {
    Rate,
    Budget,
    Window,
    HedgeBudget,
    HedgeWindow,
    /// Not a debt: notes that the key has shared the policy's overflow route.
    Overflow,
}

/// Debts of a route: of its rate limit, its retry budget and its hedge budget; `None` for a component that cannot
/// have debts.
pub(in crate::engine) type Owed = [Option<(Owner, Unit, Debt)>; 3];

/// The debts of all evicted routes, by policy.
#[derive(Debug)]
pub(in crate::engine) struct Debts {
    /// Secret of the keys' hash, so that no caller can choose keys whose cells collide.
    pub secret: u64,
    pub width: u32,
    pub sketches: Map<(u16, Owner), Sketch>,
    /// Number of changes of meaning so far. Values read from a sketch before and after a change do not belong
    /// together.
    pub changes: u64,
}

#[derive(Debug)]
pub(in crate::engine) struct Sketch {
    pub unit: Unit,
    /// Amount and end of each cell, row after row. Plain integers, because zeroed memory costs nothing until it is
    /// used.
    pub cells: Vec<u64>,
}

impl Debts {
    pub fn new(secret: u64, max_routes: u32) -> Self {
        let width = max_routes.next_power_of_two().clamp(NARROWEST, WIDEST);
        Self { secret, width, sketches: Map::new(), changes: 0 }
    }

    /// Whether no key has a remembered debt.
    pub fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    /// Hash of a key, which determines its cells.
    pub fn hash(&self, key: &str) -> u64 {
        let mut hash = rng::split_mix(self.secret ^ key.len() as u64);
        for bytes in key.as_bytes().chunks(8) {
            let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            hash = rng::split_mix(hash ^ word);
        }
        hash
    }

    /// The sketch of an owner; creates a missing one.
    #[allow(clippy::map_entry)] // a small engine's map has no entries
    pub fn sketch(&mut self, policy: u16, owner: Owner, unit: Unit) -> Option<&mut Sketch> {
        if !self.sketches.contains_key(&(policy, owner)) {
            let cells = vec![0; 2 * ROWS * self.width as usize];
            self.sketches.insert((policy, owner), Sketch { unit, cells });
        }
        self.sketches.get_mut(&(policy, owner))
    }

    /// Records a debt of a key.
    pub fn note(&mut self, policy: u16, (owner, unit): (Owner, Unit), hash: u64, debt: Debt, now: Time) {
        let places = places(hash, self.width);
        let Some(sketch) = self.sketch(policy, owner, unit) else { return };
        for cell in places {
            sketch.add(cell, debt, now);
        }
    }

    /// Upper bound of a key's debt: never less than was recorded for it.
    pub fn of(&self, policy: u16, owner: Owner, hash: u64, now: Time) -> Debt {
        let Some(sketch) = self.sketches.get(&(policy, owner)) else { return Debt::NONE };
        let mut least: Option<Debt> = None;
        for cell in places(hash, self.width) {
            let debt = sketch.read(cell);
            if !debt.is_owed(now) {
                return Debt::NONE;
            }
            let so_far = least.unwrap_or(debt);
            let (amount, until) = (so_far.amount.min(debt.amount), so_far.until.min(debt.until));
            least = Some(Debt { amount, until });
        }
        least.unwrap_or(Debt::NONE)
    }

    /// Forgets the debts of all keys to one owner.
    pub fn forget(&mut self, policy: u16, owner: Owner) {
        self.changes += u64::from(self.sketches.remove(&(policy, owner)).is_some());
    }

    /// Forgets all debts of all keys of a policy.
    pub fn forget_policy(&mut self, policy: u16) {
        for owner in Owner::ALL {
            self.forget(policy, owner);
        }
    }

    /// Converts a rate limit's debts to other settings: the number of missing tokens stays the same.
    pub fn retune_rate(&mut self, policy: u16, to: RateSettings, now: Time) {
        let Some(sketch) = self.sketches.get_mut(&(policy, Owner::Rate)) else { return };
        let Unit::Rate(from) = core::mem::replace(&mut sketch.unit, Unit::Rate(to)) else { return };
        if (from.permits == 0) != (to.permits == 0) {
            self.forget(policy, Owner::Rate); // a set took the place of a single rate, or the other way round
        } else if (from.permits, from.per) != (to.permits, to.per) {
            sketch.each(now, |debt| TokenBucket::translated(debt, from, to, now));
            self.changes += 1;
        }
    }

    /// Converts a budget's debts to other settings. If the kind changes, a key with a debt has spent the burst of the
    /// new budget. `other` means that the previous budget used the other sketch.
    pub fn retune_budget(
        &mut self,
        policy: u16,
        hedges: bool,
        (to, other): (&BudgetSettings, bool),
        now: Time,
    ) {
        let Some(unit) = Unit::of(to) else { return };
        let owner = Owner::of(unit, hedges);
        let spent = Budget::spent(to, now).map_or(Debt::NONE, |mut budget| budget.debt(now));
        let spent = Debt { amount: spent.amount.max(1), ..spent };
        if let Some(sketch) = self.sketches.get_mut(&(policy, owner)).filter(|sketch| sketch.unit != unit) {
            sketch.unit = unit;
            match unit {
                // Retries leave the window when they would have; until then the floor is not granted.
                Unit::Window(_) => sketch.each(now, |debt| Debt { amount: WHOLE_FLOOR, ..debt }),
                _ => sketch.each(now, |_| spent),
            }
            self.changes += 1;
        }
        let source = if other { self.sketches.remove(&(policy, owner.other())) } else { None };
        if let Some(source) = source {
            if let Some(sketch) = self.sketch(policy, owner, unit) {
                for cell in (0..source.cells.len()).step_by(2) {
                    if source.read(cell).is_owed(now) {
                        sketch.add(cell, spent, now);
                    }
                }
            }
            self.sketches.insert((policy, owner.other()), source);
            self.changes += 1;
        }
    }
}

impl Owner {
    const ALL: [Self; 6] =
        [Self::Rate, Self::Budget, Self::Window, Self::HedgeBudget, Self::HedgeWindow, Self::Overflow];

    /// The owner of the debts of a budget with this unit.
    pub fn of(unit: Unit, hedges: bool) -> Self {
        match unit {
            Unit::Window(_) if hedges => Self::HedgeWindow,
            Unit::Window(_) => Self::Window,
            _ if hedges => Self::HedgeBudget,
            _ => Self::Budget,
        }
    }

    /// The other sketch of the same budget.
    fn other(self) -> Self {
        match self {
            Self::Budget => Self::Window,
            Self::Window => Self::Budget,
            Self::HedgeBudget => Self::HedgeWindow,
            Self::HedgeWindow => Self::HedgeBudget,
            Self::Rate | Self::Overflow => self,
        }
    }
}

impl Sketch {
    pub fn read(&self, cell: usize) -> Debt {
        Debt { amount: self.cells[cell], until: Time::from_micros(self.cells[cell + 1]) }
    }

    pub fn add(&mut self, cell: usize, debt: Debt, now: Time) {
        let both = self.read(cell).with(debt, now);
        (self.cells[cell], self.cells[cell + 1]) = (both.amount, both.until.as_micros());
    }

    /// Converts each outstanding debt.
    fn each(&mut self, now: Time, mut to: impl FnMut(Debt) -> Debt) {
        for cell in (0..self.cells.len()).step_by(2) {
            let debt = self.read(cell);
            if debt.is_owed(now) {
                let debt = to(debt);
                (self.cells[cell], self.cells[cell + 1]) = (debt.amount, debt.until.as_micros());
            }
        }
    }
}

/// Index of a key's cells, one in each row.
fn places(hash: u64, width: u32) -> [usize; ROWS] {
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    core::array::from_fn(|row| {
        let column = first.wrapping_add(step.wrapping_mul(row as u32)) & (width - 1);
        2 * (row * width as usize + column as usize)
    })
}
