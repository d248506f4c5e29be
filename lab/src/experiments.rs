//! The published experiments and Tidegate's own, as tables. Each function takes the number of seeds.

mod cap;
mod e1;
mod e15;
mod e4;
mod e5;
mod e6;
mod e7;
mod harm;
mod promises;

pub use cap::cap;
pub use e1::{e1, e2};
pub use e4::e4;
pub use e5::{e3, e5, e10};
pub use e6::e6;
pub use e7::e7;
pub use e15::e15;
pub use harm::harm;
pub use promises::{cost, lone, recovery, slow};
