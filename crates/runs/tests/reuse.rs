//! What is reused of a recorded run: only results of agents whose definition is the same.

use std::path::Path;
use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::request::AnswerSource;
use ensemble_core::store::{Durability, LogEnd, MemoryStore, RunId};
use ensemble_language::data::RunContext;
use ensemble_runs::{ForkChanges, PreparedFork, Project, RunHost, RunOptions, Runs};

/// An agent of every kind with something behind it, and a listener to each.
const OUTER: &str = "\
name: outer
defaults: {timeout_seconds: 60}
tools:
  charge: {script: charge.rhai, description: Takes money, parameters: {type: object}}
  ask: {agent: clerk, description: Asks the clerk}
  look: {ensemble: looked.yaml, description: Looks}
model_profiles:
  paying:
    provider: simulated
    replies: [{tool_calls: [{name: charge, arguments: {}}]}, paid]
  asking:
    provider: simulated
    replies: [{tool_calls: [{name: ask, arguments: {input: x}}]}, asked]
  looking:
    provider: simulated
    replies: [{tool_calls: [{name: look, arguments: {input: x}}]}, seen]
  spoken: {provider: simulated, script: speak.rhai, fallback: spare}
  spare: {provider: simulated, replies: [spare]}
agents:
  - {name: counting, script: count.rhai}
  - {name: python, script: python3 tell.py}
  - {name: paying, model_profile: paying, prompt: Pay, tools: [charge]}
  - {name: asking, model_profile: asking, prompt: Ask, tools: [ask]}
  - {name: looking, model_profile: looking, prompt: Look, tools: [look]}
  - {name: clerk, model_profile: spare, prompt: Well?, system_prompt: Be brief, conversation: {trigger: news}, depends_on: [never]}
  - {name: nesting, ensemble: middle.yaml}
  - {name: speaking, model_profile: spoken, prompt: Speak}
  - {name: configured, model_profile: shared, prompt: Speak}
  - {name: cutting, model_profile: spare, prompt: Cut, context_window: {max_messages: 9, strategy: {custom: cut.rhai}}}
  - {name: checked, script: same.rhai, output_schema: {type: object}}
  - {name: answered, input: {prompt: Well?, responses: {script: answer.rhai}}}
  - {name: alone, script: alone.rhai}
  - {name: never, script: same.rhai, dependencies: [{agent_name: checked, condition: 'false'}]}
  - {name: after_counting, script: heard.rhai, depends_on: [counting]}
  - {name: after_nesting, script: heard.rhai, depends_on: [nesting]}
";

const FILES: [(&str, &str); 15] = [
    ("outer.yaml", OUTER),
    ("charge.rhai", "#{ charged: 1 }"),
    ("speak.rhai", "\"spoken 1\""),
    ("count.rhai", "#{ n: 1 }"),
    ("tell.py", "print('{\"n\": 1}')"),
    ("same.rhai", "#{ same: 1 }"),
    ("alone.rhai", "#{ alone: 1 }"),
    ("cut.rhai", "let n = 1; messages"),
    ("answer.rhai", "\"answer 1\""),
    ("heard.rhai", "dependencies"),
    ("looked.yaml", "name: looked\nagents: [{name: eye, script: eye.rhai}]\n"),
    ("eye.rhai", "#{ eye: 1 }"),
    (
        "middle.yaml",
        "name: middle\nagents: [{name: inner, ensemble: deep.yaml}]\n",
    ),
    (
        "deep.yaml",
        "name: deep\nagents: [{name: deepest, script: deep.rhai, config: {n: 1}}]\n",
    ),
    ("deep.rhai", "#{ deep: parameters.n }"),
];

const CONFIG: &str = "model_profiles:\n  shared: {provider: simulated, replies: [one]}\n";

/// How a recorded run is continued in another run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Fork,
    Rerun,
}

struct Edited {
    folder: tempfile::TempDir,
    runs: Runs,
}

