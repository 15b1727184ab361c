//! A captured file's sessions, executed again: as many connections, each with its statements in their order, at
//! the pace of the original or as fast as they go.
//!
//! Each session reads its own chain of the file when it needs more, so that one that falls behind holds up no
//! other, and a file of any size takes a block of memory for each session that is open.

mod captured;
mod dispatch;
mod pace;
mod record;
mod session;
mod tally;
mod worker;

pub use dispatch::step;
