//! JSON in the form for templates: views with a reference count and a path, without copies of collections.

mod history;

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value as Seen, ValueKind};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value;

use super::{MissingKeyCollector, MissingOutputKey, TemplateScope, render_output_text};
use crate::data::{AgentRequest, JsonMap, RunContext};

/// Wraps the scope as the value whose keys are the variables of a template.
pub(super) fn build_root_value(scope: &TemplateScope) -> Seen {
    Seen::from_object(TemplateRoot(scope.clone()))
}

/// Returns whether the value belongs to the run, and not to the template. Such values are JSON.
pub(super) fn is_run_value(value: &Seen) -> bool {
    value.downcast_object_ref::<JsonView>().is_some()
        || value.downcast_object_ref::<TemplateContextView>().is_some()
        || value.downcast_object_ref::<DependencyOutputs>().is_some()
        || value.downcast_object_ref::<TemplateNews>().is_some()
        || history::is_history(value)
}

/// Implements the filter `tojson` for values of the run and of the template.
pub(super) fn to_json_text(value: Seen) -> String {
    to_json(&value).to_string()
}

/// Converts a value of a template to JSON.
pub(super) fn to_json(value: &Seen) -> Value {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => number_to_json(value),
        ValueKind::Map => {
            let keys = value.try_iter().into_iter().flatten();
            let pairs = keys.map(|key| (key.to_string(), to_json(&value.get_item(&key).unwrap_or_default())));
            Value::Object(pairs.collect())
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().into_iter().flatten();
            Value::Array(items.map(|item| to_json(&item)).collect())
        }
        _ => Value::String(value.to_string()),
    }
}

/// Converts a number to JSON. Infinite numbers and NaN become `null`.
fn number_to_json(value: &Seen) -> Value {
    if let Some(integer) = value.as_i64().filter(|_| value.is_integer()) {
        return integer.into();
    }
    serde_json::from_str(&value.to_string()).unwrap_or(Value::Null)
}

/// The name that the environment looks up when an undefined value is printed. No template can contain this name.
pub(super) const PRINTED_NOTHING: &str = "\0printed nothing";

#[derive(Debug)]
struct TemplateRoot(TemplateScope);

impl Object for TemplateRoot {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        let scope = &self.0;
        let name = key.as_str()?;
        if name == PRINTED_NOTHING {
            scope.missing_keys.record_printed_lookup();
            return None;
        }
        scope.missing_keys.clear_latest_lookup();
        match name {
            "input" => Some(Seen::from(&scope.input)),
            "inputs" => Some(Seen::from_object(TemplateContextView(Arc::clone(&scope.inputs)))),
            "context" => Some(Seen::from_object(TemplateContextView(Arc::clone(&scope.context)))),
            "turn_count" => Some(Seen::from(scope.turn_count)),
            "execution" => Some(Seen::from(scope.execution)),
            "dependencies" => Some(Seen::from_object(DependencyOutputs(
                scope.dependencies.clone(),
                scope.missing_keys.clone(),
            ))),
            "news" => Some(Seen::from_object(TemplateNews(scope.news.clone()))),
            "parameters" => Some(JsonView::wrap_root(ViewRoot::Map(Arc::clone(&scope.parameters)))),
            "request" => Some(scope.request.as_ref().map_or(Seen::UNDEFINED, build_request_value)),
            "history" => Some(Seen::from_object(history::HistoryView(scope.history.clone()))),
            "transcript" => Some(Seen::from(scope.history.render_transcript())),
            other => match scope.part.iter().flatten().find(|(name, _)| **name == *other) {
                Some((name, value)) => Some(build_part_value(name, value, &scope.missing_keys)),
                None => find_output_value(&scope.dependencies, &scope.missing_keys, other),
            },
        }
    }
}

/// Wraps the output of the agent. Missing keys are collected under the name of the agent.
fn find_output_value(outputs: &[(Arc<str>, Arc<Value>)], missed: &MissingKeyCollector, agent: &str) -> Option<Seen> {
    let (name, value) = outputs.iter().find(|(name, _)| **name == *agent)?;
    Some(JsonView::wrap_root_with_origin(
        ViewRoot::Value(Arc::clone(value)),
        Some((name.clone(), missed.clone())),
    ))
}

/// Wraps a variable of a part. Missing keys are collected under its name.
fn build_part_value(name: &Arc<str>, value: &Arc<Value>, missed: &MissingKeyCollector) -> Seen {
    JsonView::wrap_root_with_origin(ViewRoot::Value(Arc::clone(value)), Some((name.clone(), missed.clone())))
}

/// Builds the value of `request`.
fn build_request_value(request: &Arc<AgentRequest>) -> Seen {
    Seen::from_pairs([
        ("from", Seen::from(&request.from)),
        (
            "parameters",
            JsonView::wrap_root(ViewRoot::Request(Arc::clone(request))),
        ),
        ("priority", Seen::from(request.priority)),
    ])
}

