//! The table of the filters of templates, and the names of the tests.

use crate::condition::{NumberRange, ValueShape, ValueType};
use crate::vocabulary::LanguageWord;

/// A filter of templates: its operand type, its result type and its documentation.
pub(super) struct TemplateFilter {
    /// The values that the filter can be given; `None`: any value.
    pub(super) needs: Option<OperandRequirement>,
    /// Returns the type of the result, from that of the value.
    pub(super) result: fn(&ValueType) -> ValueType,
    pub(super) word: LanguageWord,
}

/// The required type of an operand: its description, and the test of a type.
type OperandRequirement = (&'static str, fn(&ValueShape) -> bool);

const ANY: Option<OperandRequirement> = None;
const ITERABLE: Option<OperandRequirement> = Some(("a list, a map or a string", is_iterable));
const LIST: Option<OperandRequirement> = Some(("a list", is_iterable));
const MAP: Option<OperandRequirement> = Some(("a map", |shape| shape.map.is_some()));
const NUMBER: Option<OperandRequirement> = Some(("a number", |shape| {
    shape.number.is_some() || shape.can_be_true || shape.can_be_false
}));
const NUMBER_OR_TEXT: Option<OperandRequirement> = Some(("a number or a string", |shape| {
    shape.number.is_some() || shape.can_be_true || shape.can_be_false || shape.text.is_some()
}));
const TEXT: Option<OperandRequirement> = Some(("a string", |shape| shape.text.is_some()));

/// Rows of filters: `"name" of NEEDED => result, "form", "documentation";`.
macro_rules! filters {
    ($($name:literal of $needs:expr => $result:expr, $form:literal, $documentation:literal;)*) => {
        &[$(TemplateFilter {
            needs: $needs,
            result: $result,
            word: LanguageWord { name: $name, form: $form, documentation: $documentation },
        }),*]
    };
}

/// All filters, the common ones first.
static FILTERS: &[TemplateFilter] = filters![
    "default" of ANY => |_| ValueType::any_value(), "value | default(other)", "The value; if it is undefined, the other value.";
    "length" of ITERABLE => |_| ValueType::number_up_to(u64::MAX), "value | length", "The number of characters, items or keys.";
    "upper" of ANY => |of| infer_changed_text(of, str::to_uppercase), "string | upper", "The string in upper case.";
    "lower" of ANY => |of| infer_changed_text(of, str::to_lowercase), "string | lower", "The string in lower case.";
    "title" of ANY => |_| ValueType::any_text(), "string | title", "The string with each word capitalized.";
    "capitalize" of ANY => |_| ValueType::any_text(), "string | capitalize",
        "The string with its first character in upper case, the rest in lower case.";
    "trim" of ANY => |_| ValueType::any_text(), "string | trim", "The string without white space at both ends.";
    "replace" of ANY => |_| ValueType::any_text(), "string | replace(old, new)",
        "The string with every `old` replaced by `new`.";
    "join" of ITERABLE => |_| ValueType::any_text(), "list | join(separator)", "The items as one string.";
    "first" of ITERABLE => one_item_or_nothing_type, "list | first", "The first item.";
    "last" of ITERABLE => one_item_or_nothing_type, "list | last", "The last item.";
    "sort" of LIST => list_of_same_items_type, "list | sort", "The items in ascending order.";
    "unique" of LIST => list_of_same_items_type, "list | unique", "The items without duplicates.";
    "reverse" of LIST => list_of_same_items_type, "list | reverse", "The items in reverse order.";
    "list" of LIST => list_of_same_items_type, "value | list", "The value as a list.";
    "items" of MAP => |_| ValueType::any_value(), "map | items", "The pairs of keys and values.";
    "map" of LIST => |_| ValueType::any_value(), "list | map(attribute=\"key\")",
        "A key of each item, or a filter applied to each item.";
    "select" of LIST => list_of_same_items_type, "list | select", "The items that count as true.";
    "reject" of LIST => list_of_same_items_type, "list | reject", "The items that count as false.";
    "selectattr" of LIST => list_of_same_items_type, "list | selectattr(\"key\")", "The items of which a key counts as true.";
    "batch" of LIST => |_| ValueType::any_value(), "list | batch(count)", "The items in lists of `count` items each.";
    "slice" of LIST => |_| ValueType::any_value(), "list | slice(count)", "The items in `count` lists of about the same length.";
    "min" of LIST => one_item_or_nothing_type, "list | min", "The smallest item.";
    "max" of LIST => one_item_or_nothing_type, "list | max", "The largest item.";
    "sum" of LIST => |_| ValueType::any_value(), "list | sum", "The sum of numbers.";
    "int" of NUMBER_OR_TEXT => |_| ValueType::number_in_range(NumberRange::ALL), "value | int", "The value as an integer.";
    "float" of NUMBER_OR_TEXT => |_| ValueType::number_in_range(NumberRange::ALL), "value | float", "The value as a number.";
    "string" of ANY => |_| ValueType::any_text(), "value | string", "The value as a string.";
    "round" of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), "number | round(digits)", "The nearest number.";
    "abs" of NUMBER => |_| ValueType::number_in_range(NumberRange::ALL), "number | abs", "The absolute value of a number.";
    "indent" of ANY => |_| ValueType::any_text(), "string | indent(width)",
        "The string with its lines indented, except the first.";
    "tojson" of ANY => |_| ValueType::any_text(), "value | tojson", "The value as JSON.";
    "count" of ITERABLE => |_| ValueType::number_up_to(u64::MAX), "value | count", "The number of characters, items or keys.";
    "d" of ANY => |_| ValueType::any_value(), "value | d(other)", "The value; if it is undefined, the other value.";
    "attr" of ANY => |_| ValueType::any_value(), "map | attr(key)", "The value under a key; nothing if the key is missing.";
    "bool" of ANY => |_| ValueType::any_boolean(), "value | bool", "Whether the value counts as true.";
    "chain" of ANY => |_| ValueType::any_value(), "list | chain(other)", "The items of both lists.";
    "zip" of ANY => |_| ValueType::any_value(), "list | zip(other)", "Pairs of the items of both lists.";
    "dictsort" of MAP => |_| ValueType::any_value(), "map | dictsort", "The pairs of keys and values in the order of the keys.";
    "groupby" of ANY => |_| ValueType::any_value(), "list | groupby(\"key\")",
        "The items in groups with the same value under a key.";
    "rejectattr" of LIST => list_of_same_items_type, "list | rejectattr(\"key\")", "The items of which a key counts as false.";
    "lines" of TEXT => |_| ValueType::any_value(), "string | lines", "The lines of a string.";
    "split" of TEXT => |_| ValueType::any_value(), "string | split(separator)", "The parts of a string.";
    "format" of TEXT => |_| ValueType::any_text(), "string | format(values)",
        "The string with the values instead of its placeholders, such as `%s`.";
    "escape" of ANY => |_| ValueType::any_value(), "string | escape",
        "The string with `<`, `>`, `&` and quotes escaped for HTML.";
    "e" of ANY => |_| ValueType::any_value(), "string | e", "The same as `escape`.";
    "safe" of ANY => |_| ValueType::any_value(), "string | safe", "The string unchanged.";
    "pprint" of ANY => |_| ValueType::any_text(), "value | pprint", "The value as text, for debugging.";
];

