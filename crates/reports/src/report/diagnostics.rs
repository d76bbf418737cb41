//! Diagnostics for users and for programs.
//!
//! Both formats count lines and columns from 1, and columns in characters. The JSON format has half-open ranges: `end_line` and
//! `end_column` are the position after the last character.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::{Annotation, AnnotationKind, Level, Renderer, Snippet};

use super::form::{
    FileFindings, FindingsReportFormat, FindingsReportTotals, render_findings_report, render_json_items,
};
use super::sanitized_writer::mark_styles_as_trusted;
use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity, RelatedLocation};
use ensemble_language::source::{SourceText, Span};
use ensemble_language::yaml::edit::{FixApplicability, TextFix};

/// The maximum size of an excerpt with several positions. Positions that are further apart get separate excerpts.
const MAX_EXCERPT_BYTES: usize = 8000;
/// The maximum number of bytes of a long line that are shown.
const MAX_EXCERPT_LINE_BYTES: usize = 400;
/// The width of the rendered text, in columns.
const RENDERED_COLUMNS: usize = 100;

/// Renders diagnostics in the form of rustc: message, position, underlined line and help.
pub fn render_diagnostics(diagnostics: &[Diagnostic], color: bool) -> String {
    let (plain, styled) = (Renderer::plain(), Renderer::styled());
    let (plain, styled) = (plain.term_width(RENDERED_COLUMNS), styled.term_width(RENDERED_COLUMNS));
    let mut text = String::new();
    for diagnostic in diagnostics {
        let plain_text = render_diagnostic(diagnostic, &plain);
        // The styles are ours only if the finding contains none.
        text.push_str(&match color && !plain_text.contains('\u{1b}') {
            true => mark_styles_as_trusted(&render_diagnostic(diagnostic, &styled)),
            false => plain_text,
        });
        text.push_str("\n\n");
    }
    text
}

/// A report in the form of rustc, file by file.
#[derive(Debug)]
pub struct HumanFindingsFormat {
    /// True if colours are used.
    pub color: bool,
}

impl FindingsReportFormat for HumanFindingsFormat {
    fn render_file(&self, file: &FileFindings) -> String {
        render_diagnostics(&file.findings, self.color)
    }
}

/// Renders one diagnostic.
fn render_diagnostic(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        FindingSeverity::Error => Level::ERROR,
        FindingSeverity::Warning => Level::WARNING,
        FindingSeverity::Hint => Level::INFO.with_name("hint"),
    };
    let excerpts = diagnostic_excerpts(diagnostic);
    let title = level.primary_title(diagnostic.message.as_str());
    let title = match diagnostic.code {
        FindingCode::NONE => title,
        code => title.id(code.0),
    };
    let snippets = excerpts.iter().map(|excerpt| excerpt.to_snippet());
    let group = title.elements(snippets);
    let group = match &diagnostic.help {
        Some(help) => group.element(Level::HELP.message(help.as_str())),
        None => group,
    };
    let fix = diagnostic.fix.as_ref().map(fix_title);
    let group = match &fix {
        Some(fix) => group.element(Level::HELP.with_name("fix").message(fix.as_str())),
        None => group,
    };
    renderer.render(&[group])
}

/// Returns the title of a fix, marked if the fix is not safe.
pub(super) fn fix_title(fix: &TextFix) -> String {
    match fix.applicability {
        FixApplicability::Safe => fix.title.clone(),
        FixApplicability::Unsafe => format!("{} (unsafe)", fix.title),
    }
}

/// Whole lines of a text with marked ranges.
struct SourceExcerpt<'a> {
    /// The name of the text.
    name: &'a str,
    text: Cow<'a, str>,
    line: usize,
    marks: Vec<ExcerptMark<'a>>,
}

/// A marked range of an excerpt with an optional label.
struct ExcerptMark<'a> {
    /// The marks, in bytes of the excerpt.
    range: Range<usize>,
    label: Option<&'a str>,
}

/// A span that is cut to its first line, because the first line identifies a long map.
struct FirstLineSpan {
    line: usize,
    /// The bytes of the line in the source.
    whole: Range<usize>,
    marked: Range<usize>,
}

impl FirstLineSpan {
    /// Cuts the span to its first line.
    fn from_span(source: &SourceText, span: Span) -> Self {
        let line = source.line_column(span.start).line;
        let text = source.line_text(line);
        let start = text.as_ptr() as usize - source.text().as_ptr() as usize;
        let line_range = start..start + text.len();
        let from = span.start.clamp(line_range.start, line_range.end);
        let to = span.end.clamp(from, line_range.end);
        Self {
            line,
            whole: line_range,
            marked: from..to,
        }
    }
}

