//! The plan of a command: the value that the text must have afterwards, and the edits that lead to it.

use serde_json::{Map, Value, json};

use super::DesignCommand;
use super::error::{GraphEditError, describe_owner};
use crate::names::is_name;
use crate::source::{Route, RouteStep};
use crate::vocabulary::chooses_agent_type;
use crate::yaml::edit::{RouteEdit, SpellingContext, spell_on_one_line};

/// The plan of a command: the value that the text must have afterwards, and the edits that lead to it.
pub(super) struct EditPlan {
    /// The effect, in words that follow `cannot`.
    pub(super) title: String,
    /// The value of the new text.
    pub(super) after: Value,
    /// The edits, each in the text that the one before leaves.
    pub(super) edits: Vec<RouteEdit>,
}

/// Plans the command for a text with the value `before`.
pub(super) fn plan_edit(command: &DesignCommand, before: &Value) -> Result<EditPlan, GraphEditError> {
    let mut draft = EditDraft {
        after: before.clone(),
        edits: Vec::new(),
    };
    let title = match command {
        DesignCommand::AddAgent {
            name,
            kind,
            value,
            prompt,
            listens_to,
        } => {
            draft.add_agent(name, kind, value, prompt.as_deref(), listens_to)?;
            format!("add the agent `{name}`")
        }
        DesignCommand::RemoveAgent { agent } => {
            draft.remove_agent(agent)?;
            format!("remove the agent `{agent}`")
        }
        DesignCommand::Connect {
            agent,
            to,
            condition,
            feedback,
        } => {
            draft.add_dependency(agent, to, condition.as_deref(), *feedback)?;
            format!("make `{agent}` listen to `{to}`")
        }
        DesignCommand::SetCondition {
            agent,
            at,
            to,
            condition,
        } => {
            draft.set_condition(agent, *at, to, condition.as_deref())?;
            let does = if condition.is_some() { "set" } else { "remove" };
            format!("{does} the condition with which `{agent}` listens to `{to}`")
        }
        DesignCommand::SetKey {
            agent,
            at,
            to,
            key,
            value,
        } => {
            draft.set_dependency_key(agent, *at, to, key, value)?;
            format!("set `{key}` of the dependency of `{agent}` on `{to}`")
        }
        DesignCommand::SetValue { agent, path, value } => {
            draft.set_setting(agent.as_deref(), path, value)?;
            let does = if value.is_null() { "remove" } else { "set" };
            format!("{does} `{}` of {}", path.join("."), describe_owner(agent.as_deref()))
        }
        DesignCommand::Disconnect { agent, at, to } => {
            let place = draft.resolve_dependency(agent, *at, to)?;
            draft.remove_dependency(&place);
            format!("make `{agent}` no longer listen to `{to}`")
        }
    };
    Ok(EditPlan {
        title,
        after: draft.after,
        edits: draft.edits,
    })
}

/// The position of a dependency: the index of its agent, the key of its list, and the index in the list.
struct DependencyListPosition {
    agent: usize,
    list: &'static str,
    at: usize,
}

pub(super) const DEPENDENCY_LIST_KEYS: [&str; 2] = ["depends_on", "dependencies"];

/// The value of the text and the edits, as far as they are planned.
pub(super) struct EditDraft {
    pub(super) after: Value,
    pub(super) edits: Vec<RouteEdit>,
}

