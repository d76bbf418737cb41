//! `ensemble validate`: reports all problems of all files at once.
//!
//! Files are checked on all cores, and their reports are printed in order as they become ready, so that memory does not
//! grow with the number of files. A file that cannot be read is reported, and the other files are still checked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fixes::{Fixing, difference, replace, unreadable};
use super::settings::{Settings, examine as examine_config};
use crate::command::check::files::inputs::{Input, Inputs, inputs};
use crate::command::check::files::ordered_work::in_order;
use crate::command::check::policy::Policy;
use crate::command::check::{ValidateArgs, ValidateFormat};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use crate::command::shared::untrusted_files::shown as shown_path;
use ensemble_cases::suite::Suite;
use ensemble_language::cases::is_test_file;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::fix::{CheckedText, FixedText, fix_text};
use ensemble_language::loader::explain::explanation;
use ensemble_language::loader::{Loaded, codes, load};
use ensemble_language::source::{Source, Span};
use ensemble_language::yaml::edit::Applicability;
use ensemble_project::ProjectError;
use ensemble_project::check::{Checkers, Folder, Inner, Scripts};
use ensemble_project::prepare::examine;
use ensemble_reports::report::diagnostics::{ForPeople, Json};
use ensemble_reports::report::door::Spelling;
use ensemble_reports::report::{CheckedFile, Form, Github, Junit, Rule, Sarif, Totals, count};
use ensemble_runs::RunError;

/// `ensemble validate`.
pub(crate) fn validate(args: &ValidateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let settings = Settings::of(args, &surroundings.project)?;
    let Inputs {
        list,
        excluded,
        mut left_out,
    } = inputs(args, &settings, surroundings)?;
    let inputs = with_wrong_configs(list, &settings);
    let output = args.output.or_else(|| settings.output()).unwrap_or_default();
    let fails = |finding: &Diagnostic| settings.policy(Path::new(finding.source.name())).fails(finding);
    let fixing = Fixing::of(args)?;
    let form = form(output, &fails, surroundings);
    let scripts = Arc::<Scripts>::default();
    let checkers = args.check_scripts.then(Arc::<Checkers>::default);
    let ways = Ways {
        settings: &settings,
        scripts: &scripts,
        checkers: checkers.as_ref(),
        fixing,
        form: &*form,
        surroundings,
    };
    let is_text = args.fix && inputs.iter().any(|input| matches!(input, Input::Stdin(_)));
    let mut shown = Shown::new(&ways, output.into(), is_text, &inputs);
    in_order(
        inputs.len(),
        || None,
        |folder, at| check(&inputs[at], folder, &ways),
        |checked| shown.add(checked),
    );
    let has_failed = shown.end();
    for why in checkers.iter().flat_map(|checkers| checkers.unchecked()) {
        surroundings.print_err(&format!("warning: {why}\n"));
    }
    let passed_over = shown.passed_over.len();
    if args.verbose {
        let passed_over = std::mem::take(&mut shown.passed_over).into_iter();
        left_out.extend(passed_over.map(|path| (path, "no `agents`")));
        left_out.sort();
        for (path, by) in &left_out {
            surroundings.print_err(&format!("left out: {} ({by})\n", shown_path(path)));
        }
    }
    if output == ValidateFormat::Human && !args.quiet {
        surroundings.print_err(&shown.summary(passed_over, excluded));
    }
    if shown.totals.files == shown.configs && passed_over > 0 {
        return Err(no_ensemble(passed_over));
    }
    Ok(match fixing.is_shown() {
        true if !shown.faults.is_empty() => exit::USAGE,
        true if shown.fixed > 0 => exit::DIFFERENT,
        true => exit::SUCCESS,
        false if has_failed => exit::USAGE,
        false => exit::SUCCESS,
    })
}

/// The inputs with the configurations around them in which something is wrong, before them.
fn with_wrong_configs(mut inputs: Vec<Input>, settings: &Settings<'_>) -> Vec<Input> {
    let wrong = settings.wrong_configs(inputs.iter().map(Input::path));
    let is_new = |path: &PathBuf| !inputs.iter().any(|input| input.path() == path);
    let wrong: Vec<Input> = wrong.into_iter().filter(is_new).map(Input::File).collect();
    inputs.splice(0..0, wrong);
    inputs
}

fn no_ensemble(passed_over: usize) -> CliError {
    CliError::usage_with_help(
        format!("there is no ensemble among {}", count(passed_over as u64, "YAML file")),
        "an ensemble has a list of named `agents` at the top; a file that is named itself is always checked",
    )
}