impl Edited {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("it is there");
        let runs = Runs::for_project(Project::from_folder(path), RunHost::from_system().without_operator());
        let new = Self {
            runs: runs.with_store(Arc::new(MemoryStore::new())),
            folder,
        };
        FILES.iter().for_each(|(name, text)| new.write(name, text));
        new.write(".ensemble/config.yaml", CONFIG);
        new
    }

    #[expect(clippy::disallowed_methods, reason = "tests make files")]
    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        std::fs::write(path, text).expect("files can be written");
    }

    #[expect(clippy::disallowed_methods, reason = "tests read files")]
    fn replace(&self, name: &str, old: &str, new: &str) {
        let path = self.folder.path().join(name);
        let text = std::fs::read_to_string(path).expect("a text");
        assert!(text.contains(old), "{name}: {old}");
        self.write(name, &text.replace(old, new));
    }

    async fn first(&self) -> String {
        let run = self
            .runs
            .start_run("outer.yaml", RunOptions::default())
            .await
            .expect("it starts");
        let id = run.id().to_string();
        run.wait_and_close().await.expect("it ends");
        id
    }

    /// Continues the run in the given way, and returns its changes and its records.
    async fn again(&self, id: &str, way: Way, options: RunOptions) -> (ForkChanges, Vec<Record>) {
        let PreparedFork { ready, changes, .. } = match way {
            Way::Fork => {
                let set = RunContext::default();
                self.runs
                    .prepare_fork(id, 0, set, Some("outer.yaml"), options)
                    .await
                    .expect("a fork")
            }
            Way::Rerun => {
                let edited = Some("outer.yaml");
                self.runs
                    .prepare_rerun(id, "alone", None, 1, edited, options)
                    .await
                    .expect("a rerun")
            }
        };
        let run = ready.start_and_spawn().await.expect("it starts");
        let id = run.id().clone();
        run.wait_and_close().await.expect("it ends");
        let stored = self.runs.resolve_run(&id).await.expect("it is stored");
        (changes, stored.read_journal().await.expect("records").records)
    }
}

/// The agents that were executed, and not reused.
fn executed(records: &[Record]) -> Vec<String> {
    let finished = records.iter().filter_map(|record| match &record.event {
        Event::ExecutionFinished(finished) if !finished.reused => Some(finished.agent.to_string()),
        _ => None,
    });
    finished.collect()
}

/// A changed file with the old and the new text, the agents that are executed again, and a reason that is reported.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

