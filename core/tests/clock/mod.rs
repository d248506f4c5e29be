//! Rule R10 as tests expect it: core's time for the host's readings, with lines as plain numbers.

#![allow(missing_docs, dead_code)] // test support; not every test uses all of it

pub const SWING: i128 = 30_000_000;
const BELOW: i128 = -SWING;
const TOO_FAR: i128 = 1 << 53;

/// Time, the highest reading, and what time is ahead of readings on the line before the last set-back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: i128,
    highest: i128,
    before: Option<i128>,
}

impl Clock {
    pub fn new(origin: u64) -> Self {
        Self { now: i128::from(origin.min(1 << 62)), highest: i128::from(origin), before: None }
    }

    /// Core's time for this reading.
    pub fn read(&mut self, reading: u64) -> u64 {
        let reading = i128::from(reading);
        match reading - self.highest {
            BELOW..=0 => return self.now(),
            1..=SWING => self.now += reading - self.highest,
            gained if gained.abs() > TOO_FAR => {}
            gained if gained < 0 => self.before = Some(self.now - self.highest),
            gained => match self.before.map(|line| reading + line) {
                Some(there) if there >= self.now - SWING => {
                    self.highest = reading + (self.now - there).max(0);
                    self.now = self.now.max(there);
                    return self.now();
                }
                _ => self.now += gained,
            },
        }
        self.highest = reading;
        self.now()
    }

    pub fn now(&self) -> u64 {
        u64::try_from(self.now).unwrap()
    }

    /// The host's reading at a moment of core's.
    pub fn reading_at(&self, moment: u64) -> u64 {
        u64::try_from(self.highest + i128::from(moment) - self.now).unwrap_or(0)
    }
}
