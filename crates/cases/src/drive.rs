//! Holds the conversation of a case, over the run layer.
//!
//! Invariant: a case without `live: true` starts no process, opens no connection and waits for no clock.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::DateTime;
use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::reporter::Reporter;
use ensemble_core::request::AnswerSource;
use ensemble_core::store::{Durability, MemoryStore};
use ensemble_language::cases::{CaseExpectations, OUTCOMES, TestCase, case_route};
use ensemble_project::{Project, ProjectError, Trust};
use ensemble_runs::{RunError, RunHost, RunOptions, Runs};
use ensemble_scripts::freeze_virtual_time_during_scripts;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::judge::{CaseConversation, UnmetExpectation, check_exit_after_refusal, list_unmet_expectations};
use crate::recorded_case::RecordedCaseRun;
use crate::stubs::{CaseStubs, EnsembleStubs};
use crate::suite::CheckedSuite;
use crate::unused_stubs::find_unused_part_stubs;
use crate::votes;

/// Start of virtual time in seconds of Unix time: the first second of 2026.
const VIRTUAL_START_SECONDS: i64 = 1_767_225_600;

/// Driver that runs the conversations of cases, one after the other, on one thread.
pub struct CaseDriver {
    offline: Runs,
    live: Runs,
    virtual_time: Runtime,
    real_time: OnceCell<Runtime>,
}

/// Result of a case: unmet expectations and conversations.
#[derive(Default)]
pub struct CaseResult {
    /// The expectations that are not met.
    pub failures: Vec<UnmetExpectation>,
    /// The conversation, if it could begin; of several, the last one.
    pub conversation: Option<CaseConversation>,
    /// The others, of a case that was held several times.
    pub other_conversations: Vec<CaseConversation>,
    /// For a case that was held several times: in how many conversations all expectations were met, and how many there were.
    pub pass_count: Option<(u32, u32)>,
}

impl CaseResult {
    /// Creates the result of a case that expects the refusal of the ensemble or of its inputs.
    pub fn from_expected_refusal(at: usize, case: &TestCase) -> Self {
        Self {
            failures: check_exit_after_refusal(at, &case.expect),
            ..Self::default()
        }
    }

    /// Returns all conversations of the case, the last one at the end.
    pub fn all_conversations(&self) -> impl Iterator<Item = &CaseConversation> {
        self.other_conversations.iter().chain(&self.conversation)
    }
}

