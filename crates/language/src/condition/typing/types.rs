//! What a value can be, as far as it is known before a run: the kinds, and what is known of each.
//!
//! **Invariant:** a type never leaves out a value that can occur. What is not understood makes it wider.

mod ask;
mod later;
mod schema;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::later::Later;

/// The levels of a schema or a value that are looked at; what is below can be anything.
const DEEPEST: usize = 16;
/// The number of texts up to which each of them is known.
const MOST_TEXTS: usize = 200;

/// The type of a value: everything that it can be. A copy shares the kinds with the original.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Type(Option<Arc<Shape>>);

/// The kinds that the value can have. Nothing at all: there is no such value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Shape {
    pub(crate) nothing: bool,
    pub(crate) no: bool,
    pub(crate) yes: bool,
    pub(crate) number: Option<Range>,
    pub(crate) text: Option<Texts>,
    pub(crate) list: Option<Type>,
    pub(crate) map: Option<Fields>,
}

/// Numbers between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The lowest number, or minus infinity.
    pub low: f64,
    /// Whether `low` itself is left out.
    pub above_low: bool,
    /// The highest number, or infinity.
    pub high: f64,
    /// Whether `high` itself is left out.
    pub below_high: bool,
}

/// The texts that a value can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Texts {
    Any,
    OneOf(BTreeSet<String>),
}

/// The keys of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    /// The known keys, each with its value and whether it is always there.
    pub known: BTreeMap<String, (Type, bool)>,
    /// The values of other keys; `None`: there are no other keys.
    pub others: Option<Type>,
    /// Whether reading another key is an error instead of nothing.
    pub strict: bool,
}

impl Range {
    /// All numbers.
    pub const ALL: Self = Self::between(f64::NEG_INFINITY, f64::INFINITY);

    /// The numbers from `low` to `high`, both included.
    pub const fn between(low: f64, high: f64) -> Self {
        Self {
            low,
            above_low: false,
            high,
            below_high: false,
        }
    }

    fn or(self, other: Self) -> Self {
        let (low, above_low) = match self.low.total_cmp(&other.low) {
            std::cmp::Ordering::Less => (self.low, self.above_low),
            std::cmp::Ordering::Equal => (self.low, self.above_low && other.above_low),
            std::cmp::Ordering::Greater => (other.low, other.above_low),
        };
        let (high, below_high) = match self.high.total_cmp(&other.high) {
            std::cmp::Ordering::Greater => (self.high, self.below_high),
            std::cmp::Ordering::Equal => (self.high, self.below_high && other.below_high),
            std::cmp::Ordering::Less => (other.high, other.below_high),
        };
        Self {
            low,
            above_low,
            high,
            below_high,
        }
    }

    /// Returns whether some number of the first is below some number of the second; `or_equal`: or equal to it.
    pub(crate) fn can_be_below(self, other: Self, or_equal: bool) -> bool {
        self.low < other.high || or_equal && self.low == other.high && !self.above_low && !other.below_high
    }

    fn meets(self, other: Self) -> bool {
        self.can_be_below(other, true) && other.can_be_below(self, true)
    }

    fn holds(self, number: f64) -> bool {
        self.meets(Self::between(number, number))
    }
}

impl Fields {
    /// Exactly these keys, all of them always there.
    pub fn exactly(keys: impl IntoIterator<Item = (String, Type)>) -> Self {
        Self {
            known: keys.into_iter().map(|(key, value)| (key, (value, true))).collect(),
            others: None,
            strict: false,
        }
    }

    /// Nothing is known of the keys.
    pub fn any() -> Self {
        Self {
            known: BTreeMap::new(),
            others: Some(Type::any()),
            strict: false,
        }
    }

