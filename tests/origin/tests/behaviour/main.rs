//! The origin as its clients observe it: every behaviour through real sockets.

mod answers;
mod binary;
mod capacity;
mod client;
mod control;
mod faults;
mod load;
mod phases;
mod provider;
