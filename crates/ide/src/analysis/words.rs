//! What the names in conditions and templates mean.

/// A name, how it is written, and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning {
    pub(super) name: &'static str,
    /// The type of a variable, or the parameters of a function.
    pub(super) form: &'static str,
    pub(super) text: &'static str,
}

const fn word(name: &'static str, form: &'static str, text: &'static str) -> Meaning {
    Meaning { name, form, text }
}

/// The functions of conditions, by their own names.
pub(super) const FUNCTIONS: &[Meaning] = &[
    word(
        "get",
        "get(x, key, default?)",
        "The value under a key of a map or an index of a list; nothing, or the default, if there is none.",
    ),
    word("len", "len(x) -> number", "The number of characters, items or keys."),
    word("is_empty", "is_empty(x) -> boolean", "Whether the length is 0."),
    word("contains", "contains(x, item) -> boolean", "The same as `item in x`."),
    word(
        "count",
        "count(x, item) -> number",
        "How often the item is in a list or a string.",
    ),
    word(
        "index_of",
        "index_of(x, item) -> number",
        "Where the item is in a list or a string; -1 if nowhere.",
    ),
    word("first", "first(list)", "The first item; nothing if the list is empty."),
    word("last", "last(list)", "The last item; nothing if the list is empty."),
    word("keys", "keys(map) -> list", "The keys of a map."),
    word("values", "values(map) -> list", "The values of a map."),
    word("any", "any(list) -> boolean", "Whether one item is true."),
    word("all", "all(list) -> boolean", "Whether every item is true."),
    word(
        "starts_with",
        "starts_with(string, part) -> boolean",
        "Whether the string begins with the part.",
    ),
    word(
        "ends_with",
        "ends_with(string, part) -> boolean",
        "Whether the string ends with the part.",
    ),
    word("lower", "lower(string) -> string", "The string in lower case."),
    word("upper", "upper(string) -> string", "The string in upper case."),
    word(
        "strip",
        "strip(string) -> string",
        "The string without white space at both ends.",
    ),
    word(
        "split",
        "split(string, separator?) -> list",
        "The parts of a string; without a separator, those between white space.",
    ),
    word(
        "replace",
        "replace(string, old, new) -> string",
        "The string with every `old` replaced by `new`.",
    ),
    word("abs", "abs(number) -> number", "The number without its sign."),
    word(
        "min",
        "min(a, b, …)",
        "The smallest of numbers or strings, or of the items of a list.",
    ),
    word(
        "max",
        "max(a, b, …)",
        "The largest of numbers or strings, or of the items of a list.",
    ),
    word("sum", "sum(list) -> number", "The sum of numbers."),
    word(
        "round",
        "round(number, digits?) -> number",
        "The nearest number; halves go to the even neighbour, as in Python.",
    ),
    word("floor", "floor(number) -> number", "The next integer below."),
    word("ceil", "ceil(number) -> number", "The next integer above."),
    word(
        "int",
        "int(x) -> number",
        "A number (cut off), a string or a boolean as an integer.",
    ),
    word(
        "float",
        "float(x) -> number",
        "A number, a string or a boolean as a number.",
    ),
    word("str", "str(x) -> string", "A string as it is, everything else as JSON."),
    word("bool", "bool(x) -> boolean", "Whether the value counts as true."),
    word(
        "type_of",
        "type_of(x) -> string",
        "`'nothing'`, `'boolean'`, `'number'`, `'text'`, `'list'` or `'map'`.",
    ),
];

/// The variables of conditions and expressions.
pub(super) const VARIABLES: &[Meaning] = &[
    word(
        "context",
        "a map",
        "The accumulated context: the outputs of agents by their names, and the keys of their outputs.",
    ),
    word(
        "output",
        "the output of the dependency",
        "The latest output of the agent that is depended on; nothing if it has none yet.",
    ),
    word("turn_count", "a number", "The number of finished turns."),
    word("history", "a list", "All executions so far, the oldest first."),
    word(
        "executions",
        "a map from agents to numbers",
        "The number of executions of each agent.",
    ),
    word(
        "agent_execution_count",
        "a map from agents to numbers",
        "Another name for `executions`.",
    ),
    word("input", "a string", "The input of the run."),
    word("inputs", "a map", "What the run was given by name."),
    word(
        "outputs",
        "a map from agents to outputs",
        "The latest output of each agent that has one.",
    ),
];

/// The variables of templates.
pub(super) const IN_TEMPLATES: &[Meaning] = &[
    word("input", "a string", "The input of the run."),
    word("inputs", "a map", "What the run was given by name."),
    word(
        "context",
        "a map",
        "The accumulated context: the outputs of agents by their names, and the keys of their outputs.",
    ),
    word("turn_count", "a number", "The number of finished turns."),
    word(
        "execution",
        "a number",
        "The number of the execution of the agent, from 1.",
    ),
    word(
        "dependencies",
        "a map from agents to outputs",
        "The latest outputs of the agents that this agent depends on, also of those whose names are not identifiers.",
    ),
    word("parameters", "a map", "The agent's `config`."),
    word(
        "request",
        "a map",
        "`from`, `parameters` and `priority` of the request that started the execution; otherwise nothing.",
    ),
    word("history", "a list", "The executions so far, the oldest first."),
    word(
        "transcript",
        "a string",
        "The executions so far as text, in labelled blocks.",
    ),
];

