//! Loads an [`Ensemble`] from a text, and reports all problems of the text at once.
//!
//! There are three steps: the parser's events become a tree in which every node has its position ([`YamlDocument`]);
//! hand-written readers read typed values from the tree; symbolic places become positions only when they are shown. The
//! functions are pure: they receive a text and never read a file.
//!
//! Builds an `Ensemble` from text and reports all findings at once. `saphyr-parser` parses the YAML once, into a tree with positions;
//! hand-written decoders (`loader/decode/`) convert the tree into typed values. `yaml_serde` (the maintained `serde_yaml`) is a second
//! parser that only the tests use: both parsers must agree. It is not used in the program because it stops at the first error and gives no
//! positions of valid values. The codes of all findings are in `loader/codes.rs`, and each code has an explanation in
//! `loader/explanations/`. The JSON Schema for editors is a data file in `docs/schema/`; tests compare it with the keys and defaults of the
//! loader.
//!
//! Invariant: the loader receives text and opens no file, and it stops reading a text whose tree would be too large.

mod byte_positions;
mod changes;
pub mod code_explanations;
pub mod codes;
mod decode;
mod defaults;
mod document_builder;
mod findings;
mod json;
mod key_messages;
mod open_map;
mod result_parts;
pub mod schema;
mod section_fields;
mod syntax_errors;
#[cfg(test)]
mod tests;
mod type_fixes;
mod value_decoders;

use std::collections::HashMap;
use std::sync::Arc;

use crate::cases::TestFile;
use crate::data::{JsonMap, strip_byte_order_mark};
use crate::diagnostic::{Diagnostic, Finding, RelatedLocation};
use crate::ensemble::{Ensemble, ModelProfile};
use crate::source::{NodePart, Route, RouteLocation, SourceText, Span};
use crate::yaml::edit::{FixResolver, RouteEdit, RouteFix, TextFix};

pub use crate::yaml::document;
pub use crate::yaml::document::{MAX_BYTES, YamlDocument};
pub use crate::yaml::edit::node_to_json;
pub use changes::{ComparedEnsemble, EnsembleChanges, canonical_ensemble_text, compare_ensembles};
pub use decode::{AgentAnswers, BatchAnswers, FindingLevel, ReportFormat, ValidateSettings};
pub use findings::MAX_FINDINGS;
pub use result_parts::{canonical_result_parts, list_result_parts};

use crate::vocabulary::FileSection;
use document::YamlContent;
use findings::LimitedFindingList;
use key_messages::is_misspelling;

/// The label of the place that names another file.
const NAMED_HERE_LABEL: &str = "it is named here";
/// The highest number of places that name the same file and are shown.
const MAX_NAMING_PLACES: usize = 4;

/// The result of loading an ensemble: its tree and its value as far as they exist, and all findings.
#[derive(Debug, Clone)]
pub struct EnsembleLoadResult {
    /// The tree, which converts places to positions; `None` if the text is not YAML.
    pub document: Option<YamlDocument>,
    /// The ensemble, if there are no errors.
    pub ensemble: Option<Ensemble>,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    source: SourceText,
}

/// The result of loading a configuration: its tree, its settings and all findings.
#[derive(Debug)]
pub struct ConfigurationLoadResult {
    /// The tree, which converts places to positions; `None` if the text is not YAML, or is blank.
    pub document: Option<YamlDocument>,
    /// The settings of `validate`, as far as they are right.
    pub settings: ValidateSettings,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
}

/// The value of a text, or the diagnostics that prevent it.
pub type LoadResult<T> = Result<T, Vec<Diagnostic>>;

/// Loads an ensemble, and reports all its problems at once.
pub fn load_ensemble(source: &SourceText) -> EnsembleLoadResult {
    let mut findings = LimitedFindingList::default();
    let document = document_builder::build_document(source, &mut findings).and_then(|document| {
        let root = defaults::apply_defaults(document.shared_root(), &mut findings)?;
        Some(document.with_root(root))
    });
    let (document, ensemble, findings) = decode_document(document, decode::decode_ensemble, findings);
    EnsembleLoadResult {
        document,
        ensemble,
        findings,
        source: source.clone(),
    }
}

