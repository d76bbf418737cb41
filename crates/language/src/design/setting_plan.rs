//! The plan of a command that sets a key of an agent or of the file.

use serde_json::{Value, json};

use super::edit_plan::{DEPENDENCY_LIST_KEYS, EditDraft, find_value_mut, replace_edit};
use super::error::{GraphEditError, describe_owner};
use crate::source::{Route, RouteStep};
use crate::vocabulary::FileSection;
use crate::yaml::edit::RouteEdit;

impl EditDraft {
    /// Plans a new value of a key of an agent or of the file. `null` removes the key. Missing maps around the key are added.
    pub(super) fn set_setting(
        &mut self,
        agent: Option<&str>,
        path: &[String],
        value: &Value,
    ) -> Result<(), GraphEditError> {
        let route = self.resolve_setting(agent, path)?;
        let same_value = || GraphEditError::SameSetting {
            key: path.join("."),
            owner: describe_owner(agent),
        };
        let now = find_value_mut(&mut self.after, &route).cloned();
        match (&now, value) {
            (None, Value::Null) => return Err(same_value()),
            (Some(now), value) if now == value && !value.is_null() => return Err(same_value()),
            (Some(_), Value::Null) => {
                self.remove_setting(&route);
                return Ok(());
            }
            (Some(Value::Null), value) => {
                if let Some(now) = find_value_mut(&mut self.after, &route) {
                    *now = value.clone();
                }
                self.edits.push(RouteEdit::Rewrite(route, value.clone()));
                return Ok(());
            }
            (Some(now), value) => {
                let is_text = now.is_string() && value.is_string();
                if let Some(now) = find_value_mut(&mut self.after, &route) {
                    *now = value.clone();
                }
                self.edits.push(match is_text || value.is_array() || value.is_object() {
                    true => RouteEdit::Rewrite(route, value.clone()),
                    false => replace_edit(route, value),
                });
                return Ok(());
            }
            (None, _) => {}
        }
        self.add_missing_key(&route, value)
            .ok_or_else(|| GraphEditError::UnknownSetting {
                key: path.join("."),
                owner: describe_owner(agent),
            })
    }

    /// Adds the key to the nearest map that exists, inside of the maps that are missing. Returns `None` if a parent is no map.
    fn add_missing_key(&mut self, route: &Route, value: &Value) -> Option<()> {
        let mut parent = route.clone();
        let mut value = value.clone();
        while let Some(RouteStep::Key(key)) = parent.0.pop() {
            let Some(map) = find_value_mut(&mut self.after, &parent) else {
                value = json!({ key.to_string(): value });
                continue;
            };
            if let Some(entries) = map.as_object_mut() {
                entries.insert(key.to_string(), value.clone());
                self.edits.push(RouteEdit::AddKey(parent, key.to_string(), value));
                return Some(());
            }
            if map.is_null() {
                *map = json!({ key.to_string(): value });
                self.edits.push(RouteEdit::AddKey(parent, key.to_string(), value));
                return Some(());
            }
            // A schema of any value, and a question that is only its text, are written anew as a map.
            let mut entries = match (&*map, parent.0.last()) {
                (Value::Bool(true), _) => json!({}),
                (Value::String(prompt), Some(RouteStep::Key(key))) if &**key == "input" => json!({"prompt": prompt}),
                _ => return None,
            };
            entries[&*key] = value;
            *map = entries;
            self.edits.push(replace_edit(parent, map));
            return Some(());
        }
        None
    }

    /// Plans the removal of a key. An entry of a map of named values stays even if it is empty: `topic: {}`.
    fn remove_setting(&mut self, route: &Route) {
        let mut parent = route.clone();
        parent.0.pop();
        let is_named = parent.0.len() == 2 && matches!(&parent.0[0], RouteStep::Key(key) if is_user_named_map(key));
        let is_only = find_value_mut(&mut self.after, &parent)
            .and_then(|value| value.as_object())
            .is_some_and(|entries| entries.len() == 1);
        if !(is_named && is_only) {
            self.remove_with_empty_parents(route);
            return;
        }
        if let Some(value) = find_value_mut(&mut self.after, &parent) {
            *value = json!({});
        }
        self.edits.push(replace_edit(parent, &json!({})));
    }

    /// Returns the route of a key of an agent or of the file. # Errors: the path is no key of the section.
    fn resolve_setting(&self, agent: Option<&str>, path: &[String]) -> Result<Route, GraphEditError> {
        let mut section = match agent {
            Some(_) => FileSection::Agent,
            None => FileSection::Ensemble,
        };
        let route = match agent {
            Some(name) => Route::root()
                .with_key("agents")
                .with_index(self.resolve_agent_index(name)?),
            None if self.after.is_object() => Route::root(),
            None => return Err(GraphEditError::NotEnsemble),
        };
        let is_list = agent.is_some()
            && path
                .first()
                .is_some_and(|key| DEPENDENCY_LIST_KEYS.contains(&&**key) || key == "name");
        let is_agents = agent.is_none() && path.first().is_some_and(|key| key == "agents");
        let unknown = || GraphEditError::UnknownSetting {
            key: path.join("."),
            owner: describe_owner(agent),
        };
        if path.is_empty() || is_list || is_agents {
            return Err(unknown());
        }
        for (depth, key) in path.iter().enumerate() {
            let row = section.find_key(key).ok_or_else(unknown)?;
            match (row.value_section(), row.named_value_keys()) {
                (Some(inner), _) => section = inner,
                (None, Some(keys)) => {
                    let is_known = match &path[depth + 1..] {
                        [] | [_] => true,
                        [_, key] => keys.contains_key(key),
                        _ => false,
                    };
                    if !is_known {
                        return Err(unknown());
                    }
                    break;
                }
                (None, None) if depth + 1 < path.len() => return Err(unknown()),
                (None, None) => {}
            }
        }
        Ok(path.iter().fold(route, |route, key| route.with_key(key.as_str())))
    }
}

/// Returns whether the key of the file is a map of named values, such as `inputs`.
fn is_user_named_map(key: &str) -> bool {
    let row = FileSection::Ensemble.find_key(key);
    row.is_some_and(|row| row.named_value_keys().is_some())
}
