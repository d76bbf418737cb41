//! Functions as tools, windows by configuration, and models by name.

use super::*;
use ensemble_language::profiles::ProfileError;
use ensemble_models::ModelNetwork;

fn number() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

#[derive(Debug, thiserror::Error)]
#[error("cannot count")]
struct Uncountable(#[source] std::num::ParseIntError);

#[tokio::test]
async fn functions_are_called_side_by_side_and_their_errors_go_back() {
    // Nobody passes before two are there.
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let called = calls(
        "",
        &[
            ("1", "half", json!({"n": 4})),
            ("2", "half", json!({"n": 6})),
            ("3", "half", json!({"n": "x"})),
            ("4", "broken", json!({"n": 1})),
            ("5", "double", json!({"n": 5})),
        ],
    );
    let (dialogue, ..) = dialogue(vec![called, says("Done.")]);
    let dialogue = dialogue
        .with_tool_and_schema("half", "", number(), move |arguments| {
            let both = Arc::clone(&both);
            async move {
                let wait = tokio::time::timeout(std::time::Duration::from_secs(20), both.wait());
                wait.await?;
                Ok(json!({"half": arguments["n"].as_i64().ok_or("no number")? / 2}))
            }
        })
        .with_tool_and_schema("broken", "", number(), |_| async {
            "?".parse::<i64>().map_err(Uncountable)?;
            Ok(())
        });
    let ended = dialogue.say(Thread::default(), "x").await.expect("an end");
    let made = &ended.thread.iterations()[0].tool_calls;
    let told: Vec<String> = made.iter().map(ToolCall::text_for_model).collect();
    assert_eq!((&*told[0], &*told[1]), (r#"{"half":2}"#, r#"{"half":3}"#));
    assert!(told[2].contains("is not of type"), "{told:?}");
    let error = ToolCallEnd::Error("cannot count: invalid digit found in string".into());
    assert_eq!(made[3].end, Some(error));
    assert_eq!(told[4], "10", "other tools stay beside functions");
}

#[tokio::test]
#[expect(clippy::panic, reason = "the tools panic on purpose")]
async fn a_panic_of_a_function_is_the_error_of_its_call() {
    let called = calls(
        "",
        &[
            ("1", "early", json!({"n": 4})),
            ("2", "late", json!({"n": 6})),
            ("3", "double", json!({"n": 5})),
        ],
    );
    let (dialogue, ..) = dialogue(vec![called, says("Done.")]);
    let dialogue = dialogue
        .with_tool_and_schema("early", "", number(), |arguments| {
            assert!(arguments.is_null(), "no arguments please");
            std::future::ready(Ok(()))
        })
        .with_tool_and_schema("late", "", number(), |arguments: Value| async move {
            tokio::task::yield_now().await;
            match arguments["n"].as_i64() {
                Some(number) => panic!("not {number}"),
                None => Ok(()),
            }
        });
    let ended = dialogue.say(Thread::default(), "x").await.expect("an end");
    let made = &ended.thread.iterations()[0].tool_calls;
    let told: Vec<String> = made.iter().map(ToolCall::text_for_model).collect();
    assert_eq!(
        told,
        [
            r#"{"error":"the tool panicked: no arguments please"}"#,
            r#"{"error":"the tool panicked: not 6"}"#,
            "10"
        ]
    );
    assert_eq!(ended.text, "Done.");
}

#[tokio::test]
async fn what_no_model_can_be_offered_is_told_by_the_first_request() {
    let long = "x".repeat(65);
    let rows = [
        (vec![("a b", number())], "`a b` is not a valid name of a tool"),
        (vec![("", number())], "`` is not a valid name of a tool"),
        (vec![(&*long, number())], "at most 64"),
        (vec![("a", number()), ("a", number())], "two tools have the name `a`"),
        (vec![("double", number())], "two tools have the name `double`"),
        (
            vec![("a", json!({"type": "string"}))],
            "the schema of tool `a` must have `\"type\": \"object\"`",
        ),
        (
            vec![("a", json!({"type": "object", "required": 1})), ("b", number())],
            "the schema of tool `a` cannot be used",
        ),
    ];
    for (tools, expected) in rows {
        let (mut dialogue, ..) = dialogue(vec![says("x")]);
        for (name, schema) in tools {
            dialogue = dialogue.with_tool_and_schema(name, "", schema, |_| async { Ok(()) });
        }
        let error = dialogue.say(Thread::default(), "x").await.expect_err(expected);
        assert!(
            matches!(&error.cause, DialogueErrorKind::Tools(error) if error.contains(expected)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_profiles_instructions_come_before_those_of_the_dialogue() {
    for (of_profile, own, expected) in [
        (Some("A."), Some("B."), Some("A.\n\nB.")),
        (Some("A."), None, Some("A.")),
        (None, Some("B."), Some("B.")),
        (None, None, None),
    ] {
        let fake = Prepared::saying(vec![says("x")]);
        let link = ChainedProfile {
            name: "any".into(),
            profile: Arc::new(ModelProfile {
                system_prompt: of_profile.map(str::to_owned),
                ..ModelProfile::default()
            }),
        };
        let mut dialogue = Dialogue::new(Model::with_providers(vec![(link, Arc::new(fake.clone()))]));
        if let Some(own) = own {
            dialogue = dialogue.with_system(own);
        }
        dialogue.say(Thread::default(), "x").await.expect("an end");
        let asked = fake.asked.lock().unwrap();
        let system = asked[0]
            .messages
            .iter()
            .find(|message| message.role == MessageRole::System);
        assert_eq!(system.map(|message| message.content.as_str()), expected);
    }
}

fn window(strategy: WindowStrategy) -> ContextWindow {
    ContextWindow {
        max_messages: Some(3),
        min_recent_turns: std::num::NonZeroU32::MIN,
        strategy,
        ..ContextWindow::default()
    }
}

#[tokio::test]
async fn a_window_leaves_out_the_oldest_and_the_thread_stays_whole() {
    let (dialogue, fake, _) = dialogue(vec![says("one"), says("two")]);
    let dialogue = dialogue
        .with_context_window(window(WindowStrategy::OldestFirst))
        .expect("a window");
    let all = dialogue.say_all(Thread::default(), ["a", "b"]).await.expect("an end");
    assert_eq!(all[1].thread.to_messages().len(), 4);
    let asked = fake.asked.lock().unwrap();
    let sent: Vec<&str> = asked[1].messages.iter().map(|message| &*message.content).collect();
    assert_eq!(sent, ["You count.", "b"]);
}

#[tokio::test]
async fn a_window_sums_up_with_the_dialogues_own_model_or_another() {
    for strategy in [
        WindowStrategy::Summarize(None),
        WindowStrategy::Summarize(Some("simulated".into())),
    ] {
        let is_own = strategy == WindowStrategy::Summarize(None);
        let replies = ["one", "two"].map(str::to_owned).map(SimulatedReply::from);
        let dialogue = Dialogue::with_simulated_replies(replies).with_context_window(window(strategy));
        let dialogue = dialogue.expect("a window");
        let all = dialogue
            .say_all(Thread::default(), ["a", "b", "c"])
            .await
            .expect("an end");
        let noted = &all[2].thread.iterations()[2].metadata["dropped"]["summary"];
        // Summaries are counted apart from the replies.
        let expected = if is_own {
            "one"
        } else {
            "(simulated summary 1 of assistant)"
        };
        assert_eq!(noted, expected);
        assert_eq!(all[2].usage.requests, 2, "the summary is counted");
    }
}

#[test]
fn a_window_that_cannot_be_made_is_told() {
    let made = |strategy| {
        let dialogue = Dialogue::with_simulated_replies(["x"]).with_context_window(window(strategy));
        dialogue.expect_err("it cannot be made").to_string()
    };
    let script = made(WindowStrategy::Custom("cut.rhai".into()));
    assert!(
        script.contains("cut.rhai") && script.contains("implement `Window`"),
        "{script}"
    );
    let model = made(WindowStrategy::Summarize(Some("fast".into())));
    assert!(model.contains("`fast` is not a model"), "{model}");
}

#[test]
fn a_name_is_a_provider_with_a_model() {
    let network = || {
        ModelNetwork::new(
            |name| (name == "OPENAI_API_KEY").then(|| "key".into()),
            || chrono::DateTime::UNIX_EPOCH,
            || 0.5,
        )
    };
    let named = |name: &str| Model::from_name(name, &network());
    for (name, provider, model) in [
        ("ollama/llama3.2:1b", "ollama", "llama3.2:1b"),
        ("openai/org/gpt", "openai", "org/gpt"),
        ("simulated", "simulated", ""),
    ] {
        let profile = named(name).expect(name).profiles().next().expect("one").profile.clone();
        assert_eq!((&*profile.provider, &*profile.model), (provider, model));
    }
    for name in ["", "llama3", "/x", "ollama/", "simulatd"] {
        let error = named(name).err().expect("is no name");
        assert_eq!(error, ProfileError::Name { name: name.into() });
    }
    let error = named("opneai/gpt").err().expect("does not exist");
    assert_eq!(error.help_text().as_deref(), Some("did you mean `openai`?"));
    let error = named("anthropic/claude").err().expect("has no key").to_string();
    assert!(error.contains("ANTHROPIC_API_KEY"), "{error}");
}

#[cfg(feature = "process")]
#[test]
fn a_key_comes_from_the_environment_of_the_process() {
    let with = |variable: &str| {
        Dialogue::with_profile(ModelProfile {
            provider: "openai".into(),
            api_key_env: Some(variable.into()),
            ..ModelProfile::default()
        })
    };
    with("PATH").expect("every process has it");
    let error = with("ENSEMBLE_TEST_WITHOUT_THIS").expect_err("has no key").to_string();
    assert!(error.contains("ENSEMBLE_TEST_WITHOUT_THIS"), "{error}");
    let unknown = ModelProfile {
        provider: "nobody".into(),
        ..ModelProfile::default()
    };
    assert!(Dialogue::with_profile(unknown).is_err());
    assert!(Dialogue::with_model("ollama/llama3.2:1b").is_ok() && Dialogue::with_model("llama").is_err());
}

#[test]
fn a_dialogue_is_shown_with_its_model_and_its_tools() {
    let dialogue =
        Dialogue::with_simulated_replies(["x"]).with_tool_and_schema("half", "", number(), |_| async { Ok(()) });
    assert_eq!(
        format!("{dialogue:?}"),
        r#"Dialogue { models: ["model"], tools: {"half"}, .. }"#
    );
}
