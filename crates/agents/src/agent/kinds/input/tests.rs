use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;
use crate::agent::fixtures;
use ensemble_core::operator::{PermissionAnswer, PermissionRequest};
use ensemble_core::thread::Thread;
use ensemble_language::data::RunContext;
use ensemble_language::ensemble::{AgentKind, ModelProfile, PreparedResponses, SimulatedReply, SimulatedReplySource};
use ensemble_language::profiles::ModelProfiles;
use ensemble_models::ModelNetwork;

/// Answers as prepared, then nobody is there; keeps what it was asked.
#[derive(Default)]
struct Someone {
    answers: Mutex<VecDeque<OperatorAnswer>>,
    asked: Mutex<Vec<WasAsked>>,
}

type WasAsked = (String, Option<Duration>, Option<String>);

impl Operator for Someone {
    fn ask_question(&self, asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        let prompt = match asked.refused {
            Some(refused) => format!("{refused}\n{}", asked.request.question.prompt),
            None => asked.request.question.prompt,
        };
        let asked = (prompt, asked.timeout, asked.default.map(|default| default.to_string()));
        self.asked.lock().unwrap().push(asked);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move { answer.unwrap_or(OperatorAnswer::Nobody) })
    }

    fn request_permission(&self, _requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        Box::pin(async { PermissionAnswer::Nobody })
    }
}

/// An input agent, with what surrounds it.
struct Setup {
    spec: QuestionSpec,
    answers: Value,
    person: Vec<OperatorAnswer>,
    replies: Vec<SimulatedReply>,
    script: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            spec: QuestionSpec {
                prompt: "Is {{ writer.title }} right?".into(),
                ..QuestionSpec::default()
            },
            answers: json!({}),
            person: Vec::new(),
            replies: Vec::new(),
            script: "",
        }
    }
}

impl Setup {
    fn with(change: impl FnOnce(&mut QuestionSpec)) -> Self {
        let mut setup = Self::default();
        change(&mut setup.spec);
        setup
    }

    fn answers(mut self, answer: Value) -> Self {
        self.answers = json!({ "asker": answer });
        self
    }

    fn person(mut self, says: &[&str]) -> Self {
        self.person = says
            .iter()
            .map(|text| OperatorAnswer::from_text(*text, AnswerSource::Terminal))
            .collect();
        self
    }

    fn build(&self) -> (InputRunner, Arc<Someone>) {
        let mut answers = PreparedAnswers::default();
        for (agent, answer) in self.answers.as_object().unwrap() {
            answers.insert_file_entry(agent, answer.clone());
        }
        let someone = Arc::new(Someone::default());
        someone.answers.lock().unwrap().extend(self.person.iter().cloned());
        let agent = fixtures::agent("asker", AgentKind::Input(self.spec.clone()), &["writer"]);
        let options = InputRunnerOptions {
            answers: Arc::new(AnswerQueue::new(answers)),
            operator: someone.clone(),
            load: &|_| Ok(self.script.to_owned()),
            connect: &|name| self.connect(name),
            agent_names: ["writer", "asker"].map(Arc::from).into(),
            generator: None,
        };
        (
            InputRunner::new(&agent, &self.spec, options).expect("is sound"),
            someone,
        )
    }

    fn connect(&self, name: &Arc<str>) -> Result<Model, ProfileError> {
        let user = ModelProfile {
            provider: "simulated".into(),
            simulated: Some(SimulatedReplySource::Replies(self.replies.clone())),
            ..ModelProfile::default()
        };
        let profiles = ModelProfiles::default().with_source("here", vec![("user".into(), user)]);
        let choice = ensemble_language::ensemble::ModelChoice::Profile(Arc::clone(name));
        Model::connect_profiles(
            &profiles.resolve_chain(&choice)?,
            &|_| Err("no script".into()),
            &ModelNetwork::default(),
        )
    }

