//! Traces of random conversations.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use ensemble_core::conversation::{ConversationState, Event, ForkedFrom, Record, RunResumed, RunStarted};
use ensemble_core::executor::{Executor, WallClock};
use ensemble_core::reporter::Reporter;
use ensemble_core::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_core::store::{Durability, LogEnd, MemoryStore, RunId, RunStore};
use ensemble_language::data::{FailureKind, JsonMap, RunContext};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::plan_with_results;
use ensemble_telemetry::{RecordedRunTree, RunSpanBuilder, RunTrace, TelemetryResource};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message;

/// Each execution succeeds or fails as the list says.
struct Fated(Arc<Vec<u8>>);

impl Runner for Fated {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let name: usize = execution.agent_name.bytes().map(usize::from).sum();
        let fate = self.0[(name * 31 + execution.execution as usize * 7) % self.0.len()];
        Box::pin(async move {
            tokio::task::yield_now().await;
            match fate.is_multiple_of(5) {
                true => AttemptEnd::from_failure(FailureKind::Exit, format!("secret fate {fate}")),
                false => AttemptEnd::from_output(JsonMap::from_iter([("n".to_owned(), (fate % 3).into())])),
            }
        })
    }
}

/// A clock that goes on with each look at it, and sometimes back.
struct Ticking(Mutex<i64>);

impl WallClock for Ticking {
    fn now(&self) -> DateTime<Utc> {
        let mut ticks = self.0.lock().expect("nobody panics");
        *ticks += if *ticks % 7 == 0 { -3 } else { 5 };
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_000_000 + *ticks)
    }
}

/// Folds while it is driven.
struct Folding(RunSpanBuilder, Vec<Span>);

impl Reporter for Folding {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        self.0.apply_record_to_spans(record, state.run_start(), &mut self.1);
    }
}

fn started(id: &str) -> RunStarted {
    RunStarted {
        format: 1,
        run_id: id.into(),
        ensemble: "random".into(),
        ensemble_file: String::new(),
        ensemble_digest: String::new(),
        project_root: String::new(),
        input: "go".into(),
        context: RunContext::default(),
        inputs: RunContext::default(),
        models: Vec::new(),
        simulated: Vec::new(),
        stubs: Default::default(),
        responders: Default::default(),
        definitions: None,
        caller: Default::default(),
        forked_from: None,
        trace: None,
        program: String::new(),
    }
}

/// The records of a conversation that goes on from these, and the spans that were made meanwhile.
fn drive(plan: &Arc<Plan>, fate: &Arc<Vec<u8>>, before: &[Record], first: Event) -> (Vec<Record>, Vec<Span>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runner: Arc<dyn Runner> = Arc::new(Fated(fate.clone()));
    let (_keep, interruptions) = tokio::sync::mpsc::unbounded_channel();
    runtime.expect("a runtime").block_on(async {
        let run = MemoryStore::new()
            .create_run(&RunId::new("r"), "")
            .await
            .expect("memory");
        let mut state = ConversationState::new(plan.clone());
        let mut log = run.open_log(LogEnd::NEW, Durability::Commit).await.expect("memory");
        for record in before {
            log.append(record).await.expect("memory");
            state.apply_record(record).expect("a legal record");
        }
        let mut live = Folding(RunSpanBuilder::new(false), Vec::new());
        let mut executor = Executor {
            runners: vec![runner; plan.agent_count()],
            log: &mut *log,
            reporter: &mut live,
            clock: &Ticking(Mutex::new(before.len() as i64 * 10)),
            interruptions,
            timeout: None,
            secrets: Default::default(),
            outer_stopwatch: None,
            refuses_exhausted: false,
            turn_ends_in: None,
        };
        executor.commit(&mut state, first).await.expect("memory");
        executor.drive_conversation(&mut state).await.expect("memory");
        let records = run.read_journal().await.expect("memory").records;
        live.0.close_open_spans(&mut live.1);
        (records, live.1)
    })
}

fn recorded(records: &[Record]) -> RecordedRunTree {
    RecordedRunTree {
        records: records.to_vec(),
        ..RecordedRunTree::default()
    }
}

