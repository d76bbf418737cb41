use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use proptest::prelude::*;
use tokio::sync::{mpsc, watch};

use super::*;
use crate::agent::fixtures::{agent, execution};
use ensemble_core::conversation::{AttemptScope, ConversationState, Event, PartsProgress, ThreadsByPartKey};
use ensemble_core::runner::{ExecutionRecorder, UncommittedEvent};
use ensemble_language::loader::load_ensemble;
use ensemble_language::plan::Plan;
use ensemble_language::source::SourceText;

/// What an inner runner does with an item.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    Says(i64),
    Fails,
    /// It fails once, and then says this.
    Recovers(i64),
    /// It never ends by itself.
    Hangs,
}

/// Does with each item what it is told to, after as many yields as its place is late.
struct Obeys {
    items: Vec<Does>,
    late: Vec<usize>,
    started: Mutex<Vec<usize>>,
    side_by_side: AtomicUsize,
    most: AtomicUsize,
}

/// Counts who is under way, also when it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Obeys {
    fn new(items: &[Does], late: &[usize]) -> Arc<Self> {
        Arc::new(Self {
            items: items.to_vec(),
            late: late.to_vec(),
            started: Mutex::default(),
            side_by_side: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn started(&self) -> Vec<usize> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Runner for Obeys {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let at = execution.part.as_ref().map_or(0, |part| part.index as usize);
            self.started.lock().unwrap_or_else(PoisonError::into_inner).push(at);
            let now = self.side_by_side.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let _under_way = UnderWay(&self.side_by_side);
            for _ in 0..self.late.get(at).copied().unwrap_or(0) {
                tokio::task::yield_now().await;
            }
            match self.items[at] {
                Does::Says(n) => AttemptEnd::from_output([("n".to_owned(), n.into())].into_iter().collect()),
                Does::Recovers(_) if execution.last_failure.is_none() => {
                    AttemptEnd::from_failure(FailureKind::Exit, "at first")
                }
                Does::Recovers(n) => AttemptEnd::from_output([("n".to_owned(), n.into())].into_iter().collect()),
                Does::Fails => AttemptEnd::from_failure(FailureKind::Exit, format!("no {at}")),
                Does::Hangs => std::future::pending().await,
            }
        })
    }
}

/// The parts of an execution: what was logged of them, and what tells that the time is up.
struct Around {
    logged: mpsc::UnboundedReceiver<Box<UncommittedEvent>>,
    time: watch::Sender<bool>,
    execution: ExecutionInput,
}

/// Returns the next part that was logged.
fn part(logged: &mut mpsc::UnboundedReceiver<Box<UncommittedEvent>>) -> Option<PartAttemptEnded> {
    match logged.try_recv().ok()?.event {
        Event::PartEnded(part) => Some(*part),
        other => panic!("{other:?}"),
    }
}

fn around(before: PartsProgress) -> Around {
    let (log, logged) = mpsc::unbounded_channel();
    let time = watch::Sender::new(false);
    let loaded = load_ensemble(&SourceText::new("a.yaml", "name: e\nagents: [{name: a, script: a}]\n"));
    let plan = Plan::build(Arc::new(loaded.ensemble.expect("an ensemble"))).expect("a plan");
    let facts = ConversationState::new(Arc::new(plan)).condition_values_without_output();
    let parts = PartedExecutionInput {
        facts,
        earlier_parts: before,
        earlier_warnings: Vec::new(),
        reusable_parts: Arc::default(),
        threads: Arc::new(ThreadsByPartKey::new()),
        time_is_up: time.subscribe(),
    };
    Around {
        logged,
        time,
        execution: ExecutionInput {
            parts: Some(Box::new(parts)),
            records: ExecutionRecorder::new(log, AttemptScope::default(), None),
            ..execution("a", 1)
        },
    }
}