/// The options that apply to each input.
struct Ways<'w> {
    settings: &'w Settings<'w>,
    /// The scripts that were read.
    scripts: &'w Arc<Scripts>,
    /// The parsers of scripts, with `--check-scripts`.
    checkers: Option<&'w Arc<Checkers>>,
    fixing: Fixing,
    form: &'w dyn Form,
    surroundings: &'w Surroundings,
}

/// The result of one input.
#[derive(Default)]
struct Checked {
    /// The report about the input.
    part: Part,
    /// The ensembles inside, with their files.
    inner: Vec<(PathBuf, Part)>,
    fails: bool,
    /// The file, if it was found and is no ensemble, so that nothing was checked.
    passed_over: Option<PathBuf>,
    /// Whether it is a configuration.
    is_config: bool,
    /// How many findings a configuration has removed.
    off: usize,
    /// The errors because of which the configuration around the input cannot be read, or the input not be written.
    faults: Vec<CliError>,
    /// How many fixes were applied.
    fixed: usize,
    /// The fixed text, if it is not written to a file: the text itself, or the differences.
    text: Option<String>,
}

/// The report about one file.
#[derive(Default)]
struct Part {
    /// Its text in the form of the report.
    text: String,
    counts: Counts,
    fails: bool,
}

impl Part {
    fn of(name: &str, findings: Vec<Diagnostic>, policy: &Policy, ways: &Ways<'_>) -> Self {
        let file = CheckedFile {
            fails: findings.iter().any(|finding| policy.fails(finding)),
            name: name.to_owned(),
            findings,
        };
        Self {
            text: ways.form.file(&file),
            counts: Counts::of(&file.findings),
            fails: file.fails,
        }
    }

    /// Of an ensemble that another one names.
    fn of_inner(inner: &Inner, ways: &Ways<'_>) -> (PathBuf, Self) {
        let policy = ways.settings.policy(Path::new(&inner.name));
        let (findings, _off) = policy.apply(inner.findings.clone());
        (inner.file.clone(), Self::of(&inner.name, findings, &policy, ways))
    }
}

/// The numbers of findings by severity.
#[derive(Default, Clone, Copy)]
struct Counts {
    errors: usize,
    warnings: usize,
    hints: usize,
    /// Those with a safe fix, and those with another one.
    safe_fixes: usize,
    unsafe_fixes: usize,
}

fn check<'s>(input: &Input, folder: &mut Option<Folder<'s>>, ways: &Ways<'s>) -> Checked {
    let path = input.path();
    if !matches!(input, Input::Stdin(_)) && ways.settings.is_config(path) {
        return check_config(input, ways);
    }
    let policy = ways.settings.policy(path);
    let project = &ways.surroundings.project;
    let folder = match folder {
        Some(known) if known.holds(path) => known,
        _ => folder.insert(
            Folder::around(path, project)
                .in_ci(policy.is_ci())
                .sharing(ways.scripts)
                .checking(ways.checkers.cloned()),
        ),
    };
    // What is wrong in a configuration is a finding of that file.
    let fault = folder
        .take_fault()
        .filter(|fault| !matches!(fault, ProjectError::Invalid(_)));
    let mut checked = Checked {
        faults: fault.map(CliError::from).into_iter().collect(),
        ..Checked::default()
    };
    checked.fails = !checked.faults.is_empty();
    let source = match input.read() {
        Ok(source) => source,
        Err(fault) => {
            match finding_of(&fault) {
                Some(finding) => checked.report(&path.display().to_string(), vec![finding], &policy, ways),
                None => checked.faults.push(fault),
            }
            checked.fails = true;
            return checked;
        }
    };
    if is_test_file(&path.to_string_lossy()) {
        let findings = Suite::read(&source, path, &ways.surroundings.runs()).findings;
        checked.report(source.name(), findings, &policy, ways);
        return checked;
    }
    let loaded = load(&source);
    if matches!(input, Input::Found(_)) && !loaded.is_ensemble() {
        checked.passed_over = Some(path.to_owned());
        return checked;
    }
    let examine = |loaded: &Loaded| examine(loaded, folder);
    let findings = match ways.fixing.with_unsafe() {
        None => examine(&loaded),
        Some(with_unsafe) => {
            let fixed = fix_text(&source, with_unsafe, |source| {
                let loaded = load(source);
                CheckedText {
                    is_yaml: loaded.document.is_some(),
                    is_whole: loaded.ensemble.is_some(),
                    findings: policy.apply(examine(&loaded)).0,
                }
            });
            match checked.keep(input, &source, &fixed, ways) {
                true => fixed.checked.findings,
                false => examine(&loaded),
            }
        }
    };
    let inner = folder.take_inner();
    checked.inner = inner.iter().map(|inner| Part::of_inner(inner, ways)).collect();
    checked.report(source.name(), findings, &policy, ways);
    checked
}

