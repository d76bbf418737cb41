//! Repairs the new file: everything that the loader reports as an error becomes a comment.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::draft::{DraftMap, DraftMapLine, DraftValue, ImportRemark, UnconvertedKeyComment};
use super::{build_import_diagnostic, draft_writer, profiles};
use ensemble_language::check;
use ensemble_language::diagnostic::{Diagnostic, Finding, FindingSeverity};
use ensemble_language::loader::document::{YamlContent, YamlDocument, YamlEntry, YamlNode};
use ensemble_language::loader::{self, EnsembleLoadResult};
use ensemble_language::plan::Plan;
use ensemble_language::source::{RouteStep, SourceText, Span};

/// Largest number of checks of the new file. Each round removes at least one entry from every part with an error.
const MAX_REPAIR_ROUNDS: usize = 100;

/// Removes or changes the parts of the draft with errors until the draft loads. Returns its text.
///
/// # Errors
/// The errors that no repair removed.
pub(super) fn repair_until_valid(
    draft: &mut DraftMap,
    document: &YamlDocument,
    schema: Option<&str>,
    lost: &mut Vec<Diagnostic>,
    remarks: &mut Vec<ImportRemark>,
) -> Result<String, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for _ in 0..MAX_REPAIR_ROUNDS {
        let text = draft_writer::render_draft_as_yaml(draft, document, remarks, schema);
        let source = SourceText::new("the imported ensemble", text.as_str());
        let (loaded, errors) = load_and_find_errors(&source);
        if errors.is_empty() {
            return Ok(text);
        }
        let mut touched = HashSet::new();
        let mut mended = false;
        for error in &errors {
            // One entry of each part per round, because removing an entry moves the entries after it.
            if touched.insert(error.at.route.0.iter().take(2).cloned().collect::<Vec<_>>()) {
                mended |= DraftRepairer {
                    document,
                    warnings: lost,
                    remarks,
                }
                .repair_part_with_error(draft, error);
            }
        }
        diagnostics = loader::locate_findings(&source, loaded.document.as_ref(), &errors);
        if !mended {
            break;
        }
    }
    Err(diagnostics)
}

/// Loads and checks the text. Returns the result of loading, and the findings that are errors.
fn load_and_find_errors(source: &SourceText) -> (EnsembleLoadResult, Vec<Finding>) {
    let mut loaded = loader::load_ensemble(source);
    let mut findings = loaded.findings.clone();
    if let Some(ensemble) = loaded.ensemble.take() {
        findings.extend(check::check_ensemble(&ensemble));
        findings.extend(Plan::build(Arc::new(ensemble)).err().into_iter().flatten());
    }
    findings.retain(|finding| finding.severity == FindingSeverity::Error);
    (loaded, findings)
}

/// Repairer of a draft, with the warnings and remarks about the repairs.
struct DraftRepairer<'a> {
    document: &'a YamlDocument,
    warnings: &'a mut Vec<Diagnostic>,
    remarks: &'a mut Vec<ImportRemark>,
}