/// Parses a text only as YAML. # Errors: the text has any error.
pub fn parse_yaml(source: &SourceText) -> LoadResult<YamlDocument> {
    let mut findings = LimitedFindingList::default();
    let document = document_builder::build_document(source, &mut findings);
    let sound = findings.has_no_errors();
    match document {
        Some(document) if sound => Ok(document),
        document => Err(locate_findings(source, document.as_ref(), &findings.into_list())),
    }
}

/// Parses a text as YAML, and tolerates errors in single keys and values. # Errors: the text is not YAML, or exceeds a limit.
pub fn parse_yaml_partially(source: &SourceText) -> LoadResult<YamlDocument> {
    let mut findings = LimitedFindingList::default();
    let document = document_builder::build_document(source, &mut findings);
    document.ok_or_else(|| locate_findings(source, None, &findings.into_list()))
}

/// Loads the `model_profiles` of a configuration file, in file order.
pub fn load_profiles(source: &SourceText) -> LoadResult<Vec<(Arc<str>, ModelProfile)>> {
    load_optional_file(source, decode::decode_config_profiles)
}

/// Loads all parts of a configuration file, and reports all problems.
pub fn load_configuration(source: &SourceText) -> ConfigurationLoadResult {
    let mut findings = LimitedFindingList::default();
    let document = match is_blank(source) {
        true => None,
        false => document_builder::build_document(source, &mut findings),
    };
    let settings = document.as_ref().map(|document| {
        let _reported = decode::decode_config_profiles(document, &mut findings);
        decode::decode_settings(document, &mut findings)
    });
    ConfigurationLoadResult {
        document,
        settings: settings.unwrap_or_default(),
        findings: findings.into_list(),
    }
}

/// Loads prepared answers: a map from agents to a string, a map, or a list of these.
pub fn load_answers(source: &SourceText) -> LoadResult<Vec<(Arc<str>, AgentAnswers)>> {
    load_optional_file(source, decode::decode_answers)
}

/// Loads the prepared answers of a batch: a map from agents to answers, and from rows to such maps. `is_agent` returns
/// whether a name is the name of an agent.
pub fn load_batch_answers(source: &SourceText, is_agent: &dyn Fn(&str) -> bool) -> LoadResult<BatchAnswers> {
    load_optional_file(source, |document, findings| {
        decode::decode_batch_answers(document, is_agent, findings)
    })
}

/// Loads a context: a map in YAML or JSON.
///
/// JSON is read by a JSON parser: YAML does not support surrogate pairs, with which many programs write JSON.
pub fn load_context(source: &SourceText) -> LoadResult<JsonMap> {
    let text = strip_byte_order_mark(source.text());
    if text.len() <= MAX_BYTES
        && text.trim_start().starts_with('{')
        && let Ok(map) = serde_json::from_str(text)
    {
        return Ok(map);
    }
    load_optional_file(source, decode::decode_context_file)
}

/// The result of loading a test file: its tree and its value as far as they exist, and all findings.
#[derive(Debug)]
pub struct TestFileLoadResult {
    /// The tree, which converts places to positions; `None` if the text is not YAML.
    pub document: Option<YamlDocument>,
    /// The cases, if there are no errors.
    pub file: Option<TestFile>,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    source: SourceText,
}

/// Loads a test file, and reports all its problems at once.
pub fn load_test_file(source: &SourceText) -> TestFileLoadResult {
    let (document, file, findings) = load_document(source, decode::cases::decode_test_file);
    TestFileLoadResult {
        document,
        file,
        findings,
        source: source.clone(),
    }
}

impl TestFileLoadResult {
    /// Returns the text of the test file.
    pub fn source(&self) -> &SourceText {
        &self.source
    }

    /// Returns the value at this route as it is written in the file.
    pub fn written_value_at(&self, route: &Route) -> Option<serde_json::Value> {
        node_to_json(self.document.as_ref()?.find_node(route)?)
    }

    /// Builds the fix that writes this value at the route. Returns `None` if the edit is not certain.
    pub fn build_rewrite_fix(&self, route: &Route, value: &serde_json::Value) -> Option<TextFix> {
        let edit = RouteEdit::Rewrite(route.clone(), value.clone());
        FixResolver::new(&self.source, self.document.as_ref())
            .resolve_fix(&RouteFix::new_safe("write what happened", edit))
    }

