//! The lines about the tool calls of a model.

use super::OUTPUT_INDENT;
use crate::report::console::{render_call_line, render_result_line};
use crate::report::format::DIM;
use crate::report::wrap::LineWidth;
use ensemble_core::conversation::ExecutionFinished;

/// Renders one line for each call and each result. `whole` renders them completely, with the texts next to the calls.
pub(super) fn render_tool_calls(finished: &ExecutionFinished, whole: bool, width: LineWidth) -> String {
    let mut text = String::new();
    for iteration in &finished.exchange {
        if let Some(message) = iteration.text_beside_tool_calls().filter(|_| whole) {
            text.push_str(&width.wrap_block(message.trim_end(), OUTPUT_INDENT));
        }
        for call in &iteration.tool_calls {
            let (called, ended) = (render_call_line(call, whole), render_result_line(call, whole));
            let lines = format!("    {DIM}→ {called}{DIM:#}\n    {DIM}← {ended}{DIM:#}\n");
            text.push_str(&width.wrap_sentences(&lines));
        }
    }
    text
}
