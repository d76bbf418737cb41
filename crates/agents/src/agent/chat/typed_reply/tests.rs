use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::agent::chat::tests::list_texts;
use crate::agent::chat::{MessageRole, SimulatedReply, ToolCall};

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Forecast {
    city: String,
    degrees: f64,
}

/// Narrower than its schema.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Wide")]
struct Even(i64);

#[derive(Deserialize, JsonSchema)]
struct Wide {
    n: i64,
}

impl TryFrom<Wide> for Even {
    type Error = String;

    fn try_from(wide: Wide) -> Result<Self, String> {
        match wide.n % 2 {
            0 => Ok(Self(wide.n)),
            _ => Err(format!("{} is odd", wide.n)),
        }
    }
}

const PARIS: &str = r#"{"city": "Paris", "degrees": 21}"#;

fn paris() -> Forecast {
    Forecast {
        city: "Paris".into(),
        degrees: 21.0,
    }
}

#[tokio::test]
async fn a_reply_off_the_schema_is_sent_back_and_leaves_no_trace() {
    let fence = format!("Here:\n```json\n{PARIS}\n```");
    let replies = ["It is warm.", r#"{"city": "Paris"}"#, &fence];
    let dialogue = Dialogue::with_simulated_replies(replies).with_system("Be brief.");
    let answer = dialogue.say_as::<Forecast>(Thread::default(), "Paris?").await;
    let answer = answer.expect("an answer");
    assert_eq!((answer.value, answer.usage.requests), (paris(), 3));
    assert_eq!(list_texts(&answer.thread), ["Paris?", &fence]);
    assert_eq!(count_requests(&answer.thread), 3);
    assert!(answer.thread.has_final_reply() && answer.thread.iterations().len() == 1);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_an_error_with_the_whole_thread() {
    for most in [0, 1] {
        let dialogue = Dialogue::with_simulated_replies([r#"{"city": 3, "degrees": 1}"#]).with_max_corrections(most);
        let error = dialogue.say_as::<Forecast>(Thread::default(), "Paris?").await;
        let error = error.expect_err("no answer");
        assert_eq!(error.usage.requests, u64::from(most) + 1);
        assert!(
            matches!(&error.cause, DialogueErrorKind::Mismatch(error) if error.contains("/city: 3 is not of type")),
            "{error}"
        );
        let said = list_texts(&error.thread);
        assert_eq!(said.len(), 2 * (most as usize + 1), "{said:?}");
        let corrections = said.iter().filter(|text| text.contains("/city: 3 is not of type"));
        assert_eq!(corrections.count(), most as usize);
    }
}

#[tokio::test]
async fn answers_that_are_no_objects_are_enclosed() {
    let list = Dialogue::with_simulated_replies([r#"["a"]"#, r#"{"value": ["a", "b"]}"#]);
    let answer = list
        .say_as::<Vec<String>>(Thread::default(), "x")
        .await
        .expect("a list");
    assert_eq!(
        (answer.value, answer.usage.requests),
        (vec!["a".to_owned(), "b".into()], 2)
    );
    let nested = Dialogue::with_simulated_replies([r#"{"value": [{"n": 2}]}"#]);
    let answer = nested
        .say_as::<Vec<Even>>(Thread::default(), "x")
        .await
        .expect("a list");
    assert_eq!(answer.value, [Even(2)]);
    let map = Dialogue::with_simulated_replies([r#"{"a": 1}"#]);
    let answer = map
        .say_as::<BTreeMap<String, u8>>(Thread::default(), "x")
        .await
        .expect("a map");
    assert_eq!(answer.value, BTreeMap::from([("a".to_owned(), 1)]));
}

#[tokio::test]
async fn what_the_type_itself_refuses_is_sent_back_too() {
    let dialogue = Dialogue::with_simulated_replies([r#"{"n": 3}"#, r#"{"n": 4}"#]);
    let answer = dialogue
        .say_as::<Even>(Thread::default(), "x")
        .await
        .expect("an answer");
    assert_eq!((answer.value, answer.usage.requests), (Even(4), 2));
    let dialogue = Dialogue::with_simulated_replies([r#"{"n": 3}"#]);
    let error = dialogue
        .say_as::<Even>(Thread::default(), "x")
        .await
        .expect_err("no answer");
    assert!(error.to_string().contains("3 is odd"), "{error}");
}

#[tokio::test]
async fn calls_stay_in_the_thread_when_the_reply_after_them_is_sent_back() {
    let replies = || {
        [
            SimulatedReply::with_tool_calls([("weather", json!({"name": "Paris"}))]),
            "Warm.".into(),
            SimulatedReply::with_tool_calls([("weather", json!({"name": "Lyon"}))]),
            PARIS.into(),
        ]
    };
    let dialogue =
        Dialogue::with_simulated_replies(replies()).with_tool("weather", "", |city: City| async move { Ok(city.name) });
    let answer = dialogue
        .say_as::<Forecast>(Thread::default(), "x")
        .await
        .expect("an answer");
    let calls: Vec<String> = answer
        .thread
        .iterations()
        .iter()
        .flat_map(|iteration| iteration.tool_calls.iter().map(ToolCall::text_for_model))
        .collect();
    assert_eq!(calls, ["Paris", "Lyon"]);
    assert_eq!(list_texts(&answer.thread), ["x", "", "", PARIS]);
    let users = answer.thread.to_messages();
    assert_eq!(
        users.iter().filter(|message| message.role == MessageRole::User).count(),
        1
    );
}

#[tokio::test]
async fn a_failure_between_corrections_keeps_what_was_said() {
    let dialogue = Dialogue::with_simulated_replies(["Warm.".into(), SimulatedReply::with_error("down")]);
    let error = dialogue
        .say_as::<Forecast>(Thread::default(), "x")
        .await
        .expect_err("it is down");
    assert_eq!(error.cause, DialogueErrorKind::Model("down".into()));
    assert_eq!(list_texts(&error.thread).len(), 3);
    let ended = dialogue
        .say(error.thread, "y")
        .await
        .expect_err("the last reply repeats");
    assert_eq!(list_texts(&ended.thread)[3], "y");
}

#[derive(Deserialize, JsonSchema)]
struct City {
    /// In English.
    name: String,
}

#[tokio::test]
async fn arguments_of_a_function_are_a_type() {
    let replies = [
        SimulatedReply::with_tool_calls([("weather", json!({"name": 3})), ("weather", json!({"name": "Paris"}))]),
        "Sunny.".into(),
    ];
    let dialogue =
        Dialogue::with_simulated_replies(replies).with_tool("weather", "Tells the weather.", |city: City| async move {
            match city.name.as_str() {
                "Paris" => Ok("sunny"),
                other => Err(format!("no {other}").into()),
            }
        });
    let ended = dialogue.say(Thread::default(), "x").await.expect("an end");
    let calls = &ended.thread.iterations()[0].tool_calls;
    assert!(
        calls[0].text_for_model().contains("/name: 3 is not of type"),
        "{}",
        calls[0].text_for_model()
    );
    assert_eq!(calls[1].text_for_model(), "sunny");
}

#[tokio::test]
async fn a_function_whose_arguments_have_no_names_is_no_tool() {
    let dialogue =
        Dialogue::with_simulated_replies(["x"]).with_tool("shout", "", |text: String| async move { Ok(text) });
    let error = dialogue.say(Thread::default(), "x").await.expect_err("is no tool");
    assert!(
        matches!(&error.cause, DialogueErrorKind::Tools(error) if error.contains("`shout`")),
        "{error}"
    );
}