impl CaseDriver {
    /// Creates a driver for the ensembles of a project. Cases with `live: true` use `live`.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub fn new(project: &Project, live: Runs) -> std::io::Result<Self> {
        let virtual_time = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        freeze_virtual_time_during_scripts();
        // Nothing of the environment is there, so nothing needs trust.
        let project = project.clone().with_trust(Trust::trust_everything());
        let begin = virtual_time.block_on(async { Instant::now() });
        let host = RunHost::from_system()
            .without_operator()
            .with_environment(|_| None)
            .with_randomness(|| 0.5)
            .with_clock(move || {
                let start = DateTime::from_timestamp(VIRTUAL_START_SECONDS, 0).unwrap_or_default();
                start + Instant::now().saturating_duration_since(begin)
            });
        Ok(Self {
            offline: Runs::for_project(project, host),
            live,
            virtual_time,
            real_time: OnceCell::new(),
        })
    }

    /// Runs the conversation of the case, as often as `repeat` requires, and checks the expectations.
    pub fn run_and_judge_case(&self, sound: CheckedSuite<'_>, at: usize) -> CaseResult {
        let case = &sound.file.cases[at];
        match case.repeat.get() {
            1 => self.run_and_judge_once(sound, at),
            times => merge_repeated_results(at, case, (0..times).map(|_| self.run_and_judge_once(sound, at))),
        }
    }

    /// Runs the conversation of the case once, and checks the expectations.
    fn run_and_judge_once(&self, sound: CheckedSuite<'_>, at: usize) -> CaseResult {
        let case = &sound.file.cases[at];
        let recorded = sound.recorded[at].as_ref();
        let runtime = match case.live {
            true => self.get_or_start_live_runtime(),
            false => Ok(&self.virtual_time),
        };
        let conversation_result = match runtime {
            Ok(runtime) => runtime.block_on(self.run_conversation(sound, case, recorded)),
            Err(error) => Err(RunError::Stopped(error)),
        };
        match conversation_result {
            Err(error) if case.expect.expects_refusal() && is_refusal_before_run(&error) => {
                CaseResult::from_expected_refusal(at, case)
            }
            Ok(conversation) => {
                let expect = effective_expectations(case, recorded);
                let mut failures = list_unmet_expectations(at, &expect, &conversation);
                if conversation.missing.is_empty() {
                    failures.extend(find_unused_part_stubs(at, case, &conversation.state));
                    failures.extend(self.judge_with_models(sound, at, &expect, &conversation));
                }
                CaseResult {
                    failures,
                    conversation: Some(conversation),
                    ..CaseResult::default()
                }
            }
            Err(error) => CaseResult {
                failures: vec![describe_start_failure(at, &error)],
                ..CaseResult::default()
            },
        }
    }

    /// Checks the expectations that models judge. Each vote is a request to a model.
    fn judge_with_models(
        &self,
        sound: CheckedSuite<'_>,
        at: usize,
        expect: &CaseExpectations,
        conversation: &CaseConversation,
    ) -> Vec<UnmetExpectation> {
        match self.get_or_start_live_runtime() {
            // The loader refuses judges of cases that are not live.
            _ if expect.judges.is_empty() || !sound.file.cases[at].live => Vec::new(),
            Ok(runtime) => {
                let runs = self.live.clone().with_store(Arc::new(MemoryStore::new()));
                let votes = votes::list_unmet_criteria(&runs, sound.ensemble, at, &expect.judges, conversation);
                runtime.block_on(votes)
            }
            Err(_) => Vec::new(),
        }
    }

    /// Returns the runtime for live cases, which starts at the first call.
    ///
    /// # Errors
    /// The runtime cannot be started.
    fn get_or_start_live_runtime(&self) -> Result<&Runtime, String> {
        if self.real_time.get().is_none() {
            let runtime = Builder::new_current_thread().enable_all().build();
            let _it_was_empty = self.real_time.set(runtime.map_err(|error| error.to_string())?);
        }
        self.real_time
            .get()
            .ok_or_else(|| "cannot start the async runtime".to_owned())
    }

    /// Runs one conversation of the case with its stubs. Returns the records and observations.
    async fn run_conversation(
        &self,
        sound: CheckedSuite<'_>,
        case: &TestCase,
        recorded: Option<&Arc<RecordedCaseRun>>,
    ) -> Result<CaseConversation, RunError> {
        let stubbed = CaseStubs::new(case, recorded.cloned());
        let records = RecordCollector::default();
        let mut options = build_run_options(case, recorded, &stubbed)
            .with_reporter(records.clone())
            .with_durability(Durability::None);
        options.replacements = Some(Arc::new(EnsembleStubs {
            stubbed: stubbed.clone(),
            outer_path: String::new(),
        }));
        let runs = if case.live { &self.live } else { &self.offline };
        let runs = runs
            .clone()
            .with_store(Arc::new(MemoryStore::new()))
            .with_operator(stubbed.operator.clone());
        let run = runs
            .prepare_run_from_prepared(sound.ensemble.clone(), options)?
            .start_and_spawn()
            .await?;
        let finished = run.wait_and_close().await?;
        Ok(CaseConversation {
            records: std::mem::take(&mut records.0.lock().unwrap_or_else(PoisonError::into_inner)),
            state: finished.state,
            missing: stubbed.list_missing_stubs(),
            prompts: stubbed.watch.observed_prompts(),
            loads: stubbed.watch.observed_parallelism(),
        })
    }
}