/// Builds one excerpt with all positions of a diagnostic if they are close together, otherwise one for each position.
fn diagnostic_excerpts(diagnostic: &Diagnostic) -> Vec<SourceExcerpt<'_>> {
    let source = &diagnostic.source;
    let (here, elsewhere): (Vec<&RelatedLocation>, Vec<&RelatedLocation>) = diagnostic
        .related
        .iter()
        .partition(|one| one.source.name() == source.name());
    let also = here.iter().map(|one| (one.span, Some(one.message.as_str())));
    let mut excerpts = build_excerpts(source, diagnostic.span, also);
    let elsewhere = elsewhere.into_iter();
    excerpts.extend(elsewhere.map(|one| {
        line_excerpt(
            &one.source,
            &FirstLineSpan::from_span(&one.source, one.span),
            Some(&one.message),
        )
    }));
    excerpts
}

/// Builds excerpts of one source: one with all spans if they are close together, otherwise one for each span.
fn build_excerpts<'a>(
    source: &'a SourceText,
    span: Span,
    also: impl Iterator<Item = (Span, Option<&'a str>)>,
) -> Vec<SourceExcerpt<'a>> {
    let places: Vec<(FirstLineSpan, Option<&str>)> = std::iter::once((span, None))
        .chain(also)
        .map(|(span, label)| (FirstLineSpan::from_span(source, span), label))
        .collect();
    let start = places
        .iter()
        .map(|(place, _)| place.whole.start)
        .min()
        .unwrap_or_default();
    let end = places
        .iter()
        .map(|(place, _)| place.whole.end)
        .max()
        .unwrap_or_default();
    if end - start > MAX_EXCERPT_BYTES {
        return places
            .iter()
            .map(|(place, label)| line_excerpt(source, place, *label))
            .collect();
    }
    let marks = places.iter().map(|(place, label)| ExcerptMark {
        range: place.marked.start - start..place.marked.end - start,
        label: *label,
    });
    vec![SourceExcerpt {
        name: source.name(),
        text: Cow::Borrowed(&source.text()[start..end]),
        line: places.iter().map(|(place, _)| place.line).min().unwrap_or(1),
        marks: marks.collect(),
    }]
}

/// Builds the excerpt of one line. Shows only the part of a long line near the mark; blanks keep the columns correct.
fn line_excerpt<'a>(source: &'a SourceText, place: &FirstLineSpan, label: Option<&'a str>) -> SourceExcerpt<'a> {
    let text: &str = source.text();
    let line = &text[place.whole.clone()];
    let marked = place.marked.start - place.whole.start..place.marked.end - place.whole.start;
    let (text, range) = if line.len() <= MAX_EXCERPT_BYTES {
        (Cow::Borrowed(line), marked)
    } else {
        let from = line.floor_char_boundary(marked.start.saturating_sub(MAX_EXCERPT_LINE_BYTES / 4));
        let to = line.floor_char_boundary((from + MAX_EXCERPT_LINE_BYTES).min(line.len()));
        let blanks = line[..from].chars().count();
        let moved = |at: usize| at.min(to) - from + blanks;
        let text = " ".repeat(blanks) + &line[from..to];
        (Cow::Owned(text), moved(marked.start)..moved(marked.end))
    };
    SourceExcerpt {
        name: source.name(),
        text,
        line: place.line,
        marks: vec![ExcerptMark { range, label }],
    }
}

impl SourceExcerpt<'_> {
    /// Converts the excerpt to a snippet of the renderer.
    fn to_snippet(&self) -> Snippet<'_, Annotation<'_>> {
        let marks = self.marks.iter().map(|mark| match mark.label {
            None => AnnotationKind::Primary.span(mark.range.clone()),
            Some(label) => AnnotationKind::Context.span(mark.range.clone()).label(label),
        });
        Snippet::source(&*self.text)
            .line_start(self.line)
            .path(self.name)
            .annotations(marks)
    }
}

/// The JSON form of a diagnostic, version 1.
#[derive(serde::Serialize)]
struct DiagnosticJson<'a> {
    severity: FindingSeverity,
    code: &'static str,
    message: &'a str,
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    help: Option<&'a str>,
    related: Vec<RelatedRegionJson<'a>>,
    fix: Option<DiagnosticFixJson<'a>>,
}

/// The JSON form of a range in a file.
#[derive(serde::Serialize)]
struct TextRegionJson<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

/// The JSON form of a related position.
#[derive(serde::Serialize)]
struct RelatedRegionJson<'a> {
    message: &'a str,
    #[serde(flatten)]
    region: TextRegionJson<'a>,
}

/// The JSON form of a fix.
#[derive(serde::Serialize)]
struct DiagnosticFixJson<'a> {
    title: &'a str,
    applicability: FixApplicability,
    edits: Vec<TextEditJson<'a>>,
}

