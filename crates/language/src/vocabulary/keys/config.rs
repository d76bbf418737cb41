//! Keys of a configuration (`.ensemble/config.yaml`).

use super::ensembles::PROFILES_EXAMPLE;
use super::shapes::{FLAG, PROFILES};
use super::{SectionKey, keys};

/// The keys of a configuration.
pub(in crate::vocabulary) static CONFIG: &[SectionKey] = keys![
    "model_profiles": PROFILES,
        "Model profiles by name, for all ensembles. A profile in an ensemble file replaces the profile of the same \
         name here.", eg PROFILES_EXAMPLE;
    "validate": "#validate", "";
];

/// The keys of `validate`.
pub(in crate::vocabulary) static VALIDATE: &[SectionKey] = keys![
    "levels": r#"{"type": ["object", "null"], "patternProperties": {"^[Ee]": {"const": "error"}},
           "additionalProperties": {"enum": ["off", "hint", "warning", "error"]}}"#,
        "The levels of findings, by code. The level of an error cannot be lowered. `ensemble explain CODE` explains a \
         code.",
        eg r#"[{"W012": "error", "W026": "off"}]"#;
    "exclude": r#"{"type": ["array", "null"], "items": {"type": "string", "minLength": 1}}"#,
        "Patterns of files that a search of folders leaves out, as in `.gitignore`, relative to the folder that \
         contains `.ensemble`.",
        eg r#"[["vendor/**", "*.draft.yaml"]]"#;
    "deny_warnings": FLAG, "`true`: a warning causes exit code 2, as with `--deny-warnings`.", default "false";
    "ci": FLAG, "`true`: the check is for runs in which no person answers, as with `--ci`.", default "false";
    "output": r#"{"enum": ["human", "json", "github", "sarif", "junit"]}"#,
        "The format of the report, as with `--format`.", default r#""human""#;
];
