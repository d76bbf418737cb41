//! The table of the filters of templates, and the names of the tests.

use crate::condition::{Range, Shape, Type};
use crate::vocabulary::Word;

/// A filter: its types and its description.
pub(super) struct Filter {
    /// The values that the filter can be given; `None`: any value.
    pub(super) needs: Option<Needed>,
    /// Returns the type of the result, from that of the value.
    pub(super) result: fn(&Type) -> Type,
    pub(super) word: Word,
}

/// A condition on the type of a value, in words and as a test.
type Needed = (&'static str, fn(&Shape) -> bool);

const ANY: Option<Needed> = None;
const ITERABLE: Option<Needed> = Some(("a list, a map or a string", is_iterable));
const LIST: Option<Needed> = Some(("a list", is_iterable));
const MAP: Option<Needed> = Some(("a map", |shape| shape.map.is_some()));
const NUMBER: Option<Needed> = Some(("a number", |shape| shape.number.is_some() || shape.yes || shape.no));
const NUMBER_OR_TEXT: Option<Needed> = Some(("a number or a string", |shape| {
    shape.number.is_some() || shape.yes || shape.no || shape.text.is_some()
}));
const TEXT: Option<Needed> = Some(("a string", |shape| shape.text.is_some()));

/// Rows of filters: `"name" of NEEDED => result, "form", "documentation";`.
macro_rules! filters {
    ($($name:literal of $needs:expr => $result:expr, $form:literal, $documentation:literal;)*) => {
        &[$(Filter {
            needs: $needs,
            result: $result,
            word: Word { name: $name, form: $form, documentation: $documentation },
        }),*]
    };
}

/// All filters, the common ones first.
static FILTERS: &[Filter] = filters![
    "default" of ANY => |_| Type::any(), "value | default(other)", "The other value if there is none.";
    "length" of ITERABLE => |_| Type::count(u64::MAX), "value | length", "The number of characters, items or keys.";
    "upper" of ANY => |of| changed(of, str::to_uppercase), "string | upper", "The string in upper case.";
    "lower" of ANY => |of| changed(of, str::to_lowercase), "string | lower", "The string in lower case.";
    "title" of ANY => |_| Type::text(), "string | title", "The string with each word capitalized.";
    "capitalize" of ANY => |_| Type::text(), "string | capitalize",
        "The string with its first character in upper case.";
    "trim" of ANY => |_| Type::text(), "string | trim", "The string without white space at both ends.";
    "replace" of ANY => |_| Type::text(), "string | replace(old, new)",
        "The string with every `old` replaced by `new`.";
    "join" of ITERABLE => |_| Type::text(), "list | join(separator)", "The items as one string.";
    "first" of ITERABLE => one_item, "list | first", "The first item.";
    "last" of ITERABLE => one_item, "list | last", "The last item.";
    "sort" of LIST => same_items, "list | sort", "The items in order.";
    "unique" of LIST => same_items, "list | unique", "Each item once.";
    "reverse" of LIST => same_items, "list | reverse", "The items from the last to the first.";
    "list" of LIST => same_items, "value | list", "The value as a list.";
    "items" of MAP => |_| Type::any(), "map | items", "The pairs of keys and values.";
    "map" of LIST => |_| Type::any(), "list | map(attribute=\"key\")",
        "A key of each item, or a filter applied to each item.";
    "select" of LIST => same_items, "list | select", "The items that count as true.";
    "reject" of LIST => same_items, "list | reject", "The items that count as false.";
    "selectattr" of LIST => same_items, "list | selectattr(\"key\")", "The items of which a key counts as true.";
    "batch" of LIST => |_| Type::any(), "list | batch(count)", "Lists with so many items each.";
    "slice" of LIST => |_| Type::any(), "list | slice(count)", "So many lists with about the same number of items.";
    "min" of LIST => one_item, "list | min", "The smallest item.";
    "max" of LIST => one_item, "list | max", "The largest item.";
    "sum" of LIST => |_| Type::any(), "list | sum", "The sum of numbers.";
    "int" of NUMBER_OR_TEXT => |_| Type::number(Range::ALL), "value | int", "The value as an integer.";
    "float" of NUMBER_OR_TEXT => |_| Type::number(Range::ALL), "value | float", "The value as a number.";
    "string" of ANY => |_| Type::text(), "value | string", "The value as a string.";
    "round" of NUMBER => |_| Type::number(Range::ALL), "number | round(digits)", "The nearest number.";
    "abs" of NUMBER => |_| Type::number(Range::ALL), "number | abs", "The number without its sign.";
    "indent" of ANY => |_| Type::text(), "string | indent(width)",
        "The string with its lines indented, except the first.";
    "tojson" of ANY => |_| Type::text(), "value | tojson", "The value as JSON.";
    "count" of ITERABLE => |_| Type::count(u64::MAX), "value | count", "The number of characters, items or keys.";
    "d" of ANY => |_| Type::any(), "value | d(other)", "The other value if there is none.";
    "attr" of ANY => |_| Type::any(), "map | attr(key)", "The value under a key; nothing if there is none.";
    "bool" of ANY => |_| Type::boolean(), "value | bool", "Whether the value counts as true.";
    "chain" of ANY => |_| Type::any(), "list | chain(other)", "The items of both lists.";
    "zip" of ANY => |_| Type::any(), "list | zip(other)", "Pairs of the items of both lists.";
    "dictsort" of MAP => |_| Type::any(), "map | dictsort", "The pairs of keys and values in the order of the keys.";
    "groupby" of ANY => |_| Type::any(), "list | groupby(\"key\")",
        "The items in groups with the same value under a key.";
    "rejectattr" of LIST => same_items, "list | rejectattr(\"key\")", "The items of which a key counts as false.";
    "lines" of TEXT => |_| Type::any(), "string | lines", "The lines of a string.";
    "split" of TEXT => |_| Type::any(), "string | split(separator)", "The parts of a string.";
    "format" of TEXT => |_| Type::text(), "string | format(values)",
        "The string with the values in its places, such as `%s`.";
    "escape" of ANY => |_| Type::any(), "string | escape",
        "The string with `<`, `>`, `&` and quotes as HTML writes them.";
    "e" of ANY => |_| Type::any(), "string | e", "The same as `escape`.";
    "safe" of ANY => |_| Type::any(), "string | safe", "The string as it is.";
    "pprint" of ANY => |_| Type::text(), "value | pprint", "The value as text, for people who look for a mistake.";
];

/// Returns the filters, the common ones first.
pub fn filter_words() -> impl Iterator<Item = &'static Word> {
    FILTERS.iter().map(|filter| &filter.word)
}

/// Finds a filter.
pub(super) fn find_filter(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.word.name == name)
}

/// The names of all tests.
pub(super) const TESTS: [&str; 41] = [
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
];

fn is_iterable(shape: &Shape) -> bool {
    shape.list.is_some() || shape.map.is_some() || shape.text.is_some()
}

/// Returns the type of a text after a change; nothing is an empty text, or `none`.
fn changed(of: &Type, change: fn(&str) -> String) -> Type {
    match of.only_texts() {
        Some(texts) => {
            let nothing = ["", "none", "None"].map(change);
            Type::one_of(texts.iter().map(|text| change(text)).chain(nothing))
        }
        None => Type::text(),
    }
}

fn same_items(of: &Type) -> Type {
    of.item().cloned().map_or(Type::any(), Type::list)
}

fn one_item(of: &Type) -> Type {
    of.item().cloned().map_or(Type::any(), |item| item.or(Type::nothing()))
}