fn for_each(rest: &str, obeys: Arc<Obeys>) -> ForEachRunner {
    let text = format!(
        "name: e\nagents: [{{name: a, script: a, for_each: {{times: {}, {rest}}}}}]\n",
        obeys.items.len()
    );
    let loaded = load_ensemble(&SourceText::new("a.yaml", text.as_str()));
    let ensemble = loaded
        .ensemble
        .unwrap_or_else(|| panic!("{text}: {:?}", loaded.findings));
    let spec = ensemble.agents[0].for_each.clone().expect("a list");
    let mut spec_of_agent = agent("a", ensemble.agents[0].kind.clone(), &[]);
    if obeys.items.iter().any(|does| matches!(does, Does::Recovers(_))) {
        spec_of_agent.retry = RetryPolicy {
            max_attempts: 2.try_into().expect("not 0"),
            delay: Duration::ZERO,
            ..RetryPolicy::default()
        };
    }
    ForEachRunner::new(&spec_of_agent, &spec, obeys, Arc::default()).expect("a sound list")
}

fn result(observed: AttemptEnd) -> Result<Value, ExecutionFailure> {
    match observed {
        AttemptEnd::Finished(observation) => observation.result.map(Value::Object),
        other => panic!("{other:?}"),
    }
}

fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn no_more_parts_run_side_by_side_than_is_said() {
    let obeys = Obeys::new(&[Does::Says(1); 9], &[3; 9]);
    let runner = for_each("max_parallel: 4", obeys.clone());
    let ended = result(on_one_thread(
        runner.execute_attempt(around(PartsProgress::default()).execution),
    ));
    assert_eq!(ended.expect("a success")["count"], 9);
    assert_eq!(obeys.most.load(Ordering::SeqCst), 4);
    assert_eq!(obeys.started(), (0..9).collect::<Vec<_>>());
}

/// A run that goes on in another process has the warnings of its record.
#[test]
fn a_read_in_vain_is_reported_once_also_in_another_process() {
    let combine = "combine: {first: output.m == 1 or output.n == 'x'}";
    let warnings = |earlier: Vec<String>| {
        let obeys = Obeys::new(&[Does::Says(1), Does::Says(1)], &[]);
        let runner = for_each(combine, obeys);
        let mut execution = around(PartsProgress::default()).execution;
        execution.parts.as_mut().expect("parts").earlier_warnings = earlier;
        let ledger = execution.ledger.clone();
        result(on_one_thread(runner.execute_attempt(execution))).expect("a success");
        ledger.take_warnings()
    };
    let first = warnings(Vec::new());
    let told: Vec<bool> = ["`output.m`: ", "`output.n == 'x'`: "]
        .iter()
        .map(|start| first.iter().filter(|warning| warning.starts_with(start)).count() == 1)
        .collect();
    assert_eq!((first.len(), told), (2, vec![true, true]), "{first:?}");
    assert_eq!(warnings(first.clone()), [""; 0]);
    assert_eq!(warnings(first[1..].to_vec()), first[..1]);
}

#[test]
fn parts_that_cannot_matter_any_more_are_stopped_while_they_run() {
    let obeys = Obeys::new(&[Does::Says(1), Does::Hangs, Does::Says(1), Does::Hangs], &[]);
    let runner = for_each("combine: {first: output.n == 1}", obeys.clone());
    let output = result(on_one_thread(
        runner.execute_attempt(around(PartsProgress::default()).execution),
    ));
    let output = output.expect("a success");
    assert_eq!(output["first"], json!({"n": 1}));
    assert_eq!(output["items"][1], Value::Null);
    assert_eq!(output["failed"], json!([]), "a part that was stopped has not failed");
    assert_eq!(obeys.side_by_side.load(Ordering::SeqCst), 0, "nothing runs on");
}

#[test]
fn the_first_failed_part_stops_the_others() {
    let obeys = Obeys::new(&[Does::Hangs, Does::Fails, Does::Hangs, Does::Says(1)], &[]);
    let runner = for_each("max_parallel: 3", obeys.clone());
    let failure = result(on_one_thread(
        runner.execute_attempt(around(PartsProgress::default()).execution),
    ));
    let failure = failure.expect_err("a failure");
    assert_eq!((failure.kind, &*failure.error), (FailureKind::Exit, "part `1`: no 1"));
    assert!(!obeys.started().contains(&3), "the last part was not started");
    assert_eq!(obeys.side_by_side.load(Ordering::SeqCst), 0, "nothing runs on");
}

