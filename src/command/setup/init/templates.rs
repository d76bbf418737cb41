//! Templates of `ensemble init`. All templates use simulated models, so that they run without a key and a network.

use crate::command::setup::init::StarterTemplate;

/// Line that tells an editor the schema in the same folder.
const SCHEMA_LINE: &str = "# yaml-language-server: $schema=ensemble.schema.json\n";

/// The word in the place of the name in files that exist only as a template.
const NAME_PLACEHOLDER: &str = "NAME";

/// Texts of a template.
struct TemplateTexts {
    /// Name of the ensemble in the texts.
    name: &'static str,
    ensemble: &'static str,
    /// Test file.
    cases: &'static str,
    /// Scripts and the files that they read, with their names.
    scripts: &'static [(&'static str, &'static str)],
}

/// Returns the texts of a template that is no shipped ensemble.
macro_rules! starter {
    ($folder:literal, [$($script:literal),*]) => {
        TemplateTexts {
            name: NAME_PLACEHOLDER,
            ensemble: include_str!(concat!("../starter/", $folder, "/ensemble.yaml")),
            cases: include_str!(concat!("../starter/", $folder, "/test.yaml")),
            scripts: &[$(($script, include_str!(concat!("../starter/", $folder, "/", $script)))),*],
        }
    };
}

/// Returns the texts of a template that is a shipped ensemble.
macro_rules! shipped {
    ($name:literal, [$($script:literal),*]) => {
        TemplateTexts {
            name: $name,
            ensemble: include_str!(concat!("../../../../ensembles/", $name, ".yaml")),
            cases: include_str!(concat!("../../../../ensembles/", $name, ".test.yaml")),
            scripts: &[$(($script, include_str!(concat!("../../../../ensembles/", $name, "/", $script)))),*],
        }
    };
}

impl TemplateTexts {
    /// Returns a text of the template with the name of the ensemble replaced.
    fn with_ensemble_name(&self, text: &str, name: &str) -> String {
        if self.name == NAME_PLACEHOLDER {
            return text.replace(NAME_PLACEHOLDER, name);
        }
        let old = self.name;
        text.replace(
            &format!("ensemble test ensembles/{old}.yaml"),
            &format!("ensemble test ensembles/{name}.yaml"),
        )
        .replace(&format!(" ensembles/{old}.yaml"), &format!(" {name}"))
        .replace(&format!("Tests of {old}.yaml"), &format!("Tests of {name}.yaml"))
        .replace(&format!("\nname: {old}\n"), &format!("\nname: {name}\n"))
        .replace(&format!("{old}/"), &format!("{name}/"))
        .replace(&format!("ensembles/{old}`"), &format!("ensembles/{name}`"))
    }
}

impl StarterTemplate {
    /// Returns the files of the ensemble as paths below the project folder with their texts: the ensemble, then its scripts.
    pub(crate) fn project_files(self, name: &str) -> Vec<(String, String)> {
        let texts = self.texts();
        let text = format!("{SCHEMA_LINE}{}", texts.with_ensemble_name(texts.ensemble, name));
        let scripts = texts.scripts.iter();
        let scripts = scripts.map(|(script, text)| (format!("ensembles/{name}/{script}"), (*text).to_owned()));
        std::iter::once((format!("ensembles/{name}.yaml"), text))
            .chain(scripts)
            .collect()
    }

    /// Returns the path below the project folder and the text of the test file.
    pub(crate) fn test_file(self, name: &str) -> (String, String) {
        let texts = self.texts();
        (
            format!("ensembles/{name}.test.yaml"),
            texts.with_ensemble_name(texts.cases, name),
        )
    }

    /// Returns the texts of the template.
    fn texts(self) -> TemplateTexts {
        match self {
            Self::Loop => starter!("loop", ["reviewer.rhai"]),
            Self::Approval => starter!("approval", ["publish.rhai"]),
            Self::Debugging => shipped!("debugging", ["detect.rhai", "validate.rhai"]),
            Self::Research => shipped!("researcher", ["archive.rhai", "librarian.rhai", "summarizer.rhai"]),
            Self::Game => shipped!("story", ["storyteller.rhai"]),
            Self::Debate => starter!("debate", []),
            Self::MapFiles => shipped!(
                "reviews",
                [
                    "list.sh",
                    "read.sh",
                    "reader.rhai",
                    "bread.txt",
                    "coffee.txt",
                    "prices.txt",
                    "service.txt",
                    "tables.txt"
                ]
            ),
            Self::Chat => starter!("chat", ["companion.rhai"]),
            Self::Assistant => shipped!("assistant", ["clerk.rhai", "hours.rhai", "price.rhai"]),
        }
    }

    /// Returns the name of the command with which a user tries the ensemble.
    pub(crate) fn first_command_name(self) -> &'static str {
        match self {
            Self::Chat | Self::Assistant => "chat",
            _ => "run",
        }
    }
}
