//! `ensemble validate`: reports all findings of all files in one call.
//!
//! Files are checked on all cores, and their reports are printed in order as they become ready, so that memory does not
//! grow with the number of files. A file that cannot be read is reported, and the other files are still checked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fixes::{FixMode, render_difference, replace_unchanged_file, split_unreadable_error};
use super::report_format::build_report_format;
use super::settings::{ValidateConfigCache, check_config_text as examine_config};
use crate::command::check::files::inputs::{ValidateInput, ValidateInputs, collect_inputs};
use crate::command::check::files::ordered_work::run_parallel_in_order;
use crate::command::check::policy::FindingPolicy;
use crate::command::check::{ValidateArgs, ValidateFormat};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use crate::command::shared::untrusted_files::escape_path as shown_path;
use ensemble_cases::suite::TestSuite;
use ensemble_language::cases::is_test_file;
use ensemble_language::diagnostic::{Diagnostic, FindingSeverity};
use ensemble_language::fix::{FixedText, TextFindings, fix_text};
use ensemble_language::loader::{EnsembleLoadResult, codes, load_ensemble};
use ensemble_language::source::{SourceText, Span};
use ensemble_language::yaml::edit::FixApplicability;
use ensemble_project::ProjectError;
use ensemble_project::check::{EnsembleFolder, NestedEnsembleCheck, RhaiScriptCache, SyntaxChecks};
use ensemble_project::prepare::check_loaded_ensemble;
use ensemble_reports::report::sanitized_writer::EscapeStyle;
use ensemble_reports::report::{FileFindings, FindingsReportFormat, FindingsReportTotals, format_count};
use ensemble_runs::RunError;

/// Executes `ensemble validate`: checks the files, applies or shows fixes, and prints a report. Returns the exit code.
pub(crate) fn validate_files(args: &ValidateArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let settings = ValidateConfigCache::new(args, &surroundings.project)?;
    let ValidateInputs {
        list,
        excluded_count: excluded,
        skipped: mut left_out,
    } = collect_inputs(args, &settings, surroundings)?;
    let inputs = prepend_configs_with_findings(list, &settings);
    let output = args
        .output
        .or_else(|| settings.configured_report_format())
        .unwrap_or_default();
    let fails = |finding: &Diagnostic| {
        settings
            .policy_for(Path::new(finding.source.name()))
            .is_failure(finding)
    };
    let fixing = FixMode::from_args(args)?;
    let form = build_report_format(output, &fails, surroundings);
    let scripts = Arc::<RhaiScriptCache>::default();
    let checkers = args.check_scripts.then(Arc::<SyntaxChecks>::default);
    let ways = ValidateOptions {
        settings: &settings,
        scripts: &scripts,
        checkers: checkers.as_ref(),
        fixing,
        form: &*form,
        surroundings,
    };
    let is_text = args.fix && inputs.iter().any(|input| matches!(input, ValidateInput::Stdin(_)));
    let mut printer = ReportPrinter::new(&ways, output.into(), is_text, &inputs);
    run_parallel_in_order(
        inputs.len(),
        || None,
        |folder, at| check_and_fix_input(&inputs[at], folder, &ways),
        |checked| printer.print_input_result(checked),
    );
    let has_failed = printer.finish_and_check_failed();
    for reason in checkers
        .iter()
        .flat_map(|checkers| checkers.describe_unchecked_scripts())
    {
        surroundings.print_err(&format!("warning: {reason}\n"));
    }
    let passed_over = printer.non_ensemble_files.len();
    if args.verbose {
        let passed_over = std::mem::take(&mut printer.non_ensemble_files).into_iter();
        left_out.extend(passed_over.map(|path| (path, "no `agents`")));
        left_out.sort();
        for (path, by) in &left_out {
            surroundings.print_err(&format!("left out: {} ({by})\n", shown_path(path)));
        }
    }
    if output == ValidateFormat::Human && !args.quiet {
        surroundings.print_err(&printer.render_totals_line(passed_over, excluded));
    }
    if printer.totals.files == printer.configs && passed_over > 0 {
        return Err(no_ensemble_found_error(passed_over));
    }
    Ok(match fixing.is_diff_only() {
        true if !printer.faults.is_empty() => exit::USAGE,
        true if printer.fix_count > 0 => exit::DIFFERENT,
        true => exit::SUCCESS,
        false if has_failed => exit::USAGE,
        false => exit::SUCCESS,
    })
}