fn check_config(input: &Input, ways: &Ways<'_>) -> Checked {
    let mut checked = Checked {
        is_config: true,
        ..Checked::default()
    };
    let policy = ways.settings.policy(input.path());
    match input.read() {
        Ok(source) => {
            let findings = examine_config(&source, input.path(), &ways.surroundings.project);
            checked.report(source.name(), findings, &policy, ways);
        }
        Err(fault) => {
            match finding_of(&fault) {
                Some(finding) => checked.report(&input.path().display().to_string(), vec![finding], &policy, ways),
                None => checked.faults.push(fault),
            }
            checked.fails = true;
        }
    }
    checked
}

/// The finding that a file cannot be read.
fn finding_of(fault: &CliError) -> Option<Diagnostic> {
    let (name, reason) = unreadable(fault)?;
    Some(Diagnostic {
        severity: Severity::Error,
        code: codes::UNREADABLE,
        message: format!("cannot read {name}: {reason}"),
        source: Source::new(name, ""),
        span: Span::default(),
        related: Vec::new(),
        help: None,
        fix: None,
    })
}

impl Checked {
    fn report(&mut self, name: &str, findings: Vec<Diagnostic>, policy: &Policy, ways: &Ways<'_>) {
        let (findings, off) = policy.apply(findings);
        self.off = off;
        self.part = Part::of(name, findings, policy, ways);
        self.fails |= self.part.fails;
    }

    /// Writes or shows the fixed text; whether it is the text of the input from now on.
    fn keep(&mut self, input: &Input, source: &Source, fixed: &FixedText, ways: &Ways<'_>) -> bool {
        let is_other = fixed.applied > 0;
        match (ways.fixing, input) {
            (Fixing::Show { .. }, _) => self.text = is_other.then(|| difference(source, &fixed.source)),
            (_, Input::Stdin(_)) => self.text = Some(fixed.source.text().to_string()),
            (_, Input::File(path) | Input::Found(path)) if is_other => {
                let path = ways.surroundings.project.folder.join(path);
                if let Err(fault) = replace(&path, source.text(), fixed.source.text()) {
                    self.faults.push(fault);
                    self.fails = true;
                    return false;
                }
            }
            _ => {}
        }
        self.fixed = fixed.applied;
        true
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
    /// Files that were found and are no ensembles.
    passed_over: Vec<PathBuf>,
    configs: usize,
    off: usize,
    /// Errors that were printed. Each is printed once, although several threads may report it.
    faults: Vec<String>,
    /// How many fixes were applied, and in how many files.
    fixed: usize,
    fixed_files: usize,
    is_shown: bool,
    /// Whether fixes are neither applied nor shown.
    is_report: bool,
    /// Whether the output is a fixed text, and the report goes to standard error.
    is_text: bool,
    inputs: &'f [Input],
    /// The files that have a report or will have one, absolute; `None` until it matters.
    known: Option<HashSet<PathBuf>>,
}

impl<'f> Shown<'f> {
    fn new(ways: &Ways<'f>, spelling: Spelling, is_text: bool, inputs: &'f [Input]) -> Self {
        let shown = Self {
            form: ways.form,
            spelling,
            surroundings: ways.surroundings,
            fixed: 0,
            fixed_files: 0,
            is_shown: ways.fixing.is_shown(),
            is_report: ways.fixing == Fixing::Report,
            is_text,
            held: String::new(),
            totals: Totals {
                is_blank: true,
                ..Totals::default()
            },
            counts: Counts::default(),
            passed_over: Vec::new(),
            configs: 0,
            off: 0,
            faults: Vec::new(),
            inputs,
            known: None,
        };
        shown.print(&shown.form.begin());
        shown
    }

    /// Prints a part of the report.
    fn print(&self, text: &str) {
        match (self.is_shown, self.is_text) {
            (true, _) => {}
            (_, true) => self.surroundings.print_err(text),
            _ => self.surroundings.print_as(self.spelling, text),
        }
    }

