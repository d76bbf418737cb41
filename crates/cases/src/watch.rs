//! What a case observes of executions: the prompts, and how many run at once.
//!
//! Invariant: an observed execution has the same result as one that is not observed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ensemble_core::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::CaseExpectations;
use ensemble_runs::PromptPreview;

/// Virtual time that a counted execution waits, so that all parallel executions have started.
const OVERLAP_WAIT: Duration = Duration::from_millis(1);

/// Prompt that an execution sent, or would have sent without a stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedPrompt {
    /// The agent, with the agents around it: `outer.inner`.
    pub agent: Arc<str>,
    /// The number of the execution.
    pub execution: u32,
    /// The prompt, or why it cannot be rendered.
    pub text: Result<String, String>,
}

/// Largest number of parallel executions of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedParallelism {
    /// The agent, with the agents around it.
    pub agent: Arc<str>,
    /// The highest number that ran at once.
    pub most: u32,
    running: u32,
}

/// Observer of the executions of a case.
#[derive(Debug, Default)]
pub(crate) struct CaseObserver {
    asked_agents: Vec<Arc<str>>,
    counted_agents: Vec<Arc<str>>,
    prompts: Mutex<Vec<ObservedPrompt>>,
    loads: Mutex<Vec<ObservedParallelism>>,
}

impl CaseObserver {
    /// Creates an observer of the prompts and executions that the expectations need.
    pub(crate) fn for_expected_observations(expect: &CaseExpectations) -> Arc<Self> {
        Arc::new(Self {
            asked_agents: expect.asked.iter().map(|(agent, _)| agent.clone()).collect(),
            counted_agents: expect.at_once.iter().map(|(agent, _)| agent.clone()).collect(),
            ..Self::default()
        })
    }

    /// Returns the prompts that were observed so far.
    pub(crate) fn observed_prompts(&self) -> Vec<ObservedPrompt> {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the parallel executions that were observed so far.
    pub(crate) fn observed_parallelism(&self) -> Vec<ObservedParallelism> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wraps the runner of an agent if the case observes the executions of the agent. Otherwise returns the runner.
    pub(crate) fn wrap_if_observed(
        self: &Arc<Self>,
        agent: &Arc<str>,
        preview: impl FnOnce() -> Option<PromptPreview>,
        runner: Arc<dyn Runner>,
    ) -> Arc<dyn Runner> {
        let is_asked = self.asked_agents.contains(agent);
        let is_counted = self.counted_agents.contains(agent);
        if !is_asked && !is_counted {
            return runner;
        }
        Arc::new(ObservingRunner {
            agent: agent.clone(),
            preview: if is_asked { preview() } else { None },
            is_counted,
            inner: runner,
            watch: self.clone(),
        })
    }

    /// Changes the number of running executions of the agent, and updates the maximum.
    fn change_running_count(&self, agent: &Arc<str>, difference: i32) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let at = loads.iter().position(|load| load.agent == *agent).unwrap_or_else(|| {
            loads.push(ObservedParallelism {
                agent: agent.clone(),
                most: 0,
                running: 0,
            });
            loads.len() - 1
        });
        let load = &mut loads[at];
        load.running = load.running.saturating_add_signed(difference);
        load.most = load.most.max(load.running);
    }
}

/// Runner that observes the executions of an agent.
struct ObservingRunner {
    agent: Arc<str>,
    preview: Option<PromptPreview>,
    is_counted: bool,
    inner: Arc<dyn Runner>,
    watch: Arc<CaseObserver>,
}

/// Guard that counts an execution as running until it is dropped.
struct RunningCountGuard<'w>(&'w ObservingRunner);

impl<'w> RunningCountGuard<'w> {
    /// Counts an execution of the runner as running.
    fn count_execution(runner: &'w ObservingRunner) -> Self {
        runner.watch.change_running_count(&runner.agent, 1);
        Self(runner)
    }
}

impl Drop for RunningCountGuard<'_> {
    fn drop(&mut self) {
        self.0.watch.change_running_count(&self.0.agent, -1);
    }
}

impl Runner for ObservingRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            if let Some(preview) = &self.preview {
                let prompt = ObservedPrompt {
                    agent: self.agent.clone(),
                    execution: execution.execution,
                    text: preview.render_prompt(&execution).await,
                };
                let mut prompts = self.watch.prompts.lock().unwrap_or_else(PoisonError::into_inner);
                prompts.push(prompt);
            }
            let _guard = match self.is_counted {
                true => {
                    let guard = RunningCountGuard::count_execution(self);
                    tokio::time::sleep(OVERLAP_WAIT).await;
                    Some(guard)
                }
                false => None,
            };
            self.inner.execute_attempt(execution).await
        })
    }
}