    /// The value under a key: nothing where it can be missing, `None` if there is no such key.
    pub(crate) fn get(&self, key: &str) -> Option<Type> {
        match (self.known.get(key), &self.others) {
            (Some((value, true)), _) => Some(value.clone()),
            (Some((value, false)), _) => Some(value.clone().or(Type::nothing())),
            (None, Some(others)) => Some(others.clone().or(Type::nothing())),
            (None, None) => None,
        }
    }

    fn or(self, mut other: Self) -> Self {
        let mut known = Vec::with_capacity(self.known.len());
        for (key, (a, a_always)) in self.known {
            let value = match (other.known.remove(&key), &other.others) {
                (Some((b, b_always)), _) => (a.or(b), a_always && b_always),
                (None, Some(others)) => (a.or(others.clone()), false),
                (None, None) => (a, false),
            };
            known.push((key, value));
        }
        for (key, (b, _)) in other.known {
            let value = match &self.others {
                Some(others) => (others.clone().or(b), false),
                None => (b, false),
            };
            known.push((key, value));
        }
        Self {
            known: known.into_iter().collect(),
            strict: self.strict && other.strict,
            others: both(self.others, other.others, Type::or),
        }
    }
}

impl Type {
    /// Nothing is known of the value.
    pub fn any() -> Self {
        Self(None)
    }

    fn of(shape: Shape) -> Self {
        Self(Some(Arc::new(shape)))
    }

    /// There is no such value.
    pub fn never() -> Self {
        Self::of(Shape::default())
    }

    /// Nothing: a missing key, or `null`.
    pub fn nothing() -> Self {
        Self::of(Shape {
            nothing: true,
            ..Shape::default()
        })
    }

    /// True or false.
    pub fn boolean() -> Self {
        Self::of(Shape {
            no: true,
            yes: true,
            ..Shape::default()
        })
    }

    /// A number.
    pub fn number(range: Range) -> Self {
        Self::of(Shape {
            number: Some(range),
            ..Shape::default()
        })
    }

