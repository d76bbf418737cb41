//! Addresses of questions and permission requests: `left.ok`, `each[alpha].ok`, `bot/pay#2`.
//!
//! An address is the path of agents from the outermost run to the agent that asks. A segment has the key of the part in
//! brackets, and the calls of tools that lead to the request. A name with a character that has a meaning in an address is
//! written as a JSON string.

use std::fmt;
use std::iter::Peekable;
use std::str::{CharIndices, FromStr};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Address of a question or of a permission request: the path of agents to the agent that asks. The empty address is the outermost run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RequestAddress(Vec<AddressSegment>);

/// Agent of an address, with its part and its tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressSegment {
    /// The agent.
    pub agent: Arc<str>,
    /// With `for_each`: the key of the part.
    pub part: Option<Arc<str>>,
    /// The calls of tools, each inside the one before.
    pub calls: Vec<AddressToolCall>,
}

/// Tool call in an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressToolCall {
    /// The tool: its name, or `SERVER.TOOL`.
    pub tool: Arc<str>,
    /// The number of the call among the calls of the tool in the execution, from 1.
    pub number: u32,
}

/// Error about a text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address of a question, such as `agent`, `outer.agent`, `agent[part]` or `agent/tool#1`")]
pub struct AddressError {
    /// The text.
    pub text: String,
}

impl RequestAddress {
    /// Returns the address of an agent of the outermost run.
    pub fn for_agent(agent: impl Into<Arc<str>>) -> Self {
        Self::default().append_agent(agent.into())
    }

    /// Returns the address of an agent in the run at this address.
    #[must_use]
    pub fn append_agent(&self, agent: Arc<str>) -> Self {
        let mut segments = self.0.clone();
        segments.push(AddressSegment {
            agent,
            part: None,
            calls: Vec::new(),
        });
        Self(segments)
    }

    /// Returns the address of a part of this execution.
    #[must_use]
    pub fn set_last_part(&self, key: Arc<str>) -> Self {
        self.with_changed_last_segment(|segment| segment.part = Some(key))
    }

    /// Returns the address of a tool call in this execution.
    #[must_use]
    pub fn append_tool_call(&self, tool: Arc<str>, number: u32) -> Self {
        self.with_changed_last_segment(|segment| segment.calls.push(AddressToolCall { tool, number }))
    }

    /// Returns the address with a changed last segment. Returns the empty address unchanged.
    fn with_changed_last_segment(&self, change: impl FnOnce(&mut AddressSegment)) -> Self {
        let mut segments = self.0.clone();
        if let Some(last) = segments.last_mut() {
            change(last);
        }
        Self(segments)
    }

    /// Removes the last tool call of the last segment, so that the address is that of the agent that makes the call.
    #[must_use]
    pub fn without_last_call(&self) -> Self {
        let mut segments = self.0.clone();
        if let Some(last) = segments.last_mut() {
            last.calls.pop();
        }
        Self(segments)
    }

    /// Creates the address from its segments, the outermost first.
    pub(super) fn from_segments(segments: Vec<AddressSegment>) -> Self {
        Self(segments)
    }

    /// Returns the segments, the outermost first.
    pub fn segments(&self) -> &[AddressSegment] {
        &self.0
    }

    /// Returns whether this is the outermost run.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the agent of the last segment. Returns an empty text for the outermost run.
    pub fn asking_agent(&self) -> &str {
        self.0.last().map_or("", |segment| &segment.agent)
    }

    /// Returns whether the agent of the last segment has this name. Ignores the path, the part and the calls.
    pub fn ends_with_agent(&self, name: &str) -> bool {
        self.asking_agent() == name
    }

    /// Splits `ADDRESS=TEXT` at the first `=` outside of quotes and brackets. Returns `None` without such a `=`.
    pub fn split_address_assignment(text: &str) -> Option<(&str, &str)> {
        let (mut is_quoted, mut is_escaped, mut depth) = (false, false, 0_usize);
        for (at, char) in text.char_indices() {
            match char {
                _ if is_escaped => is_escaped = false,
                '\\' if is_quoted => is_escaped = true,
                '"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                '=' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
                _ => {}
            }
        }
        None
    }
}

impl fmt::Display for RequestAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            write_quoted_if_special(f, &segment.agent, is_special_in_agent_name)?;
            if let Some(key) = &segment.part {
                f.write_str("[")?;
                write_quoted_if_special(f, key, is_special_in_part_key)?;
                f.write_str("]")?;
            }
            for call in &segment.calls {
                f.write_str("/")?;
                write_quoted_if_special(f, &call.tool, is_special_in_tool_name)?;
                write!(f, "#{}", call.number)?;
            }
        }
        Ok(())
    }
}

/// Returns whether an agent name with this character must be quoted.
fn is_special_in_agent_name(char: char) -> bool {
    matches!(char, '.' | '/') || is_special_in_tool_name(char)
}

/// Returns whether a part key with this character must be quoted.
fn is_special_in_part_key(char: char) -> bool {
    matches!(char, '[' | ']' | '"') || char.is_control()
}

/// Returns whether a tool name with this character must be quoted.
fn is_special_in_tool_name(char: char) -> bool {
    matches!(char, '#' | '"' | '=' | '[' | ']') || char.is_whitespace() || char.is_control()
}

/// Writes the name, as a JSON string if the name is empty or has a special character.
fn write_quoted_if_special(f: &mut fmt::Formatter<'_>, name: &str, is_special: fn(char) -> bool) -> fmt::Result {
    if name.is_empty() || name.contains(is_special) {
        return f.write_str(&serde_json::Value::from(name).to_string());
    }
    f.write_str(name)
}

