//! Where in a run something inside an execution happened.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// The attempt of an execution, or of one of its parts, in which a reply or a call happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptScope {
    /// The turn.
    pub turn: u32,
    /// The agent.
    pub agent: Arc<str>,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// The number of the attempt.
    pub attempt: u32,
    /// With `for_each`: the key of the part.
    pub part: Option<Arc<str>>,
    /// For an agent that is used as a tool: the ids of the calls that contain it, the outermost first.
    pub outer_calls: Vec<Arc<str>>,
}

impl AttemptScope {
    /// Returns whether this is the execution itself, and not a part of it or an agent that is used as a tool.
    pub fn is_execution(&self) -> bool {
        self.part.is_none() && self.outer_calls.is_empty()
    }

    pub(super) fn exchange_key(&self) -> ExchangeKey {
        (self.part.clone(), self.outer_calls.clone())
    }

    /// Writes the keys of the attempt, beside which the keys of the event follow.
    pub(super) fn write_keys<S: SerializeStruct>(&self, event: &mut S) -> Result<(), S::Error> {
        event.serialize_field("turn", &self.turn)?;
        event.serialize_field("agent", &self.agent)?;
        event.serialize_field("execution", &self.execution)?;
        event.serialize_field("attempt", &self.attempt)?;
        if let Some(part) = &self.part {
            event.serialize_field("part", part)?;
        }
        if !self.outer_calls.is_empty() {
            event.serialize_field("inside", &self.outer_calls)?;
        }
        Ok(())
    }
}

impl Serialize for AttemptScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut within = serializer.serialize_struct("Within", 6)?;
        self.write_keys(&mut within)?;
        within.end()
    }
}

/// The part, and the ids of the calls that contain the agent.
pub(super) type ExchangeKey = (Option<Arc<str>>, Vec<Arc<str>>);

/// Reads and writes an event inside an execution, whose `within` is no key of the JSON: the keys of [`AttemptScope`] are beside
/// those of the event. `serde(flatten)` would do the same with a copy of each value, and takes much longer to compile.
macro_rules! flat_within {
    ($event:ident { $($field:ident: $type:ty,)* $(? $optional:ident: $some:ty,)* }) => {
        impl serde::Serialize for $event {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let mut event = serializer.serialize_struct(stringify!($event), 15)?;
                self.within.write_keys(&mut event)?;
                $(event.serialize_field(stringify!($field), &self.$field)?;)*
                $(if let Some(value) = &self.$optional {
                    event.serialize_field(stringify!($optional), value)?;
                })*
                event.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $event {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                struct AttemptScopeFields {
                    turn: u32,
                    agent: std::sync::Arc<str>,
                    execution: u32,
                    attempt: u32,
                    part: Option<std::sync::Arc<str>>,
                    #[serde(default)]
                    inside: Vec<std::sync::Arc<str>>,
                    $($field: $type,)*
                    $($optional: Option<$some>,)*
                }
                let read = AttemptScopeFields::deserialize(deserializer)?;
                Ok(Self {
                    within: $crate::conversation::AttemptScope {
                        turn: read.turn,
                        agent: read.agent,
                        execution: read.execution,
                        attempt: read.attempt,
                        part: read.part,
                        outer_calls: read.inside,
                    },
                    $($field: read.$field,)*
                    $($optional: read.$optional,)*
                })
            }
        }
    };
}
pub(super) use flat_within;
