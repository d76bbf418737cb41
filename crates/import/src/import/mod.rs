//! Converts a simple ensemble of llm-orc to this language, and lists the parts that could not be converted.
//!
//! A `draft` of the new file is built key by key from the tree of the old file. Parts without a counterpart become
//! comments. Then the loader and the checks examine the text, and everything that they report as an error becomes a
//! comment too, until there are no errors. **Invariant:** the resulting text has no errors.
//!
//! Ensembles of llm-orc, and in `import/conductor` workflows of Conductor, whose routes become dependencies (`import/conductor/flow.rs`)
//! and whose templates and conditions are translated name by name (`import/conductor/jinja.rs`, `import/conductor/expression.rs`, both over
//! `import/conductor/names.rs`). It drafts the new file key by key and passes the draft to the loader, the checks and the plan. A part that
//! they reject becomes a comment (`import/repair.rs`).

mod agent_names;
mod agents;
mod comments;
mod conductor;
mod coordinator;
mod dependencies;
mod draft;
mod draft_writer;
mod key_advice;
mod limits;
mod predicate;
mod profiles;
#[cfg(test)]
mod random_tests;
mod repair;
mod response_parsing;
mod template_text;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashSet;

use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use ensemble_language::loader;
use ensemble_language::loader::document::{YamlContent, YamlDocument, YamlEntry, YamlNode};
use ensemble_language::source::{SourceText, Span};

use agent_names::AgentNameMapping;
use dependencies::OldDependencyGraph;
use draft::{DraftMap, DraftMapLine, DraftValue, ImportRemark, UnconvertedKeyComment};
use profiles::ProfileCollector;

/// Files around the imported file, and the options of an import.
pub struct ImportContext<'a> {
    /// The name for an ensemble without a name: that of the file.
    pub stem: &'a str,
    /// The configurations of llm-orc, the nearest first.
    pub configurations: &'a [YamlDocument],
    /// How the new file refers to a script, if the script is found.
    pub script: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a script, if the script is found.
    pub script_text: &'a dyn Fn(&str) -> Option<SourceText>,
    /// Whether the new file can use this ensemble.
    pub ensemble: &'a dyn Fn(&str) -> bool,
    /// The schema for editors, named in the first line.
    pub schema: Option<&'a str>,
}

/// Result of an import: the new file, and the parts that were not converted.
#[derive(Debug)]
pub struct ImportResult {
    /// The new file; it has no errors.
    pub text: String,
    /// The parts that were not converted, each with its place and its replacement, in the order of the text.
    pub unconverted: Vec<Diagnostic>,
}

/// Program for which the imported file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportOrigin {
    /// Ensembles of llm-orc.
    LlmOrc,
    /// Workflows of Microsoft's Conductor.
    Conductor,
}

/// Converts an ensemble of llm-orc or a workflow of Conductor. Without an `origin`, the keys of the text decide.
///
/// # Errors
/// The text is neither an ensemble nor a workflow.
pub fn import_ensemble(
    source: &SourceText,
    beside: &ImportContext<'_>,
    origin: Option<ImportOrigin>,
) -> Result<ImportResult, Vec<Diagnostic>> {
    let document = loader::parse_yaml(source)?;
    let detected = if conductor::is_conductor_workflow(&document) {
        ImportOrigin::Conductor
    } else {
        ImportOrigin::LlmOrc
    };
    let origin = origin.unwrap_or(detected);
    if origin == ImportOrigin::Conductor && detected != origin {
        let help = "a workflow of Conductor has `workflow` with an `entry_point`, and a list of `agents`";
        let message = "this is not a workflow of Conductor";
        return Err(vec![build_import_diagnostic(
            source,
            document.root().span,
            FindingSeverity::Error,
            message,
            help,
        )]);
    }
    let agents = document.root().get("agents").and_then(YamlNode::items);
    if agents.is_none_or(<[_]>::is_empty) {
        let span = document
            .root()
            .get("agents")
            .map_or(document.root().span, |node| node.span);
        let help = "an ensemble of llm-orc has a list of `agents`";
        return Err(vec![build_import_diagnostic(
            source,
            span,
            FindingSeverity::Error,
            "this is not an ensemble of llm-orc",
            help,
        )]);
    }
    let names = AgentNameMapping::assign_unique_names(&document);
    let mut task = ImportTask {
        document: &document,
        context: beside,
        graph: OldDependencyGraph::build_from_document(&document, &names),
        names,
        unconverted: Vec::new(),
        remarks: Vec::new(),
        profiles: ProfileCollector::from_documents(&document, beside.configurations),
        read_scripts: HashSet::new(),
    };
    let mut draft = match origin {
        ImportOrigin::LlmOrc => task.convert_llm_orc_ensemble(),
        ImportOrigin::Conductor => task.convert_conductor_workflow(),
    };
    let mut unconverted = task.unconverted;
    let mut remarks = task.remarks;
    let text = repair::repair_until_valid(&mut draft, &document, beside.schema, &mut unconverted, &mut remarks)?;
    unconverted.sort_by_key(|one| (one.source.name() != source.name(), one.span.start));
    Ok(ImportResult { text, unconverted })
}

/// Conversion of one file, with the findings so far.
struct ImportTask<'a> {
    document: &'a YamlDocument,
    context: &'a ImportContext<'a>,
    names: AgentNameMapping,
    graph: OldDependencyGraph,
    unconverted: Vec<Diagnostic>,
    /// Findings that are not in a comment of a key.
    remarks: Vec<ImportRemark>,
    profiles: ProfileCollector<'a>,
    /// The scripts whose text was examined.
    read_scripts: HashSet<String>,
}