    /// A fault is shown once. One that consists of findings about a file is a part of the report.
    fn fault(&mut self, fault: CliError) {
        let text = fault.render(self.surroundings.colors_on_stderr());
        if self.faults.contains(&text) {
            return;
        }
        let findings = match (finding_of(&fault), fault) {
            (Some(finding), _) => vec![finding],
            (None, CliError::Run(RunError::Project(ProjectError::Invalid(findings)))) => findings,
            (None, _) => Vec::new(),
        };
        match findings.first().map(|first| first.source.name().to_owned()) {
            Some(name) if !self.is_shown => {
                let counts = Counts::of(&findings);
                let text = self.form.file(&CheckedFile {
                    name,
                    findings,
                    fails: true,
                });
                let part = Part {
                    text,
                    counts,
                    fails: true,
                };
                self.part(&part, true);
            }
            _ => self.surroundings.print_err(&text),
        }
        self.faults.push(text);
    }

    fn add(&mut self, checked: Checked) {
        for fault in checked.faults {
            self.fault(fault);
        }
        if let Some(text) = &checked.text {
            self.surroundings.print(text);
        }
        self.fixed += checked.fixed;
        self.fixed_files += usize::from(checked.fixed > 0);
        if let Some(path) = checked.passed_over {
            self.passed_over.push(path);
            self.totals.failed += usize::from(checked.fails);
            return;
        }
        self.configs += usize::from(checked.is_config);
        self.off += checked.off;
        self.part(&checked.part, checked.fails);
        for (file, part) in checked.inner {
            if self.is_new(file) {
                self.part(&part, part.fails);
            }
        }
    }

    /// Returns whether the file is no input and has no report yet.
    fn is_new(&mut self, file: PathBuf) -> bool {
        let known = self.known.get_or_insert_with(|| {
            let folder = &self.surroundings.project.folder;
            let absolute = |input: &Input| folder.join(input.path()).canonicalize().ok();
            self.inputs.iter().filter_map(absolute).collect()
        });
        known.insert(file)
    }

    /// Adds the report about a file.
    fn part(&mut self, part: &Part, fails: bool) {
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
            self.print(&format!("{between}{}", part.text));
        }
    }

    /// Completes the report, and returns whether any input has failed.
    fn end(&mut self) -> bool {
        let end = self.form.end(&self.totals, &self.held);
        self.print(&end);
        self.totals.failed > 0
    }

    fn summary(&self, passed_over: usize, excluded: usize) -> String {
        let words = |number: usize, noun: &str| count(number as u64, noun);
        let excluded = match excluded {
            0 => String::new(),
            1 => "; 1 file or folder excluded".to_owned(),
            number => format!("; {number} files or folders excluded"),
        };
        let off = match self.off {
            0 => String::new(),
            number => format!("; {} off by the configuration", words(number, "finding")),
        };
        let passed_over = match passed_over {
            0 => String::new(),
            number => format!("; {} without `agents` passed over", words(number, "YAML file")),
        };
        let fixable = match (self.counts.safe_fixes, self.counts.unsafe_fixes) {
            _ if !self.is_report => String::new(),
            (0, 0) => String::new(),
            (safe, 0) => format!("; `--fix` can fix {safe}"),
            (0, other) => format!("; `--fix --unsafe-fixes` can fix {other}"),
            (safe, other) => format!("; `--fix` can fix {safe}, with `--unsafe-fixes` {}", safe + other),
        };
        let done = if self.is_shown { "would be fixed" } else { "fixed" };
        let fixed = match self.fixed {
            0 => String::new(),
            number => format!(
                "; {} {done} in {}",
                words(number, "finding"),
                words(self.fixed_files, "file")
            ),
        };
        format!(
            "{} checked: {}, {}, {}{passed_over}{excluded}{off}{fixed}{fixable}\n",
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
        let fixes = |wanted: Applicability| {
            let fixes = findings.iter().filter_map(|finding| finding.fix.as_ref());
            fixes.filter(|fix| fix.applicability == wanted).count()
        };
        Self {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            hints: count(Severity::Hint),
            safe_fixes: fixes(Applicability::Safe),
            unsafe_fixes: fixes(Applicability::Unsafe),
        }
    }

    fn add(&mut self, other: Self) {
        self.errors += other.errors;
        self.warnings += other.warnings;
        self.hints += other.hints;
        self.safe_fixes += other.safe_fixes;
        self.unsafe_fixes += other.unsafe_fixes;
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
