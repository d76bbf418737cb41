//! The definition of an agent: the digests of everything that determines the result of an execution.
//!
//! **Invariant:** a recorded result is reused only for an agent whose definition is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::sha256_of_text;

/// The parts of agents' definitions that the text of the ensemble does not contain, by agent.
pub type ExternalDefinitionDigests = BTreeMap<Arc<str>, AgentDefinitionDigests>;

/// The definition of an agent: the digest of every part that determines its results.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentDefinitionDigests(BTreeMap<AgentDefinitionPart, Arc<str>>);

/// A part of a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AgentDefinitionPart {
    /// The kind of part.
    pub kind: AgentDefinitionPartKind,
    /// The name: a key of the agent, a name in the ensemble, or a file.
    pub name: Arc<str>,
}

/// The kinds of parts of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentDefinitionPartKind {
    /// A key of the agent itself.
    Key,
    /// A model profile, with its fallbacks.
    Profile,
    /// A tool.
    Tool,
    /// An agent that performs a tool.
    Agent,
    /// A script or another program in a file.
    Script,
    /// A file that is sent to a model.
    Attachment,
    /// The file of a nested ensemble.
    Ensemble,
    /// A text that replaces results of an agent.
    Stub,
    /// A model that answers questions of an agent.
    Responder,
}

/// A difference between two definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionDifference {
    /// The part has another digest, or only one definition has the part.
    Changed(AgentDefinitionPart),
    /// The digest of the part was not recorded.
    Unknown(AgentDefinitionPart),
}

impl AgentDefinitionPartKind {
    const ALL: [Self; 9] = [
        Self::Key,
        Self::Profile,
        Self::Tool,
        Self::Agent,
        Self::Script,
        Self::Attachment,
        Self::Ensemble,
        Self::Stub,
        Self::Responder,
    ];

    /// Returns the word for the kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Profile => "model profile",
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Script => "script",
            Self::Attachment => "attachment",
            Self::Ensemble => "ensemble",
            Self::Stub => "stub",
            Self::Responder => "responder",
        }
    }
}

impl AgentDefinitionPart {
    /// Returns the part of this kind and name.
    pub fn new(kind: AgentDefinitionPartKind, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        Self { kind, name }
    }
}

/// ``tool `charge` ``.
impl fmt::Display for AgentDefinitionPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind.word(), self.name)
    }
}

impl From<AgentDefinitionPart> for String {
    fn from(part: AgentDefinitionPart) -> Self {
        format!("{}: {}", part.kind.word(), part.name)
    }
}

impl TryFrom<String> for AgentDefinitionPart {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let unknown = || format!("`{text}` is not the name of a part of a definition");
        let (word, name) = text.split_once(": ").ok_or_else(unknown)?;
        let kind = AgentDefinitionPartKind::ALL
            .into_iter()
            .find(|kind| kind.word() == word);
        Ok(Self::new(kind.ok_or_else(unknown)?, name))
    }
}

impl DefinitionDifference {
    /// Returns the part that differs or might differ.
    pub fn part(&self) -> &AgentDefinitionPart {
        match self {
            Self::Changed(part) | Self::Unknown(part) => part,
        }
    }
}

/// ``tool `charge` has changed``.
impl fmt::Display for DefinitionDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(part) => write!(f, "{part} has changed"),
            Self::Unknown(part) => write!(f, "{part} might have changed: the run did not record its digest"),
        }
    }
}

impl AgentDefinitionDigests {
    /// Adds a part with the digest of its text.
    pub fn add_part(&mut self, part: AgentDefinitionPart, text: &str) {
        self.add_part_digest(part, sha256_of_text(text).into());
    }

    /// Adds a part with its digest.
    pub fn add_part_digest(&mut self, part: AgentDefinitionPart, digest: Arc<str>) {
        self.0.insert(part, digest);
    }

    /// Adds the parts of another definition. Equal parts are replaced.
    pub fn add_or_replace_parts(&mut self, other: &Self) {
        let parts = other.0.iter();
        self.0
            .extend(parts.map(|(part, digest)| (part.clone(), digest.clone())));
    }

    /// Returns whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parts and their digests.
    pub fn iter(&self) -> impl Iterator<Item = (&AgentDefinitionPart, &Arc<str>)> {
        self.0.iter()
    }

    /// Returns the parts that differ. Parts that only one definition has are returned only if nothing else differs, because a
    /// changed key explains them. Keys of the agent are always returned.
    pub fn list_differing_parts(&self, other: &Self) -> Vec<AgentDefinitionPart> {
        let parts: BTreeSet<&AgentDefinitionPart> = self.0.keys().chain(other.0.keys()).collect();
        let differing = parts.into_iter().filter(|part| self.0.get(*part) != other.0.get(*part));
        let is_on_one_side = |part: &AgentDefinitionPart| {
            part.kind != AgentDefinitionPartKind::Key && (self.0.contains_key(part) != other.0.contains_key(part))
        };
        let (one_sided, both): (Vec<AgentDefinitionPart>, Vec<AgentDefinitionPart>) =
            differing.cloned().partition(is_on_one_side);
        if both.is_empty() { one_sided } else { both }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(parts: &[(AgentDefinitionPartKind, &str, &str)]) -> AgentDefinitionDigests {
        let mut definition = AgentDefinitionDigests::default();
        for (kind, name, text) in parts {
            definition.add_part(AgentDefinitionPart::new(*kind, *name), text);
        }
        definition
    }

    #[test]
    fn a_part_reads_back_from_its_text() {
        for kind in AgentDefinitionPartKind::ALL {
            let part = AgentDefinitionPart::new(kind, "scripts/a: b.py");
            assert_eq!(AgentDefinitionPart::try_from(String::from(part.clone())), Ok(part));
        }
        assert!(AgentDefinitionPart::try_from("moon: x".to_owned()).is_err());
    }

    #[test]
    fn parts_on_one_side_are_named_only_if_nothing_else_differs() {
        let one = definition(&[
            (AgentDefinitionPartKind::Key, "script", "a.sh"),
            (AgentDefinitionPartKind::Script, "a.sh", "1"),
        ]);
        let other = definition(&[
            (AgentDefinitionPartKind::Key, "script", "b.sh"),
            (AgentDefinitionPartKind::Script, "b.sh", "1"),
        ]);
        assert_eq!(
            one.list_differing_parts(&other),
            [AgentDefinitionPart::new(AgentDefinitionPartKind::Key, "script")]
        );
        let moved = definition(&[
            (AgentDefinitionPartKind::Key, "script", "a.sh"),
            (AgentDefinitionPartKind::Script, "scripts/a.sh", "1"),
        ]);
        let names = one
            .list_differing_parts(&moved)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        assert_eq!(names, ["script `a.sh`", "script `scripts/a.sh`"]);
        assert!(one.list_differing_parts(&one).is_empty());
    }
}