const TABLE: [Row; 24] = [
    (
        "count.rhai",
        "1",
        "2",
        &["counting", "after_counting"],
        "`counting`: script `count.rhai`",
    ),
    ("tell.py", "1", "2", &["python"], "`python`: script `tell.py`"),
    ("charge.rhai", "1", "2", &["paying"], "`paying`: script `charge.rhai`"),
    (
        "outer.yaml",
        "Takes money",
        "Takes all",
        &["paying"],
        "`paying`: tool `charge`",
    ),
    (
        "outer.yaml",
        "prompt: Pay",
        "prompt: Pay!",
        &["paying"],
        "paying (prompt)",
    ),
    (
        "outer.yaml",
        "Asks the clerk",
        "Asks",
        &["asking"],
        "`asking`: tool `ask`",
    ),
    (
        "outer.yaml",
        "Be brief",
        "Be long",
        &["asking"],
        "`asking`: agent `clerk`",
    ),
    (
        "outer.yaml",
        "[spare]",
        "[more]",
        &["asking", "speaking", "cutting"],
        "`cutting`: model profile `spare`",
    ),
    (
        "outer.yaml",
        "Looks}",
        "Looks around}",
        &["looking"],
        "`looking`: tool `look`",
    ),
    (
        "looked.yaml",
        "eye.rhai",
        "eye.rhai, timeout_seconds: 5",
        &["looking"],
        "`looking`: ensemble `looked.yaml`",
    ),
    ("eye.rhai", "1", "2", &["looking"], "`looking`: script `eye.rhai`"),
    (
        "middle.yaml",
        "deep.yaml",
        "deep.yaml, timeout_seconds: 9",
        &["nesting"],
        "`nesting`: ensemble `middle.yaml`",
    ),
    (
        "deep.yaml",
        "n: 1",
        "n: 2",
        &["nesting", "after_nesting"],
        "`nesting`: ensemble `deep.yaml`",
    ),
    (
        "deep.rhai",
        "deep:",
        "deeper:",
        &["nesting", "after_nesting"],
        "`nesting`: script `deep.rhai`",
    ),
    ("speak.rhai", "1", "2", &["speaking"], "`speaking`: script `speak.rhai`"),
    (
        ".ensemble/config.yaml",
        "one",
        "two",
        &["configured"],
        "`configured`: model profile `shared`",
    ),
    ("cut.rhai", "1", "2", &["cutting"], "`cutting`: script `cut.rhai`"),
    (
        "answer.rhai",
        "1",
        "2",
        &["answered"],
        "`answered`: script `answer.rhai`",
    ),
    (
        "outer.yaml",
        "schema: {type: object}",
        "schema: {minProperties: 1}",
        &["checked"],
        "checked (output_schema)",
    ),
    (
        "outer.yaml",
        "{name: counting,",
        "{description: new, name: counting,",
        &[],
        "no change that affects a run",
    ),
    (
        "outer.yaml",
        "agents:",
        "agents: # a comment",
        &[],
        "no change that affects a run",
    ),
    (
        "outer.yaml",
        "replies: [spare]",
        "replies: [spare], cost: {input_per_million: 1, output_per_million: 1}",
        &[],
        "no change that affects a run",
    ),
    (
        "deep.yaml",
        "name: deep\n",
        "name: 'deep' # a comment\ndescription: new\n",
        &[],
        "no change that affects a run",
    ),
    (
        "looked.yaml",
        "{name: eye,",
        "{description: new, name: eye,",
        &[],
        "no change that affects a run",
    ),
];

#[tokio::test]
async fn a_reused_execution_keeps_its_answer() {
    let edited = Edited::new();
    let first = edited.first().await;
    let (_, records) = edited.again(&first, Way::Rerun, RunOptions::default()).await;
    let reused = records.iter().find_map(|record| match &record.event {
        Event::ExecutionFinished(finished) if finished.reused && &*finished.agent == "answered" => Some(finished),
        _ => None,
    });
    let answer = reused.and_then(|finished| finished.answer.as_ref()).expect("an answer");
    assert_eq!((&*answer.prompt, &*answer.answer), ("Well?", "answer 1"));
    assert_eq!(answer.by.source, AnswerSource::Script);
}

#[tokio::test]
async fn whatever_stands_behind_an_agent_is_a_change_of_the_agent() {
    for (file, old, new, expected, reason) in TABLE {
        for way in [Way::Fork, Way::Rerun] {
            let edited = Edited::new();
            let first = edited.first().await;
            edited.replace(file, old, new);
            let (changes, records) = edited.again(&first, way, RunOptions::default()).await;
            let what = format!("{way:?} with {file}: {new}");
            let text = changes.changes.change_sentences().chain([changes.changes.to_string()]);
            let text = text.collect::<Vec<_>>().join("\n");
            assert!(text.contains(reason), "{what}: {text}");
            let mut again = executed(&records);
            again.retain(|agent| way == Way::Fork || agent != "alone");
            again.sort();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(again, expected, "{what}: {text}");
            reused_results_have_equal_digests(&edited, &first, &changes, &records).await;
        }
    }
}

async fn reused_results_have_equal_digests(edited: &Edited, first: &str, changes: &ForkChanges, records: &[Record]) {
    let stored = edited.runs.resolve_run(first).await.expect("it is stored");
    let origin = stored.read_journal().await.expect("records").records;
    let definitions = |records: &[Record]| match &records[0].event {
        Event::RunStarted(started) => started.definitions.clone().expect("definitions are recorded"),
        other => panic!("{other:?}"),
    };
    let (before, now) = (definitions(&origin), definitions(records));
    for record in records {
        if let Event::ExecutionFinished(finished) = &record.event
            && finished.reused
        {
            assert_eq!(
                before.get(&finished.agent),
                now.get(&finished.agent),
                "{}",
                finished.agent
            );
            assert!(
                !changes.changes.invalidates_agent(&finished.agent),
                "{}",
                finished.agent
            );
        }
    }
}

