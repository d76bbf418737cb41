//! `validate` in the configuration of a project: the levels of findings, what a search leaves out, and defaults of options.
//!
//! A wrong setting is reported, and the other settings are still read: whoever misspells one code does not lose the rest.

use std::sync::Arc;

use crate::diagnostic::{Finding, FindingCode, FindingSeverity};
use crate::loader::code_explanations;
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent, YamlDocument};
use crate::loader::findings::LimitedFindingList;
use crate::loader::key_messages::quote_excerpt;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_nonblank_text, decode_word_value, report_repetition,
};
use crate::vocabulary::FileSection;

/// The severity of findings with a code in reports, or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingLevel {
    /// Not at all.
    Off,
    /// With this severity.
    As(FindingSeverity),
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
pub struct ValidateSettings {
    /// The levels that differ from the codes' own, each code once.
    pub levels: Vec<(FindingCode, FindingLevel)>,
    /// The patterns of files and folders that a search leaves out, each with its index in the list.
    pub exclude: Vec<(usize, Arc<str>)>,
    /// Whether warnings fail.
    pub deny_warnings: Option<bool>,
    /// Whether the checks for runs in CI are made.
    pub ci: Option<bool>,
    /// The format of the report.
    pub output: Option<ReportFormat>,
}

const LEVELS: [(&str, FindingLevel); 4] = [
    ("off", FindingLevel::Off),
    ("hint", FindingLevel::As(FindingSeverity::Hint)),
    ("warning", FindingLevel::As(FindingSeverity::Warning)),
    ("error", FindingLevel::As(FindingSeverity::Error)),
];

const FORMATS: [(&str, ReportFormat); 5] = [
    ("human", ReportFormat::Human),
    ("json", ReportFormat::Json),
    ("github", ReportFormat::Github),
    ("sarif", ReportFormat::Sarif),
    ("junit", ReportFormat::Junit),
];

/// Decodes `validate`. Missing and wrong settings keep their defaults.
pub(in crate::loader) fn decode_settings(
    document: &YamlDocument,
    findings: &mut LimitedFindingList,
) -> ValidateSettings {
    let root = NodeCursor::from_root(document.root());
    let Some(entry) = document.root().get("validate") else {
        return ValidateSettings::default();
    };
    let key: Arc<str> = "validate".into();
    let at = root.child_under_key(entry, &key);
    if is_null_value(&at) {
        return ValidateSettings::default();
    }
    let Some(fields) = SectionFields::from_map(&at, FileSection::Validate, findings) else {
        return ValidateSettings::default();
    };
    ValidateSettings {
        levels: fields
            .decode_optional("levels", findings, decode_levels)
            .unwrap_or_default(),
        exclude: fields
            .decode_optional("exclude", findings, decode_patterns)
            .unwrap_or_default(),
        deny_warnings: fields.decode_optional("deny_warnings", findings, decode_bool),
        ci: fields.decode_optional("ci", findings, decode_bool),
        output: fields.decode_optional("output", findings, |at, findings| {
            decode_word_value(at, &FORMATS, findings)
        }),
    }
}

/// Returns whether the value is null, for example because every line below the key is commented out.
fn is_null_value(at: &NodeCursor<'_>) -> bool {
    matches!(&at.node.content, YamlContent::Scalar(scalar) if scalar.value == ScalarValue::Null)
}

/// Decodes the levels of codes. Reports unknown and repeated codes.
fn decode_levels(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<(FindingCode, FindingLevel)>> {
    if is_null_value(at) {
        return None;
    }
    let mut levels: Vec<(FindingCode, FindingLevel)> = Vec::new();
    for (name, entry) in at.require_entries("a map from codes to levels", findings)? {
        let level = decode_word_value(&entry, &LEVELS, findings);
        let Some(code) = code_explanations::find_code(name) else {
            let message = format!("there is no code {}", quote_excerpt(name));
            let finding = Finding::new_error(codes::BAD_LEVEL, entry.key_location(), message);
            findings.push(match code_explanations::find_nearest_code(name) {
                Some(guess) => finding.with_help(format!("did you mean `{guess}`?")),
                None => finding.with_help("`ensemble explain` lists all codes"),
            });
            continue;
        };
        if let Some((first, _)) = levels.iter().find(|(known, _)| *known == code) {
            let message = format!("the level of {} is set twice", first.0);
            let place = at.route().with_key(first.0).into_key_location();
            report_repetition(codes::BAD_LEVEL, entry.key_location(), message, place, findings);
            continue;
        }
        match level {
            Some(FindingLevel::As(FindingSeverity::Error)) => {}
            Some(_) if code.severity() == FindingSeverity::Error => {
                let message = format!("{} is an error, and its level cannot be lowered", code.0);
                let finding = Finding::new_error(codes::BAD_LEVEL, entry.value_location(), message);
                findings.push(finding.with_help(
                    "`run` refuses an ensemble with an error; warnings (W…) and hints (H…) can have any level",
                ));
                continue;
            }
            _ => {}
        }
        levels.extend(level.map(|level| (code, level)));
    }
    Some(levels)
}

/// Decodes a list of patterns, each with its index in the list.
fn decode_patterns(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<(usize, Arc<str>)>> {
    if is_null_value(at) {
        return None;
    }
    let items = at.require_items("a list of patterns", findings)?;
    let read = items.iter().enumerate();
    Some(
        read.filter_map(|(index, item)| Some((index, decode_nonblank_text(item, findings)?)))
            .collect(),
    )
}
