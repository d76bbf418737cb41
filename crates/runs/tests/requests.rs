//! Requests of a run and their answers: one list in one order, each answered by itself, and no answer used twice.

use std::sync::{Arc, Mutex};

use ensemble_core::conversation::{CompletionReason, Event, PermissionDecision};
use ensemble_core::operator::UnattendedOperator;
use ensemble_core::request::{AnswerRefusal, AnswerSource, PendingRequest, RequestAnswer};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{MemoryStore, RunId};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{
    EnsembleRef, GeneratorRequest, Project, ResponseGenerator, RunError, RunEventKind, RunHost, RunOptions, Runs,
};
use serde_json::{Value, json};

const WAITING: &str = r#"
name: waiting
model_profiles:
  m:
    provider: simulated
    replies:
      - {text: "", tool_calls: [{name: pay, arguments: {sum: 1}}, {name: pay, arguments: {sum: 2}}]}
      - "I have paid."
tools:
  pay: {script: pay.rhai, permission: ask, description: Pays., parameters: {type: object, properties: {sum: {type: integer}}}}
agents:
  - {name: right, ensemble: inner.yaml}
  - {name: left, ensemble: inner.yaml}
  - {name: each, ensemble: inner.yaml, for_each: {in: [alpha, beta], as: item, key: item}}
  - {name: bot, model_profile: m, tools: [pay]}
"#;
const INNER: &str = "name: inner\nagents:\n  - {name: ok, input: {prompt: Shall it be?, choices: [yes, no]}}\n";
const ADDRESSES: [&str; 6] = [
    "right.ok",
    "left.ok",
    "each[alpha].ok",
    "each[beta].ok",
    "bot/pay#1",
    "bot/pay#2",
];

/// A folder with the ensembles, and the service of its runs.
struct Fixture {
    folder: tempfile::TempDir,
    runs: Runs,
    service: RunService,
}

#[expect(clippy::disallowed_methods, reason = "tests make files")]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).expect("files can be written");
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        ("waiting.yaml", WAITING),
        ("inner.yaml", INNER),
        ("pay.rhai", "`paid ${parameters.sum}`"),
    ];
    for (name, text) in files {
        write(&folder.path().join(name), text);
    }
    let project = Project::from_folder(folder.path().canonicalize().expect("it is there"));
    let runs = Runs::for_project(project, RunHost::from_system()).with_store(Arc::new(MemoryStore::new()));
    Fixture {
        service: RunService::new(runs.clone()),
        runs,
        folder,
    }
}

impl Fixture {
    /// A run that no process drives, and that waits for all answers.
    async fn recorded(&self) -> RunId {
        let runs = self.runs.clone().with_operator(Arc::new(UnattendedOperator));
        let run = runs
            .start_run("waiting.yaml", RunOptions::default())
            .await
            .expect("it starts");
        let id = run.id().clone();
        let state = run.wait_and_close().await.expect("the store can be written").state;
        let reason = state.run_end().map(|ended| ended.completion_reason);
        assert_eq!(reason, Some(CompletionReason::WaitingForInput));
        id
    }

    /// A run that this process drives, when it has asked everything.
    async fn driven(&self) -> RunId {
        let id = self
            .service
            .start_run("waiting.yaml", RunOptions::default())
            .await
            .expect("it starts");
        self.wait_for_all(&id, ADDRESSES.len()).await;
        id
    }

    async fn wait_for_all(&self, id: &RunId, count: usize) {
        let service = self.service.clone();
        let all = |_: &_| service.live_open_requests(id).len() == count;
        self.service
            .wait_for_open_request(id, all)
            .await
            .expect("it asks everything");
    }

    async fn pending(&self, id: &RunId) -> Vec<PendingRequest> {
        self.service.load_pending_requests(id).await.expect("it can be read")
    }

    async fn answer(&self, id: &RunId, request: &PendingRequest, answer: RequestAnswer) -> Result<(), RunError> {
        let shown = (&request.address, &request.digest);
        let options = RunOptions::default();
        self.service
            .answer_or_resume(id, shown, answer, AnswerSource::Page, options)
            .await
    }
}

fn addresses(requests: &[PendingRequest]) -> Vec<String> {
    requests.iter().map(|request| request.address.to_string()).collect()
}

