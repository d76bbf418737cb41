//! What is asked of types: their parts, and whether two of them have a value in common.

use std::collections::BTreeSet;

use super::{Fields, Shape, Texts, Type};

impl Type {
    /// The texts that it can be, if they are known.
    pub(crate) fn texts(&self) -> Option<&BTreeSet<String>> {
        match self.shape()?.text.as_ref()? {
            Texts::OneOf(texts) => Some(texts),
            Texts::Any => None,
        }
    }

    /// Returns the type of an item, if the value may be a list and neither a text nor a map.
    pub(crate) fn any_item(&self) -> Self {
        let item = self.shape().map(|shape| (&shape.list, &shape.text, &shape.map));
        match item {
            Some((Some(item), None, None)) => item.clone(),
            _ => Self::any(),
        }
    }

    /// Returns the type of a text after a change.
    pub(crate) fn map_texts(&self, change: impl Fn(&str) -> String) -> Self {
        match self.texts() {
            Some(texts) => Self::one_of(texts.iter().map(|text| change(text))),
            None => Self::text(),
        }
    }

    /// The texts, if they are known and it is certainly one of them or nothing.
    pub(crate) fn only_texts(&self) -> Option<&BTreeSet<String>> {
        let shape = self.shape()?;
        let only_text = Shape {
            nothing: shape.nothing,
            text: shape.text.clone(),
            ..Shape::default()
        };
        self.texts().filter(|_| *shape == only_text)
    }

    /// The items, if it is certainly a list or nothing.
    pub(crate) fn item(&self) -> Option<&Self> {
        let shape = self.shape()?;
        let only_list = Shape {
            nothing: shape.nothing,
            list: shape.list.clone(),
            ..Shape::default()
        };
        shape.list.as_ref().filter(|_| *shape == only_list)
    }

    /// Returns whether no value has this type.
    pub(crate) fn is_never(&self) -> bool {
        self.shape().is_some_and(|shape| *shape == Shape::default())
    }

    /// Returns whether some value can have both types, also with all that is inside it. Where this cannot be told, it
    /// can.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.shape(), other.shape()) else {
            return true;
        };
        let plain = |shape: &Shape| {
            Self::of(Shape {
                list: None,
                map: None,
                ..shape.clone()
            })
        };
        // An empty list has every type of items.
        plain(a).meets(&plain(b))
            || a.list.is_some() && b.list.is_some()
            || both_of(a.map.as_ref(), b.map.as_ref(), Fields::overlap)
    }
}

fn both_of<T>(a: Option<&T>, b: Option<&T>, test: impl Fn(&T, &T) -> bool) -> bool {
    matches!((a, b), (Some(a), Some(b)) if test(a, b))
}

impl Fields {
    /// Returns whether some map has the keys of both.
    fn overlap(&self, other: &Self) -> bool {
        self.allows(other) && other.allows(self)
    }

    /// Returns whether each key that is always there can be in a map of the other type.
    fn allows(&self, other: &Self) -> bool {
        let required = self.known.iter().filter(|(_, (_, always))| *always);
        required
            .into_iter()
            .all(|(key, (of, _))| match (other.known.get(key), &other.others) {
                (Some((their, _)), _) | (None, Some(their)) => of.overlaps(their),
                (None, None) => false,
            })
    }
}
