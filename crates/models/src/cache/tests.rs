use serde_json::{Value, json};

use super::*;
use crate::{ModelQuery, ModelQueryResult, RequestTokens, ToolSpec};
use ensemble_core::thread::{
    ExecutionAttemptRef, IgnoredLiveOutput, LiveUpdate, Message, MessageRole, StopReason, ToolCall, ToolCallEnd,
};
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::profiles::ChainedProfile;

/// Counts what it answers: `reply 1`, `reply 2`, … A text that begins with `fail` fails.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<u32>>);

impl ModelProvider for Counting {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        _: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        *self.0.lock().unwrap() += 1;
        let count = *self.0.lock().unwrap();
        Box::pin(async move {
            if request.prompt.starts_with("fail") {
                return Err(ModelError::new_fatal("down"));
            }
            Ok(ModelReply {
                tool_calls: vec![ToolCall::new("7", "look", json!({"at": 0.1}))],
                tokens: Some(RequestTokens {
                    input: 5,
                    cached: 1,
                    output: 3,
                }),
                stop_reason: StopReason::MaxTokens,
                ..ModelReply::from_text(format!("reply {count}"))
            })
        })
    }
}

fn profile() -> ModelProfile {
    ModelProfile {
        provider: "openai".into(),
        model: "m".into(),
        base_url: Some("https://me:secret-1@host/v1?key=secret-2".into()),
        api_key_env: Some("SECRET_3".into()),
        temperature: Some(0.7),
        ..ModelProfile::default()
    }
}

/// Returns a model of this profile as a new process would make it, and who stands behind the cache.
fn model_of(profile: ModelProfile, cache: &ReplyCache) -> (Model, Counting) {
    let counting = Counting::default();
    let link = ChainedProfile {
        name: "p".into(),
        profile: Arc::new(profile),
    };
    let model = Model::with_providers(vec![(link, Arc::new(counting.clone()))]);
    (model.with_cache(cache), counting)
}

fn model(cache: &ReplyCache) -> (Model, Counting) {
    model_of(profile(), cache)
}

fn ask(text: &str, requests_made: u64) -> ModelQuery {
    ModelQuery {
        request_counter: Arc::default(),
        systems: vec![Some("Be brief.".into())],
        messages: vec![Message::new(MessageRole::User, text)],
        source: ExecutionAttemptRef {
            run: "".into(),
            agent: "writer".into(),
            execution: 1,
            attempt: 1,
        },
        purpose: crate::RequestPurpose::Reply,
        requests_made,
        output_schema: None,
        tools: Arc::default(),
        clock: ensemble_core::stopwatch::Stopwatch::default(),
    }
}

async fn said(model: &Model, ask: ModelQuery) -> String {
    model
        .answer_query(ask, &IgnoredLiveOutput)
        .await
        .result
        .map_or_else(|error| error.message, |reply| reply.text)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    (folder, path)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_reply_is_kept_and_given_again_as_it_was() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    let (first, _) = model(&cache);
    let asked = first.answer_query(ask("Hello", 0), &IgnoredLiveOutput).await;
    let fresh = asked.result.unwrap();
    assert!(!fresh.cached);

    #[derive(Default)]
    struct Ear(Mutex<String>);
    impl ensemble_core::thread::LiveOutputReceiver for Ear {
        fn receive_update(&self, _: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
            if let LiveUpdate::Text(text) = update {
                self.0.lock().unwrap().push_str(text);
            }
        }
    }
    let ear = Ear::default();
    let (second, counting) = model(&ReplyCache::open_read_only(path.clone()).unwrap());
    let ModelQueryResult {
        result,
        requests,
        warnings,
        ..
    } = second.answer_query(ask("Hello", 0), &ear).await;
    let again = result.unwrap();
    assert_eq!((*counting.0.lock().unwrap(), requests, warnings), (0, 1, vec![]));
    assert_eq!(again, ModelReply { cached: true, ..fresh });
    assert_eq!(*ear.0.lock().unwrap(), "reply 1", "whoever listens hears it");

    let file = std::fs::read_to_string(&files(&path.join("writer"))[0]).unwrap();
    assert!(
        file.contains("\"content\": \"Hello\"") && file.ends_with("}\n"),
        "{file}"
    );
    assert!(!file.to_lowercase().contains("secret"), "{file}");
    assert!(file.contains("https://host/v1\""), "{file}");
}