/// Adds the configurations around the inputs that have findings, before the inputs.
fn prepend_configs_with_findings(
    mut inputs: Vec<ValidateInput>,
    settings: &ValidateConfigCache<'_>,
) -> Vec<ValidateInput> {
    let wrong = settings.list_configs_with_findings(inputs.iter().map(ValidateInput::input_path));
    let is_new = |path: &PathBuf| !inputs.iter().any(|input| input.input_path() == path);
    let wrong: Vec<ValidateInput> = wrong.into_iter().filter(is_new).map(ValidateInput::File).collect();
    inputs.splice(0..0, wrong);
    inputs
}

fn no_ensemble_found_error(passed_over: usize) -> CliError {
    CliError::usage_error_with_help(
        format!("no ensemble in {}", format_count(passed_over as u64, "YAML file")),
        "an ensemble has a list of named `agents` at the top level; to check a file anyway, name the file",
    )
}

/// Options that apply to each input.
struct ValidateOptions<'w> {
    settings: &'w ValidateConfigCache<'w>,
    /// Cache of the scripts that were read.
    scripts: &'w Arc<RhaiScriptCache>,
    /// Parsers of scripts, with `--check-scripts`.
    checkers: Option<&'w Arc<SyntaxChecks>>,
    fixing: FixMode,
    form: &'w dyn FindingsReportFormat,
    surroundings: &'w CliEnvironment,
}

/// Result of the check of one input.
#[derive(Default)]
struct InputCheckResult {
    /// Report about the input.
    part: RenderedFileReport,
    /// Reports about the nested ensembles, with their files.
    inner: Vec<(PathBuf, RenderedFileReport)>,
    fails: bool,
    /// File that was found but is no ensemble, so that nothing was checked.
    non_ensemble_file: Option<PathBuf>,
    /// Set for a configuration.
    is_config: bool,
    /// Number of findings that a configuration disabled.
    disabled_findings: usize,
    /// Errors in reading the configuration of the input, or in writing the input.
    faults: Vec<CliError>,
    /// Number of applied fixes.
    fix_count: usize,
    /// Fixed text that is not written to a file: the text itself, or the differences.
    fixed_text: Option<String>,
}

/// Report about one file.
#[derive(Default)]
struct RenderedFileReport {
    /// Text in the format of the report.
    text: String,
    counts: FindingCounts,
    fails: bool,
}

impl RenderedFileReport {
    fn new(name: &str, findings: Vec<Diagnostic>, policy: &FindingPolicy, ways: &ValidateOptions<'_>) -> Self {
        let file = FileFindings {
            fails: findings.iter().any(|finding| policy.is_failure(finding)),
            name: name.to_owned(),
            findings,
        };
        Self {
            text: ways.form.render_file(&file),
            counts: FindingCounts::from_findings(&file.findings),
            fails: file.fails,
        }
    }

    /// Creates the report about a nested ensemble, with its file.
    fn for_nested(inner: &NestedEnsembleCheck, ways: &ValidateOptions<'_>) -> (PathBuf, Self) {
        let policy = ways.settings.policy_for(Path::new(&inner.name));
        let (findings, _off) = policy.apply_levels(inner.findings.clone());
        (inner.file.clone(), Self::new(&inner.name, findings, &policy, ways))
    }
}

/// Numbers of findings by severity, and numbers of fixes.
#[derive(Default, Clone, Copy)]
struct FindingCounts {
    errors: usize,
    warnings: usize,
    hints: usize,
    /// Number of findings with a safe fix. The next field counts the findings with an unsafe fix.
    safe_fixes: usize,
    unsafe_fixes: usize,
}

