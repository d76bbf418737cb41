//! How long a chain waits, for whom, and what it says of it; and what an answer costs.

use futures_util::FutureExt;

use super::*;
use crate::policy::reply_forwarder::LiveReplyForwarder;
use ensemble_core::thread::{LiveOutputReceiver, LiveUpdate};
use ensemble_language::ensemble::TokenPrice;

/// Always fails so, at once.
struct Failing(ModelError);

impl ModelProvider for Failing {
    fn complete_request<'a>(
        &'a self,
        _: ModelRequest,
        _: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

fn link(provider: &str) -> ChainedProfile {
    let profile = ModelProfile {
        provider: provider.into(),
        ..ModelProfile::default()
    };
    ChainedProfile {
        name: "a".into(),
        profile: Arc::new(profile),
    }
}

fn query<'a>(ask: &'a ModelQuery, network: &'a ModelNetwork) -> ChainQuery<'a> {
    ChainQuery {
        ask,
        network,
        replies: LiveReplyForwarder::new(&ask.source, &IgnoredLiveOutput),
        warnings: Vec::new(),
    }
}

fn busy(seconds: Option<u64>) -> ModelError {
    ModelError {
        retry_after: seconds.map(Duration::from_secs),
        ..ModelError::new_retryable("busy")
    }
}

#[test]
fn a_provider_is_waited_for_longer_where_there_is_no_fallback() {
    let (ask, network, link) = (ask(0), ModelNetwork::default(), link("openai"));
    for (seconds, with_fallback, alone) in [
        (60, true, true),
        (61, false, true),
        (300, false, true),
        (301, false, false),
    ] {
        let waits = |is_last| {
            let (query, provider) = (query(&ask, &network), Failing(busy(None)));
            let attempts = query.new_attempts(&link, &provider, is_last);
            let pause = query.retry_pause(&attempts, &busy(Some(seconds)));
            pause.map(|pause| pause.as_secs())
        };
        assert_eq!(waits(false), with_fallback.then_some(seconds));
        assert_eq!(waits(true), alone.then_some(seconds));
    }
}

#[test]
fn pauses_before_real_providers_are_spread() {
    let ask = ask(0);
    let retry = RetryPolicy {
        delay: Duration::from_secs(4),
        ..RetryPolicy::default()
    };
    for (chance, provider, expected) in [
        (0.0, "openai", 3.0),
        (1.0, "openai", 5.0),
        (0.0, "simulated", 4.0),
        (1.0, "simulated", 4.0),
    ] {
        let network = ModelNetwork::new(|_| None, || chrono::DateTime::UNIX_EPOCH, move || chance);
        let mut link = link(provider);
        Arc::make_mut(&mut link.profile).retry = Some(retry.clone());
        let (query, failing) = (query(&ask, &network), Failing(busy(None)));
        let pause = query.retry_pause(&query.new_attempts(&link, &failing, true), &busy(None));
        assert_eq!(pause.map(|pause| pause.as_secs_f64()), Some(expected), "{provider}");
    }
}

#[tokio::test]
async fn a_long_pause_is_told_before_it_begins() {
    let (ask, network, link) = (ask(0), ModelNetwork::default(), link("openai"));
    for (seconds, told) in [
        (4, vec![]),
        (
            5,
            vec!["model profile `a` failed, and the request was repeated after 5 s (busy)"],
        ),
    ] {
        let mut query = query(&ask, &network);
        let provider = Failing(busy(Some(seconds)));
        let waits = query
            .request_until_final_error(0, &link, &provider, true)
            .now_or_never();
        assert_eq!(waits, None);
        assert_eq!(query.warnings, told);
    }
}

#[tokio::test]
async fn whoever_listens_is_told_that_the_reply_begins_anew() {
    #[derive(Default)]
    struct Ear(Mutex<Vec<String>>);
    impl LiveOutputReceiver for Ear {
        fn receive_update(&self, _: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
            let heard = match update {
                LiveUpdate::Text(text) => text.to_owned(),
                LiveUpdate::Retrying { error, .. } => format!("pause: {error}"),
                _ => "again".to_owned(),
            };
            self.0.lock().unwrap().push(heard);
        }
    }
    let ear = Ear::default();
    let links = vec![
        ("a", 2, vec![(1, true), (2, true)], ModelProfile::default()),
        ("b", 1, vec![], ModelProfile::default()),
    ];
    let asked = setup(links).model.answer_query(ask(0), &ear).await;
    assert_eq!(
        *ear.0.lock().unwrap(),
        ["a 1", "again", "pause: error 1", "a 2", "again", "b 3"]
    );
    assert_eq!(
        asked.warnings,
        [
            "model profile `a` failed (error 2; it was the last of 2 requests (`retry` of model profile `a`)); its fallback `b` answered",
            "model profile `a` failed during its reply, and the request was repeated (error 1)"
        ]
    );
}

#[tokio::test]
async fn an_answer_has_the_price_of_the_profile_that_gave_it() {
    let priced = |input_per_million| ModelProfile {
        cost: Some(TokenPrice {
            cached_per_million: None,
            input_per_million,
            output_per_million: 0.0,
        }),
        ..ModelProfile::default()
    };
    let links = |fails| vec![("a", 1, fails, priced(1.0)), ("b", 1, vec![], priced(2.0))];
    for (fails, expected) in [(vec![], 1.0), (vec![(1, false)], 2.0)] {
        let asked = setup(links(fails)).model.answer_query(ask(0), &IgnoredLiveOutput).await;
        assert_eq!(asked.price.map(|price| price.input_per_million), Some(expected));
    }
}