#[test]
fn when_the_time_is_up_open_parts_have_failed_and_are_logged() {
    let obeys = Obeys::new(&[Does::Says(1), Does::Hangs, Does::Hangs], &[]);
    let runner = for_each("max_parallel: 2, on_error: collect", obeys.clone());
    let mut around = around(PartsProgress::default());
    let output = on_one_thread(async {
        let ends = async {
            tokio::task::yield_now().await;
            around.time.send_replace(true);
        };
        tokio::join!(runner.execute_attempt(around.execution), ends).0
    });
    let output = result(output).expect("one part has succeeded");
    let kinds: Vec<&Value> = output["failed"]
        .as_array()
        .expect("a list")
        .iter()
        .inspect(|one| {
            assert!(
                one.as_object()
                    .is_some_and(|one| one.keys().eq(["key", "item", "error", "kind"]))
            )
        })
        .map(|one| &one["kind"])
        .collect();
    assert_eq!(kinds, ["timeout", "timeout"]);
    let logged: Vec<u32> = std::iter::from_fn(|| part(&mut around.logged))
        .map(|part| part.part)
        .collect();
    assert_eq!(logged, [0, 1, 2]);
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        4 => (0_i64..4).prop_map(Does::Says),
        1 => Just(Does::Fails),
        1 => (0_i64..4).prop_map(Does::Recovers),
    ]
}

proptest! {
    /// The output follows from what the parts come to, whatever the order in which they end.
    #[test]
    fn the_order_of_the_ends_does_not_matter(
        items in prop::collection::vec(does(), 0..9),
        late in prop::collection::vec(0_usize..6, 9),
        parallel in 1_usize..5,
        best in any::<bool>(),
    ) {
        let combine = if best { "best: output.n" } else { "first: output.n > 1" };
        let rest = |parallel: usize| format!("max_parallel: {parallel}, on_error: collect, at_least: 0, combine: {{{combine}}}");
        let run = |late: &[usize], parallel: usize| {
            let runner = for_each(&rest(parallel), Obeys::new(&items, late));
            result(on_one_thread(runner.execute_attempt(around(PartsProgress::default()).execution))).expect("a success")
        };
        let key = if best { "best" } else { "first" };
        let (quiet, busy) = (run(&[], 1), run(&late, parallel));
        prop_assert_eq!(&quiet[key], &busy[key]);
        prop_assert_eq!(&quiet["keys"], &busy["keys"]);
        if best {
            prop_assert_eq!(quiet, busy);
        }
    }

    /// From every beginning of what was logged, the execution comes to the same end, and nothing is performed again.
    #[test]
    fn it_goes_on_from_every_beginning_of_its_log(
        items in prop::collection::vec(does(), 1..8),
        parallel in 1_usize..4,
    ) {
        let rest = format!("max_parallel: {parallel}, on_error: collect, at_least: 0");
        let mut whole = around(PartsProgress::default());
        let runner = for_each(&rest, Obeys::new(&items, &[]));
        let expected = result(on_one_thread(runner.execute_attempt(whole.execution)));
        let logged: Vec<PartAttemptEnded> = std::iter::from_fn(|| part(&mut whole.logged)).collect();
        let finals = logged.iter().filter(|part| part.is_final()).count();
        prop_assert_eq!(finals, items.len());
        for kept in 0..=logged.len() {
            let mut before = PartsProgress::default();
            logged[..kept].iter().for_each(|part| before.add_attempt_end(part, Vec::new()));
            let obeys = Obeys::new(&items, &[]);
            let runner = for_each(&rest, obeys.clone());
            let ended = result(on_one_thread(runner.execute_attempt(around(before).execution)));
            prop_assert_eq!(&ended, &expected);
            let starts_of = |part: &PartAttemptEnded| obeys.started().iter().filter(|at| **at == part.part as usize).count();
            let is_again = |part: &PartAttemptEnded| match part.is_final() {
                true => starts_of(part) > 0,
                // The failed attempt counts: one more follows, and no more.
                false => starts_of(part) > 1,
            };
            prop_assert!(!logged[..kept].iter().any(is_again));
        }
    }
}

