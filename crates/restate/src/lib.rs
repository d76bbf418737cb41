//! Ensembles on [Restate](https://restate.dev), a durable execution engine: the workers.
//!
//! - [`run::RunWorkflow`] drives a run: a workflow that folds the same events by the same resolver as a run on one machine.
//! - [`execution::ExecutionService`] performs an execution: a durable call, which any worker takes up.
//! - [`children::ChildRuns`] are the runs of inner ensembles, which are workflows too.
//! - [`decided_operator::DecidedCallOperator`] permits the call that somebody has decided about.
//! - [`peers::PeerWorkers`] are the other workers: a call that comes to another worker is not begun a second time.
//! - [`execution_output::ExecutionOutput`] hands the records of an execution to its call before the execution continues from them.
//! - [`index::RunIndex`] knows the ids of runs.
//! - [`run_snapshot::RunSnapshot`] is the state of a run as its executions need it.
//! - [`served_ensembles::ServedEnsembles`] decides which texts a worker runs.
//! - [`request_check::RequestCheck`] refuses requests of browsers.
//! - [`serve::serve_connections`] offers all three to the engine.
//!
//! What the engine does, nobody does again here: it places and repeats calls, keeps the journal, the timer, answers, and
//! cancellations.

pub mod children;
pub mod decided_operator;
pub mod execution;
pub mod execution_output;
mod fault_injection;
pub mod index;
pub mod peers;
pub mod request_check;
pub mod run;
pub mod run_snapshot;
pub mod serve;
pub mod served_ensembles;
pub mod worker;
