//! Loads an [`Ensemble`] from a text, and reports all problems of the text at once.
//!
//! There are three steps: the parser's events become a tree in which every node has its position ([`Document`]);
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

mod build;
mod changes;
pub mod codes;
mod decode;
mod defaults;
pub mod explain;
mod fields;
mod findings;
mod json;
mod map;
mod marks;
mod reader;
mod retyped;
pub mod schema;
mod syntax;
#[cfg(test)]
mod tests;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use crate::cases::TestFile;
use crate::data::JsonMap;
use crate::diagnostic::{Diagnostic, Finding, Related};
use crate::ensemble::{Ensemble, Profile};
use crate::source::{At, Part, Route, Source, Span};
use crate::yaml::edit::{Fix, FixResolver, RouteEdit, RouteFix};

pub use crate::yaml::document;
pub use crate::yaml::document::{Document, MAX_BYTES};
pub use crate::yaml::edit::to_json;
pub use changes::{Changes, Side, changes, meaning};
pub use decode::{Answers, Level, ReportFormat, Settings};
pub use findings::MAX_FINDINGS;

use crate::vocabulary::Section;
use document::Content;
use findings::Findings;
use words::meant_key;

/// The label of the place that names another file.
const NAMED: &str = "it is named here";
/// The highest number of places that name the same file and are shown.
const MOST_NAMED: usize = 4;

/// The result of loading an ensemble.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The tree, which converts places to positions; `None` if the text is not YAML.
    pub document: Option<Document>,
    /// The ensemble, if there are no errors.
    pub ensemble: Option<Ensemble>,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    source: Source,
}

/// The result of loading a configuration.
#[derive(Debug)]
pub struct Configuration {
    /// The tree, which converts places to positions; `None` if the text is not YAML, or is blank.
    pub document: Option<Document>,
    /// The settings of `validate`, as far as they are right.
    pub settings: Settings,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
}

/// The result of loading another text: its value, or the findings.
pub type Read<T> = Result<T, Vec<Diagnostic>>;

/// Reads an ensemble.
pub fn load(source: &Source) -> Loaded {
    let mut findings = Findings::default();
    let document = build::document(source, &mut findings).and_then(|document| {
        let root = defaults::spread(document.shared_root(), &mut findings)?;
        Some(document.with_root(root))
    });
    let (document, ensemble, findings) = concluded(document, decode::ensemble, findings);
    Loaded {
        document,
        ensemble,
        findings,
        source: source.clone(),
    }
}

/// Reads a text only as YAML.
pub fn parse(source: &Source) -> Read<Document> {
    let mut findings = Findings::default();
    let document = build::document(source, &mut findings);
    let sound = findings.sound();
    match document {
        Some(document) if sound => Ok(document),
        document => Err(diagnostics(source, document.as_ref(), &findings.into_list())),
    }
}

/// Reads a text as YAML, as far as it can be read: the tree is there unless the text is not YAML, whatever else is wrong.
///
/// # Errors
/// The text is not YAML, or exceeds a limit.
pub fn outline(source: &Source) -> Read<Document> {
    let mut findings = Findings::default();
    let document = build::document(source, &mut findings);
    document.ok_or_else(|| diagnostics(source, None, &findings.into_list()))
}

/// Reads a configuration file: `model_profiles`, in file order.
pub fn profiles(source: &Source) -> Read<Vec<(Arc<str>, Profile)>> {
    side_file(source, decode::config)
}

/// Reads all parts of a configuration file, and reports all problems.
pub fn configuration(source: &Source) -> Configuration {
    let mut findings = Findings::default();
    let document = match is_blank(source) {
        true => None,
        false => build::document(source, &mut findings),
    };
    let settings = document.as_ref().map(|document| {
        let _reported = decode::config(document, &mut findings);
        decode::settings(document, &mut findings)
    });
    Configuration {
        document,
        settings: settings.unwrap_or_default(),
        findings: findings.into_list(),
    }
}

/// Reads prepared answers: a map from agents to a string, a map, or a list of these.
pub fn answers(source: &Source) -> Read<Vec<(Arc<str>, Answers)>> {
    side_file(source, decode::answers)
}

