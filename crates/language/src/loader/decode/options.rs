//! `options` of a profile: what goes into the body of a request as it is written.

use crate::data::JsonMap;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::loader::document::YamlContent;
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::value_decoders::NodeCursor;

/// Keys that the program sets, in the spelling of each provider, and what to write instead.
const PROGRAM_SET_OPTIONS: &[(&[&str], &str)] = &[
    (&["model"], "write `model` in the profile, outside of `options`"),
    (
        &[
            "messages",
            "contents",
            "system",
            "systemInstruction",
            "system_instruction",
        ],
        "write the agent's `prompt` and `system_prompt`, or the profile's `system_prompt`",
    ),
    (
        &["stream", "stream_options"],
        "remove it; replies are always streamed if the provider supports streaming",
    ),
    (
        &["n", "candidateCount"],
        "remove it; an agent with `for_each: {times: 3}` sends three requests",
    ),
    (
        &["tools", "functions", "functionDeclarations"],
        "write the agent's `tools`",
    ),
    (
        &["temperature"],
        "write `temperature` in the profile, outside of `options`",
    ),
    (&["top_p", "topP"], "write `top_p` in the profile, outside of `options`"),
    (&["seed"], "write `seed` in the profile, outside of `options`"),
    (
        &["max_tokens", "max_completion_tokens", "maxOutputTokens", "num_predict"],
        "write `max_tokens` in the profile, outside of `options`",
    ),
    (
        &[
            "response_format",
            "format",
            "responseMimeType",
            "responseSchema",
            "responseJsonSchema",
        ],
        "write the agent's `output_schema`",
    ),
];

/// Maps of a request in which the program sets some keys, and in which further keys can be written.
const SHARED_OPTION_MAPS: [&str; 3] = ["options", "generationConfig", "output_config"];

/// Decodes `options` of a profile. Reports keys that the program sets.
pub(super) fn decode_options(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<JsonMap> {
    let mut sound = true;
    for (key, entry) in at.require_entries("a map from parameters of the provider to values", findings)? {
        sound &= check_option_key(key, &entry, findings);
        if SHARED_OPTION_MAPS.contains(&&**key) && matches!(entry.node.content, YamlContent::Mapping(_)) {
            for (key, inner) in entry.require_entries("a map", findings)? {
                sound &= check_option_key(key, &inner, findings);
            }
        }
    }
    json::decode_json_map(at, findings).filter(|_| sound)
}

/// Returns whether users may set the key, and reports a key that the program sets.
fn check_option_key(key: &str, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> bool {
    let Some((_, help)) = PROGRAM_SET_OPTIONS.iter().find(|(keys, _)| keys.contains(&key)) else {
        return true;
    };
    let message = format!("the program itself sets `{key}` in every request");
    findings.push(Finding::new_error(codes::OPTION_OF_PROGRAM, at.key_location(), message).with_help(*help));
    false
}