/// Fails once, and notes what every attempt was given.
#[derive(Default)]
struct FailsOnce(Mutex<Vec<(u32, u32, bool)>>);

impl Runner for FailsOnce {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = execution.last_failure.is_some();
        given.push((execution.attempt, execution.lost_attempts, is_told));
        let observed = match given.len() {
            1 => AttemptEnd::from_failure(FailureKind::Exit, "no"),
            _ => AttemptEnd::from_output(JsonMap::new()),
        };
        Box::pin(std::future::ready(observed))
    }
}

/// An attempt of a run that was interrupted is taken up by the next attempt, and not by the one after that.
#[test]
fn attempts_of_a_part_count_on_from_those_of_the_execution() {
    let text = "name: e\nagents: [{name: a, script: a, for_each: {times: 1}}]\n";
    let ensemble = load_ensemble(&SourceText::new("a.yaml", text))
        .ensemble
        .expect("an ensemble");
    let spec = ensemble.agents[0].for_each.clone().expect("a list");
    let mut retried = agent("a", ensemble.agents[0].kind.clone(), &[]);
    retried.retry = RetryPolicy {
        max_attempts: 2.try_into().expect("not 0"),
        delay: Duration::ZERO,
        ..RetryPolicy::default()
    };
    let fails = Arc::new(FailsOnce::default());
    let runner = ForEachRunner::new(&retried, &spec, fails.clone(), Arc::default()).expect("a sound list");
    let mut around = around(PartsProgress::default());
    (around.execution.attempt, around.execution.lost_attempts) = (2, 1);
    let ended = on_one_thread(runner.execute_attempt(around.execution));
    assert_eq!(result(ended).expect("a success")["count"], 1);
    let given = fails.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(given, [(2, 1, false), (3, 0, true)]);
    let pauses: Vec<bool> = std::iter::from_fn(|| part(&mut around.logged))
        .map(|part| part.is_final())
        .collect();
    assert_eq!(pauses, [false, true]);
}

/// Fails at once the first time, and hangs the second time.
#[derive(Default)]
struct FailsThenHangs(AtomicUsize);

impl Runner for FailsThenHangs {
    fn execute_attempt(&self, _execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => AttemptEnd::from_failure(FailureKind::Exit, "no"),
                _ => std::future::pending().await,
            }
        })
    }
}

#[test]
fn a_part_that_is_stopped_has_the_number_and_the_time_of_its_attempt() {
    const TAKES: Duration = Duration::from_millis(20);
    let text = "name: e\nagents: [{name: a, script: a, for_each: {times: 1}}]\n";
    let ensemble = load_ensemble(&SourceText::new("a.yaml", text))
        .ensemble
        .expect("an ensemble");
    let spec = ensemble.agents[0].for_each.clone().expect("a list");
    let mut retried = agent("a", ensemble.agents[0].kind.clone(), &[]);
    retried.retry = RetryPolicy {
        max_attempts: 2.try_into().expect("not 0"),
        delay: Duration::ZERO,
        ..RetryPolicy::default()
    };
    let hangs = Arc::new(FailsThenHangs::default());
    let runner = ForEachRunner::new(&retried, &spec, hangs.clone(), Arc::default()).expect("a sound list");
    let mut around = around(PartsProgress::default());
    on_one_thread(async {
        let ends = async {
            while hangs.0.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(TAKES).await;
            around.time.send_replace(true);
        };
        tokio::join!(runner.execute_attempt(around.execution), ends).0
    });
    let logged: Vec<PartAttemptEnded> = std::iter::from_fn(|| part(&mut around.logged)).collect();
    let attempts: Vec<u32> = logged.iter().map(|part| part.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    assert!(logged[1].execution_time >= TAKES.as_secs_f64(), "{:?}", logged[1]);
}
