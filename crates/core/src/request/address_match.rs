//! Names of requests as people write them: an address, an address without the keys of parts and the calls, or the bare name
//! of the agent that asks.
//!
//! A name without a key means every part: `each.ok` means `each[alpha].ok` and `each[beta].ok`. A name without a call
//! means every call: `lookup.gate` means `bot/lookup#1.gate`, and `person` means `bot/ask#1.person`.
//!
//! **Invariant:** options, files of answers, tests and stubs find their requests with these functions only.

use super::{AddressSegment, RequestAddress};

/// Precision with which a name matches an address, the least precise first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressMatchPrecision {
    /// The name is the bare name of the agent that asks.
    AgentName,
    /// The name is the address without keys or calls.
    Path,
    /// The name is the address.
    Exact,
}

impl RequestAddress {
    /// Returns the precision with which the name matches this address. Returns `None` if the name does not match.
    pub fn match_precision(&self, name: &str) -> Option<AddressMatchPrecision> {
        match name.parse::<Self>() {
            Ok(given) if given == *self => return Some(AddressMatchPrecision::Exact),
            Ok(given) if matches_shortened_segments(given.segments(), self.segments()) => {
                return Some(AddressMatchPrecision::Path);
            }
            _ => {}
        }
        self.ends_with_agent(name).then_some(AddressMatchPrecision::AgentName)
    }

    /// Returns the precision with which the name can match requests of this agent, before part keys and call numbers are known.
    pub fn match_declared_precision(&self, name: &str) -> Option<AddressMatchPrecision> {
        let declared = self.without_keys_and_call_numbers();
        if let Ok(given) = name.parse::<Self>() {
            let given = given.without_keys_and_call_numbers();
            if given == declared {
                return Some(AddressMatchPrecision::Exact);
            }
            let (given, declared) = (given.segments(), declared.segments());
            // An agent is declared once, and called as a tool from others.
            if matches_shortened_segments(given, declared) || matches_shortened_segments(declared, given) {
                return Some(AddressMatchPrecision::Path);
            }
        }
        self.ends_with_agent(name).then_some(AddressMatchPrecision::AgentName)
    }

    /// Returns whether a segment of the address has a part key.
    pub fn has_part_keys(&self) -> bool {
        self.segments().iter().any(|segment| segment.part.is_some())
    }

    /// Removes the part keys, and sets all call numbers to 1.
    fn without_keys_and_call_numbers(&self) -> Self {
        let mut segments = self.segments().to_vec();
        for segment in &mut segments {
            segment.part = None;
            segment.calls.iter_mut().for_each(|call| call.number = 1);
        }
        Self::from_segments(segments)
    }
}

/// Returns the value whose name matches the address most precisely. Returns the first one of several.
pub fn find_most_precise_match<'n, T>(
    entries: impl IntoIterator<Item = (&'n str, T)>,
    address: &RequestAddress,
) -> Option<T> {
    let mut best: Option<(AddressMatchPrecision, T)> = None;
    for (name, entry) in entries {
        let Some(precision) = address.match_precision(name) else {
            continue;
        };
        if best.as_ref().is_none_or(|(known, _)| precision > *known) {
            best = Some((precision, entry));
        }
    }
    best.map(|(_, entry)| entry)
}

/// Returns whether the name has the segments of the address, with some part keys and calls left out.
/// An agent that makes a call is left out, or is replaced by the name of the tool.
fn matches_shortened_segments(name: &[AddressSegment], address: &[AddressSegment]) -> bool {
    let Some((asking, outer)) = address.split_first() else {
        return name.is_empty();
    };
    let is_caller = !asking.calls.is_empty() && !outer.is_empty();
    if is_caller && matches_shortened_segments(name, outer) {
        return true;
    }
    let Some((given, rest)) = name.split_first() else {
        return false;
    };
    let is_part = given.part.is_none() || given.part == asking.part;
    let is_agent = given.agent == asking.agent && is_part && given.calls == asking.calls;
    let is_plain = given.part.is_none() && given.calls.is_empty();
    let tool = asking.calls.last().filter(|_| is_caller && is_plain);
    (is_agent || tool.is_some_and(|call| call.tool == given.agent)) && matches_shortened_segments(rest, outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> RequestAddress {
        text.parse().expect("an address")
    }

    #[test]
    fn a_name_means_an_address_with_and_without_its_keys_and_calls() {
        use AddressMatchPrecision::{AgentName, Exact, Path};
        for (name, of, expected) in [
            ("each[alpha].ok", "each[alpha].ok", Some(Exact)),
            ("each.ok", "each[alpha].ok", Some(Path)),
            ("each[beta].ok", "each[alpha].ok", None),
            ("each", "each[alpha]", Some(Path)),
            ("ok", "each[alpha].ok", Some(AgentName)),
            ("left.ok", "each[alpha].ok", None),
            ("each", "each[alpha].ok", None),
            ("a[1].b.ok", "a[1].b[2].ok", Some(Path)),
            ("a.b[3].ok", "a[1].b[2].ok", None),
            ("bot/lookup#1.gate", "bot/lookup#1.gate", Some(Exact)),
            ("bot/lookup#2.gate", "bot/lookup#1.gate", None),
            ("lookup.gate", "bot/lookup#3.gate", Some(Path)),
            ("bot.gate", "bot/lookup#1.gate", None),
            ("bot/lookup#1.gate", "bot[x]/lookup#1.gate", Some(Path)),
            ("out.person", "out[x].bot/ask#1.person", Some(Path)),
            ("pay", "bot/pay#1", None),
            ("bot/pay#1", "bot/pay#1", Some(Exact)),
            ("v1.2", r#""v1.2""#, Some(AgentName)),
            ("two words", r#""two words""#, Some(AgentName)),
        ] {
            assert_eq!(address(of).match_precision(name), expected, "{name} {of}");
        }
    }

    #[test]
    fn the_keys_and_numbers_of_a_name_are_unknown_before_a_run() {
        use AddressMatchPrecision::{AgentName, Exact, Path};
        for (name, declared, expected) in [
            ("each[alpha].ok", "each.ok", Some(Exact)),
            ("bot/lookup#7.gate", "bot/lookup#1.gate", Some(Exact)),
            ("lookup.gate", "bot/lookup#1.gate", Some(Path)),
            ("bot/lookup#7.gate", "lookup.gate", Some(Path)),
            ("bot/ask#1.person", "person", Some(Path)),
            ("ok", "each.ok", Some(AgentName)),
            ("each[alpha].go", "each.ok", None),
            ("left.person", "person", None),
        ] {
            assert_eq!(
                address(declared).match_declared_precision(name),
                expected,
                "{name} {declared}"
            );
        }
    }

    #[test]
    fn the_most_precise_name_is_found_and_of_several_the_first() {
        let entries = [("ok", 1), ("each.ok", 2), ("each[b].ok", 3), ("each[b].ok", 4)];
        for (of, expected) in [
            ("each[b].ok", Some(3)),
            ("each[a].ok", Some(2)),
            ("ok", Some(1)),
            ("left.ok", Some(1)),
            ("no", None),
        ] {
            assert_eq!(find_most_precise_match(entries, &address(of)), expected, "{of}");
        }
    }
}
