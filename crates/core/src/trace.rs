//! Where an execution stands in a trace: ids that follow from the journal, and the context that is passed on to whatever an execution
//! calls (W3C Trace Context).
//!
//! A *segment* of a run is what one `run_started`, `run_resumed` or `message_added` begins. Each segment is a trace, or a part of the
//! trace in which the program was started. The context of the execution under way belongs to its task, as in all implementations
//! of OpenTelemetry, and there is none where no telemetry was asked for.
//!
//! Invariant: without telemetry there is none, and nothing that is called is told of one.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use ensemble_language::data::sha256_of_text;
use serde::{Deserialize, Serialize};

/// Largest number of bytes of a `tracestate` that is passed on. Longer texts are dropped.
const MAX_TRACE_STATE: usize = 512;

tokio::task_local! {
    /// Span of the current task.
    static CURRENT: SpanContext;
}

/// Position in an external trace, as the headers `traceparent` and `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TraceParent {
    /// `00-TRACE-SPAN-FLAGS`.
    pub parent: Arc<str>,
    /// `tracestate`, unread.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub state: Arc<str>,
}

/// The ids of a span of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: [u8; 8],
    /// Is the trace recorded?
    pub is_sampled: bool,
    /// `tracestate`, unread.
    pub state: Arc<str>,
}

impl TraceParent {
    /// Parses the position. Returns `None` if `parent` is not a valid `traceparent`. Drops an invalid `state`.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let state = state
            .map(str::trim)
            .filter(|state| is_valid_trace_state(state))
            .unwrap_or_default();
        let parsed = Self {
            parent: parent.trim().into(),
            state: state.into(),
        };
        parsed.to_span_context().is_some().then_some(parsed)
    }

    /// Parses the ids of the span. Returns `None` if the text is invalid.
    pub fn to_span_context(&self) -> Option<SpanContext> {
        let mut parts = self.parent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version: [u8; 1] = parse_lowercase_hex(version)?;
        let flags: [u8; 1] = parse_lowercase_hex(flags)?;
        // Later versions may have more parts.
        if version[0] == 0xff || (version[0] == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span) = (parse_lowercase_hex::<16>(trace)?, parse_lowercase_hex::<8>(span)?);
        (trace != [0; 16] && span != [0; 8]).then(|| SpanContext {
            trace,
            span,
            is_sampled: flags[0] & 1 == 1,
            state: self.state.clone(),
        })
    }
}

impl From<&SpanContext> for TraceParent {
    fn from(context: &SpanContext) -> Self {
        Self {
            parent: context.to_string().into(),
            state: context.state.clone(),
        }
    }
}

/// As `traceparent`.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{}-{}-{flags:02x}", to_hex(&self.trace), to_hex(&self.span))
    }
}

impl SpanContext {
    /// Creates the span of the segment that the record `seq` of this run starts: inside `parent`, or in a new trace.
    pub fn for_segment(run_id: &str, seq: u64, parent: Option<&Self>) -> Self {
        let place = format!("run {run_id} {seq}");
        match parent {
            Some(parent) => parent.child_span(&place),
            None => Self {
                trace: parse_digest_prefix(&sha256_of_text(&format!("trace {place}"))),
                span: parse_digest_prefix(&sha256_of_text(&place)),
                is_sampled: true,
                state: "".into(),
            },
        }
    }

    /// Creates the span of an execution of an agent in this segment.
    #[must_use]
    pub fn execution_span(&self, agent: &str, execution: u32) -> Self {
        self.child_span(&format!("execution {execution} {agent}"))
    }

    /// Creates a span inside this span. `place` is the name from which the span id is computed.
    #[must_use]
    pub fn child_span(&self, place: &str) -> Self {
        let span_key = format!("{} {} {place}", to_hex(&self.trace), to_hex(&self.span));
        Self {
            span: parse_digest_prefix(&sha256_of_text(&span_key)),
            ..self.clone()
        }
    }
}

/// Returns the span of the current task. Returns `None` without telemetry.
pub fn current_task_span() -> Option<SpanContext> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs the future as a part of the span, or without a span if `context` is `None`.
pub async fn run_in_span<F: Future>(context: Option<SpanContext>, future: F) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
}

/// Formats the bytes as lowercase hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Parses the first `N` bytes of a hexadecimal digest.
fn parse_digest_prefix<const N: usize>(digest: &str) -> [u8; N] {
    parse_lowercase_hex(&digest[..2 * N]).unwrap_or([1; N])
}

/// Parses exactly `N` bytes in lowercase hexadecimal digits.
fn parse_lowercase_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let is_small_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(is_small_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Returns whether the text can be a header value: printable ASCII of limited length.
fn is_valid_trace_state(text: &str) -> bool {
    text.len() <= MAX_TRACE_STATE && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_standard_calls_valid_is_read_and_nothing_else() {
        let read = |text: &str| TraceParent::parse(text, None).and_then(|parent| parent.to_span_context());
        assert_eq!(read(PARENT).expect("valid").to_string(), PARENT);
        let not_sampled = PARENT.replace("-01", "-00");
        assert!(!read(&not_sampled).expect("valid").is_sampled);
        let later = format!("01{}-more", &PARENT[2..]);
        assert_eq!(read(&later).expect("valid").to_string(), PARENT);
        let wrong = [
            "".to_owned(),
            PARENT.to_uppercase(),
            format!("{PARENT}-more"),
            format!("ff{}", &PARENT[2..]),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            PARENT.replace("-01", "-1"),
            PARENT.replace("-01", ""),
            PARENT.replace("b7-", "é-"),
        ];
        for text in wrong {
            assert_eq!(read(&text), None, "{text}");
        }
    }

    #[test]
    fn a_state_that_is_no_header_is_left_out() {
        let state = |text: &str| TraceParent::parse(PARENT, Some(text)).expect("valid").state;
        assert_eq!(&*state(" a=1,b=2 "), "a=1,b=2");
        assert_eq!(&*state("a=1\nb: 2"), "");
        assert_eq!(&*state(&"a".repeat(513)), "");
    }

    #[test]
    fn ids_follow_from_the_place_and_differ_between_places() {
        let run = SpanContext::for_segment("r", 0, None);
        assert_eq!(run, SpanContext::for_segment("r", 0, None));
        let inner = SpanContext::for_segment("r", 0, Some(&run));
        assert_eq!(inner.trace, run.trace);
        let mut spans = vec![
            run.span,
            inner.span,
            SpanContext::for_segment("r", 1, None).span,
            SpanContext::for_segment("s", 0, None).span,
            run.execution_span("a", 1).span,
            run.execution_span("a", 2).span,
            run.execution_span("b", 1).span,
            inner.execution_span("a", 1).span,
        ];
        let count = spans.len();
        spans.sort_unstable();
        spans.dedup();
        assert_eq!(spans.len(), count);
    }

    #[tokio::test]
    async fn the_span_belongs_to_the_task_that_works_in_it() {
        assert_eq!(current_task_span(), None);
        let run = SpanContext::for_segment("r", 0, None);
        let inside = run_in_span(Some(run.clone()), async {
            (
                current_task_span(),
                run_in_span(None, async { current_task_span() }).await,
            )
        })
        .await;
        assert_eq!(inside, (Some(run.clone()), Some(run)));
        assert_eq!(current_task_span(), None);
    }
}
