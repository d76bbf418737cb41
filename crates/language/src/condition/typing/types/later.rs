//! Types that few conditions read.

use std::cell::LazyCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use super::Type;

type Work = Box<dyn FnOnce() -> Type>;

/// A type that is worked out when it is first read. Copies share the work.
#[derive(Clone)]
pub struct Later(Rc<LazyCell<Type, Work>>);

impl Later {
    /// The type that this gives.
    pub fn new(work: impl FnOnce() -> Type + 'static) -> Self {
        Self(Rc::new(LazyCell::new(Box::new(work))))
    }
}

impl From<Type> for Later {
    fn from(of: Type) -> Self {
        Self::new(|| of)
    }
}

impl Default for Later {
    fn default() -> Self {
        Type::any().into()
    }
}

impl Deref for Later {
    type Target = Type;

    fn deref(&self) -> &Type {
        &self.0
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