    /// Returns all findings and the findings in `more` as diagnostics with fixes, in the order of the text.
    pub fn diagnostics_with(&self, more: &[Finding]) -> Vec<Diagnostic> {
        self.list_diagnostics(more, FixResolution::Resolved)
    }

    /// Returns all findings and the findings in `more` as diagnostics, with or without fixes.
    pub fn list_diagnostics(&self, more: &[Finding], fixes: FixResolution) -> Vec<Diagnostic> {
        let all: Vec<Finding> = self.findings.iter().chain(more).cloned().collect();
        locate_findings_with(&self.source, self.document.as_ref(), &all, fixes)
    }
}

impl EnsembleLoadResult {
    /// Returns whether the text is meant to be an ensemble: it has the key `agents` at the top, perhaps misspelled, with a
    /// list in which an item has a `name`, or next to a `name`. A map under `agents`, and a list without any name, belong to
    /// other programs. A text that is not YAML only needs the key.
    pub fn looks_like_ensemble(&self) -> bool {
        match self.document.as_ref().map(|document| &document.root().content) {
            Some(YamlContent::Mapping(entries)) => {
                let is_agents = |key: &str| key == "agents" || is_misspelling(key, FileSection::Ensemble, "agents");
                let mut agents = entries.iter().filter(|entry| is_agents(&entry.key));
                let is_named = entries.iter().any(|entry| &*entry.key == "name");
                agents.any(|entry| match &entry.value.content {
                    YamlContent::Mapping(_) => false,
                    YamlContent::Sequence(items) => is_named || items.iter().any(|item| item.get("name").is_some()),
                    YamlContent::Scalar(_) => is_named,
                })
            }
            Some(_) => false,
            None => self.source.text().contains("agents"),
        }
    }

    /// Returns the text of the ensemble.
    pub fn source(&self) -> &SourceText {
        &self.source
    }

    /// Returns the findings of the loader as diagnostics with fixes, in the order of the text.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        locate_findings(&self.source, self.document.as_ref(), &self.findings)
    }

    /// Returns the findings of the loader and those in `more` as diagnostics with fixes, in the order of the text.
    pub fn diagnostics_with(&self, more: &[Finding]) -> Vec<Diagnostic> {
        self.list_diagnostics(more, FixResolution::Resolved)
    }

    /// Returns the findings of the loader and those in `more` as diagnostics, with or without fixes.
    pub fn list_diagnostics(&self, more: &[Finding], fixes: FixResolution) -> Vec<Diagnostic> {
        let all: Vec<Finding> = self.findings.iter().chain(more).cloned().collect();
        locate_findings_with(&self.source, self.document.as_ref(), &all, fixes)
    }
}

/// The choice whether fixes become edits, which costs more than locating the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixResolution {
    /// Each fix is resolved to edits of the text.
    Resolved,
    /// Findings have no fixes.
    Omitted,
}

/// Converts findings to diagnostics in the order of the text, and resolves their fixes.
pub fn locate_findings(source: &SourceText, document: Option<&YamlDocument>, findings: &[Finding]) -> Vec<Diagnostic> {
    locate_findings_with(source, document, findings, FixResolution::Resolved)
}

/// Converts findings to diagnostics in the order of the text; `fixes`: whether their fixes are resolved.
fn locate_findings_with(
    source: &SourceText,
    document: Option<&YamlDocument>,
    findings: &[Finding],
    fixes: FixResolution,
) -> Vec<Diagnostic> {
    let resolver = (fixes == FixResolution::Resolved).then(|| FixResolver::new(source, document));
    let span = |at: &RouteLocation| match (document, &at.part) {
        (_, NodePart::Source(span)) => *span,
        (Some(document), _) => document.resolve_span(at),
        (None, _) => Span::default(),
    };
    let mut diagnostics: Vec<_> = findings
        .iter()
        .map(|finding| Diagnostic {
            fix: finding.fix.as_ref().and_then(|fix| resolver.as_ref()?.resolve_fix(fix)),
            ..locate_finding(finding, source, &span)
        })
        .collect();
    diagnostics.sort_by_key(|diagnostic| {
        (
            diagnostic.find_span_in(source).start,
            diagnostic.severity,
            diagnostic.span.start,
        )
    });
    // A value of `defaults` is read with every agent, and is wrong once.
    diagnostics.dedup_by(|one, other| {
        let is_own = |one: &Diagnostic| one.source.name() == source.name();
        is_own(one)
            && is_own(other)
            && one.span == other.span
            && one.code == other.code
            && one.message == other.message
            && one.help == other.help
    });
    merge_other_file_diagnostics(&mut diagnostics, source);
    diagnostics
}

