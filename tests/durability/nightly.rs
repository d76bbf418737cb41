//! A job of one night: tickets that are sorted, answered and reviewed by models of a provider that fails now and then, with a
//! person who decides about refunds. The batch is killed twice, resumed, and ends with the answers of the person.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::server::{Answer, Asked, Server, answer, says};
use crate::support::{Outcome, Running, Workspace, eventually};

/// The number of tickets. Each fourth ticket asks for a refund.
const TICKETS: usize = 40;

/// The cost of a reply: 1,000 tokens of input and 200 of output.
const REPLY_COST: f64 = 0.0014;

const ENSEMBLE: &str = "name: support
inputs: {ticket: {type: string}}
model_profiles:
  main: {provider: openai, model: some-model, base_url: 'URL', cost: {input_per_million: 1, output_per_million: 2}}
agents:
  - {name: sorter, model_profile: main, prompt: 'sort {{ inputs.ticket }}', retry: {max_attempts: 4}, output_schema: {type: object, properties: {label: {enum: [refund, other]}}, required: [label]}}
  - name: writer
    model_profile: main
    prompt: 'write {{ inputs.ticket }} {{ execution }}'
    conversation: {max_turns: 3}
    dependencies:
      - {agent_name: sorter}
      - {agent_name: critic, condition: not output.approved, feedback: true}
  - {name: critic, model_profile: main, prompt: 'review {{ writer }}', conversation: {max_turns: 3}, retry: {max_attempts: 4}, depends_on: [writer], output_schema: {type: object, properties: {approved: {type: boolean}}, required: [approved]}}
  - name: gate
    input: {prompt: 'Refund {{ inputs.ticket }}?', choices: [approve, reject]}
    dependencies: [{agent_name: sorter, condition: output.label == 'refund'}]
success: outputs.critic.approved
result: {label: outputs.sorter.label, letter: outputs.writer, decision: outputs.gate}
";

/// The state of the provider: the number of replies to each request, by its text.
type ReplyCounts = Arc<Mutex<HashMap<String, usize>>>;

/// A provider that refuses every twentieth request for a second, fails with each thirtieth, and gives each twenty-fifth reply
/// that should be JSON as prose.
fn flaky_provider() -> (Server, ReplyCounts) {
    let counts = ReplyCounts::default();
    let replies = Arc::clone(&counts);
    let server = Server::new(move |number, asked| match number {
        number if number % 20 == 7 => answer("429 Too Many Requests", &[("retry-after", "1")], "slow down"),
        number if number % 30 == 11 => answer("500 Internal Server Error", &[], "oops"),
        number if number % 25 == 13 && !asked.body["response_format"].is_null() => {
            says("Well, let me think about that.")
        }
        _ => {
            let reply = reply_to(asked);
            *replies
                .lock()
                .expect("unpoisoned")
                .entry(list_messages(asked))
                .or_default() += 1;
            reply
        }
    });
    (server, counts)
}

fn list_messages(asked: &Asked) -> String {
    asked.body["messages"].to_string()
}