/// The view of a context: `context` or `inputs`.
#[derive(Debug)]
struct TemplateContextView(Arc<RunContext>);

impl Object for TemplateContextView {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        let value = self.0.get(key.as_str()?)?;
        Some(JsonView::wrap_root(ViewRoot::Value(Arc::clone(value))))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(key, _)| Seen::from(key)).collect())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Seen]) -> Result<Seen, Error> {
        call_map_method(&Seen::from_dyn_object(Arc::clone(self)), method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&*self.0).map_err(|_| fmt::Error)?)
    }
}

/// The view of `dependencies`.
#[derive(Debug)]
struct DependencyOutputs(Vec<(Arc<str>, Arc<Value>)>, MissingKeyCollector);

impl Object for DependencyOutputs {
    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        find_output_value(&self.0, &self.1, key.as_str()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| Seen::from(name)).collect())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Seen]) -> Result<Seen, Error> {
        call_map_method(&Seen::from_dyn_object(Arc::clone(self)), method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_json_text(Seen::from_dyn_object(Arc::clone(self))))
    }
}

/// The view of `news`: a list of agents that templates can also read by name.
#[derive(Debug)]
struct TemplateNews(Vec<Arc<str>>);

impl Object for TemplateNews {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        match key.as_str() {
            Some(agent) => Some(Seen::from(self.0.iter().any(|one| **one == *agent))),
            None => self.0.get(key.as_usize()?).map(Seen::from),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

/// The root value of a view.
#[derive(Debug, Clone)]
enum ViewRoot {
    /// An output, or a value of the context.
    Value(Arc<Value>),
    /// `parameters`.
    Map(Arc<JsonMap>),
    /// `request.parameters`.
    Request(Arc<AgentRequest>),
}

/// A step from a value to a child.
#[derive(Debug, Clone)]
enum ViewStep {
    Key(Arc<str>),
    Index(usize),
}

/// A view of an object or an array in a shared JSON value.
#[derive(Debug)]
struct JsonView {
    ground: ViewRoot,
    path: Vec<ViewStep>,
    /// The agent whose output this is, and where is noted what it does not have.
    origin: Option<(Arc<str>, MissingKeyCollector)>,
}

/// The object or the array to which a view refers.
enum ViewedCollection<'a> {
    Map(&'a JsonMap),
    Items(&'a [Value]),
}

impl JsonView {
    /// Wraps the whole root value.
    fn wrap_root(ground: ViewRoot) -> Seen {
        Self::wrap_root_with_origin(ground, None)
    }

    /// Wraps the whole root value, which is the output of the agent in `origin`.
    fn wrap_root_with_origin(ground: ViewRoot, origin: Option<(Arc<str>, MissingKeyCollector)>) -> Seen {
        let plain = match &ground {
            ViewRoot::Value(value) => to_plain_value(value),
            ViewRoot::Request(request) => to_plain_value(&request.parameters),
            ViewRoot::Map(_) => None,
        };
        plain.unwrap_or_else(|| {
            Seen::from_object(Self {
                ground,
                path: Vec::new(),
                origin,
            })
        })
    }

    /// Returns the object or the array at the path of the view.
    fn resolve_collection(&self) -> Option<ViewedCollection<'_>> {
        let mut way = self.path.iter();
        let mut value = match &self.ground {
            ViewRoot::Value(value) => value,
            ViewRoot::Request(request) => &request.parameters,
            ViewRoot::Map(map) => match way.next() {
                None => return Some(ViewedCollection::Map(map)),
                Some(ViewStep::Key(key)) => map.get(&**key)?,
                Some(ViewStep::Index(_)) => return None,
            },
        };
        for step in way {
            value = match step {
                ViewStep::Key(key) => value.get(&**key)?,
                ViewStep::Index(index) => value.get(*index)?,
            };
        }
        match value {
            Value::Object(map) => Some(ViewedCollection::Map(map)),
            Value::Array(items) => Some(ViewedCollection::Items(items)),
            _ => None,
        }
    }

    /// Wraps the child at this step.
    fn wrap_child(&self, step: ViewStep, value: &Value) -> Seen {
        to_plain_value(value).unwrap_or_else(|| {
            let way = self.path.iter().cloned().chain([step]).collect();
            Seen::from_object(Self {
                ground: self.ground.clone(),
                path: way,
                origin: self.origin.clone(),
            })
        })
    }
}

impl JsonView {
    /// Records a lookup in the output of an agent as the latest one. `lacking`: the map that does not have the key.
    fn record_lookup(&self, key: &str, lacking: Option<&JsonMap>) {
        let Some((agent, missed)) = &self.origin else { return };
        let keys = self.path.iter().map(|step| match step {
            ViewStep::Key(key) => Some(Arc::clone(key)),
            ViewStep::Index(_) => None,
        });
        match (lacking, keys.collect::<Option<Vec<_>>>()) {
            (Some(map), Some(mut keys)) => {
                keys.push(key.into());
                missed.set_latest_lookup(MissingOutputKey {
                    agent: Arc::clone(agent),
                    keys,
                    known_keys: map.keys().cloned().collect(),
                });
            }
            _ => missed.clear_latest_lookup(),
        }
    }
}

/// Converts a scalar; `None` for an object or an array.
fn to_plain_value(value: &Value) -> Option<Seen> {
    match value {
        Value::Null => Some(Seen::from(())),
        Value::Bool(flag) => Some(Seen::from(*flag)),
        Value::String(text) => Some(Seen::from(text)),
        Value::Number(number) => Some(if let Some(integer) = number.as_i64() {
            Seen::from(integer)
        } else if let Some(integer) = number.as_u64() {
            Seen::from(integer)
        } else {
            Seen::from(number.as_f64().unwrap_or(f64::NAN))
        }),
        Value::Array(_) | Value::Object(_) => None,
    }
}

impl Object for JsonView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.resolve_collection() {
            Some(ViewedCollection::Items(_)) => ObjectRepr::Seq,
            _ => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &Seen) -> Option<Seen> {
        match self.resolve_collection()? {
            ViewedCollection::Map(map) => {
                let key = key.as_str()?;
                let value = map.get(key);
                self.record_lookup(key, value.is_none().then_some(map));
                Some(self.wrap_child(ViewStep::Key(key.into()), value?))
            }
            ViewedCollection::Items(items) => {
                let index = key.as_usize()?;
                Some(self.wrap_child(ViewStep::Index(index), items.get(index)?))
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.resolve_collection() {
            Some(ViewedCollection::Items(items)) => Enumerator::Seq(items.len()),
            Some(ViewedCollection::Map(map)) => Enumerator::Values(map.keys().map(Seen::from).collect()),
            None => Enumerator::Empty,
        }
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Seen]) -> Result<Seen, Error> {
        match self.resolve_collection() {
            Some(ViewedCollection::Map(_)) => {
                let called = call_map_method(&Seen::from_dyn_object(Arc::clone(self)), method, args);
                // `get` asks whether there is one.
                self.origin.iter().for_each(|(_, missed)| missed.clear_latest_lookup());
                called
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    /// A whole output is printed as its `response` if it has one; everything else as JSON.
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ground, self.resolve_collection()) {
            (ViewRoot::Value(value), _) if self.path.is_empty() => f.write_str(&render_output_text(value)),
            (_, Some(ViewedCollection::Map(map))) => f.write_str(&serde_json::to_string(map).map_err(|_| fmt::Error)?),
            (_, Some(ViewedCollection::Items(items))) => {
                f.write_str(&serde_json::to_string(items).map_err(|_| fmt::Error)?)
            }
            (_, None) => Ok(()),
        }
    }
}

/// Calls a method of Python dictionaries that users of Jinja know: `get`, `keys`, `values` or `items`.
fn call_map_method(map: &Seen, method: &str, args: &[Seen]) -> Result<Seen, Error> {
    match (method, args) {
        ("get", [key]) => Ok(find_item(map, key).unwrap_or(Seen::UNDEFINED)),
        ("get", [key, other]) => Ok(find_item(map, key).unwrap_or_else(|| other.clone())),
        ("keys", []) => Ok(map.try_iter()?.collect()),
        ("values", []) => map.try_iter()?.map(|key| map.get_item(&key)).collect(),
        ("items", []) => map
            .try_iter()?
            .map(|key| Ok(Seen::from(vec![key.clone(), map.get_item(&key)?])))
            .collect(),
        ("get" | "keys" | "values" | "items", _) => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("wrong number of arguments for `{method}`"),
        )),
        _ => Err(Error::new(
            ErrorKind::UnknownMethod,
            format!("there is no method `{method}`"),
        )),
    }
}

/// Returns the value under a key of a map, if it is defined.
fn find_item(map: &Seen, key: &Seen) -> Option<Seen> {
    map.get_item(key).ok().filter(|value| !value.is_undefined())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_of_the_context_shares_the_very_value() {
        let big = Arc::new(serde_json::json!({"items": (0..1000).collect::<Vec<_>>()}));
        let context = Arc::new(RunContext::from_iter([("big".into(), Arc::clone(&big))]));
        let view = Arc::new(TemplateContextView(Arc::clone(&context)));
        let seen = view.get_value(&Seen::from("big")).expect("is there");
        let items = seen.get_attr("items").expect("is there");
        for value in [&seen, &items] {
            let view = value.downcast_object_ref::<JsonView>().expect("a view, no copy");
            assert!(matches!(&view.ground, ViewRoot::Value(ground) if Arc::ptr_eq(ground, &big)));
        }
        assert_eq!(
            items.get_item_by_index(999).ok().and_then(|item| item.as_i64()),
            Some(999)
        );
    }
}