    async fn result(&self, number: u32) -> Told {
        told(self.build().0.execute_attempt(execution(number)).await)
    }
}

fn execution(number: u32) -> ExecutionInput {
    ExecutionInput {
        dependencies: vec![("writer".into(), Arc::new(json!({"title": "Owls"})))],
        ..fixtures::execution("asker", number)
    }
}

/// What was observed, easy to compare.
#[derive(Debug, PartialEq)]
enum Told {
    Output(Value),
    Failed(FailureKind, String),
    Waiting(OperatorQuestion),
}

fn told(observed: AttemptEnd) -> Told {
    match observed {
        AttemptEnd::NeedsInput(mut requests) => Told::Waiting(requests.remove(0).question),
        AttemptEnd::Finished(observation) => match observation.result {
            Ok(output) => Told::Output(Value::Object(output)),
            Err(failure) => Told::Failed(failure.kind, failure.error),
        },
        other => panic!("{other:?}"),
    }
}

fn output(text: &str) -> Told {
    Told::Output(json!({"response": text}))
}

fn list(texts: &[&str]) -> Option<PreparedResponses> {
    Some(PreparedResponses::List(
        texts.iter().map(|text| (*text).to_owned()).collect(),
    ))
}

#[tokio::test]
async fn injected_answers_come_first() {
    let all = |answer: Value| {
        let setup = Setup::with(|spec| {
            spec.responses = list(&["generated"]);
            spec.default = Some("default".into());
        });
        setup.person(&["typed"]).answers(answer)
    };
    assert_eq!(all(json!("injected")).result(1).await, output("injected"));
    assert_eq!(all(json!("injected")).result(9).await, output("injected"));
    let by_execution = json!(["one", null, "three"]);
    assert_eq!(all(by_execution.clone()).result(1).await, output("one"));
    assert_eq!(all(by_execution.clone()).result(2).await, output("generated"));
    assert_eq!(all(by_execution.clone()).result(3).await, output("three"));
    assert_eq!(all(by_execution).result(4).await, output("generated"));
    let other = Setup {
        answers: json!({"someone-else": "x"}),
        ..Setup::default().person(&["typed"])
    };
    assert_eq!(other.result(1).await, output("typed"));
}

#[tokio::test]
async fn when_a_list_of_answers_has_ended_no_person_is_asked() {
    let setup = Setup::default().person(&["typed"]).answers(json!(["one"]));
    let (runner, someone) = setup.build();
    assert!(matches!(
        told(runner.execute_attempt(execution(2)).await),
        Told::Waiting(_)
    ));
    assert!(someone.asked.lock().unwrap().is_empty());
    let setup = Setup::with(|spec| spec.default = Some("default".into())).answers(json!(["one"]));
    assert_eq!(setup.result(2).await, output("default"));
}

#[tokio::test]
async fn responses_come_before_a_person_and_the_last_repeats() {
    let setup = Setup::with(|spec| spec.responses = list(&["one", "two"])).person(&["typed"]);
    for (number, expected) in [(2, "two"), (1, "one"), (5, "two")] {
        assert_eq!(setup.result(number).await, output(expected));
    }
}

#[tokio::test]
async fn a_person_is_asked_the_rendered_question() {
    let setup = Setup::with(|spec| {
        spec.default = Some("no".into());
        spec.timeout = Some(Duration::from_secs(60));
    });
    let setup = setup.person(&["yes\n"]);
    let (runner, someone) = setup.build();
    assert_eq!(told(runner.execute_attempt(execution(1)).await), output("yes"));
    let asked = someone.asked.lock().unwrap();
    assert_eq!(
        (asked[0].0.as_str(), asked[0].2.as_deref()),
        ("Is Owls right?", Some("no"))
    );
    assert!(asked[0].1.is_some_and(|left| left > Duration::from_secs(50)));
}

