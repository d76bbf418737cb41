//! `ensemble validate`: reports all problems of all files at once.
//!
//! Files are checked on all cores, and their reports are printed in order as they become ready, so that memory does not
//! grow with the number of files. A file that cannot be read is reported, and the other files are still checked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{ValidateArgs, ValidateFormat};
use super::error::CliError;
use super::exit;
use super::in_order::in_order;
use super::inputs::{Input, inputs};
use super::policy::Policy;
use super::surroundings::Surroundings;
use ensemble_cases::suite::Suite;
use ensemble_language::cases::is_test_file;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::loader::explain::explanation;
use ensemble_language::loader::{codes, load};
use ensemble_reports::report::diagnostics::{ForPeople, Json};
use ensemble_reports::report::door::Spelling;
use ensemble_reports::report::{CheckedFile, Form, Github, Junit, Rule, Sarif, Totals, count};
use ensemble_runs::around::{Checkers, Folder, Inner, Scripts};
use ensemble_runs::prepare::examine;

/// `ensemble validate`.
pub(super) fn validate(args: &ValidateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let policy = Policy::of(args)?;
    let inputs = inputs(&args.paths, surroundings)?;
    let fails = |finding: &Diagnostic| policy.fails(finding);
    let form = form(args.output, &fails, surroundings);
    let scripts = Arc::<Scripts>::default();
    let checkers = args.check_scripts.then(Arc::<Checkers>::default);
    let around = |path: &Path| {
        Folder::around(path, &surroundings.project)
            .in_ci(args.ci)
            .sharing(&scripts)
            .checking(checkers.clone())
    };
    let mut shown = Shown::new(&*form, args.output.into(), surroundings, &inputs);
    in_order(
        inputs.len(),
        || None,
        |folder, at| check(&inputs[at], folder, &around, &policy, &*form, surroundings),
        |checked| shown.add(checked),
    );
    let has_failed = shown.end();
    for why in checkers.iter().flat_map(|checkers| checkers.unchecked()) {
        surroundings.print_err(&format!("warning: {why}\n"));
    }
    if args.output == ValidateFormat::Human && !args.quiet {
        surroundings.print_err(&shown.summary());
    }
    if shown.totals.files == 0 && shown.passed_over > 0 {
        return Err(no_ensemble(shown.passed_over));
    }
    Ok(if has_failed { exit::USAGE } else { exit::SUCCESS })
}

fn no_ensemble(passed_over: usize) -> CliError {
    CliError::usage_with_help(
        format!("there is no ensemble among {}", count(passed_over as u64, "YAML file")),
        "an ensemble has the key `agents` at the top; a file that is named itself is always checked",
    )
}

/// The result of one input.
struct Checked {
    part: Part,
    fails: bool,
    /// Whether the file was found and is no ensemble, so that nothing was checked.
    is_passed_over: bool,
    /// The error because of which the input, or the configuration around it, cannot be read.
    faults: Vec<CliError>,
    /// The ensembles inside, with their files.
    inner: Vec<(PathBuf, Part)>,
}

impl Checked {
    fn without_report(fails: bool, is_passed_over: bool, faults: Vec<CliError>) -> Self {
        let (text, counts) = (String::new(), Counts::default());
        Self {
            part: Part { text, counts, fails },
            fails,
            is_passed_over,
            faults,
            inner: Vec::new(),
        }
    }
}

/// The report about one file.
struct Part {
    /// Its text in the form of the report.
    text: String,
    counts: Counts,
    fails: bool,
}

impl Part {
    fn of(name: &str, findings: Vec<Diagnostic>, policy: &Policy, form: &dyn Form) -> Self {
        let file = CheckedFile {
            fails: findings.iter().any(|finding| policy.fails(finding)),
            name: name.to_owned(),
            findings,
        };
        Self {
            text: form.file(&file),
            counts: Counts::of(&file.findings),
            fails: file.fails,
        }
    }

    /// Of an ensemble that another one names.
    fn of_inner(inner: &Inner, policy: &Policy, form: &dyn Form) -> (PathBuf, Self) {
        let findings = policy.apply(inner.findings.clone());
        (inner.file.clone(), Self::of(&inner.name, findings, policy, form))
    }
}

/// The numbers of findings by severity.
#[derive(Default, Clone, Copy)]
struct Counts {
    errors: usize,
    warnings: usize,
    hints: usize,
}

fn check<'s>(
    input: &Input,
    folder: &mut Option<Folder<'s>>,
    around: &dyn Fn(&Path) -> Folder<'s>,
    policy: &Policy,
    form: &dyn Form,
    surroundings: &Surroundings,
) -> Checked {
    let path = input.path();
    let folder = match folder {
        Some(known) if known.holds(path) => known,
        _ => folder.insert(around(path)),
    };
    let mut faults: Vec<CliError> = folder.take_fault().map(CliError::from).into_iter().collect();
    let source = match input.read() {
        Ok(source) => source,
        Err(fault) => {
            faults.push(fault);
            return Checked::without_report(true, false, faults);
        }
    };
    if is_test_file(&path.to_string_lossy()) {
        let findings = Suite::read(&source, path, &surroundings.runs()).findings;
        return reported(source.name(), findings, faults, policy, form);
    }
    let loaded = load(&source);
    if matches!(input, Input::Found(_)) && !loaded.is_ensemble() {
        return Checked::without_report(!faults.is_empty(), true, faults);
    }
    let findings = examine(&loaded, folder);
    let inner = folder.take_inner();
    let inner = inner.iter().map(|inner| Part::of_inner(inner, policy, form));
    Checked {
        inner: inner.collect(),
        ..reported(source.name(), findings, faults, policy, form)
    }
}

