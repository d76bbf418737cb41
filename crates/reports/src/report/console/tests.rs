use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::report::sanitized_writer::SanitizedWriter;
use ensemble_core::thread::ToolCallEnd;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap().clone();
        anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string()
    }
}

fn console(live: bool) -> (ConsoleWriter, Buffer) {
    let buffer = Buffer::default();
    let options = ConsoleOptions {
        live,
        ..ConsoleOptions::default()
    };
    let console = ConsoleWriter::new(
        SanitizedWriter::with_separate_stream(buffer.clone()),
        SanitizedWriter::with_separate_stream(buffer.clone()),
        options,
    );
    (console, buffer)
}

fn source(agent: &str) -> ExecutionAttemptRef {
    ExecutionAttemptRef {
        run: "".into(),
        agent: agent.into(),
        execution: 1,
        attempt: 1,
    }
}

fn receive(console: &ConsoleWriter, agent: &str, pieces: &[&str]) {
    for piece in pieces {
        console.receive_update(&source(agent), LiveUpdate::Text(piece));
    }
}

const SHOWN: StreamedParts = StreamedParts {
    title: true,
    text: true,
    reasoning: false,
    missed: false,
};

#[test]
fn a_reply_is_written_while_it_arrives() {
    let (console, buffer) = console(true);
    console.set_pending_heading(Some("\nturn 1\n".into()));
    receive(&console, "writer", &["\n", "One", " line.\nAnd"]);
    assert_eq!(buffer.text(), "\nturn 1\n  writer llm\n    One line.\n    And");
    receive(&console, "writer", &[" more."]);
    assert_eq!(console.end_streamed_reply("writer"), SHOWN);
    assert_eq!(buffer.text(), "\nturn 1\n  writer llm\n    One line.\n    And more.\n");
}

#[test]
fn a_reply_is_wrapped_while_it_arrives() {
    let buffer = Buffer::default();
    let options = ConsoleOptions {
        live: true,
        out_width: LineWidth::for_terminal(Some(24)),
        ..ConsoleOptions::default()
    };
    let console = ConsoleWriter::new(
        SanitizedWriter::with_separate_stream(buffer.clone()),
        SanitizedWriter::with_separate_stream(buffer.clone()),
        options,
    );
    receive(&console, "a", &["one two thr", "ee four fi"]);
    assert_eq!(
        buffer.text(),
        "  a llm\n    one two three four",
        "a word is written when it is complete"
    );
    receive(&console, "a", &["ve\n```\nlet a_long_name = a_function(1);\n"]);
    console.pause_for_question();
    console.resume_after_question();
    receive(&console, "a", &["```\nlast"]);
    console.end_streamed_reply("a");
    assert_eq!(
        buffer.text(),
        "  a llm\n    one two three four\n    five\n    ```\n    let a_long_name = a_function(1);\n    ```\n    last\n"
    );
}

#[test]
fn while_one_reply_is_streamed_everything_else_waits() {
    let (console, buffer) = console(true);
    receive(&console, "a", &["first "]);
    receive(&console, "b", &["deferred"]);
    console.print_or_queue_stdout("said meanwhile\n");
    console.print_or_queue_stderr("warned meanwhile\n");
    receive(&console, "a", &["then"]);
    assert_eq!(
        console.end_streamed_reply("b"),
        StreamedParts::default(),
        "what b says is shown when it has ended"
    );
    console.print_queued_output();
    assert_eq!(buffer.text(), "  a llm\n    first then");
    assert_eq!(console.end_streamed_reply("a"), SHOWN);
    console.print_queued_output();
    assert_eq!(
        buffer.text(),
        "  a llm\n    first then\nsaid meanwhile\nwarned meanwhile\n"
    );
}

#[test]
fn what_waits_is_written_when_the_reporter_goes_without_an_end() {
    let (console, buffer) = console(true);
    let human = crate::report::HumanReporter::new(console.clone(), crate::report::OutputVerbosity::Normal);
    receive(&console, "a", &["half a reply"]);
    console.print_or_queue_stderr("warned meanwhile\n");
    drop(human);
    assert_eq!(buffer.text(), "  a llm\n    half a reply\nwarned meanwhile\n");
}

