use std::sync::Arc;

use serde_json::json;

use super::*;
use ensemble_core::thread::ToolEnd;

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap().clone();
        anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string()
    }
}

fn stage(live: bool) -> (Stage, Paper) {
    let paper = Paper::default();
    let showing = Showing {
        live,
        ..Showing::default()
    };
    let stage = Stage::new(Box::new(paper.clone()), Box::new(paper.clone()), showing);
    (stage, paper)
}

fn speaker(agent: &str) -> Speaker {
    Speaker {
        agent: agent.into(),
        execution: 1,
        attempt: 1,
    }
}

fn hear(stage: &Stage, agent: &str, pieces: &[&str]) {
    for piece in pieces {
        stage.hear(&speaker(agent), Said::Text(piece));
    }
}

const SHOWN: Shown = Shown {
    title: true,
    text: true,
};

#[test]
fn a_reply_is_written_as_it_comes() {
    let (stage, paper) = stage(true);
    stage.head(Some("\nturn 1\n".into()));
    hear(&stage, "writer", &["\n", "One", " line.\nAnd"]);
    assert_eq!(paper.text(), "\nturn 1\n  writer llm\n    One line.\n    And");
    hear(&stage, "writer", &[" more."]);
    assert_eq!(stage.leave("writer"), SHOWN);
    assert_eq!(paper.text(), "\nturn 1\n  writer llm\n    One line.\n    And more.\n");
}

#[test]
fn a_reply_is_wrapped_while_it_comes() {
    let paper = Paper::default();
    let showing = Showing {
        live: true,
        out_width: LineWidth::of_terminal(Some(24)),
        ..Showing::default()
    };
    let stage = Stage::new(Box::new(paper.clone()), Box::new(paper.clone()), showing);
    hear(&stage, "a", &["one two thr", "ee four fi"]);
    assert_eq!(
        paper.text(),
        "  a llm\n    one two three four",
        "a word is written when it is complete"
    );
    hear(&stage, "a", &["ve\n```\nlet a_long_name = a_function(1);\n"]);
    stage.ask();
    stage.answered();
    hear(&stage, "a", &["```\nlast"]);
    stage.leave("a");
    assert_eq!(
        paper.text(),
        "  a llm\n    one two three four\n    five\n    ```\n    let a_long_name = a_function(1);\n    ```\n    last\n"
    );
}

#[test]
fn one_has_the_floor_and_everything_else_waits() {
    let (stage, paper) = stage(true);
    hear(&stage, "a", &["first "]);
    hear(&stage, "b", &["unheard"]);
    stage.say("said meanwhile\n");
    stage.note("warned meanwhile\n");
    hear(&stage, "a", &["then"]);
    assert_eq!(
        stage.leave("b"),
        Shown::default(),
        "what b says is shown when it has ended"
    );
    stage.catch_up();
    assert_eq!(paper.text(), "  a llm\n    first then");
    assert_eq!(stage.leave("a"), SHOWN);
    stage.catch_up();
    assert_eq!(
        paper.text(),
        "  a llm\n    first then\nsaid meanwhile\nwarned meanwhile\n"
    );
}

#[test]
fn what_waits_is_written_when_the_reporter_goes_without_an_end() {
    let (stage, paper) = stage(true);
    let human = crate::report::Human::new(stage.clone(), crate::report::Verbosity::Normal);
    hear(&stage, "a", &["half a reply"]);
    stage.note("warned meanwhile\n");
    drop(human);
    assert_eq!(paper.text(), "  a llm\n    half a reply\nwarned meanwhile\n");
}

#[test]
fn data_is_not_written_as_it_comes() {
    for begins in ["{\"a\"", "  {", "```json\n"] {
        let (stage, paper) = stage(true);
        hear(&stage, "a", &[begins, ": 1}"]);
        assert_eq!(paper.text(), "", "{begins}");
        hear(&stage, "b", &["text"]);
        assert_eq!(
            paper.text(),
            "  b llm\n    text",
            "it does not keep others from speaking"
        );
        assert_eq!(stage.leave("a"), Shown::default());
    }
}

#[test]
fn tools_are_told_between_replies() {
    let (stage, paper) = stage(true);
    let call = ToolCall::new("1", "weather", json!({"city": "Paris"}));
    hear(&stage, "a", &["Let me see."]);
    stage.hear(&speaker("a"), Said::ToolCalled(&call));
    let end = call.ended(ToolEnd::Result(json!("rain\nand wind")), 0.1);
    stage.hear(&speaker("a"), Said::ToolEnded(&end));
    hear(&stage, "a", &["It rains."]);
    assert_eq!(stage.leave("a"), SHOWN);
    assert_eq!(
        paper.text(),
        "  a llm\n    Let me see.\n    → weather {\"city\":\"Paris\"}\n    ← weather: rain and wind\n    It rains.\n"
    );
}

#[test]
fn a_reply_that_breaks_off_is_marked() {
    let (stage, paper) = stage(true);
    hear(&stage, "a", &["Half a"]);
    stage.hear(&speaker("a"), Said::Again);
    hear(&stage, "a", &["A whole one."]);
    stage.end();
    assert_eq!(
        paper.text(),
        "  a llm\n    Half a\n    (the reply broke off; asking again)\n    A whole one.\n"
    );
}

