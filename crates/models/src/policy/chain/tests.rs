mod pauses;

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::{BoxFuture, ModelRequest, ReplyPiece, ReplyPieceCallback};
use ensemble_core::thread::{IgnoredLiveOutput, Message, MessageRole};
use ensemble_language::ensemble::{ModelProfile, RetryBackoff, RetryPolicy};

/// Answers with its name and the number, or fails; tells what it was asked.
struct Fake {
    fails: Vec<(u64, bool)>,
    delay: Duration,
    seen: Arc<Mutex<Vec<ModelRequest>>>,
}

impl ModelProvider for Fake {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            let number = request.request_number;
            let text = format!("{} {number}", request.profile.model);
            on_piece(ReplyPiece::Text(&text));
            self.seen.lock().unwrap().push(request);
            match self.fails.iter().find(|(fails, _)| *fails == number) {
                Some((_, retryable)) => Err(ModelError {
                    retryable: *retryable,
                    ..ModelError::new_fatal(format!("error {number}"))
                }),
                None => Ok(ModelReply::from_text(text)),
            }
        })
    }
}

struct Setup {
    model: Model,
    seen: Arc<Mutex<Vec<ModelRequest>>>,
}

/// Name, attempts, the requests that fail (and whether they may be retried), and the rest of the profile.
type Spec = (&'static str, u32, Vec<(u64, bool)>, ModelProfile);

fn setup(links: Vec<Spec>) -> Setup {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let links = links.into_iter().map(|(name, attempts, fails, profile)| {
        let profile = ModelProfile {
            model: name.into(),
            retry: Some(RetryPolicy {
                max_attempts: NonZeroU32::new(attempts).unwrap(),
                delay: Duration::from_millis(5),
                backoff: RetryBackoff::Exponential,
            }),
            ..profile
        };
        let link = ChainedProfile {
            name: name.into(),
            profile: Arc::new(profile),
        };
        let delay = Duration::from_millis(if name == "slow" { 10_000 } else { 0 });
        let seen = Arc::clone(&seen);
        (link, Arc::new(Fake { fails, delay, seen }) as Arc<dyn ModelProvider>)
    });
    Setup {
        model: Model::with_providers(links.collect()),
        seen,
    }
}

fn ask(requests_made: u64) -> ModelQuery {
    ModelQuery {
        request_counter: Arc::default(),
        systems: vec![Some("first system".into()), Some("second system".into())],
        messages: vec![Message::new(MessageRole::User, "the task")],
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

fn text(asked: &ModelQueryResult) -> Result<&str, &str> {
    let result = asked.result.as_ref();
    result
        .map(|reply| reply.text.as_str())
        .map_err(|error| error.message.as_str())
}

#[tokio::test]
async fn numbering_goes_on_from_what_was_made_before() {
    let Setup { model, seen } = setup(vec![("a", 1, vec![], ModelProfile::default())]);
    let asked = model.answer_query(ask(4), &IgnoredLiveOutput).await;
    assert_eq!((text(&asked), asked.requests), (Ok("a 5"), 1));
    let request = &seen.lock().unwrap()[0];
    assert_eq!(&*request.prompt, "the task");
    assert_eq!(request.messages[0].content, "first system");
    assert_eq!(request.messages.len(), 2);
}

#[tokio::test]
async fn retries_honour_the_profile_and_count() {
    let fails = vec![(1, true), (2, true)];
    let Setup { model, .. } = setup(vec![("a", 3, fails.clone(), ModelProfile::default())]);
    let started = tokio::time::Instant::now();
    let asked = model.answer_query(ask(0), &IgnoredLiveOutput).await;
    assert_eq!((text(&asked), asked.requests), (Ok("a 3"), 3));
    assert!(started.elapsed() >= Duration::from_millis(15), "5 ms, then 10 ms");

    let Setup { model, .. } = setup(vec![("a", 2, fails, ModelProfile::default())]);
    let asked = model.answer_query(ask(0), &IgnoredLiveOutput).await;
    let told = "error 2; it was the last of 2 requests (`retry` of model profile `a`)";
    assert_eq!((text(&asked), asked.requests), (Err(told), 2));

    let Setup { model, .. } = setup(vec![("a", 3, vec![(1, false)], ModelProfile::default())]);
    let asked = model.answer_query(ask(0), &IgnoredLiveOutput).await;
    assert_eq!((text(&asked), asked.requests), (Err("error 1"), 1), "not worth a retry");
}

#[tokio::test]
async fn the_fallback_answers_with_its_own_instructions() {
    let links = vec![
        ("a", 1, vec![(1, false)], ModelProfile::default()),
        ("b", 1, vec![], ModelProfile::default()),
    ];
    let Setup { model, seen } = setup(links);
    let asked = model.answer_query(ask(0), &IgnoredLiveOutput).await;
    assert_eq!((text(&asked), asked.requests), (Ok("b 2"), 2));
    assert_eq!(
        asked.warnings,
        ["model profile `a` failed (error 1); its fallback `b` answered"]
    );
    assert_eq!(seen.lock().unwrap()[1].messages[0].content, "second system");
}

#[tokio::test]
async fn when_nobody_answers_all_errors_are_told() {
    let links = vec![
        ("a", 1, vec![(1, false)], ModelProfile::default()),
        ("b", 1, vec![(2, true)], ModelProfile::default()),
    ];
    let asked = setup(links).model.answer_query(ask(0), &IgnoredLiveOutput).await;
    assert_eq!((text(&asked), asked.requests), (Err("a: error 1; b: error 2"), 2));
    assert!(asked.result.is_err_and(|error| error.retryable), "b may answer later");
}

#[tokio::test]
async fn a_request_has_its_own_time_limit() {
    let limited = ModelProfile {
        timeout: Some(Duration::from_millis(20)),
        ..ModelProfile::default()
    };
    let asked = setup(vec![("slow", 1, vec![], limited)])
        .model
        .answer_query(ask(0), &IgnoredLiveOutput)
        .await;
    assert_eq!(text(&asked), Err("no reply within 0.02 s"));
}
