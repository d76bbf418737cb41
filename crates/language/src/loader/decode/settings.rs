//! `validate` in the configuration of a project: the levels of findings, what a search leaves out, and defaults of options.
//!
//! A wrong setting is reported, and the other settings are still read: whoever misspells one code does not lose the rest.

use std::sync::Arc;

use crate::diagnostic::{Code, Finding, Severity};
use crate::loader::codes;
use crate::loader::document::{Content, Document, ScalarValue};
use crate::loader::explain;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, filled_text, flag, twice, word};
use crate::loader::words::quoted;
use crate::vocabulary::Section;

/// The severity with which findings of a code are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Not at all.
    Off,
    /// With this severity.
    As(Severity),
}

/// A format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// Text with the lines of the file.
    Human,
    /// One JSON document.
    Json,
    /// Workflow commands of GitHub Actions.
    Github,
    /// SARIF 2.1.0.
    Sarif,
    /// JUnit XML.
    Junit,
}

/// The settings of `validate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The levels that differ from the codes' own, each code once.
    pub levels: Vec<(Code, Level)>,
    /// The patterns of files and folders that a search leaves out, each with its index in the list.
    pub exclude: Vec<(usize, Arc<str>)>,
    /// Whether warnings fail.
    pub deny_warnings: Option<bool>,
    /// Whether the checks for runs in CI are made.
    pub ci: Option<bool>,
    /// The format of the report.
    pub output: Option<ReportFormat>,
}

const LEVELS: [(&str, Level); 4] = [
    ("off", Level::Off),
    ("hint", Level::As(Severity::Hint)),
    ("warning", Level::As(Severity::Warning)),
    ("error", Level::As(Severity::Error)),
];

const FORMATS: [(&str, ReportFormat); 5] = [
    ("human", ReportFormat::Human),
    ("json", ReportFormat::Json),
    ("github", ReportFormat::Github),
    ("sarif", ReportFormat::Sarif),
    ("junit", ReportFormat::Junit),
];

/// Reads `validate`; what is missing or wrong is left at its default.
pub(in crate::loader) fn settings(document: &Document, findings: &mut Findings) -> Settings {
    let root = Cursor::root(document.root());
    let Some(entry) = document.root().get("validate") else {
        return Settings::default();
    };
    let key: Arc<str> = "validate".into();
    let at = root.below(entry, &key);
    if is_blank(&at) {
        return Settings::default();
    }
    let Some(fields) = Fields::open(&at, Section::Validate, findings) else {
        return Settings::default();
    };
    Settings {
        levels: fields.read("levels", findings, levels).unwrap_or_default(),
        exclude: fields.read("exclude", findings, patterns).unwrap_or_default(),
        deny_warnings: fields.read("deny_warnings", findings, flag),
        ci: fields.read("ci", findings, flag),
        output: fields.read("output", findings, |at, findings| word(at, &FORMATS, findings)),
    }
}

/// Returns whether the value is omitted, for example because every line below it is commented out.
fn is_blank(at: &Cursor<'_>) -> bool {
    matches!(&at.node.content, Content::Scalar(scalar) if scalar.value == ScalarValue::Null)
}

fn levels(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(Code, Level)>> {
    if is_blank(at) {
        return None;
    }
    let mut levels: Vec<(Code, Level)> = Vec::new();
    for (name, entry) in at.entries("a map from codes to levels", findings)? {
        let level = word(&entry, &LEVELS, findings);
        let Some(code) = explain::find(name) else {
            let message = format!("there is no code {}", quoted(name));
            let finding = Finding::error(codes::BAD_LEVEL, entry.key(), message);
            findings.push(match explain::nearest(name) {
                Some(guess) => finding.help(format!("did you mean `{guess}`?")),
                None => finding.help("`ensemble explain` lists all codes"),
            });
            continue;
        };
        if let Some((first, _)) = levels.iter().find(|(known, _)| *known == code) {
            let message = format!("the level of {} is given twice", first.0);
            let place = at.route().key(first.0).as_key();
            twice(codes::BAD_LEVEL, entry.key(), message, place, findings);
            continue;
        }
        match level {
            Some(Level::As(Severity::Error)) => {}
            Some(_) if code.severity() == Severity::Error => {
                let message = format!("{} is an error, and its level cannot be lowered", code.0);
                let finding = Finding::error(codes::BAD_LEVEL, entry.value(), message);
                findings.push(
                    finding.help(
                        "`run` refuses an ensemble with an error; warnings (W…) and hints (H…) can have any level",
                    ),
                );
                continue;
            }
            _ => {}
        }
        levels.extend(level.map(|level| (code, level)));
    }
    Some(levels)
}

fn patterns(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(usize, Arc<str>)>> {
    if is_blank(at) {
        return None;
    }
    let items = at.items("a list of patterns", findings)?;
    let read = items.iter().enumerate();
    Some(
        read.filter_map(|(index, item)| Some((index, filled_text(item, findings)?)))
            .collect(),
    )
}
