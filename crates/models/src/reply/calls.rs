//! The tool calls of a reply while their pieces arrive.
//!
//! Servers differ in what they say of a piece: OpenAI gives an index, some give the same index to every call, some none,
//! and some repeat id and name with every piece. A piece begins a new call unless it can only continue one.

use serde_json::{Map, Value};

use ensemble_core::thread::{StopReason, ToolCall, ToolCallEnd};

/// Error for the model about a call whose arguments are incomplete.
const CUT_OFF_CALL_ERROR: &str = "the call was cut off at the token limit of a reply and was not made; make it again with shorter \
     arguments, or in several calls";

/// Tool call that is being assembled.
#[derive(Debug, Default)]
pub(crate) struct PartialCall {
    /// The index that its pieces have, if they have one.
    index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The JSON text of the arguments so far.
    pub(crate) arguments: String,
    pub(crate) signatures: Vec<String>,
}

/// Piece of a streamed tool call. Missing fields are empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a str,
}

/// Tool calls that are being assembled, in the order of their starts.
#[derive(Debug, Default)]
pub(crate) struct PartialCalls(Vec<PartialCall>);

impl PartialCalls {
    /// Adds an empty call. Later pieces with this index belong to the call.
    pub(crate) fn start_call(&mut self, index: Option<u64>) -> &mut PartialCall {
        self.0.push(PartialCall {
            index,
            ..PartialCall::default()
        });
        self.0.last_mut().expect("one was added")
    }

    /// Returns the latest call with this index, or adds one.
    pub(crate) fn call_at_index_or_new(&mut self, index: u64) -> &mut PartialCall {
        match self.0.iter().rposition(|call| call.index == Some(index)) {
            Some(at) => &mut self.0[at],
            None => self.start_call(Some(index)),
        }
    }

    /// Appends a piece to the call that it continues, or to a new call. Returns the call.
    pub(crate) fn add_piece(&mut self, piece: CallPiece<'_>) -> &mut PartialCall {
        let call = match self.find_continued_call(piece) {
            Some(at) => &mut self.0[at],
            None => self.start_call(piece.index),
        };
        if !piece.id.is_empty() {
            call.id = piece.id.to_owned();
        }
        if !piece.name.is_empty() {
            call.name = piece.name.to_owned();
        }
        call.arguments.push_str(piece.arguments);
        call
    }

    /// Finds the position of the call that the piece continues. Returns `None` for a new call.
    fn find_continued_call(&self, piece: CallPiece<'_>) -> Option<usize> {
        let nameless_or_same = |call: &PartialCall| piece.id.is_empty() || call.id.is_empty() || call.id == piece.id;
        let at = match (piece.index, piece.id) {
            (Some(index), _) => self.0.iter().rposition(|call| call.index == Some(index))?,
            (None, "") => self.0.len().checked_sub(1)?,
            (None, id) => match self.0.iter().rposition(|call| call.id == id) {
                Some(at) => at,
                None => self.0.len().checked_sub(1)?,
            },
        };
        let call = &self.0[at];
        (nameless_or_same(call) && !starts_call_with_same_id(call, piece)).then_some(at)
    }

    /// Converts the calls of a complete reply, and returns the names of calls that were cut off, too.
    ///
    /// Calls without an id get one that depends only on the request.
    pub(crate) fn into_calls_and_cut_names(
        self,
        request_number: u64,
        stop: StopReason,
    ) -> (Vec<ToolCall>, Vec<String>) {
        let mut cut_off = Vec::new();
        let calls = self.0.into_iter().filter(|call| !call.name.is_empty());
        let mut finish = |(at, call): (usize, PartialCall)| {
            let id = match call.id.is_empty() {
                true => format!("call_{request_number}_{at}"),
                false => call.id,
            };
            let is_cut_off = stop == StopReason::MaxTokens && parse_json(&call.arguments).is_none();
            let mut finished = ToolCall::new(id, call.name, parse_arguments_or_text(call.arguments));
            if is_cut_off {
                cut_off.push(finished.name.clone());
                finished.end = Some(ToolCallEnd::Error(CUT_OFF_CALL_ERROR.to_owned()));
            }
            finished.signatures = call.signatures;
            finished
        };
        let calls = (1..).zip(calls).map(&mut finish).collect();
        (calls, cut_off)
    }
}

/// Returns whether the piece belongs to another call with the same index and id.
fn starts_call_with_same_id(call: &PartialCall, piece: CallPiece<'_>) -> bool {
    if piece.name.is_empty() || call.name.is_empty() {
        return false;
    }
    piece.name != call.name || (!piece.arguments.is_empty() && parse_json(&call.arguments).is_some())
}