/// The filters of templates, the common ones first.
pub(super) const FILTERS: &[Meaning] = &[
    word("default", "value | default(other)", "The other value if there is none."),
    word("length", "value | length", "The number of characters, items or keys."),
    word("upper", "string | upper", "The string in upper case."),
    word("lower", "string | lower", "The string in lower case."),
    word("title", "string | title", "The string with each word capitalized."),
    word(
        "capitalize",
        "string | capitalize",
        "The string with its first character in upper case.",
    ),
    word("trim", "string | trim", "The string without white space at both ends."),
    word(
        "replace",
        "string | replace(old, new)",
        "The string with every `old` replaced by `new`.",
    ),
    word("join", "list | join(separator)", "The items as one string."),
    word("first", "list | first", "The first item."),
    word("last", "list | last", "The last item."),
    word("sort", "list | sort", "The items in order."),
    word("unique", "list | unique", "Each item once."),
    word("reverse", "list | reverse", "The items from the last to the first."),
    word("list", "value | list", "The value as a list."),
    word("items", "map | items", "The pairs of keys and values."),
    word(
        "map",
        "list | map(attribute=\"key\")",
        "A key of each item, or a filter applied to each item.",
    ),
    word("select", "list | select", "The items that count as true."),
    word("reject", "list | reject", "The items that count as false."),
    word(
        "selectattr",
        "list | selectattr(\"key\")",
        "The items of which a key counts as true.",
    ),
    word("batch", "list | batch(count)", "Lists with so many items each."),
    word(
        "slice",
        "list | slice(count)",
        "So many lists with about the same number of items.",
    ),
    word("min", "list | min", "The smallest item."),
    word("max", "list | max", "The largest item."),
    word("sum", "list | sum", "The sum of numbers."),
    word("int", "value | int", "The value as an integer."),
    word("float", "value | float", "The value as a number."),
    word("string", "value | string", "The value as a string."),
    word("round", "number | round(digits)", "The nearest number."),
    word("abs", "number | abs", "The number without its sign."),
    word(
        "indent",
        "string | indent(width)",
        "The string with its lines indented, except the first.",
    ),
    word("tojson", "value | tojson", "The value as JSON."),
    word("count", "value | count", "The number of characters, items or keys."),
    word("d", "value | d(other)", "The other value if there is none."),
    word(
        "attr",
        "map | attr(key)",
        "The value under a key; nothing if there is none.",
    ),
    word("bool", "value | bool", "Whether the value counts as true."),
    word("chain", "list | chain(other)", "The items of both lists."),
    word("zip", "list | zip(other)", "Pairs of the items of both lists."),
    word(
        "dictsort",
        "map | dictsort",
        "The pairs of keys and values in the order of the keys.",
    ),
    word(
        "groupby",
        "list | groupby(\"key\")",
        "The items in groups with the same value under a key.",
    ),
    word(
        "rejectattr",
        "list | rejectattr(\"key\")",
        "The items of which a key counts as false.",
    ),
    word("lines", "string | lines", "The lines of a string."),
    word("split", "string | split(separator)", "The parts of a string."),
    word(
        "format",
        "string | format(values)",
        "The string with the values in its places, such as `%s`.",
    ),
    word(
        "escape",
        "string | escape",
        "The string with `<`, `>`, `&` and quotes as HTML writes them.",
    ),
    word("e", "string | e", "The same as `escape`."),
    word("safe", "string | safe", "The string as it is."),
    word(
        "pprint",
        "value | pprint",
        "The value as text, for people who look for a mistake.",
    ),
];

/// The keys of `request` in templates.
pub(super) const OF_REQUEST: [&str; 3] = ["from", "parameters", "priority"];

/// The meaning of a name in this list.
pub(super) fn find(list: &'static [Meaning], name: &str) -> Option<&'static Meaning> {
    list.iter().find(|word| word.name == name)
}

/// The meaning of a function under any of its names.
pub(super) fn function(name: &str) -> Option<&'static Meaning> {
    let mut all = ensemble_language::condition::function_names();
    let own = all.find(|names| names.contains(&name))?.first()?;
    find(FUNCTIONS, own)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ensemble_language::condition::{HISTORY_FIELDS, function_names, variable_names};
    use ensemble_language::data::Request;
    use ensemble_language::template::{Scope, Template, VARIABLES as TEMPLATE_VARIABLES, filter_names};

    use super::*;

    fn names(list: &[Meaning]) -> Vec<&'static str> {
        list.iter().map(|word| word.name).collect()
    }

    #[test]
    fn every_function_and_variable_of_the_language_has_a_meaning() {
        let functions: Vec<&str> = function_names().map(|names| names[0]).collect();
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(names(FUNCTIONS)), sorted(functions));
        assert_eq!(names(VARIABLES), variable_names().collect::<Vec<_>>());
        assert_eq!(names(IN_TEMPLATES), TEMPLATE_VARIABLES);
        assert!(HISTORY_FIELDS.contains(&"agent_name"));
    }

    #[test]
    fn every_filter_of_the_language_has_a_meaning() {
        let sorted = |mut names: Vec<&'static str>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(names(FILTERS)), sorted(filter_names().collect()));
    }

    #[test]
    fn the_keys_of_a_request_are_those_that_a_template_reads() {
        let template = Template::compile("{{ request | list | sort | join(' ') }}").expect("a template");
        let request = Request {
            from: "a".into(),
            parameters: serde_json::json!({}),
            priority: 1,
        };
        let scope = Scope {
            request: Some(Arc::new(request)),
            ..Scope::default()
        };
        assert_eq!(template.render(&scope).expect("a text"), OF_REQUEST.join(" "));
    }
}