impl EditDraft {
    /// Returns the planned values of all agents.
    fn agent_values(&self) -> &[Value] {
        self.after["agents"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the index of the agent with this name. # Errors: no agent or several agents have the name.
    pub(super) fn resolve_agent_index(&self, name: &str) -> Result<usize, GraphEditError> {
        let mut matching_agents = self
            .agent_values()
            .iter()
            .enumerate()
            .filter(|(_, agent)| agent["name"] == name);
        match (matching_agents.next(), matching_agents.next()) {
            (Some((at, _)), None) => Ok(at),
            (None, _) => Err(GraphEditError::UnknownAgent(name.to_owned())),
            (Some(_), Some(_)) => Err(GraphEditError::AmbiguousAgent(name.to_owned())),
        }
    }

    /// Plans a new agent, with dependencies on the agents in `to`. `kind`: the key that chooses the kind; `value`: its value.
    fn add_agent(
        &mut self,
        name: &str,
        kind: &str,
        value: &str,
        prompt: Option<&str>,
        to: &[String],
    ) -> Result<(), GraphEditError> {
        if !is_name(name) {
            return Err(GraphEditError::BadName(name.to_owned()));
        }
        if self.resolve_agent_index(name).is_ok() {
            return Err(GraphEditError::AgentExists(name.to_owned()));
        }
        if !chooses_agent_type(kind) {
            return Err(GraphEditError::UnknownKind(kind.to_owned()));
        }
        if value.trim().is_empty() {
            return Err(GraphEditError::NoValue(kind.to_owned()));
        }
        let mut agent = Map::new();
        agent.insert("name".to_owned(), name.into());
        let value = if kind == "input" {
            json!({"prompt": value})
        } else {
            value.into()
        };
        agent.insert(kind.to_owned(), value);
        if let Some(prompt) = prompt.filter(|prompt| !prompt.is_empty() && !["script", "input"].contains(&kind)) {
            agent.insert("prompt".to_owned(), prompt.into());
        }
        for dependency in to {
            self.resolve_agent_index(dependency)?;
        }
        if !to.is_empty() {
            agent.insert("depends_on".to_owned(), json!(to));
        }
        let agent = Value::Object(agent);
        let root = self.after.as_object_mut().ok_or(GraphEditError::NotEnsemble)?;
        match root.get_mut("agents") {
            None => {
                let agents = json!([agent]);
                root.insert("agents".to_owned(), agents.clone());
                self.edits
                    .push(RouteEdit::AddKey(Route::root(), "agents".to_owned(), agents));
            }
            Some(agents @ (Value::Array(_) | Value::Null)) => {
                if agents.is_null() {
                    *agents = json!([]);
                }
                agents
                    .as_array_mut()
                    .into_iter()
                    .for_each(|agents| agents.push(agent.clone()));
                self.edits
                    .push(RouteEdit::AppendItems(Route::root().with_key("agents"), vec![agent]));
            }
            Some(_) => return Err(GraphEditError::AgentsNotList),
        }
        Ok(())
    }

    /// Plans the removal of an agent, of all dependencies on the agent, and of its execution limit.
    fn remove_agent(&mut self, name: &str) -> Result<(), GraphEditError> {
        let agent_index = self.resolve_agent_index(name)?;
        if self.agent_values().len() == 1 {
            return Err(GraphEditError::OnlyAgent(name.to_owned()));
        }
        for agent in 0..self.agent_values().len() {
            for list in DEPENDENCY_LIST_KEYS {
                let items = self.agent_values()[agent][list].as_array().cloned().unwrap_or_default();
                for at in (0..items.len()).rev().filter(|_| agent != agent_index) {
                    if dependency_name(&items[at]) == Some(name) {
                        self.remove_dependency(&DependencyListPosition { agent, list, at });
                    }
                }
            }
        }
        let limits = Route::root().with_key("conversation_limits");
        let caps = limits.with_key("max_agent_executions");
        if self.after["conversation_limits"]["max_agent_executions"]
            .get(name)
            .is_some()
        {
            self.remove_with_empty_parents(&caps.with_key(name));
        }
        self.remove_with_empty_parents(&Route::root().with_key("agents").with_index(agent_index));
        Ok(())
    }

    /// Plans a new dependency of `agent` on `to`. A blank condition means no condition.
    fn add_dependency(
        &mut self,
        agent: &str,
        to: &str,
        condition: Option<&str>,
        feedback: bool,
    ) -> Result<(), GraphEditError> {
        let at = self.resolve_agent_index(agent)?;
        self.resolve_agent_index(to)?;
        let condition = condition.map(str::trim).filter(|condition| !condition.is_empty());
        let lists = DEPENDENCY_LIST_KEYS
            .iter()
            .flat_map(|list| self.agent_values()[at][*list].as_array().into_iter().flatten());
        if lists.into_iter().any(|item| dependency_name(item) == Some(to)) {
            return Err(GraphEditError::DependencyExists {
                agent: agent.to_owned(),
                to: to.to_owned(),
            });
        }
        let has = |list: &str| {
            self.agent_values()[at][list]
                .as_array()
                .is_some_and(|items| !items.is_empty())
        };
        let is_short = condition.is_none() && !feedback && (has("depends_on") || !has("dependencies"));
        match is_short {
            true => self.add_list_item(at, "depends_on", to.into()),
            false => self.add_list_item(at, "dependencies", build_dependency(to, condition, feedback)),
        }
        Ok(())
    }

    /// Plans a new condition of a dependency; `None` removes the condition. `at`: the index among all dependencies of the agent.
    fn set_condition(
        &mut self,
        agent: &str,
        at: usize,
        to: &str,
        condition: Option<&str>,
    ) -> Result<(), GraphEditError> {
        let place = self.resolve_dependency(agent, at, to)?;
        let condition = condition.map(str::trim);
        if condition == Some("") {
            return Err(GraphEditError::BlankCondition);
        }
        let route = place.to_route();
        let item = self.dependency_value(&place);
        match (item.is_object(), item.get("condition").is_some(), condition) {
            (true, true, Some(new)) => {
                self.dependency_value_mut(&place)["condition"] = new.into();
                self.edits
                    .push(RouteEdit::Rewrite(route.with_key("condition"), new.into()));
            }
            (true, false, Some(new)) => {
                self.dependency_value_mut(&place)["condition"] = new.into();
                self.edits
                    .push(RouteEdit::AddKey(route, "condition".to_owned(), new.into()));
            }
            (true, true, None) => self.remove_with_empty_parents(&route.with_key("condition")),
            (_, _, None) => {
                return Err(GraphEditError::NoCondition {
                    agent: agent.to_owned(),
                    to: to.to_owned(),
                });
            }
            (false, _, Some(new)) => self.expand_to_map(&place, build_dependency(to, Some(new), false)),
        }
        Ok(())
    }

    /// Plans a new value of another key of a dependency. Removes the key if the value is its default.
    fn set_dependency_key(
        &mut self,
        agent: &str,
        at: usize,
        to: &str,
        key: &str,
        value: &Value,
    ) -> Result<(), GraphEditError> {
        let place = self.resolve_dependency(agent, at, to)?;
        let default = check_value_and_get_default(key, value)?;
        let route = place.to_route();
        let now = self.dependency_value(&place).get(key).cloned();
        if now.as_ref().unwrap_or(&default) == value {
            return Err(GraphEditError::SameValue {
                key: key.to_owned(),
                agent: agent.to_owned(),
                to: to.to_owned(),
            });
        }
        match (self.dependency_value(&place).is_object(), now, *value == default) {
            (true, Some(_), true) => self.remove_with_empty_parents(&route.with_key(key)),
            (true, Some(_), false) => {
                self.dependency_value_mut(&place)[key] = value.clone();
                self.edits.push(replace_edit(route.with_key(key), value));
            }
            (true, None, _) => {
                self.dependency_value_mut(&place)[key] = value.clone();
                self.edits.push(RouteEdit::AddKey(route, key.to_owned(), value.clone()));
            }
            (false, _, _) => {
                let mut new = build_dependency(to, None, false);
                new[key] = value.clone();
                self.expand_to_map(&place, new);
            }
        }
        Ok(())
    }

    /// Plans to write a dependency that is only a name as a map.
    fn expand_to_map(&mut self, place: &DependencyListPosition, new: Value) {
        let agent = &mut self.after["agents"][place.agent];
        let is_alone = agent[place.list].as_array().is_some_and(|items| items.len() == 1);
        let has_list = agent.get("dependencies").is_some();
        if place.list == "dependencies" || is_alone && !has_list {
            if place.list == "depends_on" {
                if let Some(entries) = agent.as_object_mut() {
                    entries.remove("depends_on");
                    entries.insert("dependencies".to_owned(), json!([new]));
                }
                let list = Route::root().with_key("agents").with_index(place.agent);
                self.edits.push(replace_edit(place.to_route(), &new));
                self.edits.push(RouteEdit::WriteText(
                    list.with_key("depends_on").into_key_location(),
                    "dependencies".to_owned(),
                ));
            } else {
                *self.dependency_value_mut(place) = new.clone();
                self.edits.push(replace_edit(place.to_route(), &new));
            }
            return;
        }
        self.remove_dependency(place);
        self.add_list_item(place.agent, "dependencies", new);
    }

    /// Returns the position of the dependency number `at` of the agent. # Errors: it does not lead to `to`.
    fn resolve_dependency(&self, agent: &str, at: usize, to: &str) -> Result<DependencyListPosition, GraphEditError> {
        let agent_index = self.resolve_agent_index(agent)?;
        let lengths =
            DEPENDENCY_LIST_KEYS.map(|list| self.agent_values()[agent_index][list].as_array().map_or(0, Vec::len));
        let place = match at.checked_sub(lengths[0]) {
            None => DependencyListPosition {
                agent: agent_index,
                list: DEPENDENCY_LIST_KEYS[0],
                at,
            },
            Some(at) => DependencyListPosition {
                agent: agent_index,
                list: DEPENDENCY_LIST_KEYS[1],
                at,
            },
        };
        match dependency_name(self.dependency_value(&place)) == Some(to) {
            true => Ok(place),
            false => Err(GraphEditError::OtherDependency {
                number: at + 1,
                agent: agent.to_owned(),
                to: to.to_owned(),
            }),
        }
    }

    /// Returns the planned value of a dependency.
    fn dependency_value(&self, place: &DependencyListPosition) -> &Value {
        &self.after["agents"][place.agent][place.list][place.at]
    }

    /// Returns the planned value of a dependency, to change it.
    fn dependency_value_mut(&mut self, place: &DependencyListPosition) -> &mut Value {
        &mut self.after["agents"][place.agent][place.list][place.at]
    }

    /// Plans the removal of a dependency, and of its list if no other dependency is left.
    fn remove_dependency(&mut self, place: &DependencyListPosition) {
        self.remove_with_empty_parents(&place.to_route());
    }

    /// Plans the removal of the value at the route, and of each parent that is empty afterwards.
    pub(super) fn remove_with_empty_parents(&mut self, route: &Route) {
        self.edits.push(RouteEdit::Remove(route.clone()));
        let mut route = route.clone();
        while let Some(last) = route.0.pop() {
            let Some(parent) = find_value_mut(&mut self.after, &route) else {
                return;
            };
            let is_empty = match (parent, last) {
                (Value::Object(entries), RouteStep::Key(key)) => {
                    entries.remove(&*key);
                    entries.is_empty()
                }
                (Value::Array(items), RouteStep::Index(at)) if at < items.len() => {
                    items.remove(at);
                    items.is_empty()
                }
                _ => return,
            };
            if !is_empty {
                return;
            }
        }
    }

    /// Plans a new item of a list of an agent. Adds the list if the agent has none.
    fn add_list_item(&mut self, agent: usize, list: &str, item: Value) {
        let route = Route::root().with_key("agents").with_index(agent);
        let Some(entries) = self.after["agents"][agent].as_object_mut() else {
            return;
        };
        match entries.get_mut(list) {
            Some(items @ (Value::Array(_) | Value::Null)) => {
                if items.is_null() {
                    *items = json!([]);
                }
                if let Some(items) = items.as_array_mut() {
                    items.push(item.clone());
                }
                self.edits
                    .push(RouteEdit::AppendItems(route.with_key(list), vec![item]));
            }
            _ => {
                let items = json!([item]);
                entries.insert(list.to_owned(), items.clone());
                self.edits.push(RouteEdit::AddKey(route, list.to_owned(), items));
            }
        }
    }
}

impl DependencyListPosition {
    /// Returns the route of the dependency.
    fn to_route(&self) -> Route {
        Route::root()
            .with_key("agents")
            .with_index(self.agent)
            .with_key(self.list)
            .with_index(self.at)
    }
}

/// Returns the edit that writes another value at the route.
pub(super) fn replace_edit(route: Route, value: &Value) -> RouteEdit {
    RouteEdit::WriteYaml(
        route.into_value_location(),
        spell_on_one_line(value, SpellingContext::Flow),
    )
}

/// Returns the value at the route, to change it. Returns `None` if there is none.
pub(super) fn find_value_mut<'v>(value: &'v mut Value, route: &Route) -> Option<&'v mut Value> {
    route.0.iter().try_fold(value, |value, step| match step {
        RouteStep::Key(key) => value.get_mut(&**key),
        RouteStep::Index(at) => value.get_mut(*at),
    })
}