/// Parses the text as JSON. Returns `None` if it is incomplete.
fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok()
}

/// Parses the arguments. Keeps text that is not JSON as text, which becomes an error for the model.
fn parse_arguments_or_text(text: String) -> Value {
    match text.trim() {
        "" | "null" => Value::Object(Map::new()),
        given => serde_json::from_str(given).unwrap_or(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A piece: index, id, name, arguments.
    type Row<'a> = (Option<u64>, &'a str, &'a str, &'a str);

    fn finished(rows: &[Row<'_>]) -> Vec<(String, Value)> {
        let mut calls = PartialCalls::default();
        for (index, id, name, arguments) in rows {
            calls.add_piece(CallPiece {
                index: *index,
                id,
                name,
                arguments,
            });
        }
        let (calls, cut_off) = calls.into_calls_and_cut_names(1, StopReason::EndTurn);
        assert_eq!(cut_off, Vec::<String>::new());
        calls.into_iter().map(|call| (call.id, call.arguments)).collect()
    }

    #[test]
    fn each_call_is_itself_however_its_pieces_are_marked() {
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        let both = |one: &str, other: &str| vec![(one.to_owned(), a.clone()), (other.to_owned(), b.clone())];
        let of = |index: Option<u64>, ids: [&'static str; 2]| {
            [(index, ids[0], "add", "{\"a\":1}"), (index, ids[1], "add", "{\"b\":2}")]
        };
        assert_eq!(finished(&of(Some(0), ["x", "y"])), both("x", "y"), "one index");
        assert_eq!(finished(&of(None, ["x", "y"])), both("x", "y"), "no index");
        assert_eq!(finished(&of(Some(0), ["x", "x"])), both("x", "x"), "one index, one id");
        assert_eq!(finished(&of(None, ["x", "x"])), both("x", "x"), "one id");
        assert_eq!(
            finished(&of(Some(0), ["", ""])),
            both("call_1_1", "call_1_2"),
            "one index, no id"
        );
        assert_eq!(finished(&of(None, ["", ""])), both("call_1_1", "call_1_2"), "neither");
        let other_tool = [(Some(0), "", "now", ""), (Some(0), "", "add", "{\"a\":1}")];
        let expected = vec![("call_1_1".to_owned(), json!({})), ("call_1_2".to_owned(), a.clone())];
        assert_eq!(finished(&other_tool), expected, "another tool");
    }

    #[test]
    fn pieces_of_one_call_stay_together() {
        let whole = vec![("x".to_owned(), json!({"a": 1}))];
        let rows: [&[Row<'_>]; 6] = [
            &[
                (Some(0), "x", "add", ""),
                (Some(0), "", "", "{\"a\""),
                (Some(0), "", "", ":1}"),
            ],
            &[(Some(0), "x", "add", "{\"a\""), (Some(0), "x", "add", ":1}")],
            &[(None, "x", "add", "{\"a\""), (None, "x", "add", ":1}")],
            &[(None, "x", "add", "{\"a\""), (None, "", "", ":1}")],
            &[(None, "x", "add", "{\"a\":1}"), (None, "x", "add", "")],
            &[(Some(0), "", "add", ""), (Some(0), "x", "", "{\"a\":1}")],
        ];
        for rows in rows {
            assert_eq!(finished(rows), whole, "{rows:?}");
        }
        let mixed = [
            (Some(0), "x", "add", "{\"a\""),
            (Some(1), "y", "add", "{\"b\""),
            (Some(0), "", "", ":1}"),
            (Some(1), "", "", ":2}"),
        ];
        let expected = vec![("x".to_owned(), json!({"a": 1})), ("y".to_owned(), json!({"b": 2}))];
        assert_eq!(finished(&mixed), expected);
    }

    #[test]
    fn only_what_the_token_limit_has_cut_is_cut_off() {
        for (stop, text, is_cut_off) in [
            (StopReason::MaxTokens, "{\"a\":", true),
            (StopReason::MaxTokens, "", true),
            (StopReason::MaxTokens, "{\"a\":1}", false),
            (StopReason::EndTurn, "{\"a\":", false),
        ] {
            let mut calls = PartialCalls::default();
            calls.add_piece(CallPiece {
                name: "add",
                arguments: text,
                ..CallPiece::default()
            });
            let (calls, cut_off) = calls.into_calls_and_cut_names(1, stop);
            assert_eq!(
                (calls[0].end.is_some(), cut_off.len() == 1),
                (is_cut_off, is_cut_off),
                "{stop:?} {text}"
            );
        }
    }
}