/// Converts one finding. If the problem is in another text, the location in this text becomes a related one.
fn locate_finding(finding: &Finding, source: &SourceText, span: &dyn Fn(&RouteLocation) -> Span) -> Diagnostic {
    let also = finding.related.iter().map(|(at, label)| (span(at), label.clone()));
    let main_span = span(&finding.at);
    let mut diagnostic = Diagnostic {
        severity: finding.severity,
        code: finding.code,
        message: finding.message.clone(),
        source: source.clone(),
        span: main_span,
        related: Vec::new(),
        help: finding.help.clone(),
        fix: None,
    };
    let related = |(span, message): (Span, String)| RelatedLocation {
        source: source.clone(),
        span,
        message,
    };
    match &finding.inner_source {
        None => diagnostic.related = also.map(related).collect(),
        Some((other, span)) => {
            let related_spans = std::iter::once((main_span, NAMED_HERE_LABEL.to_owned())).chain(also);
            diagnostic.related = related_spans.map(related).collect();
            (diagnostic.source, diagnostic.span) = (other.clone(), *span);
        }
    }
    diagnostic
}

/// Merges equal findings about another file that is named several times.
fn merge_other_file_diagnostics(diagnostics: &mut Vec<Diagnostic>, source: &SourceText) {
    let mut kept_diagnostics: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
    let mut indexes_by_key: HashMap<(Arc<str>, Span, &'static str, String), usize> = HashMap::new();
    for diagnostic in diagnostics.drain(..) {
        if diagnostic.source.name() == source.name() {
            kept_diagnostics.push(diagnostic);
            continue;
        }
        let key = (
            diagnostic.source.name().into(),
            diagnostic.span,
            diagnostic.code.0,
            diagnostic.message.clone(),
        );
        match indexes_by_key.get(&key) {
            Some(at) => {
                let places: &mut Vec<RelatedLocation> = &mut kept_diagnostics[*at].related;
                let room = MAX_NAMING_PLACES.saturating_sub(places.len());
                places.extend(diagnostic.related.into_iter().take(room));
            }
            None => {
                indexes_by_key.insert(key, kept_diagnostics.len());
                kept_diagnostics.push(diagnostic);
            }
        }
    }
    *diagnostics = kept_diagnostics;
}

/// The tree, the value and the findings of a text.
type DecodeResult<T> = (Option<YamlDocument>, Option<T>, Vec<Finding>);

/// Parses the text, and decodes the document with `decode`.
fn load_document<T>(
    source: &SourceText,
    decode: impl FnOnce(&YamlDocument, &mut LimitedFindingList) -> Option<T>,
) -> DecodeResult<T> {
    let mut findings = LimitedFindingList::default();
    let document = document_builder::build_document(source, &mut findings);
    decode_document(document, decode, findings)
}

/// Decodes the document with `decode`. Returns no value if an error was reported.
fn decode_document<T>(
    document: Option<YamlDocument>,
    decode: impl FnOnce(&YamlDocument, &mut LimitedFindingList) -> Option<T>,
    mut findings: LimitedFindingList,
) -> DecodeResult<T> {
    let value = document.as_ref().and_then(|document| decode(document, &mut findings));
    let value = value.filter(|_| findings.has_no_errors());
    debug_assert!(value.is_some() || !findings.has_no_errors(), "no value needs a reason");
    (document, value, findings.into_list())
}

/// Loads a file that may be empty. An empty file has the default value.
fn load_optional_file<T: Default>(
    source: &SourceText,
    decode: impl FnOnce(&YamlDocument, &mut LimitedFindingList) -> Option<T>,
) -> LoadResult<T> {
    if is_blank(source) {
        return Ok(T::default());
    }
    let (document, value, findings) = load_document(source, decode);
    value.ok_or_else(|| locate_findings(source, document.as_ref(), &findings))
}

/// Returns whether the text contains nothing but comments.
fn is_blank(source: &SourceText) -> bool {
    let text = strip_byte_order_mark(source.text());
    let blank = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    text.lines().all(|line| blank(line.trim()))
}