#[tokio::test]
async fn the_default_answers_when_nobody_does() {
    let with_default = || Setup::with(|spec| spec.default = Some("default".into()));
    assert_eq!(with_default().result(1).await, output("default"));
    assert_eq!(with_default().person(&[" \n"]).result(1).await, output("default"));
    let late = Setup {
        person: vec![OperatorAnswer::TimedOut],
        ..with_default()
    };
    assert_eq!(late.result(1).await, output("default"));
    assert_eq!(Setup::default().person(&["\n"]).result(1).await, output(""));
}

#[tokio::test]
async fn without_any_answer_the_run_waits_or_the_agent_fails() {
    let question = OperatorQuestion::new("Is Owls right?", vec!["yes".into()]);
    let setup = Setup::with(|spec| spec.choices = vec!["yes".into()]);
    assert_eq!(setup.result(1).await, Told::Waiting(question));
    let late = Setup {
        person: vec![OperatorAnswer::TimedOut],
        ..Setup::with(|spec| spec.timeout = Some(Duration::from_secs(2)))
    };
    let failed = Told::Failed(FailureKind::Timeout, "there was no answer within 2 s".into());
    assert_eq!(late.result(1).await, failed);
}

#[tokio::test]
async fn answers_become_outputs() {
    let cases = [
        (json!("text\r\n"), json!({"response": "text"})),
        (json!("42"), json!({"response": "42"})),
        (json!(42), json!({"response": "42"})),
        (json!(true), json!({"response": "true"})),
        (json!("[1]"), json!({"response": "[1]"})),
        (json!(" {\"a\": 1} "), json!({"a": 1})),
        (json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        (json!([["x", "y"]]), json!({"response": ["x", "y"]})),
    ];
    for (answer, expected) in cases {
        assert_eq!(Setup::default().answers(answer).result(1).await, Told::Output(expected));
    }
}

fn choosing() -> Setup {
    Setup::with(|spec| spec.choices = ["Yes", "No", "1"].map(String::from).to_vec())
}

#[tokio::test]
async fn an_answer_is_one_of_the_choices() {
    assert_eq!(choosing().answers(json!(" yes\n")).result(1).await, output("Yes"));
    assert_eq!(choosing().answers(json!(1)).result(1).await, output("1"));
    let cased = Setup::with(|spec| spec.choices = ["a", "A"].map(String::from).to_vec());
    assert_eq!(cased.answers(json!("A")).result(1).await, output("A"));
    let beside = |answer: &str| {
        let told = format!("`{answer}` is not one of the choices: Yes, No, 1");
        Told::Failed(FailureKind::Schema, told)
    };
    assert_eq!(choosing().answers(json!("maybe")).result(1).await, beside("maybe"));
    assert_eq!(
        choosing().answers(json!("2")).result(1).await,
        beside("2"),
        "numbers are for people"
    );
    assert_eq!(choosing().answers(json!({"a": 1})).result(1).await, beside("{\"a\":1}"));
    let mut generated = choosing();
    generated.spec.responses = list(&["perhaps"]);
    assert_eq!(generated.result(1).await, beside("perhaps"));
    let mut default = choosing();
    default.spec.default = Some("NO".into());
    assert_eq!(default.result(1).await, output("No"));
}

#[tokio::test]
async fn a_person_may_answer_by_number_and_is_asked_again() {
    for (answer, expected) in [("2", "No"), ("1", "1"), ("3", "1"), ("no ", "No")] {
        assert_eq!(
            choosing().person(&[answer]).result(1).await,
            output(expected),
            "{answer}"
        );
    }
    let (runner, someone) = choosing().person(&["4", "0", "yes"]).build();
    assert_eq!(told(runner.execute_attempt(execution(1)).await), output("Yes"));
    let asked = someone.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 3);
    assert_eq!(
        asked[2].0,
        "`0` is not one of the choices of `asker`: Yes, No, 1\nIs Owls right?"
    );
    let stubborn = choosing().person(&["x"; 50]).result(1).await;
    assert!(matches!(stubborn, Told::Failed(FailureKind::Schema, _)), "{stubborn:?}");
    assert!(
        matches!(choosing().person(&["x"]).result(1).await, Told::Waiting(_)),
        "then they left"
    );
}

