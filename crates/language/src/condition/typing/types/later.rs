//! Types that few conditions read.

use std::cell::LazyCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::ValueType;

type TypeComputation = Box<dyn FnOnce() -> ValueType>;

/// A type that is computed when it is first read. Copies share the computed type.
#[derive(Clone)]
pub struct LazyType(Rc<LazyCell<ValueType, TypeComputation>>);

impl LazyType {
    /// Creates a type that `work` computes on first use.
    pub fn new(work: impl FnOnce() -> ValueType + 'static) -> Self {
        Self(Rc::new(LazyCell::new(Box::new(work))))
    }
}

impl From<ValueType> for LazyType {
    fn from(of: ValueType) -> Self {
        Self::new(|| of)
    }
}

impl Default for LazyType {
    fn default() -> Self {
        ValueType::any_value().into()
    }
}

impl Deref for LazyType {
    type Target = ValueType;

    fn deref(&self) -> &ValueType {
        &self.0
    }
}

impl fmt::Debug for LazyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