/// The JSON form of an edit.
#[derive(serde::Serialize)]
struct TextEditJson<'a> {
    #[serde(flatten)]
    region: TextRegionJson<'a>,
    replacement: &'a str,
}

/// Converts a span to its JSON form.
fn to_region_json(source: &SourceText, span: Span) -> TextRegionJson<'_> {
    let (start, end) = (source.line_column(span.start), source.line_column(span.end));
    TextRegionJson {
        file: source.name(),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
    }
}

/// Converts a fix to its JSON form. Returns `None` if a source is unknown.
fn to_fix_json<'a>(diagnostic: &'a Diagnostic, fix: &'a TextFix) -> Option<DiagnosticFixJson<'a>> {
    let edits = fix.edits.iter().map(|edit| {
        Some(TextEditJson {
            region: to_region_json(find_source_by_name(diagnostic, &fix.file)?, edit.span),
            replacement: &edit.replacement,
        })
    });
    Some(DiagnosticFixJson {
        title: &fix.title,
        applicability: fix.applicability,
        edits: edits.collect::<Option<_>>()?,
    })
}

/// Finds the source with this name among the positions of the diagnostic.
pub(super) fn find_source_by_name<'a>(diagnostic: &'a Diagnostic, name: &str) -> Option<&'a SourceText> {
    let related_sources = diagnostic.related.iter().map(|one| &one.source);
    std::iter::once(&diagnostic.source)
        .chain(related_sources)
        .find(|source| source.name() == name)
}

/// Renders one JSON document with all diagnostics: `{version, diagnostics: [{severity, code, message, file, line, …}]}`.
///
/// `related` is a list of `{message, file, line, …}`; `fix` is `null` or `{title, applicability, edits: [{file, line, …, replacement}]}`.
pub fn render_json_diagnostics(diagnostics: &[Diagnostic]) -> String {
    render_findings_report(&JsonFindingsFormat, diagnostics)
}

/// A report as one JSON document, file by file.
#[derive(Debug)]
pub struct JsonFindingsFormat;

impl FindingsReportFormat for JsonFindingsFormat {
    fn render_header(&self) -> String {
        "{\n  \"version\": 1,\n  \"diagnostics\": [".to_owned()
    }

    fn render_file(&self, file: &FileFindings) -> String {
        render_json_items(file.findings.iter().map(to_diagnostic_json), "    ")
    }

    fn file_separator(&self) -> &'static str {
        ","
    }

    fn render_footer(&self, totals: &FindingsReportTotals, _held: &str) -> String {
        if totals.is_blank {
            "]\n}".to_owned()
        } else {
            "\n  ]\n}".to_owned()
        }
    }
}