/// Checks an input, applies or shows its fixes, and renders its report. Reuses the context of `folder` if the input is there.
fn check_and_fix_input<'s>(
    input: &ValidateInput,
    folder: &mut Option<EnsembleFolder<'s>>,
    ways: &ValidateOptions<'s>,
) -> InputCheckResult {
    let path = input.input_path();
    if !matches!(input, ValidateInput::Stdin(_)) && ways.settings.is_config_file(path) {
        return check_config_file_input(input, ways);
    }
    let policy = ways.settings.policy_for(path);
    let project = &ways.surroundings.project;
    let folder = match folder {
        Some(current_folder) if current_folder.contains_file(path) => current_folder,
        _ => folder.insert(
            EnsembleFolder::for_file(path, project)
                .with_ci(policy.checks_for_ci())
                .with_shared_scripts(ways.scripts)
                .with_syntax_checks(ways.checkers.cloned()),
        ),
    };
    // What is wrong in a configuration is a finding of that file.
    let fault = folder
        .take_config_error()
        .filter(|fault| !matches!(fault, ProjectError::Invalid(_)));
    let mut checked = InputCheckResult {
        faults: fault.map(CliError::from).into_iter().collect(),
        ..InputCheckResult::default()
    };
    checked.fails = !checked.faults.is_empty();
    let source = match input.read_source() {
        Ok(source) => source,
        Err(fault) => {
            match unreadable_file_finding(&fault) {
                Some(finding) => {
                    checked.apply_levels_and_set_report(&path.display().to_string(), vec![finding], &policy, ways)
                }
                None => checked.faults.push(fault),
            }
            checked.fails = true;
            return checked;
        }
    };
    if is_test_file(&path.to_string_lossy()) {
        let findings = TestSuite::load_and_check(&source, path, &ways.surroundings.runs_without_operator()).findings;
        checked.apply_levels_and_set_report(source.name(), findings, &policy, ways);
        return checked;
    }
    let loaded = load_ensemble(&source);
    if matches!(input, ValidateInput::Found(_)) && !loaded.looks_like_ensemble() {
        checked.non_ensemble_file = Some(path.to_owned());
        return checked;
    }
    let examine = |loaded: &EnsembleLoadResult| check_loaded_ensemble(loaded, folder);
    let findings = match ways.fixing.applies_unsafe_fixes() {
        None => examine(&loaded),
        Some(with_unsafe) => {
            let fixed = fix_text(&source, with_unsafe, |source| {
                let loaded = load_ensemble(source);
                TextFindings {
                    is_yaml: loaded.document.is_some(),
                    is_whole: loaded.ensemble.is_some(),
                    findings: policy.apply_levels(examine(&loaded)).0,
                }
            });
            match checked.write_or_store_fixed_text(input, &source, &fixed, ways) {
                true => fixed.checked.findings,
                false => examine(&loaded),
            }
        }
    };
    let inner = folder.take_nested_checks();
    checked.inner = inner
        .iter()
        .map(|inner| RenderedFileReport::for_nested(inner, ways))
        .collect();
    checked.apply_levels_and_set_report(source.name(), findings, &policy, ways);
    checked
}

fn check_config_file_input(input: &ValidateInput, ways: &ValidateOptions<'_>) -> InputCheckResult {
    let mut checked = InputCheckResult {
        is_config: true,
        ..InputCheckResult::default()
    };
    let policy = ways.settings.policy_for(input.input_path());
    match input.read_source() {
        Ok(source) => {
            let findings = examine_config(&source, input.input_path(), &ways.surroundings.project);
            checked.apply_levels_and_set_report(source.name(), findings, &policy, ways);
        }
        Err(fault) => {
            match unreadable_file_finding(&fault) {
                Some(finding) => checked.apply_levels_and_set_report(
                    &input.input_path().display().to_string(),
                    vec![finding],
                    &policy,
                    ways,
                ),
                None => checked.faults.push(fault),
            }
            checked.fails = true;
        }
    }
    checked
}

/// Creates the finding that a file cannot be read. Returns `None` for other errors.
fn unreadable_file_finding(fault: &CliError) -> Option<Diagnostic> {
    let (name, reason) = split_unreadable_error(fault)?;
    Some(Diagnostic {
        severity: FindingSeverity::Error,
        code: codes::UNREADABLE,
        message: format!("cannot read {name}: {reason}"),
        source: SourceText::new(name, ""),
        span: Span::default(),
        related: Vec::new(),
        help: None,
        fix: None,
    })
}

impl InputCheckResult {
    fn apply_levels_and_set_report(
        &mut self,
        name: &str,
        findings: Vec<Diagnostic>,
        policy: &FindingPolicy,
        ways: &ValidateOptions<'_>,
    ) {
        let (findings, off) = policy.apply_levels(findings);
        self.disabled_findings = off;
        self.part = RenderedFileReport::new(name, findings, policy, ways);
        self.fails |= self.part.fails;
    }