/// Returns the reply, which depends only on the messages.
fn reply_to(asked: &Asked) -> Answer {
    let messages = asked.body["messages"].as_array().expect("messages");
    let is_task = |text: &&str| ["sort ", "write ", "review "].iter().any(|word| text.starts_with(word));
    let mut texts = messages.iter().rev().filter_map(|message| message["content"].as_str());
    let task = texts.find(is_task).unwrap_or_default();
    let number: usize = task
        .split(|letter: char| !letter.is_ascii_digit())
        .find_map(|digits| digits.parse().ok())
        .expect("each task names a ticket");
    match task.split(' ').next() {
        Some("sort") if number.is_multiple_of(4) => says(r#"{"label": "refund"}"#),
        Some("sort") => says(r#"{"label": "other"}"#),
        Some("write") => says(&format!(
            "letter about ticket {number}, draft {}",
            task.rsplit(' ').next().unwrap_or("")
        )),
        // The first draft is approved for odd tickets, the second one for all.
        _ => says(&json!({"approved": number % 2 == 1 || task.ends_with("draft 2")}).to_string()),
    }
}

fn start_batch(workspace: &Workspace, more: &[&str]) -> Running {
    let mut command = workspace.command(["batch", "support.yaml", "--data", "tickets.jsonl", "--jobs", "8"]);
    command.args(more).env("OPENAI_API_KEY", "sk-test-0123456789");
    Running(command.spawn().expect("the program starts"))
}

fn run_batch(workspace: &Workspace, more: &[&str]) -> Outcome {
    start_batch(workspace, more).finish()
}

fn read_results(workspace: &Workspace) -> Vec<Value> {
    let text = workspace.read(".ensemble/batches/support-tickets/results.jsonl");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_job_of_a_night_loses_nothing_pays_nothing_twice_and_ends_with_the_answers_of_a_person() {
    let (server, counts) = flaky_provider();
    let workspace = Workspace::new();
    workspace.write("support.yaml", ENSEMBLE.replace("URL", &server.url()));
    let tickets: String = (0..TICKETS)
        .map(|number| format!("{}\n", json!({"ticket": format!("ticket {number}")})))
        .collect();
    workspace.write("tickets.jsonl", tickets);

    // Two kills, in the middle of the work.
    for requests in [45, 90] {
        let mut running = start_batch(&workspace, &["--quiet"]);
        eventually("the requests", || (server.asked().len() >= requests).then_some(()));
        running.signal("KILL");
        running.0.wait().expect("it is ours");
    }
    let waiting = run_batch(&workspace, &["--questions", "questions.csv"]);
    let waiting = waiting.expect_code(3);
    assert!(
        waiting.stderr.contains("10 wait for gate") || waiting.stdout.contains("10 wait for gate"),
        "{waiting:?}"
    );
    let results = read_results(&workspace);
    assert_eq!(results.len(), TICKETS);
    let count = |outcome: &str| results.iter().filter(|row| row["outcome"] == outcome).count();
    assert_eq!(
        (count("completed"), count("waiting_for_input")),
        (30, 10),
        "{results:#?}"
    );

    // A person fills in the table of questions, and the batch continues with it.
    let questions = workspace.read("questions.csv");
    assert_eq!(questions.lines().count(), 11, "{questions}");
    assert!(questions.contains("Refund ticket 4?"), "{questions}");
    let answered: String = questions
        .lines()
        .enumerate()
        .map(|(number, line)| match number {
            0 => format!("{line}\n"),
            _ => format!("{}approve\n", line),
        })
        .collect();
    workspace.write("answers.csv", answered);
    let ended = run_batch(&workspace, &["--answers", "answers.csv"]).expect_code(0);
    let asked_before = server.asked().len();
    let results = read_results(&workspace);
    for (number, row) in results.iter().enumerate() {
        assert_eq!(row["outcome"], "completed", "{row:#}");
        let refund = number % 4 == 0;
        let draft = if number % 2 == 1 { 1 } else { 2 };
        assert_eq!(
            row["result"]["label"],
            if refund { "refund" } else { "other" },
            "{row:#}"
        );
        assert_eq!(
            row["result"]["letter"]["response"],
            format!("letter about ticket {number}, draft {draft}"),
            "{row:#}"
        );
        assert_eq!(
            row["result"]["decision"]["response"],
            if refund { json!("approve") } else { Value::Null },
            "{row:#}"
        );
    }

    // What was answered is not asked again, but for what was under way at a kill: 8 rows, twice.
    let counts = counts.lock().expect("unpoisoned");
    let repeated: usize = counts.values().map(|replies| replies - 1).sum();
    assert!(repeated <= 16, "{repeated} replies were paid again");
    let paid: usize = counts.values().sum();
    let stated = ended.stdout.lines().chain(ended.stderr.lines()).find_map(|line| {
        let cost = line.trim().strip_prefix("cost ")?;
        cost.split([',', ' ']).next()?.parse::<f64>().ok()
    });
    let stated = stated.expect("the report states the cost");
    let most = paid as f64 * REPLY_COST + 25.0 * REPLY_COST;
    let least = (paid - repeated) as f64 * REPLY_COST;
    assert!((least..=most).contains(&stated), "{least} to {most}, stated: {stated}");

    // A call on the ended batch runs nothing and states the same cost.
    let again = run_batch(&workspace, &[]).expect_code(0);
    assert_eq!(server.asked().len(), asked_before);
    assert!(
        again.stdout.contains(&format!("cost {stated}")) || again.stderr.contains(&format!("cost {stated}")),
        "{again:?}"
    );
}