/// Returns the documentation entry of each filter, the common ones first.
pub fn list_filter_words() -> impl Iterator<Item = &'static LanguageWord> {
    FILTERS.iter().map(|filter| &filter.word)
}

/// Returns the filter with this name.
pub(super) fn find_filter(name: &str) -> Option<&'static TemplateFilter> {
    FILTERS.iter().find(|filter| filter.word.name == name)
}

/// The names of all tests.
pub(super) const TEST_NAMES: [&str; 41] = [
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

/// Returns whether the value can be a list, a map or a text.
fn is_iterable(shape: &ValueShape) -> bool {
    shape.list.is_some() || shape.map.is_some() || shape.text.is_some()
}

/// Infers the type of a text after a change. Nothing becomes an empty text, or `none`.
fn infer_changed_text(of: &ValueType, change: fn(&str) -> String) -> ValueType {
    match of.only_known_texts() {
        Some(texts) => {
            let nothing = ["", "none", "None"].map(change);
            ValueType::text_among(texts.iter().map(|text| change(text)).chain(nothing))
        }
        None => ValueType::any_text(),
    }
}

/// Returns the type of a list with the same items.
fn list_of_same_items_type(of: &ValueType) -> ValueType {
    of.list_item_type()
        .cloned()
        .map_or(ValueType::any_value(), ValueType::list_with_items)
}

/// Returns the type of one item of the list, or nothing.
fn one_item_or_nothing_type(of: &ValueType) -> ValueType {
    of.list_item_type().cloned().map_or(ValueType::any_value(), |item| {
        item.union_with(ValueType::nothing_value())
    })
}
