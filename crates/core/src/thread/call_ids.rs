//! Ids of tool calls that occur once in a thread, so that each result belongs to one call.

use std::collections::HashSet;

use super::{Thread, ToolCall};

/// Largest length of an id before the suffix that makes it unique. OpenAI accepts 40 characters.
const MAX_ID_STEM: usize = 34;

/// Changes the ids of calls whose id is used by an earlier call of the threads or of the same reply.
pub fn make_call_ids_unique(calls: &mut [ToolCall], threads: [&Thread; 2]) {
    if calls.is_empty() {
        return;
    }
    let earlier = threads.into_iter().flat_map(Thread::iterations);
    let mut used_ids: HashSet<String> = earlier
        .flat_map(|iteration| &iteration.tool_calls)
        .map(|call| call.id.clone())
        .collect();
    for call in calls {
        call.id = find_unused_id(&call.id, &used_ids);
        used_ids.insert(call.id.clone());
    }
}

/// Returns the id, or the id with a number if the id is used.
pub(crate) fn find_unused_id(id: &str, used_ids: &HashSet<String>) -> String {
    if !used_ids.contains(id) {
        return id.to_owned();
    }
    let begin: String = id.chars().take(MAX_ID_STEM).collect();
    let mut numbered = (2_u64..).map(|number| format!("{begin}_{number}"));
    numbered.find(|id| !used_ids.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_occurs_once_in_a_thread() {
        let calls =
            |ids: &[&str]| -> Vec<ToolCall> { ids.iter().map(|id| ToolCall::new(*id, "t", json!({}))).collect() };
        let thread = |ids: &[&str]| {
            Thread::new("Hi", None, DateTime::UNIX_EPOCH)
                .add_assistant_message("", calls(ids))
                .expect("fits")
        };
        let mut new = calls(&["a", "a", "b", "c", "c", &"x".repeat(40)]);
        make_call_ids_unique(&mut new, [&thread(&["a", "a_2"]), &thread(&["c_2", &"x".repeat(40)])]);
        let ids: Vec<&str> = new.iter().map(|call| &*call.id).collect();
        let long = format!("{}_2", "x".repeat(MAX_ID_STEM));
        assert_eq!(ids, ["a_3", "a_4", "b", "c", "c_3", &long]);
    }
}