/// Returns the name of the agent that a dependency names.
fn dependency_name(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| item.get("agent_name")?.as_str())
}

/// Builds the map of a dependency, without the keys that have their default.
fn build_dependency(to: &str, condition: Option<&str>, feedback: bool) -> Value {
    let mut entries = Map::new();
    entries.insert("agent_name".to_owned(), to.into());
    entries.extend(condition.map(|condition| ("condition".to_owned(), condition.into())));
    entries.extend(feedback.then(|| ("feedback".to_owned(), true.into())));
    Value::Object(entries)
}

/// Checks that the key of a dependency can have this value, and returns the value that the key has by default.
fn check_value_and_get_default(key: &str, value: &Value) -> Result<Value, GraphEditError> {
    let (words, default) = match key {
        "feedback" if value.is_boolean() => return Ok(false.into()),
        "requires_all" if value.is_boolean() => return Ok(true.into()),
        "max_executions"
            if value.is_null()
                || value
                    .as_u64()
                    .is_some_and(|most| (1..=u64::from(u32::MAX)).contains(&most)) =>
        {
            return Ok(Value::Null);
        }
        "feedback" | "requires_all" => (&["true", "false"][..], ""),
        "max_executions" => (&["a whole number of at least 1"][..], ""),
        "on" => (&["success", "failure", "any"][..], "success"),
        "wait_for" => (&["update", "settled", "nothing"][..], "update"),
        _ => return Err(GraphEditError::UnknownKey(key.to_owned())),
    };
    match value
        .as_str()
        .is_some_and(|value| !default.is_empty() && words.contains(&value))
    {
        true => Ok(default.into()),
        false => Err(GraphEditError::BadValue {
            key: key.to_owned(),
            expected: words.join(" or "),
            value: value.clone(),
        }),
    }
}