#[tokio::test]
async fn whatever_changes_the_reply_changes_the_entry() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path).unwrap();
    let base = ask("Hello", 0);
    said(&model(&cache).0, base.clone()).await;
    let with_call = |end: &str, duration| {
        let call = ToolCall::new("1", "look", json!({})).with_end(ToolCallEnd::Result(json!(end)), duration);
        let reply = Message {
            tool_calls: vec![call],
            ..Message::new(MessageRole::Assistant, "")
        };
        ModelQuery {
            request_counter: Arc::default(),
            messages: vec![Message::new(MessageRole::User, "Hello"), reply],
            ..base.clone()
        }
    };
    said(&model(&cache).0, with_call("sun", 0.5)).await;
    let tool = ToolSpec {
        name: "look".into(),
        description: String::new(),
        parameters: json!({}),
    };
    let cold = |change: fn(&mut ModelProfile)| {
        let mut profile = profile();
        change(&mut profile);
        profile
    };
    let table = [
        (profile(), base.clone(), true),
        (profile(), with_call("sun", 0.9), true),
        (cold(|p| p.api_key_env = None), base.clone(), true),
        (
            cold(|p| p.base_url = Some("https://host/v1".into())),
            base.clone(),
            true,
        ),
        (profile(), with_call("rain", 0.5), false),
        (profile(), ask("Hello!", 0), false),
        (
            profile(),
            ModelQuery {
                request_counter: Arc::default(),
                systems: vec![None],
                ..base.clone()
            },
            false,
        ),
        (
            profile(),
            ModelQuery {
                request_counter: Arc::default(),
                tools: [tool].into(),
                ..base.clone()
            },
            false,
        ),
        (
            profile(),
            ModelQuery {
                request_counter: Arc::default(),
                output_schema: Some(Arc::new(json!({}))),
                ..base.clone()
            },
            false,
        ),
        (cold(|p| p.model = "n".into()), base.clone(), false),
        (cold(|p| p.provider = "ollama".into()), base.clone(), false),
        (cold(|p| p.base_url = None), base.clone(), false),
        (cold(|p| p.temperature = Some(0.71)), base.clone(), false),
        (cold(|p| p.top_p = Some(0.5)), base.clone(), false),
        (cold(|p| p.max_tokens = Some(9)), base.clone(), false),
        (cold(|p| p.seed = Some(1)), base.clone(), false),
    ];
    for (at, (profile, ask, expected)) in table.into_iter().enumerate() {
        let (model, _) = model_of(profile, &cache);
        let reply = model.answer_query(ask, &IgnoredLiveOutput).await.result.unwrap();
        assert_eq!(reply.cached, expected, "row {at}");
    }
    let mut other = ask("Hello", 0);
    other.source.agent = "critic".into();
    assert!(
        !model(&cache)
            .0
            .answer_query(other, &IgnoredLiveOutput)
            .await
            .result
            .unwrap()
            .cached,
        "each agent has its own"
    );
}

#[tokio::test]
async fn the_same_request_again_gets_the_reply_that_it_got_then() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    let (cold, _) = model(&cache);
    for number in 0..3 {
        assert_eq!(
            said(&cold, ask("Throw a die", number)).await,
            format!("reply {}", number + 1)
        );
    }
    let only = ReplyCache::open_read_only(path).unwrap();
    let (warm, _) = model(&only);
    for number in 0..3 {
        assert_eq!(
            said(&warm, ask("Throw a die", number)).await,
            format!("reply {}", number + 1)
        );
    }
    let exhausted = said(&warm, ask("Throw a die", 3)).await;
    assert!(
        exhausted.contains("was already used for the same request"),
        "{exhausted}"
    );
    // A process that goes on at the second request, as `resume` does.
    let (resumed, _) = model(&only);
    assert_eq!(said(&resumed, ask("Throw a die", 1)).await, "reply 2");
    // A run that has made a request more before: the numbers have shifted, the order has not.
    let (shifted, _) = model(&only);
    for (number, reply) in [(1, "reply 2"), (2, "reply 3"), (9, "reply 1")] {
        assert_eq!(said(&shifted, ask("Throw a die", number)).await, reply);
    }
    let (later, _) = model(&only);
    for number in 0..3 {
        assert_eq!(
            said(&later, ask("Throw a die", number + 50)).await,
            format!("reply {}", number + 1)
        );
    }
}

#[tokio::test]
async fn simulated_replies_are_not_kept() {
    let (_guard, path) = folder();
    let simulated = ModelProfile {
        provider: "simulated".into(),
        ..profile()
    };
    let (model, counting) = model_of(simulated, &ReplyCache::open_read_write(path.clone()).unwrap());
    said(&model, ask("Hello", 0)).await;
    said(&model, ask("Hello", 0)).await;
    assert_eq!((*counting.0.lock().unwrap(), path.exists()), (2, false));
}