/// Reads a context: a map in YAML or JSON.
///
/// JSON is read by a JSON parser: YAML does not support surrogate pairs, with which many programs write JSON.
pub fn context(source: &Source) -> Read<JsonMap> {
    let text = source.text().trim_start_matches('\u{feff}');
    if text.len() <= MAX_BYTES
        && text.trim_start().starts_with('{')
        && let Ok(map) = serde_json::from_str(text)
    {
        return Ok(map);
    }
    side_file(source, decode::context)
}

/// The result of loading a test file.
#[derive(Debug)]
pub struct LoadedCases {
    /// The tree, which converts places to positions; `None` if the text is not YAML.
    pub document: Option<Document>,
    /// The cases, if there are no errors.
    pub file: Option<TestFile>,
    /// All findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    source: Source,
}

/// Reads a test file.
pub fn cases(source: &Source) -> LoadedCases {
    let (document, file, findings) = read(source, decode::cases::file);
    LoadedCases {
        document,
        file,
        findings,
        source: source.clone(),
    }
}

impl LoadedCases {
    /// The text that was read.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The value at this place, as it is written.
    pub fn value(&self, route: &Route) -> Option<serde_json::Value> {
        to_json(self.document.as_ref()?.get(route)?)
    }

    /// The edits that write this value at this place; `None` if that is not possible with certainty.
    pub fn rewritten(&self, route: &Route, value: &serde_json::Value) -> Option<Fix> {
        let edit = RouteEdit::Rewrite(route.clone(), value.clone());
        FixResolver::new(&self.source, self.document.as_ref()).resolve(&RouteFix::safe("write what happened", edit))
    }

    /// All findings with their positions, these among them, in the order of the text.
    pub fn diagnostics_with(&self, more: &[Finding]) -> Vec<Diagnostic> {
        self.list_diagnostics(more, Fixes::Resolved)
    }

    /// Returns the findings as [`Self::diagnostics_with`] does, with or without their fixes.
    pub fn list_diagnostics(&self, more: &[Finding], fixes: Fixes) -> Vec<Diagnostic> {
        let all: Vec<Finding> = self.findings.iter().chain(more).cloned().collect();
        place_findings(&self.source, self.document.as_ref(), &all, fixes)
    }
}

impl Loaded {
    /// Returns whether the text is meant to be an ensemble: it has the key `agents`, perhaps misspelt, at the top, with
    /// a list in which an item has a `name`, or with a `name` beside it. A map under `agents`, and a list without any
    /// name, are of other programs: `agents: {queue: …}` of a pipeline, for example. Of a text that is not YAML, it is
    /// enough that it contains this key.
    pub fn is_ensemble(&self) -> bool {
        match self.document.as_ref().map(|document| &document.root().content) {
            Some(Content::Mapping(entries)) => {
                let is_agents = |key: &str| key == "agents" || meant_key(key, Section::Ensemble) == Some("agents");
                let mut agents = entries.iter().filter(|entry| is_agents(&entry.key));
                let is_named = entries.iter().any(|entry| &*entry.key == "name");
                agents.any(|entry| match &entry.value.content {
                    Content::Mapping(_) => false,
                    Content::Sequence(items) => is_named || items.iter().any(|item| item.get("name").is_some()),
                    Content::Scalar(_) => is_named,
                })
            }
            Some(_) => false,
            None => self.source.text().contains("agents"),
        }
    }

    /// The text that was read.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The findings with their positions, in the order of the text.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        diagnostics(&self.source, self.document.as_ref(), &self.findings)
    }

    /// Adds more findings about the same text, with their positions, in the order of the text; the loader's own come
    /// first.
    pub fn diagnostics_with(&self, more: &[Finding]) -> Vec<Diagnostic> {
        self.list_diagnostics(more, Fixes::Resolved)
    }

    /// Returns the findings as [`Self::diagnostics_with`] does, with or without their fixes.
    pub fn list_diagnostics(&self, more: &[Finding], fixes: Fixes) -> Vec<Diagnostic> {
        let all: Vec<Finding> = self.findings.iter().chain(more).cloned().collect();
        place_findings(&self.source, self.document.as_ref(), &all, fixes)
    }
}

/// Whether findings get the edits of their fixes. To resolve them costs more than to place the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fixes {
    /// Each fix is resolved to edits of the text.
    Resolved,
    /// Findings have no fixes.
    Omitted,
}