#[tokio::test]
async fn an_unknown_name_in_a_question_fails() {
    let result = Setup::with(|spec| spec.prompt = "{{ wirter }}".into()).result(1).await;
    assert!(matches!(&result, Told::Failed(FailureKind::Unavailable, error) if error.contains("`wirter`")));
}

fn with_model(replies: &[&str]) -> Setup {
    Setup {
        replies: replies
            .iter()
            .map(|text| SimulatedReply::Text((*text).to_owned()))
            .collect(),
        ..Setup::with(|spec| spec.responses = Some(PreparedResponses::Profile("user".into())))
    }
}

async fn observe(runner: &InputRunner, execution: ExecutionInput) -> AttemptResult {
    match runner.execute_attempt(execution).await {
        AttemptEnd::Finished(observation) => observation,
        other => panic!("{other:?}"),
    }
}

fn in_context(number: u32, key: &str, value: Value) -> ExecutionInput {
    ExecutionInput {
        context: Arc::new(RunContext::from_iter([(key.into(), Arc::new(value))])),
        ..execution(number)
    }
}

#[tokio::test]
async fn a_model_answers_as_a_user_would() {
    let mut setup = with_model(&["first ", "second"]);
    setup.spec.choices = vec!["First".into(), "Second".into()];
    let (runner, someone) = setup.build();
    assert!(runner.is_simulated());
    let observation = observe(&runner, in_context(1, "topic", json!("birds"))).await;
    assert_eq!(observation.result.map(Value::Object), Ok(json!({"response": "First"})));
    assert!(someone.asked.lock().unwrap().is_empty());
    let asked = &observation.exchange[0].messages[0].content;
    for part in [
        "\"topic\":\"birds\"",
        "Current prompt: Is Owls right?",
        "Respond as a user",
        "First, Second",
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    let usage = observation.usage.expect("it has cost something");
    assert_eq!((usage.requests, usage.estimated), (1, true));
    let later = ExecutionInput {
        requests_made: 1,
        ..in_context(2, "topic", json!("bees"))
    };
    let observation = observe(&runner, later).await;
    assert_eq!(observation.result.map(Value::Object), Ok(json!({"response": "Second"})));
}

#[tokio::test]
async fn a_model_that_answers_reads_the_description_the_turn_the_last_agents_and_the_schema() {
    let schema = json!({"type": "object", "required": ["approved"]});
    let setup = with_model(&["Well.\n```json\n{\"approved\": true}\n```"]);
    let (_, someone) = setup.build();
    let agent = Agent {
        description: Some("Decides about notices.".into()),
        output_schema: Some(schema.clone()),
        ..fixtures::agent("asker", AgentKind::Input(setup.spec.clone()), &["writer"])
    };
    let options = InputRunnerOptions {
        answers: Arc::new(AnswerQueue::new(PreparedAnswers::default())),
        operator: someone,
        load: &|_| Ok(String::new()),
        connect: &|name| setup.connect(name),
        agent_names: ["writer", "asker"].map(Arc::from).into(),
        generator: None,
    };
    let runner = InputRunner::new(&agent, &setup.spec, options).expect("is sound");
    let execution = ExecutionInput {
        turn_count: 3,
        recent_agents: ["critic", "writer"].map(Arc::from).to_vec(),
        ..in_context(1, "topic", json!("birds"))
    };
    let observation = observe(&runner, execution).await;
    let asked = &observation.exchange[0].messages[0].content;
    for part in [
        "Turn 4; the last agents: critic, writer.",
        "Description of the agent: Decides about notices.",
        "\"topic\":\"birds\"",
        "matches this JSON Schema: {\"type\":\"object\",\"required\":[\"approved\"]}",
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
    assert_eq!(observation.result.map(Value::Object), Ok(json!({"approved": true})));
}

#[tokio::test]
async fn the_same_question_in_the_same_context_is_asked_once() {
    let (runner, _) = with_model(&["first", "second"]).build();
    let first = observe(&runner, in_context(1, "n", json!(1))).await;
    let again = |context: Value| ExecutionInput {
        thread: Arc::new(Thread::from_iterations(first.exchange.clone())),
        requests_made: 1,
        turn_count: 7,
        recent_agents: vec!["critic".into()],
        ..in_context(2, "n", context)
    };
    // A runner that has never run finds the answer as well: it is in the thread.
    let (fresh, _) = with_model(&["first", "second"]).build();
    let cached = observe(&fresh, again(json!(1))).await;
    assert_eq!(cached.result.map(Value::Object), Ok(json!({"response": "first"})));
    assert_eq!((cached.usage, cached.exchange.len()), (None, 0));
    let changed = observe(&fresh, again(json!(2))).await;
    assert_eq!(changed.result.map(Value::Object), Ok(json!({"response": "second"})));
}

#[tokio::test]
async fn the_summary_for_a_model_stays_small() {
    let (runner, _) = with_model(&["x"]).build();
    let mut pairs: Vec<(Arc<str>, Arc<Value>)> = Vec::new();
    pairs.extend((0..1000).map(|at| (format!("key{at}").into(), Arc::new(json!("long ".repeat(1000))))));
    let execution = ExecutionInput {
        context: Arc::new(pairs.into_iter().collect()),
        ..execution(1)
    };
    let observation = observe(&runner, execution).await;
    assert!(observation.exchange[0].messages[0].content.len() < 20_000);
}

#[tokio::test]
async fn a_model_that_fails_is_a_failure_that_has_cost_a_request() {
    let setup = Setup {
        replies: vec![SimulatedReply::Error("down".into())],
        ..with_model(&[])
    };
    let observation = observe(&setup.build().0, execution(1)).await;
    assert_eq!(
        observation.result,
        Err(ExecutionFailure::new(FailureKind::Model, "down"))
    );
    assert_eq!(observation.usage.map(|usage| usage.requests), Some(1));
}

#[tokio::test]
async fn a_script_answers() {
    let scripted = |script| Setup {
        script,
        ..Setup::with(|spec| spec.responses = Some(PreparedResponses::Script("user.rhai".into())))
    };
    let cases = [
        ("`${prompt} ${execution}`", output("Is Owls right? 4")),
        (
            "#{title: dependencies.writer.title}",
            Told::Output(json!({"title": "Owls"})),
        ),
    ];
    for (script, expected) in cases {
        assert_eq!(scripted(script).result(4).await, expected, "{script}");
    }
    assert_eq!(scripted("()").person(&["typed"]).result(1).await, output("typed"));
    let thrown = scripted("throw \"no idea\"").result(1).await;
    assert!(
        matches!(&thrown, Told::Failed(FailureKind::Reported, error) if error.contains("no idea")),
        "{thrown:?}"
    );
}

#[tokio::test]
async fn the_answer_of_a_stub_is_recorded_with_its_question() {
    let asker = fixtures::agent("asker", AgentKind::Input(choosing().spec), &["writer"]);
    let question = StubbedInputQuestion::for_agent(&asker).expect("it asks");
    let execution = execution(1);
    let output = json!({"response": "Yes"}).as_object().cloned().unwrap();
    question.record_stub_answer(&execution, &output).await;
    let answer = execution.ledger.take_entries().answer.expect("it is recorded");
    assert_eq!(
        (answer.prompt.as_str(), answer.answer.as_str()),
        ("Is Owls right?", "Yes")
    );
    assert_eq!(
        (answer.address.to_string().as_str(), answer.by.source),
        ("asker", AnswerSource::Stub)
    );
    assert_eq!(answer.choices, ["Yes", "No", "1"]);
}
