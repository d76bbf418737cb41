//! Keys of other systems that have the meaning of a key of this language.

use super::FileSection;

/// A key of another system, in one section.
pub(crate) struct KeySynonym {
    section: FileSection,
    name: &'static str,
    /// The key of the section to write instead.
    pub(crate) meant: &'static str,
    /// The advice, if the value has another form or another place in this language.
    pub(crate) advice: Option<&'static str>,
}

/// Rows: `Section "name" => "meant", "advice";`.
macro_rules! key_synonyms {
    ($($section:ident $name:literal => $meant:literal $(, $advice:literal)?;)*) => {
        &[$(KeySynonym {
            section: FileSection::$section,
            name: $name,
            meant: $meant,
            advice: key_synonyms!(@optional $($advice)?),
        }),*]
    };
    (@optional) => { None };
    (@optional $advice:expr) => { Some($advice) };
}

static KEY_SYNONYMS: &[KeySynonym] = key_synonyms![
    Ensemble "steps" => "agents";
    Ensemble "nodes" => "agents";
    Ensemble "tasks" => "agents";
    Ensemble "id" => "name";
    Ensemble "timeout" => "conversation_limits", "write `conversation_limits: {timeout_seconds: SECONDS}`";
    Ensemble "max_turn" => "conversation_limits", "write `conversation_limits: {max_total_turns: COUNT}`";
    Agent "id" => "name";
    Agent "timeout" => "timeout_seconds";
    Agent "needs" => "depends_on";
    Agent "depends" => "depends_on";
    Agent "if" => "dependencies", "write a `condition` in the agent's `dependencies`";
    Agent "run" => "script";
    Agent "cmd" => "script";
    Agent "command" => "script";
    Agent "retries" => "retry", "write `retry: {max_attempts: COUNT}`; the first attempt counts";
    Agent "instructions" => "system_prompt";
    Agent "system" => "system_prompt";
    Agent "schema" => "output_schema";
    Agent "max_turn" => "conversation", "write `conversation: {max_turns: COUNT}`";
    Defaults "timeout" => "timeout_seconds";
    Defaults "retries" => "retry", "write `retry: {max_attempts: COUNT}`; the first attempt counts";
    Defaults "instructions" => "system_prompt";
    Defaults "system" => "system_prompt";
    Defaults "schema" => "output_schema";
    Defaults "max_turn" => "conversation", "write `conversation: {max_turns: COUNT}`";
    Conversation "max_turn" => "max_turns";
    Limits "max_turn" => "max_total_turns";
    Limits "timeout" => "timeout_seconds";
    Dependency "id" => "agent_name";
    Dependency "needs" => "agent_name";
    Dependency "depends" => "agent_name";
    Dependency "if" => "condition";
    Dependency "when" => "condition";
    Retry "retries" => "max_attempts";
    Input "timeout" => "timeout_seconds";
    Profile "timeout" => "timeout_seconds";
    Profile "instructions" => "system_prompt";
    Profile "system" => "system_prompt";
    Profile "retries" => "retry", "write `retry: {max_attempts: COUNT}`; the first attempt counts";
    Tool "timeout" => "timeout_seconds";
    Tool "run" => "script";
    Tool "cmd" => "script";
    Tool "command" => "script";
    Tool "schema" => "parameters";
    Mcp "cmd" => "command";
    Mcp "run" => "command";
    Acp "cmd" => "command";
    Acp "run" => "command";
];

impl KeySynonym {
    /// Returns the synonym with this name in the section.
    pub(crate) fn find_in_section(section: FileSection, name: &str) -> Option<&'static Self> {
        KEY_SYNONYMS
            .iter()
            .find(|synonym| synonym.section == section && synonym.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_no_keys_and_mean_keys_of_their_sections() {
        for synonym in KEY_SYNONYMS {
            let mut names = synonym.section.key_names();
            assert!(names.all(|name| name != synonym.name), "{}", synonym.name);
            let mut names = synonym.section.key_names();
            assert!(
                names.any(|name| name == synonym.meant),
                "{} => {}",
                synonym.name,
                synonym.meant
            );
        }
    }
}