    /// Writes the fixed text to its file, or stores the text or the difference. Returns `false` if the file cannot be written.
    fn write_or_store_fixed_text(
        &mut self,
        input: &ValidateInput,
        source: &SourceText,
        fixed: &FixedText,
        ways: &ValidateOptions<'_>,
    ) -> bool {
        let is_other = fixed.applied_fixes > 0;
        match (ways.fixing, input) {
            (FixMode::Show { .. }, _) => self.fixed_text = is_other.then(|| render_difference(source, &fixed.source)),
            (_, ValidateInput::Stdin(_)) => self.fixed_text = Some(fixed.source.text().to_string()),
            (_, ValidateInput::File(path) | ValidateInput::Found(path)) if is_other => {
                let path = ways.surroundings.project.folder.join(path);
                if let Err(fault) = replace_unchanged_file(&path, source.text(), fixed.source.text()) {
                    self.faults.push(fault);
                    self.fails = true;
                    return false;
                }
            }
            _ => {}
        }
        self.fix_count = fixed.applied_fixes;
        true
    }
}

/// Printer of the report, with the totals so far.
struct ReportPrinter<'f> {
    form: &'f dyn FindingsReportFormat,
    spelling: EscapeStyle,
    surroundings: &'f CliEnvironment,
    held_text: String,
    totals: FindingsReportTotals,
    counts: FindingCounts,
    /// Files that were found and are no ensembles.
    non_ensemble_files: Vec<PathBuf>,
    configs: usize,
    disabled_findings: usize,
    /// Errors that were printed. Each error is printed once, although several threads can report it.
    faults: Vec<String>,
    /// Number of applied fixes. The next field is the number of changed files.
    fix_count: usize,
    fixed_files: usize,
    is_shown: bool,
    /// Set if fixes are neither applied nor shown.
    is_report: bool,
    /// Set if the output is a fixed text, so that the report is printed to standard error.
    is_text: bool,
    inputs: &'f [ValidateInput],
    /// Absolute paths of files that have a report or are inputs; `None` until they are needed.
    reported_files: Option<HashSet<PathBuf>>,
}

impl<'f> ReportPrinter<'f> {
    fn new(ways: &ValidateOptions<'f>, spelling: EscapeStyle, is_text: bool, inputs: &'f [ValidateInput]) -> Self {
        let printer = Self {
            form: ways.form,
            spelling,
            surroundings: ways.surroundings,
            fix_count: 0,
            fixed_files: 0,
            is_shown: ways.fixing.is_diff_only(),
            is_report: ways.fixing == FixMode::Report,
            is_text,
            held_text: String::new(),
            totals: FindingsReportTotals {
                is_blank: true,
                ..FindingsReportTotals::default()
            },
            counts: FindingCounts::default(),
            non_ensemble_files: Vec::new(),
            configs: 0,
            disabled_findings: 0,
            faults: Vec::new(),
            inputs,
            reported_files: None,
        };
        printer.print_part(&printer.form.render_header());
        printer
    }

    /// Prints a part of the report, except if the command shows differences.
    fn print_part(&self, text: &str) {
        match (self.is_shown, self.is_text) {
            (true, _) => {}
            (_, true) => self.surroundings.print_err(text),
            _ => self.surroundings.print_out_in_format(self.spelling, text),
        }
    }

    /// Prints the error, unless it was printed before. An error about the content of a file becomes a part of the report.
    fn report_error_once(&mut self, fault: CliError) {
        let text = fault.render_for_terminal(self.surroundings.colors_on_stderr());
        if self.faults.contains(&text) {
            return;
        }
        let findings = match (unreadable_file_finding(&fault), fault) {
            (Some(finding), _) => vec![finding],
            (None, CliError::Run(RunError::Project(ProjectError::Invalid(findings)))) => findings,
            (None, _) => Vec::new(),
        };
        match findings.first().map(|first| first.source.name().to_owned()) {
            Some(name) if !self.is_shown => {
                let counts = FindingCounts::from_findings(&findings);
                let text = self.form.render_file(&FileFindings {
                    name,
                    findings,
                    fails: true,
                });
                let part = RenderedFileReport {
                    text,
                    counts,
                    fails: true,
                };
                self.print_and_count_file_report(&part, true);
            }
            _ => self.surroundings.print_err(&text),
        }
        self.faults.push(text);
    }

