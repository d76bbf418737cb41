//! Ensembles on [Restate](https://restate.dev), a durable execution engine: the workers.
//!
//! - [`run::RunWorkflow`] drives a run: a workflow that folds the same events with the same resolver as a run on one machine.
//! - [`execution::ExecutionService`] performs an execution: a durable call, which any worker can continue.
//! - [`children::NestedWorkflowRuns`] returns the nested runs of an execution, which are workflows as well.
//! - [`decided_operator::DecidedCallOperator`] permits the tool call that an operator has decided about.
//! - [`peers::PeerWorkerClient`] asks other workers for steps, so that a call that reaches another worker does not start a second time.
//! - [`execution_output::RunningExecutionOutput`] passes the records of an execution to its call before the execution continues from them.
//! - [`index::RunIndex`] stores the ids of runs.
//! - [`run_snapshot::RunSnapshot`] is the state of a run as its executions need it.
//! - [`served_ensembles::ServedEnsembleCheck`] decides which texts a worker runs.
//! - [`request_check::BrowserRequestCheck`] refuses requests of browsers.
//! - [`serve::serve_engine_until`] serves the workflow, the service and the index to the engine.
//!
//! The workers do nothing that the engine does: the engine places and repeats calls, and stores the journal, the timers, the answers and the
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
