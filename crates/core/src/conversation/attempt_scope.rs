//! Where in a run something inside an execution happened.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Attempt of an execution, or of one of its parts, to which a recorded reply or tool call belongs.
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
    /// Returns whether the scope is the execution itself, and not a part or an agent that is used as a tool.
    pub fn is_execution(&self) -> bool {
        self.part.is_none() && self.outer_calls.is_empty()
    }

    /// Returns the part and the outer calls, under which the exchange of the scope is stored.
    pub(super) fn exchange_key(&self) -> ExchangeKey {
        (self.part.clone(), self.outer_calls.clone())
    }

    /// Writes the keys of the attempt. The caller writes the keys of the event next to them.
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

/// The key of an exchange: the part, and the ids of the outer calls that contain the agent.
pub(super) type ExchangeKey = (Option<Arc<str>>, Vec<Arc<str>>);

/// Implements serialization of an event inside an execution. The keys of [`AttemptScope`] and of the event are on the same level of the
/// JSON object.
/// The result is that of `serde(flatten)`, without a copy of each value and with a shorter compile time.
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