/// Merges the results of a repeated case. Each failure states the number of conversations with the failure.
fn merge_repeated_results(at: usize, case: &TestCase, rounds: impl Iterator<Item = CaseResult>) -> CaseResult {
    let (mut passed, mut times) = (0, 0);
    let mut failures: Vec<(UnmetExpectation, u32)> = Vec::new();
    let mut conversations = Vec::new();
    for round in rounds {
        times += 1;
        passed += u32::from(round.failures.is_empty());
        for failure in round.failures {
            match failures.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, count)) => *count += 1,
                None => failures.push((failure, 1)),
            }
        }
        conversations.extend(round.conversation);
    }
    let rate = f64::from(passed) / f64::from(times);
    let mut unmet_expectations = Vec::new();
    if rate < case.pass_rate {
        let needed = f64::from(times) * case.pass_rate;
        let route = case_route(at);
        unmet_expectations.push(UnmetExpectation {
            expected: Some(format!("at least {} of {times}", needed.ceil())),
            actual: Some(format!("{passed} of {times}")),
            ..UnmetExpectation::new(
                route.with_key("pass_rate").into_value_location(),
                "conversations that meet all expectations",
            )
        });
        let with_count = |(failure, count): (UnmetExpectation, u32)| UnmetExpectation {
            what: format!("{} ({count} of {times})", failure.what),
            ..failure
        };
        unmet_expectations.extend(failures.into_iter().map(with_count));
    }
    CaseResult {
        failures: unmet_expectations,
        conversation: conversations.pop(),
        other_conversations: conversations,
        pass_count: Some((passed, times)),
    }
}

/// Builds the options of the run: the recorded input and context, replaced by those of the case.
fn build_run_options(case: &TestCase, recorded: Option<&Arc<RecordedCaseRun>>, stubbed: &CaseStubs) -> RunOptions {
    let mut options = RunOptions::default();
    if let Some(recorded) = recorded {
        options.input = Some(recorded.input.clone());
        options.context = match recorded.inputs.is_empty() {
            true => recorded.context.clone(),
            false => recorded.inputs.clone(),
        };
    }
    if let Some(input) = &case.input {
        options.input = Some(input.clone());
    }
    for (name, value) in &case.inputs {
        options.context.insert(name.as_str().into(), Arc::new(value.clone()));
    }
    for (agent, answer) in case
        .answers
        .iter()
        .filter(|(agent, _)| stubbed.has_plain_answers(agent))
    {
        let by = AnswerSource::Stub.into();
        options.answers.insert_answer_by(&**agent, answer.clone(), by);
    }
    options
}

/// Returns the expectations of the case. Without any, a recorded run must have the recorded outcome and turns.
fn effective_expectations(case: &TestCase, recorded: Option<&Arc<RecordedCaseRun>>) -> CaseExpectations {
    match recorded {
        Some(recorded) if case.expect.is_empty() => CaseExpectations {
            outcomes: OUTCOMES
                .into_iter()
                .filter(|outcome| *outcome == recorded.outcome.as_str())
                .collect(),
            turns: Some(recorded.turns.clone()),
            ..CaseExpectations::default()
        },
        _ => case.expect.clone(),
    }
}

/// Returns whether the error is a refusal of the ensemble or its inputs before the run starts.
fn is_refusal_before_run(error: &RunError) -> bool {
    !matches!(error, RunError::Stopped(_) | RunError::Commit(_) | RunError::Store(_))
}

/// Creates the failure of a case whose run cannot start.
fn describe_start_failure(at: usize, error: &RunError) -> UnmetExpectation {
    let error_message = match error {
        RunError::Project(ProjectError::Invalid(errors)) => errors
            .iter()
            .map(|error| error.message.clone())
            .collect::<Vec<_>>()
            .join("; "),
        other => other.to_string(),
    };
    let mut failure = UnmetExpectation::new(
        case_route(at).with_key("name").into_value_location(),
        format!("the run cannot start: {error_message}"),
    );
    failure.help = error.advice();
    failure
}

/// Reporter that stores all records of a run.
#[derive(Debug, Clone, Default)]
struct RecordCollector(Arc<Mutex<Vec<Record>>>);

impl Reporter for RecordCollector {
    fn report_event(&mut self, record: &Record, _state: &ConversationState) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(record.clone());
    }
}