/// Builds a finding without a code, because the finding does not belong to a rule.
fn build_import_diagnostic(
    source: &SourceText,
    span: Span,
    severity: FindingSeverity,
    message: &str,
    help: &str,
) -> Diagnostic {
    Diagnostic {
        severity,
        code: FindingCode::NONE,
        message: message.to_owned(),
        source: source.clone(),
        span,
        related: Vec::new(),
        help: Some(help.to_owned()),
        fix: None,
    }
}

impl<'a> ImportTask<'a> {
    /// Converts the keys of an llm-orc ensemble to a draft.
    fn convert_llm_orc_ensemble(&mut self) -> DraftMap {
        let mut map = DraftMap::default();
        let root: &'a YamlNode = self.document.root();
        let entries = list_map_entries(root);
        map.put_plain_value("name", self.convert_ensemble_name(root), find_key_span(entries, "name"));
        let tasks = ["default_task", "task", "default_input"];
        let task = tasks.iter().find(|key| has_nonblank_text(root.get(key)));
        for entry in entries {
            match &*entry.key {
                "name" | "model_profiles" => {}
                "description" => match entry.value.string_text() {
                    Some(text) => map.put_plain_value("description", text.trim_end(), Some(entry.key_span)),
                    None => map.put_comment(self.report_unconverted_key(entry, "it is not a string", "write a string")),
                },
                key if task == Some(&key) => {
                    let text = entry.value.string_text().map_or("", |text| text.trim_end());
                    map.put_plain_value("default_task", text, Some(entry.key_span));
                }
                "agents" => {
                    let agents = self.convert_agents(&entry.value);
                    map.lines.push(DraftMapLine::new_entry(
                        "agents",
                        DraftValue::List(agents),
                        Some(entry.key_span),
                    ));
                }
                "coordinator" | "synthesis" if self.is_first_coordinator(&entry.value) => {
                    map.lines.push(DraftMapLine::WrittenElsewhere(entry.key_span));
                }
                "conversation_limits" => map.put_draft_value(
                    "conversation_limits",
                    values::yaml_node_to_draft(&entry.value),
                    entry.key_span,
                ),
                key => {
                    let (why, instead) = key_advice::find_ensemble_key_advice(key);
                    map.put_comment(self.report_unconverted_key(entry, why, instead));
                }
            }
        }
        limits::raise_run_limits_if_needed(&mut map, root);
        let profiles = self.take_used_profiles();
        if !profiles.lines.is_empty() {
            let from = find_key_span(entries, "model_profiles");
            map.lines.push(DraftMapLine::new_entry(
                "model_profiles",
                DraftValue::Map(profiles),
                from,
            ));
        }
        map
    }

    /// Returns a valid name of the ensemble. Reports a changed or missing name.
    fn convert_ensemble_name(&mut self, root: &YamlNode) -> String {
        let original_name = root
            .get("name")
            .map(values::scalar_or_empty_text)
            .filter(|name| !name.is_empty());
        let name = agent_names::sanitize_name(original_name.as_deref().unwrap_or(self.context.stem), "ensemble");
        match original_name {
            Some(original_name) if original_name == name => {}
            Some(original_name) => {
                let span = root.get("name").map_or(root.span, |node| node.span);
                let message = format!("the name `{original_name}` has become `{name}`");
                self.add_remark_and_warning(span, &message, agent_names::NAME_RULE_HELP);
            }
            None => self.add_remark_and_warning(
                root.span,
                &format!("the ensemble has no name; `{name}` is used"),
                agent_names::NAME_RULE_HELP,
            ),
        }
        name
    }

    /// Adds a comment near the position in the new file, and a warning.
    fn add_remark_and_warning(&mut self, span: Span, message: &str, help: &str) {
        self.remarks.push(ImportRemark::new(span.start, message, help));
        self.add_warning(span, message, help);
    }

    /// Adds a warning at the position in the old file.
    fn add_warning(&mut self, span: Span, message: &str, help: &str) {
        let source = self.document.source();
        self.unconverted.push(build_import_diagnostic(
            source,
            span,
            FindingSeverity::Warning,
            message,
            help,
        ));
    }

    /// Adds a comment and a warning about a position in another file with profiles.
    fn add_remark_for_source(&mut self, source: &SourceText, span: Span, message: &str, help: &str) {
        if source.name() == self.document.source().name() {
            return self.add_remark_and_warning(span, message, help);
        }
        let message_there = format!("{message} ({}:{})", source.name(), source.line_column(span.start).line);
        self.remarks
            .push(ImportRemark::new(usize::MAX - 1, &message_there, help));
        self.unconverted.push(build_import_diagnostic(
            source,
            span,
            FindingSeverity::Warning,
            message,
            help,
        ));
    }

    /// Adds a warning that the key is not converted. Returns the comment that replaces the key.
    fn report_unconverted_key(&mut self, entry: &YamlEntry, why: &str, instead: &str) -> UnconvertedKeyComment {
        self.add_warning(
            entry.key_span,
            &format!("`{}` is not converted: {why}", entry.key),
            instead,
        );
        UnconvertedKeyComment::for_entry(self.document.source(), entry, why, instead)
    }
}

/// Returns the entries of a map. Returns no entries for another value.
fn list_map_entries(node: &YamlNode) -> &[YamlEntry] {
    match &node.content {
        YamlContent::Mapping(entries) => entries,
        _ => &[],
    }
}

/// Returns the position of the key in these entries.
fn find_key_span(entries: &[YamlEntry], key: &str) -> Option<Span> {
    entries
        .iter()
        .find(|entry| *entry.key == *key)
        .map(|entry| entry.key_span)
}

/// Returns whether the value is a string that is not blank.
fn has_nonblank_text(node: Option<&YamlNode>) -> bool {
    node.and_then(YamlNode::string_text)
        .is_some_and(|text| !text.trim().is_empty())
}