#[test]
fn while_a_person_is_asked_everybody_is_silent() {
    let (stage, paper) = stage(true);
    let call = ToolCall::new("1", "write", json!({"n": 1}));
    hear(&stage, "a", &["Let me"]);
    stage.ask();
    stage.hear(&speaker("a"), Said::ToolCalled(&call));
    stage.say("said meanwhile\n");
    stage.catch_up();
    assert_eq!(
        paper.text(),
        "  a llm\n    Let me\n",
        "the question begins on a line of its own"
    );
    stage.answered();
    assert_eq!(paper.text(), "  a llm\n    Let me\n    → write {\"n\":1}\n");
    stage.leave("a");
    stage.catch_up();
    assert_eq!(
        paper.text(),
        "  a llm\n    Let me\n    → write {\"n\":1}\nsaid meanwhile\n"
    );
}

#[test]
fn lines_wait_for_the_answer_where_nobody_has_the_floor() {
    let (stage, paper) = stage(true);
    stage.ask();
    stage.say("said meanwhile\n");
    stage.catch_up();
    assert_eq!(paper.text(), "");
    stage.answered();
    assert_eq!(paper.text(), "said meanwhile\n");
}

#[test]
fn who_ends_while_a_person_is_asked_leaves_the_floor_to_others() {
    let (stage, paper) = stage(true);
    stage.ask();
    hear(&stage, "b", &["All of it."]);
    hear(&stage, "c", &["Much"]);
    assert_eq!(stage.leave("b"), Shown::default(), "it is shown with its end");
    stage.say("  b llm\n    All of it.\n");
    assert_eq!(paper.text(), "");
    stage.answered();
    hear(&stage, "c", &[" more."]);
    assert_eq!(paper.text(), "  b llm\n    All of it.\n  c llm\n    Much more.");
}

#[test]
fn the_rest_of_what_somebody_says_comes_after_the_answer() {
    let (stage, paper) = stage(true);
    hear(&stage, "b", &["One"]);
    stage.ask();
    hear(&stage, "b", &["and the", " other."]);
    assert_eq!(stage.leave("b"), SHOWN);
    stage.say("b has ended\n");
    assert_eq!(paper.text(), "  b llm\n    One\n", "the person is not disturbed");
    stage.answered();
    assert_eq!(paper.text(), "  b llm\n    One\n    and the other.\nb has ended\n");
}

#[test]
fn what_was_data_once_is_heard_when_it_is_text() {
    let text_after = |what: &dyn Fn(&Stage)| {
        let (stage, paper) = stage(true);
        what(&stage);
        hear(&stage, "a", &["Text."]);
        paper.text()
    };
    let in_its_next_execution = text_after(&|stage| {
        hear(stage, "a", &["{\"n\": 1}"]);
        stage.leave("a");
    });
    assert_eq!(in_its_next_execution, "  a llm\n    Text.");
    let after_a_tool = text_after(&|stage| {
        hear(stage, "a", &["{\"n\": 1}"]);
        let call = ToolCall::new("1", "look", json!({}));
        stage.hear(&speaker("a"), Said::ToolCalled(&call));
    });
    assert_eq!(after_a_tool, "  a llm\n    → look {}\n    Text.");
    let after_data_that_broke_off = text_after(&|stage| {
        hear(stage, "a", &["{\"n\": "]);
        stage.hear(&speaker("a"), Said::Again);
    });
    assert_eq!(after_data_that_broke_off, "  a llm\n    Text.");
    let and_both = text_after(&|stage| {
        let call = ToolCall::new("1", "look", json!({}));
        stage.hear(&speaker("a"), Said::ToolCalled(&call));
        hear(stage, "a", &["{\"n\": "]);
        stage.hear(&speaker("a"), Said::Again);
    });
    assert_eq!(and_both, "  a llm\n    → look {}\n    Text.");
}

#[test]
fn only_the_last_reply_counts_as_shown() {
    let (stage, paper) = stage(true);
    hear(&stage, "a", &["Let me see."]);
    stage.hear(&speaker("a"), Said::ToolCalled(&ToolCall::new("1", "look", json!({}))));
    hear(&stage, "a", &["{\"n\": 1}"]);
    let shown = stage.leave("a");
    assert_eq!((shown.title, shown.text), (true, false), "{}", paper.text());
}

#[test]
fn a_heading_is_said_once_and_later_executions_have_their_number() {
    let (stage, paper) = stage(true);
    stage.head(Some("turn 2\n".into()));
    let again = Speaker {
        execution: 2,
        ..speaker("a")
    };
    stage.hear(&again, Said::Text("More."));
    stage.leave("a");
    stage.say_heading();
    assert_eq!(paper.text(), "turn 2\n  a #2 llm\n    More.\n");
}

#[test]
fn nothing_is_heard_where_nobody_watches() {
    let (stage, paper) = stage(false);
    hear(&stage, "a", &["text"]);
    assert_eq!((stage.leave("a"), paper.text().as_str()), (Shown::default(), ""));
}