/// The report about a file with these findings.
fn reported(name: &str, findings: Vec<Diagnostic>, faults: Vec<CliError>, policy: &Policy, form: &dyn Form) -> Checked {
    let part = Part::of(name, policy.apply(findings), policy, form);
    Checked {
        fails: part.fails || !faults.is_empty(),
        part,
        is_passed_over: false,
        faults,
        inner: Vec::new(),
    }
}

/// The report so far.
struct Shown<'f> {
    form: &'f dyn Form,
    spelling: Spelling,
    surroundings: &'f Surroundings,
    held: String,
    totals: Totals,
    counts: Counts,
    passed_over: usize,
    /// Errors that were printed. Each is printed once, although several threads may report it.
    faults: Vec<String>,
    inputs: &'f [Input],
    /// The files that have a report or will have one, absolute; `None` until it matters.
    known: Option<HashSet<PathBuf>>,
}

impl<'f> Shown<'f> {
    fn new(form: &'f dyn Form, spelling: Spelling, surroundings: &'f Surroundings, inputs: &'f [Input]) -> Self {
        surroundings.print_as(spelling, &form.begin());
        Self {
            form,
            spelling,
            surroundings,
            held: String::new(),
            totals: Totals {
                is_blank: true,
                ..Totals::default()
            },
            counts: Counts::default(),
            passed_over: 0,
            faults: Vec::new(),
            inputs,
            known: None,
        }
    }

    fn add(&mut self, checked: Checked) {
        for fault in checked.faults {
            let fault = fault.render(self.surroundings.colors_on_stderr());
            if !self.faults.contains(&fault) {
                self.surroundings.print_err(&fault);
                self.faults.push(fault);
            }
        }
        if checked.is_passed_over {
            self.passed_over += 1;
            self.totals.failed += usize::from(checked.fails);
            return;
        }
        self.add_part(&checked.part, checked.fails);
        for (file, part) in checked.inner {
            if self.is_new(file) {
                self.add_part(&part, part.fails);
            }
        }
    }

    /// Whether the file is no input and has no report yet.
    fn is_new(&mut self, file: PathBuf) -> bool {
        let known = self.known.get_or_insert_with(|| {
            let folder = &self.surroundings.project.folder;
            let absolute = |input: &Input| folder.join(input.path()).canonicalize().ok();
            self.inputs.iter().filter_map(absolute).collect()
        });
        known.insert(file)
    }

    fn add_part(&mut self, part: &Part, fails: bool) {
        self.totals.files += 1;
        self.totals.failed += usize::from(fails);
        self.counts.add(part.counts);
        if part.text.is_empty() {
            return;
        }
        let between = if self.totals.is_blank { "" } else { self.form.between() };
        self.totals.is_blank = false;
        if self.form.is_held() {
            self.held.push_str(&part.text);
        } else {
            self.surroundings
                .print_as(self.spelling, &format!("{between}{}", part.text));
        }
    }

    /// Completes the report, and returns whether any input has failed.
    fn end(&mut self) -> bool {
        let end = self.form.end(&self.totals, &self.held);
        self.surroundings.print_as(self.spelling, &end);
        self.totals.failed > 0
    }

    fn summary(&self) -> String {
        let words = |number: usize, noun: &str| count(number as u64, noun);
        let passed_over = match self.passed_over {
            0 => String::new(),
            number => format!("; {} without `agents` passed over", words(number, "YAML file")),
        };
        format!(
            "{} checked: {}, {}, {}{passed_over}\n",
            words(self.totals.files, "file"),
            words(self.counts.errors, "error"),
            words(self.counts.warnings, "warning"),
            words(self.counts.hints, "hint"),
        )
    }
}

impl Counts {
    fn of(findings: &[Diagnostic]) -> Self {
        let count = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            hints: count(Severity::Hint),
        }
    }

    fn add(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.hints += other.hints;
    }
}

fn form<'f>(
    format: ValidateFormat,
    fails: &'f (dyn Fn(&Diagnostic) -> bool + Sync),
    surroundings: &'f Surroundings,
) -> Box<dyn Form + 'f> {
    let folder: &Path = &surroundings.project.folder;
    match format {
        ValidateFormat::Json => Box::new(Json),
        ValidateFormat::Github => Box::new(Github { folder }),
        ValidateFormat::Sarif => Box::new(Sarif { rules: rules(), folder }),
        ValidateFormat::Junit => Box::new(Junit { fails, folder }),
        ValidateFormat::Human => Box::new(ForPeople {
            color: surroundings.streams.colors_on_stdout(),
        }),
    }
}

/// All codes, for reports that list them.
fn rules() -> Vec<Rule> {
    let rule = |(code, title): &(Code, &'static str)| Rule {
        code: *code,
        title,
        explanation: explanation(*code),
    };
    codes::ALL.iter().map(rule).collect()
}
