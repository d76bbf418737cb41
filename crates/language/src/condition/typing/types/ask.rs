//! What is asked of types: their parts, and whether two of them have a value in common.

use std::collections::BTreeSet;

use super::{MapFields, PossibleTexts, ValueShape, ValueType};

impl ValueType {
    /// Returns the texts that the value can be, if they are known. The value may also have other kinds.
    pub(crate) fn known_texts(&self) -> Option<&BTreeSet<String>> {
        match self.known_shape()?.text.as_ref()? {
            PossibleTexts::OneOf(texts) => Some(texts),
            PossibleTexts::Any => None,
        }
    }

    /// Returns the type of an item of a list. Returns any type if the value may be a text or a map, or is unknown.
    pub(crate) fn iterated_item_type(&self) -> Self {
        let item = self.known_shape().map(|shape| (&shape.list, &shape.text, &shape.map));
        match item {
            Some((Some(item), None, None)) => item.clone(),
            _ => Self::any_value(),
        }
    }

    /// Returns the type of a text after this change.
    pub(crate) fn map_texts(&self, change: impl Fn(&str) -> String) -> Self {
        match self.known_texts() {
            Some(texts) => Self::text_among(texts.iter().map(|text| change(text))),
            None => Self::any_text(),
        }
    }

    /// Returns the texts, if the value is certainly one of them or nothing.
    pub(crate) fn only_known_texts(&self) -> Option<&BTreeSet<String>> {
        let shape = self.known_shape()?;
        let only_text = ValueShape {
            can_be_nothing: shape.can_be_nothing,
            text: shape.text.clone(),
            ..ValueShape::default()
        };
        self.known_texts().filter(|_| *shape == only_text)
    }

    /// Returns the type of the items, if the value is certainly a list or nothing.
    pub(crate) fn list_item_type(&self) -> Option<&Self> {
        let shape = self.known_shape()?;
        let only_list = ValueShape {
            can_be_nothing: shape.can_be_nothing,
            list: shape.list.clone(),
            ..ValueShape::default()
        };
        shape.list.as_ref().filter(|_| *shape == only_list)
    }

    /// Returns whether no value has this type.
    pub(crate) fn is_impossible(&self) -> bool {
        self.known_shape().is_some_and(|shape| *shape == ValueShape::default())
    }

    /// Returns whether some value can have both types, with all its parts. Returns `true` in doubt.
    pub fn can_overlap(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.known_shape(), other.known_shape()) else {
            return true;
        };
        let plain = |shape: &ValueShape| {
            Self::from_shape(ValueShape {
                list: None,
                map: None,
                ..shape.clone()
            })
        };
        // An empty list has every type of items.
        plain(a).has_common_value(&plain(b))
            || a.list.is_some() && b.list.is_some()
            || test_both(a.map.as_ref(), b.map.as_ref(), MapFields::can_overlap)
    }
}

/// Returns the result of the test, or `false` if a value is absent.
fn test_both<T>(a: Option<&T>, b: Option<&T>, test: impl Fn(&T, &T) -> bool) -> bool {
    matches!((a, b), (Some(a), Some(b)) if test(a, b))
}

impl MapFields {
    /// Returns whether some map can have the fields of both.
    fn can_overlap(&self, other: &Self) -> bool {
        self.can_have_required_keys(other) && other.can_have_required_keys(self)
    }

    /// Returns whether each required key can be in a map of the other type.
    fn can_have_required_keys(&self, other: &Self) -> bool {
        let required = self.known_keys.iter().filter(|(_, (_, always))| *always);
        required.into_iter().all(
            |(key, (of, _))| match (other.known_keys.get(key), &other.other_values) {
                (Some((their, _)), _) | (None, Some(their)) => of.can_overlap(their),
                (None, None) => false,
            },
        )
    }
}