#[test]
fn data_is_not_written_while_it_arrives() {
    for begins in ["{\"a\"", "  {", "```json\n"] {
        let (console, buffer) = console(true);
        receive(&console, "a", &[begins, ": 1}"]);
        assert_eq!(buffer.text(), "", "{begins}");
        receive(&console, "b", &["text"]);
        assert_eq!(buffer.text(), "  b llm\n    text", "it does not block other replies");
        assert_eq!(console.end_streamed_reply("a"), StreamedParts::default());
    }
}

#[test]
fn tool_calls_are_written_between_replies() {
    let (console, buffer) = console(true);
    let call = ToolCall::new("1", "weather", json!({"city": "Paris"}));
    receive(&console, "a", &["Let me see."]);
    console.receive_update(&source("a"), LiveUpdate::ToolStarted(&call));
    let end = call.with_end(ToolCallEnd::Result(json!("rain\nand wind")), 0.1);
    console.receive_update(&source("a"), LiveUpdate::ToolEnded(&end));
    receive(&console, "a", &["It rains."]);
    assert_eq!(console.end_streamed_reply("a"), SHOWN);
    assert_eq!(
        buffer.text(),
        "  a llm\n    Let me see.\n    → weather {\"city\":\"Paris\"}\n    ← weather: rain and wind\n    It rains.\n"
    );
}

#[test]
fn a_reply_that_breaks_off_is_marked() {
    let (console, buffer) = console(true);
    receive(&console, "a", &["Half a"]);
    console.receive_update(&source("a"), LiveUpdate::Restarted);
    receive(&console, "a", &["A whole one."]);
    console.finish_output();
    assert_eq!(
        buffer.text(),
        "  a llm\n    Half a\n    (the reply was interrupted; requesting it again)\n    A whole one.\n"
    );
}

#[test]
fn nothing_is_written_while_a_question_is_open() {
    let (console, buffer) = console(true);
    let call = ToolCall::new("1", "write", json!({"n": 1}));
    receive(&console, "a", &["Let me"]);
    console.pause_for_question();
    console.receive_update(&source("a"), LiveUpdate::ToolStarted(&call));
    console.print_or_queue_stdout("said meanwhile\n");
    console.print_queued_output();
    assert_eq!(
        buffer.text(),
        "  a llm\n    Let me\n",
        "the question begins on a line of its own"
    );
    console.resume_after_question();
    assert_eq!(buffer.text(), "  a llm\n    Let me\n    → write {\"n\":1}\n");
    console.end_streamed_reply("a");
    console.print_queued_output();
    assert_eq!(
        buffer.text(),
        "  a llm\n    Let me\n    → write {\"n\":1}\nsaid meanwhile\n"
    );
}

#[test]
fn lines_wait_for_the_answer_where_no_reply_is_streamed() {
    let (console, buffer) = console(true);
    console.pause_for_question();
    console.print_or_queue_stdout("said meanwhile\n");
    console.print_queued_output();
    assert_eq!(buffer.text(), "");
    console.resume_after_question();
    assert_eq!(buffer.text(), "said meanwhile\n");
}

#[test]
fn an_agent_that_finishes_during_a_question_does_not_block_other_replies() {
    let (console, buffer) = console(true);
    console.pause_for_question();
    receive(&console, "b", &["All of it."]);
    receive(&console, "c", &["Much"]);
    assert_eq!(
        console.end_streamed_reply("b"),
        StreamedParts::default(),
        "it is shown with its end"
    );
    console.print_or_queue_stdout("  b llm\n    All of it.\n");
    assert_eq!(buffer.text(), "");
    console.resume_after_question();
    receive(&console, "c", &[" more."]);
    assert_eq!(buffer.text(), "  b llm\n    All of it.\n  c llm\n    Much more.");
}

#[test]
fn the_rest_of_a_reply_comes_after_the_answer() {
    let (console, buffer) = console(true);
    receive(&console, "b", &["One"]);
    console.pause_for_question();
    receive(&console, "b", &["and the", " other."]);
    assert_eq!(console.end_streamed_reply("b"), SHOWN);
    console.print_or_queue_stdout("b has ended\n");
    assert_eq!(
        buffer.text(),
        "  b llm\n    One\n",
        "nothing is written during the question"
    );
    console.resume_after_question();
    assert_eq!(buffer.text(), "  b llm\n    One\n    and the other.\nb has ended\n");
}

