//! The run layer: runs that are started, followed, answered, cancelled, resumed, forked and replayed.

pub mod journal;
