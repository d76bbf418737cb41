//! What Rhai has for functions of other languages.

/// Functions of Python and JavaScript that Rhai lacks, and what to write instead.
const RHAI_EQUIVALENTS: &[(&[&str], &str)] = &[
    (
        &["join", "implode"],
        "Rhai has no `join`; write `list.reduce(|text, item| if text == () { item.to_string() } else { text + \", \" + item })`",
    ),
    (&["length", "size", "count"], "write `value.len()`"),
    (
        &["substring", "substr", "slice"],
        "write `text.sub_string(start, length)` for a string and `list.extract(start, length)` for a list",
    ),
    (&["upper", "toUpperCase", "uppercase"], "write `text.to_upper()`"),
    (&["lower", "toLowerCase", "lowercase"], "write `text.to_lower()`"),
    (
        &["strip", "lstrip", "rstrip"],
        "write `text.trim()`, which changes the variable in place",
    ),
    (&["startswith", "startsWith"], "write `text.starts_with(part)`"),
    (&["endswith", "endsWith"], "write `text.ends_with(part)`"),
    (&["indexOf"], "write `value.index_of(part)`"),
    (
        &["includes", "has", "has_key", "hasOwnProperty"],
        "write `value.contains(item)` or `item in value`",
    ),
    (
        &["forEach", "each", "foreach"],
        "write a loop: `for item in list { … }`",
    ),
    (
        &["enumerate", "entries"],
        "write a loop with an index: `for (item, index) in list { … }`",
    ),
    (
        &["items"],
        "write a loop over the keys: `for key in map.keys() { … map[key] … }`",
    ),
    (&["every"], "write `list.all(|item| …)`"),
    (&["any"], "write `list.some(|item| …)`"),
    (&["sum"], "write `list.reduce(|sum, item| sum + item, 0)`"),
    (&["sorted"], "write `list.sort()`, which changes the list in place"),
    (&["reversed"], "write `list.reverse()`, which changes the list in place"),
    (&["unique", "uniq"], "write `list.dedup()` after `list.sort()`"),
    (&["concat"], "write `a + b`"),
    (
        &["format", "sprintf"],
        "write a string with values in it: `` `${a} and ${b}` ``",
    ),
    (&["str", "String", "string", "toString"], "write `value.to_string()`"),
    (
        &["Number", "parseInt"],
        "write `parse_int(text)` or `parse_float(text)`",
    ),
    (&["parseFloat"], "write `parse_float(text)`"),
    (
        &["isinstance", "typeof"],
        "write `type_of(value) == \"string\"`; other types are `i64`, `f64`, `bool`, `array` and `map`",
    ),
    (
        &["loads", "json_parse", "from_json", "parseJson", "json_decode"],
        "write `parse_json(text)`",
    ),
    (
        &["dumps", "stringify", "json_encode", "json_stringify"],
        "write `to_json(value)`",
    ),
    (&["error", "fail", "panic", "raise"], "write `throw message`"),
    (
        &["now", "timestamp", "sleep", "random", "rand", "uuid"],
        "a Rhai script has no clock and no random numbers; use `execution` or `run_id`, or a script in another language",
    ),
    (
        &[
            "open",
            "read_file",
            "write_file",
            "read_text",
            "fetch",
            "http_get",
            "exec",
            "system",
            "getenv",
        ],
        "a Rhai script reaches no files, network, processes or environment; use a script in another language",
    ),
];

/// Returns the Rhai replacement for a function of Python or JavaScript.
pub(super) fn find_rhai_equivalent(name: &str) -> Option<&'static str> {
    let rows = RHAI_EQUIVALENTS.iter();
    let mut of_name = rows.filter(|(names, _)| names.contains(&name));
    of_name.next().map(|(_, equivalent)| *equivalent)
}
