//! `validate` in a configuration.

use super::show;
use crate::diagnostic::FindingSeverity;
use crate::loader::codes;
use crate::loader::{FindingLevel, ReportFormat, ValidateSettings, load_configuration, locate_findings};
use crate::source::SourceText;

fn read(text: &str) -> (ValidateSettings, Vec<String>) {
    let source = SourceText::new(".ensemble/config.yaml", text);
    let read = load_configuration(&source);
    let shown = show(&locate_findings(&source, read.document.as_ref(), &read.findings));
    (read.settings, shown)
}

#[test]
fn everything_is_read() {
    let text = "model_profiles: {}\nvalidate:\n  levels: {w012: error, W026: off, H014: 'warning', W001: hint}\n  \
                exclude: [a, 'b/**']\n  deny_warnings: true\n  ci: false\n  output: sarif\n";
    let (settings, found) = read(text);
    assert_eq!(found, [""; 0]);
    let expected = ValidateSettings {
        levels: vec![
            (codes::CONSTANT_CONDITION, FindingLevel::As(FindingSeverity::Error)),
            (codes::UNANSWERED, FindingLevel::Off),
            (codes::TRUTH_OF_ANSWER, FindingLevel::As(FindingSeverity::Warning)),
            (codes::UNKNOWN_PROFILE, FindingLevel::As(FindingSeverity::Hint)),
        ],
        exclude: vec![(0, "a".into()), (1, "b/**".into())],
        deny_warnings: Some(true),
        ci: Some(false),
        output: Some(ReportFormat::Sarif),
    };
    assert_eq!(settings, expected);
}

#[test]
fn nothing_is_nothing() {
    for text in [
        "",
        "# x\n",
        "validate:\n",
        "validate:\n  levels:\n  exclude:\n",
        "model_profiles:\n",
    ] {
        assert_eq!(read(text), (ValidateSettings::default(), Vec::new()), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_said_and_the_rest_is_read() {
    let rows = [
        ("validate: []", "E014 1:11 expected a map (`validate`), found a list"),
        ("validate: {level: {}}", "E010 1:12 unknown key 'level' in `validate`"),
        (
            "validate: {levels: [W012]}",
            "E014 1:20 expected a map from codes to levels, found a list",
        ),
        (
            "validate: {levels: {W012: 1}}",
            "E014 1:27 expected `off`, `hint`, `warning` or `error`, found the integer 1",
        ),
        (
            "validate: {levels: {W012: warn}}",
            "E016 1:27 expected `off`, `hint`, `warning` or `error`, found the string 'warn'",
        ),
        ("validate: {levels: {W0012: off}}", "E078 1:21 there is no code 'W0012'"),
        (
            "validate: {levels: {E041: off}}",
            "E078 1:27 E041 is an error, and its level cannot be lowered",
        ),
        (
            "validate: {levels: {W012: off, w012: error}}",
            "E078 1:32 the level of W012 is set twice",
        ),
        (
            "validate: {exclude: a}",
            "E014 1:21 expected a list of patterns, found the string 'a'",
        ),
        ("validate: {exclude: [' ']}", "E018 1:22 this string is empty"),
        (
            "validate: {ci: 1}",
            "E014 1:16 expected true or false, found the integer 1",
        ),
        (
            "validate: {output: xml}",
            "E016 1:20 expected `human`, `json`, `github`, `sarif` or `junit`, found the string 'xml'",
        ),
        ("levels: {}", "E010 1:1 unknown key 'levels' in the configuration"),
        ("validate: [", "E001 1:12 this is not valid YAML"),
    ];
    for (text, expected) in rows {
        let (_, found) = read(text);
        assert!(
            found.len() == 1 && found[0].starts_with(&expected[..9]),
            "{text}: {found:?}"
        );
        assert!(found[0] == expected || text.ends_with('['), "{text}: {found:?}");
    }
    let (settings, _) = read("validate: {levels: {W999: off, W012: error}, ci: true, output: xml}");
    assert_eq!(
        settings.levels,
        [(codes::CONSTANT_CONDITION, FindingLevel::As(FindingSeverity::Error))]
    );
    assert_eq!((settings.ci, settings.output), (Some(true), None));
}

#[test]
fn profiles_and_settings_are_judged_together() {
    let (_, found) = read("model_profiles: {p: {provider: olama}}\nvalidate: {ci: 1}\n");
    assert_eq!(found.len(), 2, "{found:?}");
}
