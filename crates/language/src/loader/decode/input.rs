//! `input`: a question for a person, and the source of answers instead of the person.

use super::reference;
use crate::diagnostic::Finding;
use crate::ensemble::{InputSpec, Responses};
use crate::loader::codes;
use crate::loader::document::Content;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, filled_list_of, seconds, text};
use crate::loader::words::{one_of, quoted};
use crate::vocabulary::Section;

/// Reads `input`: a map, or only the question.
pub(super) fn read(at: &Cursor<'_>, findings: &mut Findings) -> Option<InputSpec> {
    if at.node.text().is_some() {
        return Some(InputSpec {
            prompt: reference(at, findings)?.to_string(),
            ..InputSpec::default()
        });
    }
    let fields = Fields::open(at, Section::Input, findings)?;
    let prompt = fields.required("prompt", "write the question", findings, reference);
    let choices = fields.read("choices", findings, texts);
    let default = fields.read("default", findings, text);
    if let (Some(choices), Some(default)) = (&choices, &default)
        && !choices.contains(default)
    {
        let message = format!("the default {} is not one of the choices", quoted(default));
        let finding = Finding::error(codes::DEFAULT_NOT_A_CHOICE, at.route().key("default").value(), message);
        let finding = finding.also(at.route().key("choices").as_key(), "the choices");
        let finding = finding.meant_choice(default, choices);
        findings.push(finding.help(format!(
            "the choices are {}",
            one_of(choices.iter().map(String::as_str))
        )));
    }
    let timeout = fields.read("timeout_seconds", findings, seconds);
    let responses = fields.read("responses", findings, responses);
    Some(InputSpec {
        prompt: prompt?.to_string(),
        choices: choices.unwrap_or_default(),
        default,
        timeout,
        responses,
    })
}

/// Reads a default for questions, which may lack the question itself.
pub(super) fn default(at: &Cursor<'_>, findings: &mut Findings) -> Option<()> {
    if at.node.get("prompt").is_some() || !matches!(at.node.content, Content::Mapping(_)) {
        return read(at, findings).map(drop);
    }
    let fields = Fields::open(at, Section::Input, findings)?;
    fields.read("choices", findings, texts);
    fields.read("default", findings, text);
    fields.read("timeout_seconds", findings, seconds);
    fields.read("responses", findings, responses);
    Some(())
}

/// A list of strings with at least one item.
fn texts(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    filled_list_of(at, "a list of strings", "this list is empty", findings, text)
}

fn responses(at: &Cursor<'_>, findings: &mut Findings) -> Option<Responses> {
    if let Content::Sequence(_) = at.node.content {
        return texts(at, findings).map(Responses::List);
    }
    let fields = Fields::open(at, Section::Responses, findings)?;
    let help = "write a list of strings, `script: file.rhai` or `model_profile: name`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.exactly_one(&["script", "model_profile"], codes, help, findings)?;
    let named = reference(&given, findings)?;
    Some(match key {
        "script" => Responses::Script(named.to_string()),
        _ => Responses::Profile(named),
    })
}