fn fitting(request: &PendingRequest) -> RequestAnswer {
    match request.is_permission() {
        true => RequestAnswer::Permission(PermissionDecision::Once),
        false => RequestAnswer::Text("yes".to_owned()),
    }
}

fn refusal(result: Result<(), RunError>) -> AnswerRefusal {
    match result {
        Err(RunError::Answer(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn all_requests_are_listed_in_the_order_of_the_file_live_and_recorded() {
    let fixture = fixture();
    let (driven, recorded) = (fixture.driven().await, fixture.recorded().await);
    let (driven, recorded) = (fixture.pending(&driven).await, fixture.pending(&recorded).await);
    assert_eq!(addresses(&driven), ADDRESSES);
    assert_eq!(addresses(&recorded), ADDRESSES);
    for (live, recorded) in driven.iter().zip(&recorded) {
        assert_eq!((&live.agent, live.execution), (&recorded.agent, recorded.execution));
        assert_eq!(live.question.prompt, recorded.question.prompt);
        assert_eq!(live.question.choices, recorded.question.choices);
    }
}

#[tokio::test]
async fn each_request_is_answered_by_itself() {
    for is_recorded in [false, true] {
        let fixture = fixture();
        let id = if is_recorded {
            fixture.recorded().await
        } else {
            fixture.driven().await
        };
        // From the last to the first, so that an answer that takes the first of a name is seen.
        let all = fixture.pending(&id).await;
        for at in (0..all.len()).rev() {
            let request = &all[at];
            fixture.answer(&id, request, fitting(request)).await.expect("it waits");
            if at > 0 {
                fixture.wait_for_all(&id, at).await;
                assert_eq!(addresses(&fixture.pending(&id).await), ADDRESSES[..at]);
            }
        }
        fixture.service.wait_until_closed(&id).await;
        let summary = fixture.service.load_summary(&id).await.expect("it can be read");
        assert_eq!(summary.completion_reason, Some(CompletionReason::Completed));
    }
}

#[tokio::test]
async fn a_stale_answer_is_refused_live_and_recorded() {
    let fixture = fixture();
    for id in [fixture.driven().await, fixture.recorded().await] {
        for mut request in fixture.pending(&id).await {
            request.digest = ensemble_core::request::RequestDigest::new("0000000000000000");
            let refused = refusal(fixture.answer(&id, &request, fitting(&request)).await);
            assert!(matches!(refused, AnswerRefusal::Changed { .. }), "{refused}");
            let told = refused.to_string();
            let begins = format!("`{}` now asks a different question: ", request.address);
            let asks = match request.is_permission() {
                true => "may the tool `pay` be called with {\"sum\":",
                false => "Shall it be? (yes, no); your",
            };
            assert!(told.starts_with(&begins) && told.contains(asks), "{told}");
        }
        assert_eq!(addresses(&fixture.pending(&id).await), ADDRESSES);
    }
}

/// Two people look at the same run. One answers, the run asks the next question, and the other one answers the first.
#[tokio::test]
async fn an_answer_of_one_person_is_not_used_for_the_next_question_of_another() {
    let fixture = fixture();
    let steps = "name: steps\nagents:\n  - {name: gate, input: {prompt: Next?}, conversation: {trigger: every_turn, max_turns: 15}}\n";
    write(&fixture.folder.path().join("steps.yaml"), steps);
    let id = fixture
        .service
        .start_run("steps.yaml", RunOptions::default())
        .await
        .expect("it starts");
    let mut used = 0;
    for _ in 0..15 {
        fixture.wait_for_all(&id, 1).await;
        let shown = fixture.pending(&id).await.remove(0);
        let answer = || RequestAnswer::Text(used.to_string());
        let (one, other) = tokio::join!(
            fixture.answer(&id, &shown, answer()),
            fixture.answer(&id, &shown, answer())
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        let late = refusal(fixture.answer(&id, &shown, answer()).await);
        assert!(
            matches!(late, AnswerRefusal::Changed { .. } | AnswerRefusal::Decided { .. }),
            "{late}"
        );
        used += 1;
    }
    fixture.service.wait_until_closed(&id).await;
    let events = fixture
        .service
        .read_records_with_nested(&id)
        .await
        .expect("it can be read");
    let answers = events.iter().filter(|event| match &event.kind {
        RunEventKind::Committed(record) => {
            matches!(&record.event, Event::ExecutionFinished(finished) if finished.answer.is_some())
        }
        _ => false,
    });
    assert_eq!(answers.count(), used);
}

#[tokio::test]
async fn an_answer_is_checked_before_anything_continues() {
    let fixture = fixture();
    for id in [fixture.driven().await, fixture.recorded().await] {
        let pending = fixture.pending(&id).await;
        let maybe = RequestAnswer::Text("maybe".to_owned());
        let refused = refusal(fixture.answer(&id, &pending[0], maybe).await);
        assert_eq!(
            refused.to_string(),
            "`maybe` is not one of the choices of `right.ok`: yes, no"
        );
        let once = RequestAnswer::Permission(PermissionDecision::Once);
        let refused = refusal(fixture.answer(&id, &pending[0], once).await);
        assert!(matches!(refused, AnswerRefusal::WrongKind { .. }), "{refused}");
        assert_eq!(addresses(&fixture.pending(&id).await), ADDRESSES);
    }
}

#[tokio::test]
async fn one_of_two_answers_at_once_is_used() {
    let fixture = fixture();
    for id in [fixture.driven().await, fixture.recorded().await] {
        for request in fixture.pending(&id).await {
            let (one, other) = tokio::join!(
                fixture.answer(&id, &request, fitting(&request)),
                fixture.answer(&id, &request, fitting(&request))
            );
            let refused = match (one, other) {
                (Ok(()), refused) | (refused, Ok(())) => refusal(refused),
                (one, other) => panic!("{one:?} {other:?}"),
            };
            let told = refused.to_string();
            let begins = format!("`{}` was answered `", request.address);
            assert!(told.starts_with(&begins) && told.contains("by the page at "), "{told}");
            assert!(told.ends_with("; your answer was not used"), "{told}");
        }
        fixture.service.wait_until_closed(&id).await;
    }
}

#[tokio::test]
async fn an_answer_after_the_end_names_the_answer_that_was_used() {
    let fixture = fixture();
    let id = fixture.driven().await;
    let all = fixture.pending(&id).await;
    for request in &all {
        fixture.answer(&id, request, fitting(request)).await.expect("it waits");
    }
    let first = refusal(fixture.answer(&id, &all[0], fitting(&all[0])).await);
    assert!(matches!(first, AnswerRefusal::Decided { .. }), "{first}");
    fixture.service.wait_until_closed(&id).await;
    for request in &all {
        let refused = refusal(fixture.answer(&id, request, fitting(request)).await);
        assert!(matches!(refused, AnswerRefusal::Decided { .. }), "{refused}");
    }
}

#[tokio::test]
async fn options_of_a_resume_answer_the_requests_that_were_shown() {
    let fixture = fixture();
    let id = fixture.recorded().await;
    let rows: [(&[(&str, &str)], &str); 4] = [
        (
            &[("ok", "yes")],
            "`ok` is not unique; what waits for an answer: `right.ok`, `left.ok`, `each[alpha].ok`, `each[beta].ok`",
        ),
        (
            &[("right.ok", "yes"), ("left.ok", "maybe")],
            "`maybe` is not one of the choices of `left.ok`: yes, no",
        ),
        (
            &[("middle.ok", "yes")],
            "an answer is given for `middle.ok`, which is not an input agent",
        ),
        (&[("right.ok", "yes")], ""),
    ];
    for (answers, expected) in rows {
        let mut options = RunOptions::default();
        answers
            .iter()
            .for_each(|(address, text)| options.answers.push_next_answer(*address, *text));
        let unattended = fixture.runs.clone().with_operator(Arc::new(UnattendedOperator));
        match unattended.resume_run(&id, options).await {
            Ok(run) => {
                assert_eq!(expected, "");
                run.wait_and_close().await.expect("the store can be written");
            }
            Err(error) => assert!(
                error.to_string().starts_with(expected) && !expected.is_empty(),
                "{error}"
            ),
        }
    }
    assert_eq!(addresses(&fixture.pending(&id).await), ADDRESSES[1..]);
    let mut options = RunOptions::default();
    options.answers.push_next_answer("right.ok", "no");
    let decided = fixture
        .runs
        .resume_run(&id, options)
        .await
        .err()
        .expect("it is decided")
        .to_string();
    assert!(
        decided.starts_with("`right.ok` was answered `yes` by an option at "),
        "{decided}"
    );
}

#[tokio::test]
async fn the_record_says_who_answered() {
    let fixture = fixture();
    let id = fixture.driven().await;
    for request in fixture.pending(&id).await {
        fixture
            .answer(&id, &request, fitting(&request))
            .await
            .expect("it waits");
    }
    fixture.service.wait_until_closed(&id).await;
    let mut answered = Vec::new();
    for event in fixture
        .service
        .read_records_with_nested(&id)
        .await
        .expect("it can be read")
    {
        let RunEventKind::Committed(record) = event.kind else {
            continue;
        };
        match &record.event {
            Event::ExecutionFinished(finished) => {
                if let Some(answer) = &finished.answer {
                    assert_eq!(answer.by.source, AnswerSource::Page);
                    assert_eq!(
                        (answer.prompt.as_str(), answer.answer.as_str()),
                        ("Shall it be?", "yes")
                    );
                    answered.push(answer.address.to_string());
                }
            }
            Event::PermissionDecided(decided) => {
                let by = decided.answered_by.as_ref().map(|by| by.source);
                assert_eq!(by, Some(AnswerSource::Page));
                let prompt = decided.prompt.as_deref().unwrap_or_default();
                assert!(
                    prompt.starts_with("may the tool `pay` be called with {\"sum\":"),
                    "{prompt}"
                );
                assert_eq!(
                    decided.choices.as_deref(),
                    Some(&["once", "always", "denied"].map(str::to_owned)[..])
                );
                answered.push(decided.address.as_ref().expect("an address").to_string());
            }
            _ => {}
        }
    }
    answered.sort();
    let mut expected = ADDRESSES.map(str::to_owned);
    expected.sort();
    assert_eq!(answered, expected);
}

const COUNTED: &str = r#"
name: counted
model_profiles:
  m:
    provider: simulated
    replies: [{text: "", tool_calls: [{name: look, arguments: {input: x}}]}, seen]
tools:
  look: {ensemble: asks.yaml, description: Looks}
agents:
  - {name: plain, ensemble: asks.yaml}
  - {name: each, ensemble: asks.yaml, for_each: {in: [alpha], as: item, key: item}}
  - {name: bot, model_profile: m, prompt: Look, tools: [look]}
"#;
const ASKS: &str = "\
name: asks
model_profiles: {p: {provider: simulated, replies: [fine]}}
agents:
  - {name: before, model_profile: p, prompt: x}
  - {name: ok, input: {prompt: Shall it be?}, depends_on: [before]}
  - {name: after, model_profile: p, prompt: y, depends_on: [ok]}
";

#[tokio::test]
async fn requests_of_a_nested_run_count_while_it_waits_and_only_once_when_it_has_ended() {
    let fixture = fixture();
    write(&fixture.folder.path().join("counted.yaml"), COUNTED);
    write(&fixture.folder.path().join("asks.yaml"), ASKS);
    let runs = fixture.runs.clone().with_operator(Arc::new(UnattendedOperator));
    let run = runs
        .start_run("counted.yaml", RunOptions::default())
        .await
        .expect("it starts");
    let id = run.id().clone();
    let state = run.wait_and_close().await.expect("the store can be written").state;
    let asking = ["plain.ok", "each[alpha].ok", "bot/look#1.ok"];
    let pending: Vec<PendingRequest> = state.pending_requests().cloned().collect();
    assert_eq!(addresses(&pending), asking);
    assert_eq!(
        state.usage_with_open_turn().requests,
        4,
        "one in each nested run, and one of the model"
    );
    let mut resumed = None;
    for (address, requests) in asking.iter().zip([5, 6, 8]) {
        let mut options = RunOptions::default();
        options.answers.push_next_answer(*address, "yes");
        let run = runs.resume_run(&id, options).await.expect("it goes on");
        let state = run.wait_and_close().await.expect("the store can be written").state;
        assert_eq!(
            state.usage_with_open_turn().requests,
            requests,
            "after the answer to {address}"
        );
        resumed = state.run_end().map(|ended| ended.completion_reason);
    }
    assert_eq!(resumed, Some(CompletionReason::Completed));
}

/// A generator that writes down what it was asked, and answers with the number of executions so far.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Vec<Value>>>);

impl ResponseGenerator for Counting {
    fn generate_response<'a>(&'a self, request: &'a GeneratorRequest) -> BoxFuture<'a, Result<Value, String>> {
        let state = request.state.to_json();
        let asked = json!({"agent": request.agent, "prompt": request.prompt, "description": request.description,
            "choices": request.choices, "schema": request.output_schema, "state": state});
        self.0.lock().expect("no panic").push(asked);
        let answer = match request.execution {
            3 => Err("nobody knows".to_owned()),
            _ => Ok(
                json!({"count": request.state.list_executions().len(), "own": request.state.execution_count(&request.agent)}),
            ),
        };
        Box::pin(async move { answer })
    }
}

const GENERATED: &str = r#"
name: generated
agents:
  - {name: tick, script: tick.rhai, dependencies: [{agent_name: clarify, feedback: true}], conversation: {max_turns: 3}}
  - name: clarify
    description: Asks the user
    script: ./missing.py
    config: {tone: kind}
    depends_on: [tick]
    output_schema: {type: object, required: [count], properties: {count: {type: integer}}}
    conversation: {max_turns: 3}
  - {name: person, input: {prompt: "After {{ clarify.count }}?", choices: [a, b]}, depends_on: [clarify]}
"#;

#[tokio::test]
async fn a_generator_gets_the_state_of_the_conversation_and_a_run_that_goes_on_needs_it_again() {
    let fixture = fixture();
    write(&fixture.folder.path().join("tick.rhai"), "#{ n: execution }");
    write(&fixture.folder.path().join("generated.yaml"), GENERATED);
    let runs = &fixture.runs;
    let asked = Counting::default();
    let options = RunOptions::default()
        .with_generator("clarify", asked.clone())
        .with_answer("person", "a");
    let first = runs
        .start_run(EnsembleRef::from("generated.yaml"), options)
        .await
        .expect("it starts");
    let first = first.wait_and_close().await.expect("it ends");
    let end = first.state.run_end().expect("an end");
    assert_eq!(end.completion_reason, CompletionReason::AgentFailed, "{end:?}");
    let requests = asked.0.lock().expect("no panic").clone();
    assert_eq!(requests.len(), 3);
    let second = &requests[1];
    let prompt: Value = serde_json::from_str(second["prompt"].as_str().expect("a text")).expect("JSON");
    assert_eq!(prompt["dependencies"]["tick"], json!({"n": 2}));
    assert_eq!(prompt["parameters"], json!({"tone": "kind"}));
    assert_eq!(
        (&second["agent"], &second["description"], &second["schema"]["required"]),
        (&json!("clarify"), &json!("Asks the user"), &json!(["count"]))
    );
    let state = &second["state"];
    assert_eq!(state["agent_execution_count"]["tick"], 2, "{state}");
    assert_eq!(state["accumulated_context"]["count"], 1, "{state}");
    let history = state["conversation_history"].as_array().expect("a list");
    assert_eq!(history[1]["output_data"], json!({"count": 1, "own": 0}));
    assert_eq!(state["turn_count"].as_u64(), Some(3));

    // An answer that is no choice is a failure, and the run records that a generator answered.
    let options = RunOptions::default()
        .with_generator("clarify", Counting::default())
        .with_generator("person", Counting::default());
    let wrong = runs
        .start_run(EnsembleRef::from("generated.yaml"), options)
        .await
        .expect("it starts");
    let wrong = wrong.wait_and_close().await.expect("it ends");
    let started = wrong.state.run_start().expect("a start");
    assert_eq!(started.responders["person"].as_ref(), "(generator)");

    // A run that goes on is given the generators again.
    let refused = runs
        .continue_with_message(&first.run, "again", RunOptions::default())
        .await;
    assert!(matches!(refused, Err(RunError::NoGenerator(agent)) if agent == "clarify"));
    let options = RunOptions::default()
        .with_generator("clarify", Counting::default())
        .with_answer("person", "a");
    let again = runs
        .continue_with_message(&first.run, "again", options)
        .await
        .expect("it goes on");
    again.cancel(ensemble_core::conversation::RunCanceller::Client("test".into()));
    again.wait_and_close().await.expect("it ends");
    // A generator for an agent that is not there, or that no generator can replace.
    let options = RunOptions::default().with_generator("tikc", Counting::default());
    let unknown = runs.start_run(EnsembleRef::from("generated.yaml"), options).await;
    assert!(matches!(unknown, Err(RunError::NoSuchAgent { agent, .. }) if agent == "tikc"));
}
