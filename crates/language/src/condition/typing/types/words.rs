//! Types in the words of a message.

use std::fmt;

use super::{NumberRange, PossibleTexts, ValueType};

/// In the words of a sentence: `a number from 0 to 10`, `one of 'a', 'b'`, `true or false`.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(shape) = self.known_shape() else {
            return f.write_str("anything");
        };
        let mut kinds: Vec<String> = Vec::new();
        match (shape.can_be_false, shape.can_be_true) {
            (true, true) => kinds.push("true or false".to_owned()),
            (true, false) => kinds.push("false".to_owned()),
            (false, true) => kinds.push("true".to_owned()),
            (false, false) => {}
        }
        kinds.extend(shape.number.map(|range| range.to_string()));
        kinds.extend(shape.text.as_ref().map(ToString::to_string));
        kinds.extend(shape.list.as_ref().map(|_| "a list".to_owned()));
        kinds.extend(shape.map.as_ref().map(|_| "a map".to_owned()));
        if shape.can_be_nothing {
            kinds.push("nothing".to_owned());
        }
        match kinds.split_last() {
            None => f.write_str("no value"),
            Some((last, [])) => f.write_str(last),
            Some((last, first)) => write!(f, "{} or {last}", first.join(", ")),
        }
    }
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.low, self.high);
        let above = if self.excludes_low { "above" } else { "from" };
        let below = if self.excludes_high { "below" } else { "to" };
        match (low.is_finite(), high.is_finite()) {
            (true, true) if low == high => write!(f, "the number {low}"),
            (true, true) => write!(f, "a number {above} {low} {below} {high}"),
            (true, false) if self.excludes_low => write!(f, "a number above {low}"),
            (true, false) => write!(f, "a number of at least {low}"),
            (false, true) if self.excludes_high => write!(f, "a number below {high}"),
            (false, true) => write!(f, "a number of at most {high}"),
            (false, false) => f.write_str("a number"),
        }
    }
}

impl fmt::Display for PossibleTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        match self {
            Self::Any => f.write_str("a string"),
            Self::OneOf(texts) => {
                let quoted: Vec<String> = texts.iter().take(SHOWN).map(|text| format!("'{text}'")).collect();
                let more = if texts.len() > SHOWN { ", …" } else { "" };
                match quoted.as_slice() {
                    [] => f.write_str("no string"),
                    [one] => write!(f, "the string {one}"),
                    _ => write!(f, "one of {}{more}", quoted.join(", ")),
                }
            }
        }
    }
}
