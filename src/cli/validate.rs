//! `ensemble validate`: reports all problems of all files at once.
//!
//! Files are checked on all cores, and their reports are printed in order as they become ready, so that memory does not
//! grow with the number of files. A file that cannot be read is reported, and the other files are still checked.

use std::path::{Path, PathBuf};

use super::args::{ValidateArgs, ValidateFormat};
use super::error::CliError;
use super::exit;
use super::in_order::in_order;
use super::inputs::{Input, Inputs, inputs};
use super::policy::Policy;
use super::settings::Settings;
use super::surroundings::Surroundings;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::loader::explain::explanation;
use ensemble_language::loader::{codes, load};
use ensemble_language::source::Source;
use ensemble_reports::report::diagnostics::{ForPeople, Json};
use ensemble_reports::report::door::Spelling;
use ensemble_reports::report::{CheckedFile, Form, Github, Junit, Rule, Sarif, Totals, count};
use ensemble_runs::RunError;
use ensemble_runs::around::Folder;
use ensemble_runs::prepare::examine;

/// `ensemble validate`.
pub(super) fn validate(args: &ValidateArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let settings = Settings::of(args, &surroundings.project)?;
    let Inputs { list, excluded } = inputs(args, &settings, surroundings)?;
    let inputs = with_wrong_configs(list, &settings);
    let output = args.output.or_else(|| settings.output()).unwrap_or_default();
    let fails = |finding: &Diagnostic| settings.policy(Path::new(finding.source.name())).fails(finding);
    let form = form(output, &fails, surroundings);
    let mut shown = Shown::new(&*form, output.into(), surroundings);
    in_order(
        inputs.len(),
        || None,
        |folder, at| check(&inputs[at], folder, &settings, &*form, surroundings),
        |checked| shown.add(checked),
    );
    let has_failed = shown.end();
    if output == ValidateFormat::Human && !args.quiet {
        surroundings.print_err(&shown.summary(excluded));
    }
    if shown.totals.files == shown.configs && shown.passed_over > 0 {
        return Err(no_ensemble(shown.passed_over));
    }
    Ok(if has_failed { exit::USAGE } else { exit::SUCCESS })
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
        "an ensemble has the key `agents` at the top; a file that is named itself is always checked",
    )
}

/// The result of one input.
struct Checked {
    /// The name under which the input is shown.
    part: String,
    counts: Counts,
    fails: bool,
    /// Whether the file was found and is no ensemble, so that nothing was checked.
    is_passed_over: bool,
    /// Whether it is a configuration.
    is_config: bool,
    /// How many findings a configuration has removed.
    off: usize,
    /// The error because of which the input, or the configuration around it, cannot be read.
    faults: Vec<CliError>,
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
    settings: &Settings<'_>,
    form: &dyn Form,
    surroundings: &'s Surroundings,
) -> Checked {
    let path = input.path();
    if !matches!(input, Input::Stdin(_)) && settings.is_config(path) {
        return check_config(input, settings, form);
    }
    let policy = settings.policy(path);
    let folder = match folder {
        Some(known) if known.holds(path) => known,
        _ => folder.insert(Folder::around(path, &surroundings.project).in_ci(policy.is_ci())),
    };
    // What is wrong in a configuration is a finding of that file.
    let fault = folder
        .take_fault()
        .filter(|fault| !matches!(fault, RunError::Invalid(_)));
    let mut faults: Vec<CliError> = fault.map(CliError::from).into_iter().collect();
    let source = match input.read() {
        Ok(source) => source,
        Err(fault) => {
            faults.push(fault);
            return Checked::unread(faults);
        }
    };
    let loaded = load(&source);
    if matches!(input, Input::Found(_)) && !loaded.is_ensemble() {
        return Checked {
            part: String::new(),
            counts: Counts::default(),
            fails: !faults.is_empty(),
            is_passed_over: true,
            is_config: false,
            off: 0,
            faults,
        };
    }
    let checked = Checked::of(&source, examine(&loaded, folder), &policy, form);
    Checked {
        fails: checked.fails || !faults.is_empty(),
        faults,
        ..checked
    }
}

fn check_config(input: &Input, settings: &Settings<'_>, form: &dyn Form) -> Checked {
    let source = match input.read() {
        Ok(source) => source,
        Err(fault) => return Checked::unread(vec![fault]),
    };
    let findings = settings.examine(&source, input.path());
    let policy = settings.policy(input.path());
    Checked {
        is_config: true,
        ..Checked::of(&source, findings, &policy, form)
    }
}

impl Checked {
    fn of(source: &Source, findings: Vec<Diagnostic>, policy: &Policy, form: &dyn Form) -> Self {
        let (findings, off) = policy.apply(findings);
        let file = CheckedFile {
            fails: findings.iter().any(|finding| policy.fails(finding)),
            name: source.name().to_owned(),
            findings,
        };
        Self {
            part: form.file(&file),
            counts: Counts::of(&file.findings),
            fails: file.fails,
            is_passed_over: false,
            is_config: false,
            off,
            faults: Vec::new(),
        }
    }

    fn unread(faults: Vec<CliError>) -> Self {
        Self {
            part: String::new(),
            counts: Counts::default(),
            fails: true,
            is_passed_over: false,
            is_config: false,
            off: 0,
            faults,
        }
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
    configs: usize,
    off: usize,
    /// Errors that were printed. Each is printed once, although several threads may report it.
    faults: Vec<String>,
}

impl<'f> Shown<'f> {
    fn new(form: &'f dyn Form, spelling: Spelling, surroundings: &'f Surroundings) -> Self {
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
            configs: 0,
            off: 0,
            faults: Vec::new(),
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
        self.totals.files += 1;
        self.configs += usize::from(checked.is_config);
        self.off += checked.off;
        self.totals.failed += usize::from(checked.fails);
        self.counts.add(checked.counts);
        if checked.part.is_empty() {
            return;
        }
        let between = if self.totals.is_blank { "" } else { self.form.between() };
        self.totals.is_blank = false;
        if self.form.is_held() {
            self.held.push_str(&checked.part);
        } else {
            self.surroundings
                .print_as(self.spelling, &format!("{between}{}", checked.part));
        }
    }

    /// Completes the report, and returns whether any input has failed.
    fn end(&mut self) -> bool {
        let end = self.form.end(&self.totals, &self.held);
        self.surroundings.print_as(self.spelling, &end);
        self.totals.failed > 0
    }

    fn summary(&self, excluded: usize) -> String {
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
        let passed_over = match self.passed_over {
            0 => String::new(),
            number => format!("; {} without `agents` passed over", words(number, "YAML file")),
        };
        format!(
            "{} checked: {}, {}, {}{passed_over}{excluded}{off}\n",
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