/// Converts a diagnostic to its JSON form.
fn to_diagnostic_json(diagnostic: &Diagnostic) -> DiagnosticJson<'_> {
    let start = diagnostic.source.line_column(diagnostic.span.start);
    let end = diagnostic.source.line_column(diagnostic.span.end);
    DiagnosticJson {
        severity: diagnostic.severity,
        code: diagnostic.code.0,
        message: &diagnostic.message,
        file: diagnostic.source.name(),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        help: diagnostic.help.as_deref(),
        related: diagnostic
            .related
            .iter()
            .map(|one| RelatedRegionJson {
                message: &one.message,
                region: to_region_json(&one.source, one.span),
            })
            .collect(),
        fix: diagnostic.fix.as_ref().and_then(|fix| to_fix_json(diagnostic, fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::loader::load_ensemble;

    fn diagnostics(text: &str) -> Vec<Diagnostic> {
        load_ensemble(&SourceText::new("dir/team.yaml", text)).diagnostics()
    }

    fn plain(text: &str) -> String {
        render_diagnostics(&diagnostics(text), false)
    }

    #[test]
    fn people_see_the_line_and_what_to_do() {
        let text = "name: e\nagents:\n  - name: a\n    scrpt: x # é\n    script: y\n";
        let expected = "\
error[E010]: unknown key 'scrpt' in an agent
 --> dir/team.yaml:4:5
  |
4 |     scrpt: x # é
  |     ^^^^^
  |
  = help: did you mean `script`?
  = fix: write `script` (unsafe)

";
        assert_eq!(plain(text), expected);
        let coloured = render_diagnostics(&diagnostics(text), true);
        assert!(coloured.contains("\u{1b}["), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), expected);
    }

    #[test]
    fn other_places_are_shown_too() {
        let agent = "  - name: a\n    script: x\n    model_profile: y\n";
        let expected = "\
error[E023]: agent 'a' has both `script` and `model_profile`
 --> dir/team.yaml:5:5
  |
4 |     script: x
  |     ------ the first
5 |     model_profile: y
  |     ^^^^^^^^^^^^^
  |
  = help: an agent must run exactly one thing: keep one of the two keys

";
        assert_eq!(plain(&format!("name: e\nagents:\n{agent}")), expected);
        let far = "# a comment\n".repeat(2000);
        let apart = plain(&format!("name: e\nagents:\n{agent}").replace("    model", &format!("{far}    model")));
        for part in [
            " --> dir/team.yaml:2005:5\n",
            "::: dir/team.yaml:4:5\n",
            "------ the first\n",
        ] {
            assert!(apart.contains(part), "{part}\n{apart}");
        }
    }

    #[test]
    fn long_lines_are_cut_and_keep_their_columns() {
        for width in [500, 50_000] {
            let (before, after) = (" ".repeat(width), "é".repeat(width));
            let text = format!("name: e\nagents: [{{name: a, {before}scrpt: x, script: z, description: {after}}}]");
            let shown = plain(&text);
            assert!(
                shown.contains(&format!(" --> dir/team.yaml:2:{}\n", width + 20)),
                "{shown}"
            );
            let (line, marks) = (shown.lines().nth(3).unwrap(), shown.lines().nth(4).unwrap());
            assert!(line.chars().count() < 130, "{line}");
            let column = |text: &str, needle| text.find(needle).map(|at| text[..at].chars().count());
            assert_eq!(column(line, "scrpt"), column(marks, "^^^^^"), "{shown}");
        }
    }

    #[test]
    fn nothing_to_mark_is_no_trouble() {
        for text in [
            "",
            "\u{feff}",
            "\u{feff}name:",
            "name: [a, b\n",
            "a: \u{1b}[31m\n",
            "é: [\r\n\r\n",
        ] {
            let shown = plain(text);
            assert!(shown.starts_with("error[E0"), "{text:?}: {shown}");
            assert!(!shown.contains('\u{1b}'), "{text:?}: {shown}");
        }
        assert_eq!(render_diagnostics(&[], true), "");
    }

    #[test]
    fn programs_get_one_document() {
        let read: serde_json::Value = serde_json::from_str(&render_json_diagnostics(&diagnostics(
            "é: 1\nname: {a: b,\n  c: d}\nagents: []",
        )))
        .unwrap();
        let expected = serde_json::json!({"version": 1, "diagnostics": [
            {
                "severity": "error", "code": "E010", "message": "unknown key 'é' in the ensemble",
                "file": "dir/team.yaml", "line": 1, "column": 1, "end_line": 1, "end_column": 2,
                "help": "expected one of `name`, `description`, `agents`, `conversation_limits`, `model_profiles`, `tools`, `default_task`, `inputs`, `result`, `success`, `defaults`",
                "related": [], "fix": null,
            },
            {
                "severity": "error", "code": "E014", "message": "expected a string, found a map",
                "file": "dir/team.yaml", "line": 2, "column": 7, "end_line": 3, "end_column": 8,
                "help": "quote a template such as `{{ name }}`, or a string that contains `: `",
                "related": [], "fix": null,
            },
            {
                "severity": "error", "code": "E018", "message": "an ensemble must have at least one agent",
                "file": "dir/team.yaml", "line": 4, "column": 9, "end_line": 4, "end_column": 11,
                "help": null, "related": [], "fix": null,
            },
        ]});
        assert_eq!(read, expected);
    }

    #[test]
    fn programs_get_fixes_and_other_places() {
        let text = "name: e\nagents:\n  - {name: a, scrpt: x, script: y}\n  - {name: a, script: y}\n";
        let read: serde_json::Value = serde_json::from_str(&render_json_diagnostics(&diagnostics(text))).unwrap();
        let [slip, twice] = [&read["diagnostics"][0], &read["diagnostics"][1]];
        assert_eq!(
            slip["fix"],
            serde_json::json!({"title": "write `script`", "applicability": "unsafe", "edits": [{
                "file": "dir/team.yaml", "line": 3, "column": 15, "end_line": 3, "end_column": 20, "replacement": "script",
            }]})
        );
        assert_eq!(
            twice["related"],
            serde_json::json!([{
                "message": "first here", "file": "dir/team.yaml",
                "line": 3, "column": 12, "end_line": 3, "end_column": 13,
            }])
        );
    }

    #[test]
    fn places_in_other_texts_are_shown_with_their_names() {
        let mut found = diagnostics("name: e\nagents:\n  - {name: a, scrpt: x}\n");
        found[0].related.push(RelatedLocation {
            source: SourceText::new("other.yaml", "one\ntwo three\n"),
            span: Span::new(4, 7),
            message: "there".to_owned(),
        });
        let shown = render_diagnostics(&found, false);
        for part in ["dir/team.yaml:3:15\n", "other.yaml:2:1\n", "--- there\n"] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