    fn print_input_result(&mut self, checked: InputCheckResult) {
        for fault in checked.faults {
            self.report_error_once(fault);
        }
        if let Some(text) = &checked.fixed_text {
            self.surroundings.print_out(text);
        }
        self.fix_count += checked.fix_count;
        self.fixed_files += usize::from(checked.fix_count > 0);
        if let Some(path) = checked.non_ensemble_file {
            self.non_ensemble_files.push(path);
            self.totals.failed += usize::from(checked.fails);
            return;
        }
        self.configs += usize::from(checked.is_config);
        self.disabled_findings += checked.disabled_findings;
        self.print_and_count_file_report(&checked.part, checked.fails);
        for (file, part) in checked.inner {
            if self.mark_as_reported(file) {
                self.print_and_count_file_report(&part, part.fails);
            }
        }
    }

    /// Marks the file as reported. Returns whether the file is no input and had no report before.
    fn mark_as_reported(&mut self, file: PathBuf) -> bool {
        let reported_files = self.reported_files.get_or_insert_with(|| {
            let folder = &self.surroundings.project.folder;
            let absolute = |input: &ValidateInput| folder.join(input.input_path()).canonicalize().ok();
            self.inputs.iter().filter_map(absolute).collect()
        });
        reported_files.insert(file)
    }

    /// Adds the report about a file to the totals, and prints the text or stores the text until the totals are known.
    fn print_and_count_file_report(&mut self, part: &RenderedFileReport, fails: bool) {
        self.totals.files += 1;
        self.totals.failed += usize::from(fails);
        self.counts.add(part.counts);
        if part.text.is_empty() {
            return;
        }
        let between = if self.totals.is_blank {
            ""
        } else {
            self.form.file_separator()
        };
        self.totals.is_blank = false;
        if self.form.needs_totals_first() {
            self.held_text.push_str(&part.text);
        } else {
            self.print_part(&format!("{between}{}", part.text));
        }
    }

    /// Prints the end of the report. Returns whether any input has failed.
    fn finish_and_check_failed(&mut self) -> bool {
        let end = self.form.render_footer(&self.totals, &self.held_text);
        self.print_part(&end);
        self.totals.failed > 0
    }

    /// Renders the line with the numbers of findings, fixes and files. `passed_over` counts the YAML files without an ensemble.
    fn render_totals_line(&self, passed_over: usize, excluded: usize) -> String {
        let words = |number: usize, noun: &str| format_count(number as u64, noun);
        let excluded = match excluded {
            0 => String::new(),
            1 => "; 1 file or folder excluded".to_owned(),
            number => format!("; {number} files or folders excluded"),
        };
        let off = match self.disabled_findings {
            0 => String::new(),
            number => format!("; {} disabled by the configuration", words(number, "finding")),
        };
        let passed_over = match passed_over {
            0 => String::new(),
            number => format!("; {} without `agents` skipped", words(number, "YAML file")),
        };
        let fixable = match (self.counts.safe_fixes, self.counts.unsafe_fixes) {
            _ if !self.is_report => String::new(),
            (0, 0) => String::new(),
            (safe, 0) => format!("; `--fix` can fix {safe}"),
            (0, other) => format!("; `--fix --unsafe-fixes` can fix {other}"),
            (safe, other) => format!("; `--fix` can fix {safe}, with `--unsafe-fixes` {}", safe + other),
        };
        let verb = if self.is_shown { "would be fixed" } else { "fixed" };
        let fixed = match self.fix_count {
            0 => String::new(),
            number => format!(
                "; {} {verb} in {}",
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

impl FindingCounts {
    fn from_findings(findings: &[Diagnostic]) -> Self {
        let count = |severity: FindingSeverity| findings.iter().filter(|finding| finding.severity == severity).count();
        let fixes = |wanted: FixApplicability| {
            let fixes = findings.iter().filter_map(|finding| finding.fix.as_ref());
            fixes.filter(|fix| fix.applicability == wanted).count()
        };
        Self {
            errors: count(FindingSeverity::Error),
            warnings: count(FindingSeverity::Warning),
            hints: count(FindingSeverity::Hint),
            safe_fixes: fixes(FixApplicability::Safe),
            unsafe_fixes: fixes(FixApplicability::Unsafe),
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
