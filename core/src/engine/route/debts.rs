//! What is remembered of evicted routes: their debts, in a sketch of constant size (ADR 0019).
//!
//! A sketch has four rows of cells. A key has a cell in each row, and a debt is written into all four, where the greater
//! debt stays. The least of a key's four cells is therefore at least what the key owes: no debt is ever forgotten, and a
//! key that owes nothing inherits one only where other keys have written into all four of its cells.

use crate::debt::Debt;
use crate::map::Map;
use crate::rng;
use crate::time::Time;

/// Rows of a sketch.
const ROWS: usize = 4;
/// The fewest and the most cells of a row; between them, as many as there may be routes.
const NARROWEST: u32 = 256;
const WIDEST: u32 = 1 << 16;

/// Whose debt it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    Rate,
    Budget,
    HedgeBudget,
    /// Not a debt: the key has shared the policy's overflow route.
    Overflow,
}

/// What a route owes: its rate limit, its retry budget, its hedges' own budget.
pub(super) type Owed = [(Owner, Debt); 3];

/// The debts of all evicted routes, by policy.
#[derive(Debug)]
pub(super) struct Debts {
    /// What keys are hashed with, so that nobody can choose keys that meet in their cells.
    secret: u64,
    width: u32,
    sketches: Map<(u16, Owner), Sketch>,
}

#[derive(Debug)]
struct Sketch {
    /// Amount and end of each cell, row after row. Plain numbers, because zeroed memory costs nothing until it is used.
    cells: Vec<u64>,
    /// What every key owes at least.
    all: Debt,
    /// The greatest amount and the latest end that were ever written.
    worst: Debt,
}

impl Debts {
    pub fn new(secret: u64, max_routes: u32) -> Self {
        let width = max_routes.next_power_of_two().clamp(NARROWEST, WIDEST);
        Self { secret, width, sketches: Map::new() }
    }

    /// Is nothing remembered of any key?
    pub fn is_empty(&self) -> bool {
        self.sketches.is_empty()
    }

    /// The number of a key, by which its cells are found.
    pub fn hash(&self, key: &str) -> u64 {
        let mut hash = rng::split_mix(self.secret ^ key.len() as u64);
        for bytes in key.as_bytes().chunks(8) {
            let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            hash = rng::split_mix(hash ^ word);
        }
        hash
    }

    /// Writes a debt of a key down.
    #[allow(clippy::map_entry)] // a small engine's map has no entries
    pub fn note(&mut self, policy: u16, owner: Owner, hash: u64, debt: Debt, now: Time) {
        let width = self.width;
        if !self.sketches.contains_key(&(policy, owner)) {
            let cells = vec![0; 2 * ROWS * width as usize];
            self.sketches.insert((policy, owner), Sketch { cells, all: Debt::NONE, worst: Debt::NONE });
        }
        let Some(sketch) = self.sketches.get_mut(&(policy, owner)) else { return };
        sketch.worst = sketch.worst.with(debt, now);
        for cell in places(hash, width) {
            let both = sketch.read(cell).with(debt, now);
            (sketch.cells[cell], sketch.cells[cell + 1]) = (both.amount, both.until.as_micros());
        }
    }

    /// What a key owes at most: never less than was written for it.
    pub fn of(&self, policy: u16, owner: Owner, hash: u64, now: Time) -> Debt {
        let Some(sketch) = self.sketches.get(&(policy, owner)) else { return Debt::NONE };
        let mut least: Option<Debt> = None;
        for cell in places(hash, self.width) {
            let debt = sketch.read(cell);
            if !debt.is_owed(now) {
                return sketch.all;
            }
            let so_far = least.unwrap_or(debt);
            let (amount, until) = (so_far.amount.min(debt.amount), so_far.until.min(debt.until));
            least = Some(Debt { amount, until });
        }
        sketch.all.with(least.unwrap_or(Debt::NONE), now)
    }

    /// What a key owes at most, by owner.
    pub fn owed(&self, policy: u16, hash: u64, now: Time) -> Owed {
        [Owner::Rate, Owner::Budget, Owner::HedgeBudget]
            .map(|owner| (owner, self.of(policy, owner, hash, now)))
    }

    /// Forgets what has been written of all keys.
    pub fn forget(&mut self, policy: u16, owner: Owner) {
        self.sketches.remove(&(policy, owner));
    }

    /// Replaces what has been written of each key by one debt of all of them, which is made from the greatest amount and
    /// the latest end. For settings under which the old debts mean something else.
    pub fn convert(&mut self, policy: u16, owner: Owner, to: impl FnOnce(Debt) -> Debt) {
        if let Some(sketch) = self.sketches.remove(&(policy, owner)) {
            let all = to(sketch.worst);
            let cells = vec![0; sketch.cells.len()];
            self.sketches.insert((policy, owner), Sketch { cells, all, worst: all });
        }
    }
}

impl Sketch {
    fn read(&self, cell: usize) -> Debt {
        Debt { amount: self.cells[cell], until: Time::from_micros(self.cells[cell + 1]) }
    }
}

/// Where a key's cells begin, one in each row.
fn places(hash: u64, width: u32) -> [usize; ROWS] {
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    core::array::from_fn(|row| {
        let column = first.wrapping_add(step.wrapping_mul(row as u32)) & (width - 1);
        2 * (row * width as usize + column as usize)
    })
}
