//! Names: this language allows fewer characters than llm-orc.

use std::collections::{HashMap, HashSet};

use super::values::scalar_or_empty_text;
use ensemble_language::loader::document::{YamlDocument, YamlNode};
use ensemble_language::names::is_name_char;

/// Help text with the rule for names.
pub(super) const NAME_RULE_HELP: &str =
    "a name starts with a letter or a digit, and contains only letters, digits, `_`, `.` and `-`";

/// Old and new names of the agents, in file order.
pub(super) struct AgentNameMapping {
    pairs: Vec<(Option<String>, String)>,
    /// The index of an agent by its old name; of several, the first.
    old: HashMap<String, usize>,
}

impl AgentNameMapping {
    /// Assigns a valid and unique name to every agent of the document.
    pub(super) fn assign_unique_names(document: &YamlDocument) -> Self {
        let mut taken_names = HashSet::new();
        let items = document
            .root()
            .get("agents")
            .and_then(YamlNode::items)
            .unwrap_or_default();
        let pairs = items.iter().enumerate().map(|(at, item)| {
            let old = item
                .get("name")
                .map(scalar_or_empty_text)
                .filter(|name| !name.is_empty());
            let wanted_name = sanitize_name(old.as_deref().unwrap_or_default(), &format!("agent-{}", at + 1));
            (old, reserve_unused_name(wanted_name, &mut taken_names))
        });
        let pairs: Vec<(Option<String>, String)> = pairs.collect();
        let mut positions = HashMap::new();
        for (at, (old, _)) in pairs.iter().enumerate() {
            if let Some(old) = old {
                positions.entry(old.clone()).or_insert(at);
            }
        }
        Self { pairs, old: positions }
    }

    /// Returns the old and the new name of the agent at this index. The old name is `None` if the agent had none.
    pub(super) fn old_and_new_name(&self, index: usize) -> (Option<&str>, &str) {
        let (old, new) = &self.pairs[index];
        (old.as_deref(), new)
    }

    /// Returns the new name of the agent with this old name.
    pub(super) fn find_new_name(&self, old: &str) -> Option<&str> {
        self.find_agent_index(old).map(|at| self.pairs[at].1.as_str())
    }

    /// Returns the index of the agent with this old name.
    pub(super) fn find_agent_index(&self, old: &str) -> Option<usize> {
        self.old.get(old).copied()
    }

    /// Returns the wanted name, or the name with a number if an agent has the name.
    pub(super) fn unused_name(&self, wanted: &str) -> String {
        let mut taken_names = self.list_new_names().map(str::to_owned).collect();
        reserve_unused_name(wanted.to_owned(), &mut taken_names)
    }

    /// Returns all new names.
    pub(super) fn list_new_names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(_, new)| new.as_str())
    }
}

/// Returns the wanted name, or the name with a number if it is in `taken`. Adds the result to `taken`.
fn reserve_unused_name(wanted: String, taken: &mut HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    let name = std::iter::once(wanted.clone())
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .unwrap_or(wanted);
    taken.insert(name.clone());
    name
}

/// Replaces invalid characters of the name by dashes. Returns `otherwise` if nothing is left.
pub(super) fn sanitize_name(name: &str, otherwise: &str) -> String {
    let name: String = name
        .trim()
        .chars()
        .map(|c| if is_name_char(c) { c } else { '-' })
        .collect();
    let name = name
        .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .trim_end_matches('-');
    if name.is_empty() {
        otherwise.to_owned()
    } else {
        name.to_owned()
    }
}