#[tokio::test]
async fn a_changed_default_is_a_change_of_all_agents() {
    let edited = Edited::new();
    let first = edited.first().await;
    edited.replace("outer.yaml", "timeout_seconds: 60", "timeout_seconds: 61");
    let (changes, records) = edited.again(&first, Way::Fork, RunOptions::default()).await;
    assert!(changes.changes.to_string().contains("counting (timeout_seconds)"));
    assert!(
        records
            .iter()
            .all(|record| !matches!(&record.event, Event::ExecutionFinished(finished) if finished.reused))
    );
}

#[tokio::test]
async fn another_model_or_stub_is_a_change_of_the_agents_that_have_it() {
    let edited = Edited::new();
    let first = edited.first().await;
    let model = RunOptions::default().with_model_override("shared", "simulated/other");
    let (_, records) = edited.again(&first, Way::Fork, model).await;
    assert_eq!(executed(&records), ["configured"]);
}

#[tokio::test]
async fn an_execution_with_an_older_definition_is_not_reused_by_later_runs() {
    let edited = Edited::new();
    let first = edited.first().await;
    edited.replace("count.rhai", "1", "2");
    // The run continues with the changed script; later its first execution is outdated.
    let continued = edited
        .runs
        .continue_with_message(&*first, "more", RunOptions::default())
        .await
        .expect("it continues");
    continued.wait_and_close().await.expect("it ends");
    let (changes, records) = edited.again(&first, Way::Fork, RunOptions::default()).await;
    assert!(changes.changes.is_empty(), "{}", changes.changes);
    assert_eq!(executed(&records), ["counting", "after_counting"]);
    // Likewise in a run that shares the execution.
    let other = Edited::new();
    let first = other.first().await;
    other.replace("count.rhai", "1", "2");
    let set = RunContext::default();
    let forked = other
        .runs
        .prepare_edited_continuation(&*first, "outer.yaml", "more", set, RunOptions::default());
    let forked = forked.await.expect("a fork");
    assert_eq!(forked.changes.changed_agents, [(Arc::from("counting"), 1)]);
    let run = forked.ready.start_and_spawn().await.expect("it starts");
    let second = run.id().to_string();
    run.wait_and_close().await.expect("it ends");
    let (changes, records) = other.again(&second, Way::Fork, RunOptions::default()).await;
    assert!(changes.changes.is_empty(), "{}", changes.changes);
    assert_eq!(executed(&records), ["counting", "after_counting"]);
}

#[tokio::test]
async fn a_run_without_digests_says_that_they_are_not_known() {
    let edited = Edited::new();
    let first = edited.first().await;
    let stored = edited.runs.resolve_run(&*first).await.expect("it is stored");
    let mut records = stored.read_journal().await.expect("records").records;
    let Event::RunStarted(started) = &mut records[0].event else {
        panic!("a run begins")
    };
    started.definitions = None;
    started.run_id = "older".into();
    let text = stored.load_ensemble_text().await.expect("a text");
    let older = edited
        .runs
        .store()
        .create_run(&RunId::new("older"), &text)
        .await
        .expect("it is stored");
    let mut log = older.open_log(LogEnd::NEW, Durability::default()).await.expect("a log");
    for record in &records {
        log.append(record).await.expect("it is written");
    }
    drop(log);
    let (changes, records) = edited.again("older", Way::Fork, RunOptions::default()).await;
    let sentences: Vec<String> = changes.changes.change_sentences().collect();
    let expected = "`counting`: script `count.rhai` might have changed: the run did not record its digest";
    assert!(sentences.iter().any(|sentence| sentence == expected), "{sentences:?}");
    assert!(executed(&records).contains(&"counting".to_owned()));
}
