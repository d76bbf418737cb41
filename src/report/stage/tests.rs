use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::thread::ToolEnd;

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
    let showing = Showing { progress: false, live };
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
fn nothing_is_heard_where_nobody_watches() {
    let (stage, paper) = stage(false);
    hear(&stage, "a", &["text"]);
    assert_eq!((stage.leave("a"), paper.text().as_str()), (Shown::default(), ""));
}
