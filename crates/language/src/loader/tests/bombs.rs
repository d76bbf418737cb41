//! Texts that are made to hurt: each must end quickly, with a word about why.

#![expect(
    clippy::disallowed_methods,
    reason = "a test may look at the clock to see that nothing hangs"
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::{loaded, show};

/// Longer than any of these takes on a busy machine, shorter than what hangs; the figures are for `--nocapture`.
const PATIENCE: Duration = Duration::from_secs(120);

/// Debug builds are some twenty times slower than what users run, so there the largest texts are smaller.
const SCALE: usize = if cfg!(debug_assertions) { 20 } else { 1 };

fn defused(name: &str, text: &str, expected: &str) {
    let start = Instant::now();
    let loaded = loaded(text);
    let taken = start.elapsed();
    let shown = show(&loaded.diagnostics());
    assert!(loaded.ensemble.is_none(), "{name}");
    assert!(
        shown.iter().any(|it| it.starts_with(expected)),
        "{name}: {:?}",
        shown.first()
    );
    println_taken(name, taken);
    assert!(taken < PATIENCE, "{name} took {taken:?}");
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture, to be read by people")]
fn println_taken(name: &str, taken: Duration) {
    println!("{name}: {taken:?}");
}

#[test]
fn aliases_that_multiply() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
    }
    defused("billion laughs", &text, "E002 ");
    let mut merges = "a0: &a0 {k0: 1, k1: 1}\n".to_owned();
    for level in 1..40 {
        let before = level - 1;
        let _ = writeln!(
            merges,
            "a{level}: &a{level} {{<<: [*a{before}, *a{before}], x{level}: 1}}"
        );
    }
    defused("merging laughs", &merges, "E010 ");
    let long = "x".repeat(1 << 20);
    let text = format!("a: &a {long}\nb: [{}]\n", "*a,".repeat(100_000));
    defused("a long text, often", &text, "E002 ");
}

#[test]
fn depth() {
    defused("brackets", &"[".repeat(100_000), "E002 ");
    defused("ten million brackets", &"[".repeat(10_000_000 / SCALE), "E002 ");
    defused("braces", &"{a: ".repeat(100_000), "E002 ");
    defused("dashes", &"- ".repeat(100_000), "E002 1:129 ");
    let steps: String = (0..1000).fold(String::new(), |text, depth| format!("{text}{}a:\n", " ".repeat(depth)));
    defused("steps", &steps, "E002 65:65 ");
    let mut text = format!("a0: &a0 {}{}\n", "[".repeat(40), "]".repeat(40));
    for level in 1..2000 {
        let _ = writeln!(
            text,
            "a{level}: &a{level} {}*a{}{}",
            "[".repeat(20),
            level - 1,
            "]".repeat(20)
        );
    }
    defused("aliases that dig", &text, "E002 ");
}

#[test]
fn size() {
    const TEN_MILLION: usize = 10_000_000 / SCALE;
    const FEW_MILLION: usize = 2_500_000 / SCALE;
    // A smaller text may be refused for another reason than the full one; that it is refused is the same.
    let defused = |name: &str, text: &str, expected: &str| {
        defused(name, text, if SCALE == 1 { expected } else { "E0" });
    };
    self::defused(
        "too large",
        &" ".repeat(crate::loader::MAX_BYTES + 1),
        "E002 1:1 the file is larger than 16 MiB",
    );
    defused("spaces", &" ".repeat(TEN_MILLION), "E003 ");
    defused("tabs", &"\t".repeat(TEN_MILLION), "E003 ");
    defused("line breaks", &"\n".repeat(FEW_MILLION), "E003 ");
    defused("commas", &format!("[{}", ",".repeat(FEW_MILLION)), "E002 1:1 ");
    defused(
        "short items",
        &format!("a: [{}]", "a,".repeat(FEW_MILLION / 2)),
        "E002 ",
    );
    defused("lines of items", &"- a\n".repeat(1_000_000 / SCALE), "E002 ");
    defused(
        "one open quote",
        &format!("a: \"{}", "x ".repeat(FEW_MILLION / 2)),
        "E001 ",
    );
    defused("one long key", &format!("{}\n", "x".repeat(FEW_MILLION)), "E014 ");
    defused("colons", &"a: ".repeat(FEW_MILLION / 3), "E00");
    defused("anchors", &"&a ".repeat(FEW_MILLION / 3), "E00");
    defused("bangs", &"!".repeat(FEW_MILLION), "E00");
    defused("questions", &"? ".repeat(FEW_MILLION / 2), "E00");
    defused("comments", &"#\n".repeat(FEW_MILLION / 2), "E003 ");
    defused("documents", &"---\n".repeat(FEW_MILLION / 4), "E00");
    defused("directives", &"%A\n".repeat(FEW_MILLION / 3), "E001");
    defused("no ASCII", &"é".repeat(FEW_MILLION / 2), "E014 ");
    defused("no ASCII, many lines", &"- é: à\n".repeat(300_000 / SCALE), "E014 ");
}

#[test]
fn keys_and_anchors() {
    let anchors = (0..100_000).fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "- &a{at} x");
        text
    });
    defused("many anchors", &anchors, "E002 10001:");
    defused("one key, often", &"a: 1\n".repeat(100_000), "E004 ");
    let distinct: String = (0..50_000).fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "k{at}: 1");
        text
    });
    defused("many keys", &distinct, "E010 ");
    defused("many keys, twice", &distinct.repeat(2), "E004 ");
    let flow = format!("{{{}}}", distinct.replace('\n', ", "));
    defused("many keys in braces", &flow, "E010 ");
}

#[test]
fn names() {
    let mut text = "name: e\nagents:\n".to_owned();
    for at in 0..5_000 {
        let _ = writeln!(text, "- {{name: a{at}, script: x, depends_on: [b{at}]}}");
    }
    defused("many unknown names", &text, "E021 ");
}