    /// A whole number from 0 to `most`.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn count(most: u64) -> Self {
        Self::number(Range::between(0.0, most as f64))
    }

    /// Any text.
    pub fn text() -> Self {
        Self::of(Shape {
            text: Some(Texts::Any),
            ..Shape::default()
        })
    }

    /// Creates the type of a value that is one of these texts.
    pub fn one_of(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts: BTreeSet<String> = texts.into_iter().map(Into::into).collect();
        Self::of(Shape {
            text: Some(match texts.len() <= MOST_TEXTS {
                true => Texts::OneOf(texts),
                false => Texts::Any,
            }),
            ..Shape::default()
        })
    }

    /// A list of such items.
    pub fn list(item: Self) -> Self {
        Self::of(Shape {
            list: Some(item),
            ..Shape::default()
        })
    }

    /// A map with these keys.
    pub fn map(fields: Fields) -> Self {
        Self::of(Shape {
            map: Some(fields),
            ..Shape::default()
        })
    }

    /// The value itself.
    pub fn of_value(value: &Value) -> Self {
        Self::of_value_at(value, 0)
    }

    fn of_value_at(value: &Value, depth: usize) -> Self {
        if depth >= DEEPEST {
            return Self::any();
        }
        match value {
            Value::Null => Self::nothing(),
            Value::Bool(value) => Self::of(Shape {
                no: !value,
                yes: *value,
                ..Shape::default()
            }),
            Value::Number(number) => Self::number(match number.as_f64().filter(|number| is_exact(*number)) {
                Some(number) => Range::between(number, number),
                None => Range::ALL,
            }),
            Value::String(text) => Self::one_of([text.as_str()]),
            Value::Array(items) => {
                let item = |item| Self::of_value_at(item, depth + 1);
                Self::list(items.iter().map(item).fold(Self::never(), Self::or))
            }
            Value::Object(map) => {
                let entry = |(key, value): (&String, &Value)| (key.clone(), Self::of_value_at(value, depth + 1));
                Self::map(Fields::exactly(map.iter().map(entry)))
            }
        }
    }

    /// Returns the type of this value or another.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (Some(a), Some(b)) = (self.0, other.0) else {
            return Self::any();
        };
        if Arc::ptr_eq(&a, &b) || a == b {
            return Self(Some(a));
        }
        let (a, b) = (Arc::unwrap_or_clone(a), Arc::unwrap_or_clone(b));
        Self::of(Shape {
            nothing: a.nothing || b.nothing,
            no: a.no || b.no,
            yes: a.yes || b.yes,
            number: both(a.number, b.number, Range::or),
            text: both(a.text, b.text, Texts::or),
            list: both(a.list, b.list, Self::or),
            map: both(a.map, b.map, Fields::or),
        })
    }

    /// Returns whether nothing is known.
    pub fn is_any(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn shape(&self) -> Option<&Shape> {
        self.0.as_deref()
    }

    /// The keys, if the value is certainly a map or nothing.
    pub fn fields(&self) -> Option<&Fields> {
        let shape = self.shape()?;
        let is_other = shape.no || shape.yes || shape.number.is_some() || shape.text.is_some() || shape.list.is_some();
        shape.map.as_ref().filter(|_| !is_other)
    }

    /// The value under a key; anything if nothing is known of it.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let found = self
            .fields()
            .map(|fields| fields.get(key).unwrap_or_else(Self::nothing));
        found.unwrap_or_default()
    }

    /// Returns whether this value has such a type.
    pub fn admits(&self, value: &Value) -> bool {
        let Some(shape) = self.shape() else {
            return true;
        };
        match value {
            Value::Null => shape.nothing,
            Value::Bool(value) => match value {
                true => shape.yes,
                false => shape.no,
            },
            Value::Number(number) => shape
                .number
                .is_some_and(|range| number.as_f64().is_none_or(|number| range.holds(number))),
            Value::String(text) => shape.text.as_ref().is_some_and(|texts| texts.holds(text)),
            Value::Array(items) => {
                let item = shape.list.as_ref();
                item.is_some_and(|of| items.iter().all(|item| of.admits(item)))
            }
            Value::Object(map) => shape.map.as_ref().is_some_and(|fields| fields.admit(map)),
        }
    }

    /// Returns whether a value of both types exists.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.shape(), other.shape()) else {
            return true;
        };
        a.nothing && b.nothing
            || a.no && b.no
            || a.yes && b.yes
            || matches!((a.number, b.number), (Some(a), Some(b)) if a.meets(b))
            || matches!((&a.text, &b.text), (Some(a), Some(b)) if a.meets(b))
            || a.list.is_some() && b.list.is_some()
            || a.map.is_some() && b.map.is_some()
    }
}

/// Returns whether the number is the same as an integer and as a float, which is how bounds are compared.
fn is_exact(number: f64) -> bool {
    number.abs() < 9_007_199_254_740_992.0
}

fn both<T>(a: Option<T>, b: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (one, None) | (None, one) => one,
    }
}

impl Fields {
    fn admit(&self, map: &Map<String, Value>) -> bool {
        let required = self.known.iter().filter(|(_, (_, always))| *always);
        let has_all = required.into_iter().all(|(key, _)| map.contains_key(key));
        has_all
            && map
                .iter()
                .all(|(key, value)| match (self.known.get(key), &self.others) {
                    (Some((of, _)), _) | (None, Some(of)) => of.admits(value),
                    (None, None) => false,
                })
    }
}

impl Texts {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::OneOf(mut a), Self::OneOf(b)) if a.len() + b.len() <= MOST_TEXTS => {
                a.extend(b);
                Self::OneOf(a)
            }
            _ => Self::Any,
        }
    }

    fn holds(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(texts) => texts.contains(text),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OneOf(a), Self::OneOf(b)) => !a.is_disjoint(b),
            (Self::OneOf(one), Self::Any) | (Self::Any, Self::OneOf(one)) => !one.is_empty(),
            (Self::Any, Self::Any) => true,
        }
    }
}