#[tokio::test]
async fn failures_are_not_kept() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    let (model, counting) = model(&cache);
    assert_eq!(said(&model, ask("fail", 0)).await, "down");
    assert_eq!(said(&model, ask("fail", 1)).await, "down");
    assert_eq!(*counting.0.lock().unwrap(), 2);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_cache_alone_says_what_it_lacks_and_what_is_nearest() {
    let (_guard, path) = folder();
    assert!(ReplyCache::open_read_only(path.clone()).is_err(), "it is not made");
    std::fs::create_dir(&path).unwrap();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    let only = ReplyCache::open_read_only(path.clone()).unwrap();
    let (model_there, counting) = model(&only);
    let none = said(&model_there, ask("Hello", 0)).await;
    assert!(
        none.starts_with("the cache has no reply to request 1 of `writer`: there is no reply to this agent in"),
        "{none}"
    );
    said(&model(&cache).0, ask("Hello", 0)).await;
    said(&model(&cache).0, ask("What is the time?", 1)).await;
    let mut profile = profile();
    profile.temperature = None;
    let (colder, _) = model_of(profile, &only);
    let told = said(&colder, ask("Hello", 1)).await;
    assert!(told.ends_with("-1.json, differs in `temperature`"), "{told}");
    let told = said(&model_there, ask("Hello!", 0)).await;
    assert!(told.ends_with("-1.json, differs in `messages[1].content`"), "{told}");
    assert_eq!(*counting.0.lock().unwrap(), 0, "nobody was asked");
}

#[tokio::test]
async fn a_reply_that_was_given_without_the_schema_is_found() {
    let (_guard, path) = folder();
    said(
        &model(&ReplyCache::open_read_write(path.clone()).unwrap()).0,
        ask("Hello", 0),
    )
    .await;
    let with_schema = ModelQuery {
        output_schema: Some(Arc::new(json!({"type": "object"}))),
        ..ask("Hello", 0)
    };
    assert_eq!(
        said(&model(&ReplyCache::open_read_only(path).unwrap()).0, with_schema).await,
        "reply 1"
    );
}

#[tokio::test]
async fn a_damaged_entry_is_no_entry_and_is_mended() {
    let damages: [fn(&str) -> String; 4] = [
        |text| text[..text.len() / 2].to_owned(),
        |_| String::new(),
        |text| text.replace("\"version\": 1", "\"version\": 2"),
        |text| text.replace("\"stop_reason\": \"max_tokens\"", "\"stop_reason\": \"bored\""),
    ];
    for damage in damages {
        let (_guard, path) = folder();
        let cache = ReplyCache::open_read_write(path.clone()).unwrap();
        said(&model(&cache).0, ask("Hello", 0)).await;
        let file = files(&path.join("writer"))[0].clone();
        let sound = std::fs::read_to_string(&file).unwrap();
        let broken = damage(&sound);
        assert_ne!(broken, sound);
        std::fs::write(&file, &broken).unwrap();

        let (alone, _) = model(&ReplyCache::open_read_only(path.clone()).unwrap());
        let told = said(&alone, ask("Hello", 0)).await;
        assert!(
            told.contains("cannot be used") && told.contains("no reply to request 1"),
            "{told}"
        );

        let asked = model(&cache).0.answer_query(ask("Hello", 0), &IgnoredLiveOutput).await;
        assert!(!asked.result.unwrap().cached);
        assert!(asked.warnings[0].contains("cannot be used"), "{:?}", asked.warnings);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            sound,
            "it has been written anew"
        );
        assert_eq!(files(&path.join("writer")).len(), 1, "and nothing is left beside it");
    }
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_is_a_warning() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("writer"), "a file where the folder would be").unwrap();
    let asked = model(&cache).0.answer_query(ask("Hello", 0), &IgnoredLiveOutput).await;
    assert_eq!(asked.result.unwrap().text, "reply 1");
    let words = asked.warnings.join("\n");
    assert!(words.contains("cannot be written"), "{words}");
}

#[test]
fn differences_are_told_by_place() {
    let table = [
        (json!({"a": 1}), json!({"a": 1}), vec![]),
        (json!({"a": 1}), json!({"b": 1}), vec!["a", "b"]),
        (
            json!({"m": [{"c": "x"}]}),
            json!({"m": [{"c": "y"}, 2]}),
            vec!["m[0].c", "m[1]"],
        ),
    ];
    for (one, other, places) in table {
        assert_eq!(list_different_paths(&one, &other), places);
        assert_eq!(Value::is_null(&one), Value::is_null(&other));
    }
}

#[test]
fn inner_ensembles_have_folders_of_their_own() {
    let (_guard, path) = folder();
    let cache = ReplyCache::open_read_write(path.clone()).unwrap();
    assert_eq!(cache.for_nested_ensemble("panel").folder, path.join("panel"));
    assert_eq!(agent_folder_name("../x y"), ".._x_y");
    assert_eq!(agent_folder_name(".."), "_");
}
