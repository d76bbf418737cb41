//! Streams with unusual events, and the reasons for which replies end.

use super::*;

/// Returns the reply that a stream of these bytes makes, in pieces of this size.
fn stream(provider: &str, bytes: &str, piece: usize, max_tokens: Option<u64>) -> Result<ModelReply, ReplyError> {
    let limits = ReplyCutOffLimits {
        max_tokens,
        context_length: None,
    };
    stream_with_limits(provider, bytes, piece, limits)
}

fn stream_with_limits(
    provider: &str,
    bytes: &str,
    piece: usize,
    limits: ReplyCutOffLimits,
) -> Result<ModelReply, ReplyError> {
    let known = ensemble::HttpProvider::find_by_name(provider).expect("is known");
    let dialect = dialect_for_api(known.dialect);
    let mut assembly = ReplyAssembly::new(&|_| {});
    let mut frames = EventSplitter::new(dialect.reply_event_framing());
    for piece in bytes.as_bytes().chunks(piece) {
        frames.feed_bytes(piece, &mut |event| {
            apply_known_stream_event(event, dialect, &mut assembly)
        })?;
    }
    apply_last_stream_event(frames, dialect, &mut assembly)?;
    assembly.into_complete_reply(1, limits)
}

/// Returns the events of a reply `Hi.` with this end reason, without the last event of a stream.
fn events(provider: &str, reason: &str) -> Vec<String> {
    let events = match provider {
        "openai" => vec![
            json!({"choices": [{"delta": {"content": "Hi."}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": reason, "error": {"message": "so it is"}}]}),
        ],
        "anthropic" => vec![
            json!({"type": "content_block_delta", "index": 0, "delta": {"text": "Hi."}}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_details": {"explanation": "so it is"}}}),
        ],
        "gemini" => vec![
            json!({"candidates": [{"content": {"parts": [{"text": "Hi."}]}}]}),
            json!({"candidates": [{"finishReason": reason, "finishMessage": "so it is"}]}),
        ],
        _ => vec![
            json!({"message": {"content": "Hi."}, "done": false}),
            json!({"message": {"content": ""}, "done": true, "done_reason": reason}),
        ],
    };
    events.iter().map(Value::to_string).collect()
}

const PROVIDERS: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];

#[test]
fn what_is_no_event_of_the_dialect_is_ignored() {
    let noise = [
        "data:\n\n",
        "data\n\n",
        "data: \n\n",
        ": comment\n\n",
        "data: : comment\n\n",
        "event: ping\ndata: now\n\n",
        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "event: custom.progress\ndata: {\"error\": \"no error\", \"percent\": 3}\n\n",
        "id: 7\nretry: 100\n\n",
    ];
    for provider in PROVIDERS {
        let is_lines = provider == "ollama";
        let frame = |event: &String| match is_lines {
            true => format!("{event}\n"),
            false => format!("data: {event}\n\n"),
        };
        let reply = events(provider, "stop");
        let noise: &[&str] = if is_lines { &["\n", ": comment\n"] } else { &noise };
        for one in noise {
            let text = format!("\u{feff}{one}{}{one}{}{one}", frame(&reply[0]), frame(&reply[1]));
            for text in [text.clone(), text.replace('\n', "\r"), text.replace('\n', "\r\n")] {
                for piece in [1, 7, text.len()] {
                    let said = stream(provider, &text, piece, None);
                    assert_eq!(said.map(|said| said.text).as_deref(), Ok("Hi."), "{provider} {text:?}");
                }
            }
        }
    }
}

#[test]
fn a_stream_with_an_end_reason_needs_no_last_event() {
    for provider in PROVIDERS {
        let prefix = if provider == "ollama" { "" } else { "data: " };
        let all: String = events(provider, "stop")
            .iter()
            .map(|event| format!("{prefix}{event}\n\n"))
            .collect();
        for end in [
            "",
            "data: [DONE]\n\n",
            "data: [done]\n\n",
            "data:[Done]",
            "data: {\"usa",
        ] {
            let end = end.replace("data: ", prefix);
            let said = stream(provider, &format!("{all}{end}"), 5, None);
            assert_eq!(said.map(|said| said.text).as_deref(), Ok("Hi."), "{provider} {end:?}");
        }
        let first = format!("{prefix}{}\n\n", events(provider, "stop")[0]);
        assert_eq!(stream(provider, &first, 5, None), Err(ReplyError::CutOff), "{provider}");
    }
    let all: String = events("openai", "")
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let said = stream("openai", &format!("{all}data: [Done]\n\n"), 5, None).expect("a reply");
    assert_eq!((&*said.text, said.stop_reason), ("Hi.", StopReason::EndTurn));
}

#[test]
fn an_end_reason_that_is_not_known_is_never_silent() {
    for provider in PROVIDERS {
        let all = |reason: &str| -> String {
            let prefix = if provider == "ollama" { "" } else { "data: " };
            events(provider, reason)
                .iter()
                .map(|event| format!("{prefix}{event}\n\n"))
                .collect()
        };
        let said = stream(provider, &all("bored"), 99, None).expect("a reply");
        let warning = said.warnings.first().expect("a warning");
        assert!(warning.contains("`bored`"), "{provider}: {warning}");
        assert_eq!(warning.contains("so it is"), provider != "ollama", "{warning}");
        let empty = stream(provider, &all("bored").replace("Hi.", ""), 99, None);
        assert!(
            matches!(&empty, Err(ReplyError::ReportedByProvider { message, retryable: true }) if message.contains("`bored`")),
            "{provider}: {empty:?}"
        );
        let failed = stream(provider, &all("error"), 99, None);
        assert!(
            matches!(failed, Err(ReplyError::ReportedByProvider { retryable: true, .. })),
            "{provider}: {failed:?}"
        );
        for complete in ["stop", "STOP", "end_turn", "tool_calls", "stop_sequence"] {
            let said = stream(provider, &all(complete), 99, None).expect("a reply");
            assert_eq!(said.warnings, Vec::<String>::new(), "{provider} {complete}");
        }
    }
}

#[test]
fn a_larger_limit_is_advised_only_where_it_helps() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 50}});
    let cut = |reason: &str, max_tokens, context_length| {
        let all: Vec<String> = [events("openai", reason), vec![usage.to_string()]].concat();
        let text: String = all.iter().map(|event| format!("data: {event}\n\n")).collect();
        let limits = ReplyCutOffLimits {
            max_tokens,
            context_length,
        };
        let said = stream_with_limits("openai", &text, 99, limits).expect("a reply");
        assert_eq!(said.stop_reason, StopReason::MaxTokens, "{reason}");
        said.warnings.concat()
    };
    // The request has 9 tokens, and the reply 50.
    for (reason, max_tokens, context_length, is_advised) in [
        ("length", None, None, true),
        ("length", Some(50), None, true),
        ("length", Some(51), None, false),
        ("length", None, Some(59), false),
        ("length", Some(50), Some(59), false),
        ("length", Some(50), Some(60), true),
        ("model_context_window_exceeded", None, None, false),
        ("context_length_exceeded", Some(50), None, false),
    ] {
        let advice = cut(reason, max_tokens, context_length);
        assert_eq!(
            advice.contains("raise `max_tokens`"),
            is_advised,
            "{reason} {max_tokens:?}: {advice}"
        );
        assert_eq!(
            advice.contains("does not help"),
            !is_advised,
            "{reason} {max_tokens:?}: {advice}"
        );
    }
}