/// Converts findings to positions in the text, in the order of the text, and resolves their fixes.
pub fn diagnostics(source: &Source, document: Option<&Document>, findings: &[Finding]) -> Vec<Diagnostic> {
    place_findings(source, document, findings, Fixes::Resolved)
}

fn place_findings(source: &Source, document: Option<&Document>, findings: &[Finding], fixes: Fixes) -> Vec<Diagnostic> {
    let resolver = (fixes == Fixes::Resolved).then(|| FixResolver::new(source, document));
    let span = |at: &At| match (document, &at.part) {
        (_, Part::Source(span)) => *span,
        (Some(document), _) => document.resolve(at),
        (None, _) => Span::default(),
    };
    let mut diagnostics: Vec<_> = findings
        .iter()
        .map(|finding| Diagnostic {
            fix: finding.fix.as_ref().and_then(|fix| resolver.as_ref()?.resolve(fix)),
            ..placed(finding, source, &span)
        })
        .collect();
    diagnostics.sort_by_key(|diagnostic| {
        (
            diagnostic.span_in(source).start,
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
    once_for_each_file(&mut diagnostics, source);
    diagnostics
}

/// The finding in this text, or in the text that is named there.
fn placed(finding: &Finding, source: &Source, span: &dyn Fn(&At) -> Span) -> Diagnostic {
    let also = finding.also.iter().map(|(at, label)| (span(at), label.clone()));
    let here = span(&finding.at);
    let mut placed = Diagnostic {
        severity: finding.severity,
        code: finding.code,
        message: finding.message.clone(),
        source: source.clone(),
        span: here,
        related: Vec::new(),
        help: finding.help.clone(),
        fix: None,
    };
    let related = |(span, message): (Span, String)| Related {
        source: source.clone(),
        span,
        message,
    };
    match &finding.inside {
        None => placed.related = also.map(related).collect(),
        Some((other, span)) => {
            let named = std::iter::once((here, NAMED.to_owned())).chain(also);
            placed.related = named.map(related).collect();
            (placed.source, placed.span) = (other.clone(), *span);
        }
    }
    placed
}

/// Joins the same findings about another file that is named several times.
fn once_for_each_file(diagnostics: &mut Vec<Diagnostic>, source: &Source) {
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
    let mut known: HashMap<(Arc<str>, Span, &'static str, String), usize> = HashMap::new();
    for one in diagnostics.drain(..) {
        if one.source.name() == source.name() {
            kept.push(one);
            continue;
        }
        let key = (one.source.name().into(), one.span, one.code.0, one.message.clone());
        match known.get(&key) {
            Some(at) => {
                let places: &mut Vec<Related> = &mut kept[*at].related;
                let room = MOST_NAMED.saturating_sub(places.len());
                places.extend(one.related.into_iter().take(room));
            }
            None => {
                known.insert(key, kept.len());
                kept.push(one);
            }
        }
    }
    *diagnostics = kept;
}

type Outcome<T> = (Option<Document>, Option<T>, Vec<Finding>);

fn read<T>(source: &Source, decode: impl FnOnce(&Document, &mut Findings) -> Option<T>) -> Outcome<T> {
    let mut findings = Findings::default();
    let document = build::document(source, &mut findings);
    concluded(document, decode, findings)
}

fn concluded<T>(
    document: Option<Document>,
    decode: impl FnOnce(&Document, &mut Findings) -> Option<T>,
    mut findings: Findings,
) -> Outcome<T> {
    let value = document.as_ref().and_then(|document| decode(document, &mut findings));
    let value = value.filter(|_| findings.sound());
    debug_assert!(value.is_some() || !findings.sound(), "no value needs a reason");
    (document, value, findings.into_list())
}

/// Reads a file that may be empty.
fn side_file<T: Default>(source: &Source, decode: impl FnOnce(&Document, &mut Findings) -> Option<T>) -> Read<T> {
    if is_blank(source) {
        return Ok(T::default());
    }
    let (document, value, findings) = read(source, decode);
    value.ok_or_else(|| diagnostics(source, document.as_ref(), &findings))
}

/// Returns whether the text contains nothing but comments.
fn is_blank(source: &Source) -> bool {
    let text = source.text().trim_start_matches('\u{feff}');
    let blank = |line: &str| line.is_empty() || line.starts_with('#') || line == "---";
    text.lines().all(|line| blank(line.trim()))
}
