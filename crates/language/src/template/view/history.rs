//! `history` in the form for templates: the executions are read in place.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value as Seen};
use minijinja::{Error, State};

use super::{JsonView, ViewRoot, call_map_method};
use crate::execution_history::ExecutionHistory;

/// Returns whether the value is `history`, or an entry of it.
pub(super) fn is_history(value: &Seen) -> bool {
    value.downcast_object_ref::<HistoryView>().is_some() || value.downcast_object_ref::<HistoryEntryView>().is_some()
}

/// The view of `history`.
#[derive(Debug)]
pub(super) struct HistoryView(pub(super) ExecutionHistory);

impl Object for HistoryView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        let at = key.as_usize().filter(|at| *at < self.0.len())?;
        Some(Seen::from_object(HistoryEntryView(self.0.clone(), at)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// The view of one execution of `history`.
#[derive(Debug)]
struct HistoryEntryView(ExecutionHistory, usize);

impl Object for HistoryEntryView {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        let value = self.0.reproducible_field_value(self.1, key.as_str()?)?;
        Some(JsonView::wrap_root(ViewRoot::Value(value)))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&ExecutionHistory::REPRODUCIBLE_FIELDS)
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Seen]) -> Result<Seen, Error> {
        call_map_method(&Seen::from_dyn_object(Arc::clone(self)), method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0.serializable_entry(self.1)).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A history in which every execution said the same.
    struct Same(Arc<Value>);

    impl crate::condition::ConditionHistory for Same {
        fn len(&self) -> usize {
            1000
        }

        fn field_value(&self, _: usize, name: &str) -> Option<Arc<Value>> {
            (name == "output_data").then(|| Arc::clone(&self.0))
        }

        fn field_names(&self) -> &'static [&'static str] {
            &ExecutionHistory::REPRODUCIBLE_FIELDS
        }
    }

    #[test]
    fn an_entry_of_the_history_shares_the_very_output() {
        let output = Arc::new(serde_json::json!({"long": [1, 2, 3]}));
        let past = ExecutionHistory::from_latest(Arc::new(Same(Arc::clone(&output))), usize::MAX);
        let history = Seen::from_object(HistoryView(past));
        let entry = history.get_item(&Seen::from(-1)).expect("is there");
        let seen = entry.get_attr("output_data").expect("is there");
        let view = seen.downcast_object_ref::<JsonView>().expect("a view, no copy");
        assert!(matches!(&view.ground, ViewRoot::Value(ground) if Arc::ptr_eq(ground, &output)));
        assert!(
            history
                .get_item(&Seen::from(1000))
                .is_ok_and(|entry| entry.is_undefined())
        );
    }
}
