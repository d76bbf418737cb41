//! The templates of `ensemble init`. All of them use simulated models, so that they run without a key and a network.

use crate::command::setup::init::StarterTemplate;

/// The line that leads an editor to the schema in the same folder.
const SCHEMA_LINE: &str = "# yaml-language-server: $schema=ensemble.schema.json\n";

impl StarterTemplate {
    /// Returns the files below the folder of the project with their texts: the ensemble, and then its scripts.
    pub(crate) fn project_files(self, name: &str) -> Vec<(String, String)> {
        let scripts = self.script_files().iter();
        let scripts = scripts.map(|(script, text)| (format!("ensembles/{name}/{script}"), (*text).to_owned()));
        let ensemble = (format!("ensembles/{name}.yaml"), self.ensemble_text(name));
        std::iter::once(ensemble).chain(scripts).collect()
    }

    /// Returns the text of the ensemble.
    fn ensemble_text(self, name: &str) -> String {
        let text = match self {
            Self::ReviewLoop => include_str!("../starter/review-loop/ensemble.yaml").replace("NAME", name),
            Self::Chat => include_str!("../starter/chat/ensemble.yaml").replace("NAME", name),
            Self::Approval => include_str!("../starter/approval/ensemble.yaml").replace("NAME", name),
            Self::Assistant => include_str!("../../../../ensembles/assistant.yaml")
                .replace("ensembles/assistant.yaml", name)
                .replace("name: assistant\n", &format!("name: {name}\n"))
                .replace("assistant/", &format!("{name}/")),
            Self::MapFiles => include_str!("../../../../ensembles/reviews.yaml")
                .replace("ensembles/reviews.yaml", name)
                .replace("name: reviews\n", &format!("name: {name}\n"))
                .replace("reviews/", &format!("{name}/"))
                .replace("ensembles/reviews`", &format!("ensembles/{name}`")),
        };
        format!("{SCHEMA_LINE}{text}")
    }

    /// Returns the scripts, and the files that they read, by their names.
    fn script_files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ReviewLoop => &[("reviewer.rhai", include_str!("../starter/review-loop/reviewer.rhai"))],
            Self::Chat => &[("companion.rhai", include_str!("../starter/chat/companion.rhai"))],
            Self::Approval => &[("publish.rhai", include_str!("../starter/approval/publish.rhai"))],
            Self::Assistant => &[
                ("clerk.rhai", include_str!("../../../../ensembles/assistant/clerk.rhai")),
                ("hours.rhai", include_str!("../../../../ensembles/assistant/hours.rhai")),
                ("price.rhai", include_str!("../../../../ensembles/assistant/price.rhai")),
            ],
            Self::MapFiles => &[
                ("list.sh", include_str!("../../../../ensembles/reviews/list.sh")),
                ("read.sh", include_str!("../../../../ensembles/reviews/read.sh")),
                ("reader.rhai", include_str!("../../../../ensembles/reviews/reader.rhai")),
                ("bread.txt", include_str!("../../../../ensembles/reviews/bread.txt")),
                ("coffee.txt", include_str!("../../../../ensembles/reviews/coffee.txt")),
                ("prices.txt", include_str!("../../../../ensembles/reviews/prices.txt")),
                ("service.txt", include_str!("../../../../ensembles/reviews/service.txt")),
                ("tables.txt", include_str!("../../../../ensembles/reviews/tables.txt")),
            ],
        }
    }

    /// Returns the command with which a person tries the ensemble.
    pub(crate) fn first_command(self) -> &'static str {
        match self {
            Self::ReviewLoop | Self::Approval | Self::MapFiles => "run",
            Self::Chat | Self::Assistant => "chat",
        }
    }
}