impl FromStr for RequestAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut reader = AddressParser {
            text,
            chars: text.char_indices().peekable(),
        };
        reader
            .parse_address()
            .ok_or_else(|| AddressError { text: text.to_owned() })
    }
}

/// Parser of an address text.
struct AddressParser<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
}

impl AddressParser<'_> {
    /// Parses segments up to the end of the text. Returns `None` for invalid text.
    fn parse_address(&mut self) -> Option<RequestAddress> {
        let mut segments = Vec::new();
        loop {
            segments.push(self.parse_segment()?);
            match self.chars.next() {
                None => return Some(RequestAddress(segments)),
                Some((_, '.')) => {}
                Some(_) => return None,
            }
        }
    }

    /// Parses an agent with its part and its tool calls. A call without a number is the first call.
    fn parse_segment(&mut self) -> Option<AddressSegment> {
        let agent = self.parse_name(is_special_in_agent_name)?;
        let part = match self.consume_char('[') {
            true => Some(self.parse_name(is_special_in_part_key)?),
            false => None,
        };
        if part.is_some() && !self.consume_char(']') {
            return None;
        }
        let mut calls = Vec::new();
        while self.consume_char('/') {
            let tool = self.parse_name(is_special_in_tool_name)?;
            let number = if self.consume_char('#') {
                self.parse_number()?
            } else {
                return None;
            };
            calls.push(AddressToolCall { tool, number });
        }
        Some(AddressSegment { agent, part, calls })
    }

    /// Parses a plain name up to a special character, or a JSON string.
    fn parse_name(&mut self, is_special: fn(char) -> bool) -> Option<Arc<str>> {
        let begin = self.next_char_offset();
        if self.consume_char('"') {
            let mut is_escaped = false;
            loop {
                match self.chars.next()?.1 {
                    _ if is_escaped => is_escaped = false,
                    '\\' => is_escaped = true,
                    '"' => break,
                    _ => {}
                }
            }
            let quoted = &self.text[begin..self.next_char_offset()];
            return Some(serde_json::from_str::<String>(quoted).ok()?.into());
        }
        while self.chars.next_if(|(_, char)| !is_special(*char)).is_some() {}
        let name = &self.text[begin..self.next_char_offset()];
        (!name.is_empty()).then(|| name.into())
    }

    /// Parses decimal digits. Returns `None` without digits or on overflow.
    fn parse_number(&mut self) -> Option<u32> {
        let begin = self.next_char_offset();
        while self.chars.next_if(|(_, char)| char.is_ascii_digit()).is_some() {}
        self.text[begin..self.next_char_offset()].parse().ok()
    }

    /// Consumes the next character if it is the expected one. Returns whether it was.
    fn consume_char(&mut self, expected: char) -> bool {
        self.chars.next_if(|(_, char)| *char == expected).is_some()
    }

    /// Returns the byte offset of the next character, or the length of the text at the end.
    fn next_char_offset(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }
}

impl Serialize for RequestAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_printed_as_they_are_documented() {
        let left = RequestAddress::for_agent("left");
        let each = RequestAddress::for_agent("each");
        let bot = RequestAddress::for_agent("bot");
        for (address, text) in [
            (left.append_agent("ok".into()), "left.ok"),
            (
                each.set_last_part("alpha".into()).append_agent("ok".into()),
                "each[alpha].ok",
            ),
            (bot.append_tool_call("pay".into(), 2), "bot/pay#2"),
            (bot.append_tool_call("files.write".into(), 1), "bot/files.write#1"),
            (
                bot.append_tool_call("helper".into(), 1)
                    .append_tool_call("pay".into(), 3),
                "bot/helper#1/pay#3",
            ),
            (
                bot.append_tool_call("look".into(), 1).append_agent("gate".into()),
                "bot/look#1.gate",
            ),
            (RequestAddress::for_agent("v1.2"), r#""v1.2""#),
            (each.set_last_part("a]b".into()), r#"each["a]b"]"#),
        ] {
            assert_eq!(address.to_string(), text);
            assert_eq!(text.parse(), Ok(address));
        }
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in [
            "", ".", "a.", ".a", "a[", "a[]", "a[b", "a/b", "a/b#", "a/b#x", "a b", r#""a"#,
        ] {
            assert!(text.parse::<RequestAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_assignment_is_split_outside_of_quotes_and_brackets() {
        for (text, split) in [
            ("gate=yes=no", Some(("gate", "yes=no"))),
            ("each[a=b].ok=yes", Some(("each[a=b].ok", "yes"))),
            (r#""a=b".ok=yes"#, Some((r#""a=b".ok"#, "yes"))),
            ("gate", None),
        ] {
            assert_eq!(RequestAddress::split_address_assignment(text), split);
        }
    }

    fn any_address() -> impl Strategy<Value = RequestAddress> {
        let call = (".{1,6}", 1_u32..99).prop_map(|(tool, number)| AddressToolCall {
            tool: tool.into(),
            number,
        });
        let segment = (
            ".{1,6}",
            proptest::option::of(".{0,6}"),
            proptest::collection::vec(call, 0..3),
        );
        let segment = segment.prop_map(|(agent, part, calls)| AddressSegment {
            agent: agent.into(),
            part: part.map(Into::into),
            calls,
        });
        proptest::collection::vec(segment, 1..4).prop_map(RequestAddress)
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed(address in any_address(), answer in ".*") {
            let text = address.to_string();
            prop_assert_eq!(text.parse(), Ok(address));
            let assignment = format!("{text}={answer}");
            prop_assert_eq!(RequestAddress::split_address_assignment(&assignment), Some((&*text, &*answer)));
        }
    }
}
