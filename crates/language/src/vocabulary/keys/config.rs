//! Keys of a configuration (`.ensemble/config.yaml`).

use super::ensembles::PROFILES_EXAMPLE;
use super::shapes::{FLAG, PROFILES};
use super::{SectionKey, keys};

/// The keys of a configuration.
pub(in crate::vocabulary) static CONFIG: &[SectionKey] = keys![
    "model_profiles": PROFILES,
        "Model profiles by name, for all ensembles; a profile of an ensemble file comes before the one with its name \
         here.", eg PROFILES_EXAMPLE;
    "validate": "#validate", "";
];

/// The keys of `validate`.
pub(in crate::vocabulary) static VALIDATE: &[SectionKey] = keys![
    "levels": r#"{"type": ["object", "null"], "patternProperties": {"^[Ee]": {"const": "error"}},
           "additionalProperties": {"enum": ["off", "hint", "warning", "error"]}}"#,
        "How findings are reported, by code. An error cannot be lowered. `ensemble explain CODE` explains a code.",
        eg r#"[{"W012": "error", "W026": "off"}]"#;
    "exclude": r#"{"type": ["array", "null"], "items": {"type": "string", "minLength": 1}}"#,
        "What a search of folders leaves out, in the form of `.gitignore`, from the folder of `.ensemble`.",
        eg r#"[["vendor/**", "*.draft.yaml"]]"#;
    "deny_warnings": FLAG, "Whether a warning causes exit code 2, as `--deny-warnings` does.", default "false";
    "ci": FLAG, "Whether runs in which nobody answers are checked, as with `--ci`.", default "false";
    "output": r#"{"enum": ["human", "json", "github", "sarif", "junit"]}"#,
        "The format of the report, as of `--format`.", default r#""human""#;
];
