//! The origin as its clients see it: every behaviour observed through real sockets.

mod answers;
mod binary;
mod capacity;
mod client;
mod control;
mod faults;
mod load;
mod phases;