impl DraftRepairer<'_> {
    /// Removes or replaces the entry that causes the error. Returns whether the draft was changed.
    fn repair_part_with_error(&mut self, draft: &mut DraftMap, error: &Finding) -> bool {
        let steps = &error.at.route.0;
        let [RouteStep::Key(top), rest @ ..] = &steps[..] else {
            return false;
        };
        match (&**top, rest) {
            ("agents", [RouteStep::Index(index), RouteStep::Key(key), rest @ ..]) => {
                let Some(DraftValue::List(agents)) = draft.get_value_mut("agents") else {
                    return false;
                };
                let Some((DraftValue::Map(agent), _)) = agents.get_mut(*index) else {
                    return false;
                };
                let is_repaired = self.repair_agent_key(agent, key, rest, error);
                if is_repaired && agent.get_value_mut("model_profile").is_some_and(is_placeholder_name) {
                    profiles::add_placeholder_profile(draft);
                }
                is_repaired
            }
            ("model_profiles", [RouteStep::Key(name), rest @ ..]) => {
                let Some(DraftValue::Map(all)) = draft.get_value_mut("model_profiles") else {
                    return false;
                };
                self.repair_model_profile(all, name, rest, error)
            }
            ("conversation_limits", [RouteStep::Key(key), ..]) => match draft.get_value_mut("conversation_limits") {
                Some(DraftValue::Map(limits)) => self.replace_key_by_comment(limits, key, error),
                _ => false,
            },
            ("name" | "agents", _) => false,
            (top, _) => self.replace_key_by_comment(draft, top, error),
        }
    }

    /// Repairs a key of an agent. An agent without its kind key uses the placeholder profile.
    fn repair_agent_key(&mut self, agent: &mut DraftMap, key: &str, rest: &[RouteStep], error: &Finding) -> bool {
        match (key, rest) {
            ("name", _) => false,
            ("script" | "ensemble" | "model" | "model_profile" | "input", _) => {
                let Some(at) = agent.find_line_index(key) else {
                    return false;
                };
                let is_repaired = self.replace_key_by_comment(agent, key, error);
                // The key may have gone without a comment.
                let after = (at + 1).min(agent.lines.len());
                agent.lines.insert(after, profiles::placeholder_line());
                is_repaired
            }
            ("dependencies", [RouteStep::Index(index), rest @ ..]) => {
                let Some(DraftValue::List(items)) = agent.get_value_mut("dependencies") else {
                    return false;
                };
                if let (Some((DraftValue::Map(item), _)), [RouteStep::Key(key), ..]) = (items.get_mut(*index), rest)
                    && &**key != "agent_name"
                {
                    return self.replace_key_by_comment(item, key, error);
                }
                if *index >= items.len() {
                    return false;
                }
                let (_, from) = items.remove(*index);
                let empty = items.is_empty();
                self.add_error_remark("dependencies", from, error);
                if empty {
                    agent
                        .lines
                        .retain(|line| !matches!(line, DraftMapLine::Entry { key, .. } if key == "dependencies"));
                }
                true
            }
            ("conversation", [RouteStep::Key(inner), ..]) => match agent.get_value_mut("conversation") {
                Some(DraftValue::Map(map)) => self.replace_key_by_comment(map, inner, error),
                _ => self.replace_key_by_comment(agent, key, error),
            },
            _ => self.replace_key_by_comment(agent, key, error),
        }
    }

    /// Removes a key of the profile, or replaces the profile by the placeholder. Returns whether the profile was changed.
    fn repair_model_profile(&mut self, all: &mut DraftMap, name: &str, rest: &[RouteStep], error: &Finding) -> bool {
        let Some(shape) = all.get_value_mut(name) else {
            return false;
        };
        match (shape, rest) {
            (DraftValue::Map(profile), [RouteStep::Key(key), ..]) if !matches!(&**key, "provider" | "model") => {
                self.replace_key_by_comment(profile, key, error)
            }
            (shape, _) if !is_simulated_profile(shape) => {
                let mut instead = profiles::placeholder_draft();
                // The fallback answers in the place of a provider that this language does not know.
                if let DraftValue::Map(profile) = shape
                    && let Some(at) = profile.find_line_index("fallback")
                {
                    instead.lines.push(profile.lines.remove(at));
                }
                *shape = DraftValue::Map(instead);
                self.add_error_remark(name, None, error);
                true
            }
            _ => false,
        }
    }

    /// Replaces the key by a comment. Returns `false` if the draft does not contain the key.
    fn replace_key_by_comment(&mut self, map: &mut DraftMap, key: &str, error: &Finding) -> bool {
        let Some(at) = map.find_line_index(key) else {
            return false;
        };
        let DraftMapLine::Entry { from, .. } = &map.lines[at] else {
            return false;
        };
        let from = *from;
        let entry = from.and_then(|span| find_entry_at(self.document.root(), span));
        match entry {
            Some(entry) => {
                self.add_error_warning(key, from, error);
                let instead = error.help.as_deref().unwrap_or("leave it out");
                let unconverted_key =
                    UnconvertedKeyComment::for_entry(self.document.source(), entry, &error.message, instead);
                map.lines[at] = DraftMapLine::Unconverted(unconverted_key);
            }
            None => {
                self.add_error_remark(key, from, error);
                map.lines.remove(at);
            }
        }
        true
    }

    /// Adds a comment in the new file and a warning about the error.
    fn add_error_remark(&mut self, key: &str, from: Option<Span>, error: &Finding) {
        let message = format!("`{key}` is not converted: {}", error.message);
        let help = error.help.as_deref().unwrap_or("leave it out");
        let at = from.map_or(usize::MAX - 1, |span| span.start);
        self.remarks.push(ImportRemark::new(at, &message, help));
        self.add_error_warning(key, from, error);
    }

    /// Adds a warning about the error at the position of the old key.
    fn add_error_warning(&mut self, key: &str, from: Option<Span>, error: &Finding) {
        let span = from.unwrap_or_else(|| {
            let start = self.document.root().span.start;
            Span::new(start, start)
        });
        let message = format!("`{key}` is not converted: {}", error.message);
        let help = error.help.as_deref().unwrap_or("leave it out");
        let source = self.document.source();
        self.warnings.push(build_import_diagnostic(
            source,
            span,
            FindingSeverity::Warning,
            &message,
            help,
        ));
    }
}

/// Returns the entry whose key has this position.
fn find_entry_at(node: &YamlNode, span: Span) -> Option<&YamlEntry> {
    match &node.content {
        YamlContent::Scalar(_) => None,
        YamlContent::Sequence(items) => items.iter().find_map(|item| find_entry_at(item, span)),
        YamlContent::Mapping(entries) => entries.iter().find_map(|entry| {
            if entry.key_span == span {
                return Some(entry);
            }
            find_entry_at(&entry.value, span)
        }),
    }
}

/// Returns whether the value is the name of the placeholder profile.
fn is_placeholder_name(shape: &mut DraftValue) -> bool {
    matches!(shape, DraftValue::Plain(Value::String(name)) if name == profiles::PLACEHOLDER_PROFILE)
}

/// Returns whether the profile uses the simulated provider.
fn is_simulated_profile(shape: &DraftValue) -> bool {
    let simulated = json!("simulated");
    match shape {
        DraftValue::Plain(value) => value["provider"] == simulated,
        DraftValue::Map(map) => map.lines.iter().any(|line| {
            matches!(line, DraftMapLine::Entry { key, value: DraftValue::Plain(value), .. } if key == "provider" && *value == simulated)
        }),
        DraftValue::List(_) => false,
    }
}