#[test]
fn an_agent_that_sent_data_is_streamed_when_it_sends_text() {
    let text_after = |what: &dyn Fn(&ConsoleWriter)| {
        let (console, buffer) = console(true);
        what(&console);
        receive(&console, "a", &["Text."]);
        buffer.text()
    };
    let in_its_next_execution = text_after(&|console| {
        receive(console, "a", &["{\"n\": 1}"]);
        console.end_streamed_reply("a");
    });
    assert_eq!(in_its_next_execution, "  a llm\n    Text.");
    let after_a_tool = text_after(&|console| {
        receive(console, "a", &["{\"n\": 1}"]);
        let call = ToolCall::new("1", "look", json!({}));
        console.receive_update(&source("a"), LiveUpdate::ToolStarted(&call));
    });
    assert_eq!(after_a_tool, "  a llm\n    → look {}\n    Text.");
    let after_data_that_broke_off = text_after(&|console| {
        receive(console, "a", &["{\"n\": "]);
        console.receive_update(&source("a"), LiveUpdate::Restarted);
    });
    assert_eq!(after_data_that_broke_off, "  a llm\n    Text.");
    let and_both = text_after(&|console| {
        let call = ToolCall::new("1", "look", json!({}));
        console.receive_update(&source("a"), LiveUpdate::ToolStarted(&call));
        receive(console, "a", &["{\"n\": "]);
        console.receive_update(&source("a"), LiveUpdate::Restarted);
    });
    assert_eq!(and_both, "  a llm\n    → look {}\n    Text.");
}

#[test]
fn only_the_last_reply_counts_as_shown() {
    let (console, buffer) = console(true);
    receive(&console, "a", &["Let me see."]);
    console.receive_update(
        &source("a"),
        LiveUpdate::ToolStarted(&ToolCall::new("1", "look", json!({}))),
    );
    receive(&console, "a", &["{\"n\": 1}"]);
    let shown = console.end_streamed_reply("a");
    assert_eq!((shown.title, shown.text), (true, false), "{}", buffer.text());
}

#[test]
fn a_heading_is_written_once_and_later_executions_have_their_number() {
    let (console, buffer) = console(true);
    console.set_pending_heading(Some("turn 2\n".into()));
    let again = ExecutionAttemptRef {
        execution: 2,
        ..source("a")
    };
    console.receive_update(&again, LiveUpdate::Text("More."));
    console.end_streamed_reply("a");
    console.print_pending_heading();
    assert_eq!(buffer.text(), "turn 2\n  a #2 llm\n    More.\n");
}

#[test]
fn nothing_is_streamed_unless_it_is_asked_for() {
    let (console, buffer) = console(false);
    receive(&console, "a", &["text"]);
    assert_eq!(
        (console.end_streamed_reply("a"), buffer.text().as_str()),
        (StreamedParts::default(), "")
    );
}

#[test]
fn what_was_not_shown_while_it_arrived_is_known() {
    let call = ToolCall::new("1", "look", json!({}));
    let (console, buffer) = console(true);
    receive(&console, "a", &["Hello"]);
    console.receive_update(&source("b"), LiveUpdate::ToolStarted(&call));
    assert!(!console.end_streamed_reply("a").missed);
    receive(&console, "b", &["there"]);
    let shown = console.end_streamed_reply("b");
    assert!(shown.title && shown.missed, "{}", buffer.text());
    receive(&console, "b", &["once more"]);
    assert!(!console.end_streamed_reply("b").missed);
    // A text that looks like data is not shown while it arrives. As the last reply it is the output.
    receive(&console, "c", &["{\"a\": 1}"]);
    console.receive_update(&source("c"), LiveUpdate::ToolStarted(&call));
    assert!(console.end_streamed_reply("c").missed);
    console.receive_update(&source("d"), LiveUpdate::ToolStarted(&call));
    receive(&console, "d", &["{\"a\": 1}"]);
    let shown = console.end_streamed_reply("d");
    assert!(shown.title && !shown.missed);
}
