//! `input`: a question for a person, and the source of answers instead of the person.

use super::decode_reference;
use crate::diagnostic::Finding;
use crate::ensemble::{PreparedResponses, QuestionSpec};
use crate::loader::codes;
use crate::loader::document::YamlContent;
use crate::loader::findings::LimitedFindingList;
use crate::loader::key_messages::{format_choices, quote_excerpt};
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{NodeCursor, decode_nonempty_list, decode_seconds, decode_text};
use crate::vocabulary::FileSection;

/// Decodes `input`: a map, or only the question.
pub(super) fn decode_input(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<QuestionSpec> {
    if at.node.string_text().is_some() {
        return Some(QuestionSpec {
            prompt: decode_reference(at, findings)?.to_string(),
            ..QuestionSpec::default()
        });
    }
    let fields = SectionFields::from_map(at, FileSection::Input, findings)?;
    let prompt = fields.decode_required("prompt", "write the question", findings, decode_reference);
    let choices = fields.decode_optional("choices", findings, decode_texts);
    let default = fields.decode_optional("default", findings, decode_text);
    if let (Some(choices), Some(default)) = (&choices, &default)
        && !choices.contains(default)
    {
        let message = format!("the default {} is not one of the choices", quote_excerpt(default));
        let finding = Finding::new_error(
            codes::DEFAULT_NOT_A_CHOICE,
            at.route().with_key("default").into_value_location(),
            message,
        );
        let finding = finding.with_related(at.route().with_key("choices").into_key_location(), "the choices");
        let finding = finding.with_near_choice_fix(default, choices);
        findings.push(finding.with_help(format!(
            "the choices are {}",
            format_choices(choices.iter().map(String::as_str))
        )));
    }
    let timeout = fields.decode_optional("timeout_seconds", findings, decode_seconds);
    let responses = fields.decode_optional("responses", findings, decode_responses);
    Some(QuestionSpec {
        prompt: prompt?.to_string(),
        choices: choices.unwrap_or_default(),
        default,
        timeout,
        responses,
    })
}

/// Decodes the default of `input` only to report wrong values. The question may be missing.
pub(super) fn check_default_input(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<()> {
    if at.node.get("prompt").is_some_and(|prompt| !prompt.is_null())
        || !matches!(at.node.content, YamlContent::Mapping(_))
    {
        return decode_input(at, findings).map(drop);
    }
    let fields = SectionFields::from_map(at, FileSection::Input, findings)?;
    fields.decode_optional("choices", findings, decode_texts);
    fields.decode_optional("default", findings, decode_text);
    fields.decode_optional("timeout_seconds", findings, decode_seconds);
    fields.decode_optional("responses", findings, decode_responses);
    Some(())
}

/// Decodes a list of strings with at least one item.
fn decode_texts(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<String>> {
    decode_nonempty_list(at, "a list of strings", "this list is empty", findings, decode_text)
}

/// Decodes `responses`: a list, a script or a model profile.
fn decode_responses(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<PreparedResponses> {
    if let YamlContent::Sequence(_) = at.node.content {
        return decode_texts(at, findings).map(PreparedResponses::List);
    }
    let fields = SectionFields::from_map(at, FileSection::Responses, findings)?;
    let help = "write a list of strings, `script: file.rhai` or `model_profile: name`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.require_exactly_one(&["script", "model_profile"], codes, help, findings)?;
    let reference = decode_reference(&given, findings)?;
    Some(match key {
        "script" => PreparedResponses::Script(reference.to_string()),
        _ => PreparedResponses::Profile(reference),
    })
}