fn text<'a>(span: &'a Span, key: &str) -> &'a str {
    let found = span.attributes.iter().find(|one| one.key == key);
    match found.and_then(|one| one.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

fn number(span: &Span, key: &str) -> i64 {
    let found = span.attributes.iter().find(|one| one.key == key);
    match found.and_then(|one| one.value.as_ref()?.value.as_ref()) {
        Some(Value::IntValue(number)) => *number,
        _ => -1,
    }
}

fn executions(spans: &[Span]) -> Vec<(String, i64)> {
    let agents = spans
        .iter()
        .filter(|span| text(span, "gen_ai.operation.name") == "invoke_agent");
    let agents = agents.filter(|span| number(span, "ensemble.part") < 0);
    let mut all: Vec<_> = agents
        .map(|span| {
            (
                text(span, "gen_ai.agent.name").to_owned(),
                number(span, "ensemble.execution"),
            )
        })
        .collect();
    all.sort();
    all
}

fn lies_in_its_parent(spans: &[Span]) -> Result<(), TestCaseError> {
    for span in spans.iter().filter(|span| !span.parent_span_id.is_empty()) {
        let parents: Vec<&Span> = spans
            .iter()
            .filter(|parent| parent.span_id == span.parent_span_id)
            .collect();
        prop_assert_eq!(parents.len(), 1, "{}", span.name);
        prop_assert_eq!(&parents[0].trace_id, &span.trace_id);
        prop_assert!(
            parents[0].start_time_unix_nano <= span.start_time_unix_nano,
            "{}",
            span.name
        );
        prop_assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{}", span.name);
        prop_assert!(
            span.end_time_unix_nano <= parents[0].end_time_unix_nano,
            "{}",
            span.name
        );
    }
    let mut ids: Vec<_> = spans.iter().map(|span| &span.span_id).collect();
    ids.sort();
    ids.dedup();
    prop_assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    Ok(())
}

fn sorted(mut spans: Vec<Span>) -> Vec<Vec<u8>> {
    let mut bytes: Vec<Vec<u8>> = spans.drain(..).map(|span| span.encode_to_vec()).collect();
    bytes.sort();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_execution_has_one_span_inside_the_time_of_its_parent((plan, fate) in plan_with_results()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (records, live) = drive(&plan, &fate, &[], Event::RunStarted(Box::new(started("r"))));
        let trace = RunTrace::from_run_tree(&recorded(&records), false);
        lies_in_its_parent(trace.all_spans())?;
        let ended = records.iter().filter_map(|record| match &record.event {
            Event::ExecutionFinished(end) => Some((end.agent.to_string(), i64::from(end.execution))),
            _ => None,
        });
        let mut ended: Vec<_> = ended.collect();
        ended.sort();
        prop_assert_eq!(executions(trace.all_spans()), ended);
        prop_assert_eq!(sorted(live), sorted(trace.all_spans().to_vec()), "live and recorded are the same");
        let resource = TelemetryResource::default();
        let bytes = trace.clone().to_protobuf(&resource);
        prop_assert_eq!(&bytes, &RunTrace::from_run_tree(&recorded(&records), false).to_protobuf(&resource));
        prop_assert!(!String::from_utf8_lossy(&bytes).contains("secret fate"), "what was said is not told");
        let read: ExportTraceServiceRequest = serde_json::from_str(&trace.to_json(&resource)).expect("OTLP as JSON");
        prop_assert_eq!(read.encode_to_vec(), bytes);
    }

    #[test]
    fn a_run_that_was_cut_has_a_trace_for_each_segment((plan, fate) in plan_with_results(), at in any::<prop::sample::Index>()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (whole, _) = drive(&plan, &fate, &[], Event::RunStarted(Box::new(started("r"))));
        let cut = 1 + at.index(whole.len() - 1);
        if cut == whole.len() {
            return Ok(());
        }
        let (records, live) = drive(&plan, &fate, &whole[..cut], Event::RunResumed(RunResumed::default()));
        let trace = RunTrace::from_run_tree(&recorded(&records), false);
        lies_in_its_parent(trace.all_spans())?;
        let before = RunTrace::from_run_tree(&recorded(&whole[..cut]), false);
        let both: Vec<Span> = before.all_spans().iter().cloned().chain(live).collect();
        prop_assert_eq!(sorted(both), sorted(trace.all_spans().to_vec()));
        let traces: std::collections::BTreeSet<_> = trace.all_spans().iter().map(|span| &span.trace_id).collect();
        prop_assert_eq!(traces.len(), 2);
        let links: Vec<_> = trace.all_spans().iter().flat_map(|span| &span.links).collect();
        prop_assert_eq!(links.len(), 1);
        let first = before.all_spans().iter().find(|span| span.parent_span_id.is_empty()).expect("it has a root");
        prop_assert_eq!(&links[0].span_id, &first.span_id);
    }

    #[test]
    fn what_a_fork_has_from_another_run_is_not_in_its_trace((plan, fate) in plan_with_results()) {
        let (plan, fate) = (Arc::new(plan), Arc::new(fate));
        let (mut records, _) = drive(&plan, &fate, &[], Event::RunStarted(Box::new(started("r"))));
        let origin = ForkedFrom { run_id: "r".into(), merged_with: None, turn: 1, repeats: None, given: None, outdated: std::collections::BTreeMap::new() };
        records[0].event = Event::RunStarted(Box::new(RunStarted { forked_from: Some(origin), ..started("s") }));
        // All records but the last are those of the other run.
        let last = records.len() - 1;
        records[0].at += TimeDelta::days(1);
        records[last].at = records[0].at + TimeDelta::seconds(1);
        let trace = RunTrace::from_run_tree(&recorded(&records), false);
        prop_assert_eq!(trace.all_spans().len(), 1);
        prop_assert_eq!(trace.all_spans()[0].links.len(), 1);
    }
}
