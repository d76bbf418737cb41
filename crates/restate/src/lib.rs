//! Ensembles on [Restate](https://restate.dev), a durable execution engine: the workers.
//!
//! - [`run::Run`] drives a run: a workflow that folds the same events by the same resolver as a run on one machine.
//! - [`execution::Execution`] performs an execution: a durable call, which any worker takes up.
//! - [`children::Children`] are the runs of inner ensembles, which are workflows too.
//! - [`deciding::Deciding`] permits the call that somebody has decided about.
//! - [`peers::Peers`] are the other workers: a call that comes to another worker is not begun a second time.
//! - [`index::Index`] knows the ids of runs.
//! - [`serve::serve`] offers all three to the engine.
//!
//! What the engine does, nobody does again here: it places and repeats calls, keeps the journal, the timer, answers, and
//! cancellations.

pub mod children;
pub mod deciding;
pub mod execution;
mod fault;
pub mod index;
pub mod peers;
pub mod run;
pub mod serve;
pub mod worker;
