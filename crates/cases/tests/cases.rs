//! Test files in a folder of their own, through the crate's interface: what is judged, and how.

#![expect(clippy::disallowed_methods, reason = "tests write files")]

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensemble_cases::coverage::{CaseCoverage, ReachedParts};
use ensemble_cases::drive::CaseDriver;
use ensemble_cases::judge::{CaseConversation, list_agents_by_turn};
use ensemble_cases::mutate::{MutantOutcome, generate_mutants};
use ensemble_cases::recorded_case::RecordedCaseRun;
use ensemble_cases::suite::{CheckedSuite, TestSuite};
use ensemble_core::conversation::{CompletionReason, Record};
use ensemble_explore::{ExplorationBudget, ExplorationGoal, explore_plan, have_same_conversations};
use ensemble_language::cases::{AgentStubs, CaseExpectations, OUTCOMES, StubOutput, StubResult, TestCase, TestFile};
use ensemble_language::data::{ExecutionFailure, FailureKind};
use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::plan_with_results;
use ensemble_language::source::SourceText;
use ensemble_project::prepare::{PreparedEnsemble, prepare_text};
use ensemble_runs::{Project, RunHost, Runs};
use proptest::prelude::*;
use serde_json::json;

const TEAM: &str = "
name: team
agents:
  - {name: a, script: sh a.sh, dependencies: [{agent_name: b, feedback: true, condition: not output.ok}], conversation: {max_turns: 2}, timeout_seconds: 5, retry: {max_attempts: 2, delay_seconds: 60}}
  - {name: b, script: sh b.sh, depends_on: [a], conversation: {max_turns: 2}}
  - {name: c, script: sh c.sh, dependencies: [{agent_name: b, condition: output.ok}]}
conversation_limits: {timeout_seconds: 1000}
";

const STUBS: &str =
    "stubs: {a: [one, two], b: [{json: {ok: false, list: [1, 2]}}, {json: {ok: true, list: [1, 2]}}], c: end}";

/// What each case of this text lacks: `line:column what | expected | actual`.
fn failures(ensemble: &str, cases: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("team.yaml"), ensemble).expect("a file");
    let project = Project::from_folder(folder.path());
    let runs = Runs::for_project(project.clone(), RunHost::from_system().without_operator());
    let source = SourceText::new("team.test.yaml", cases);
    let suite = TestSuite::load_and_check(&source, Path::new("team.test.yaml"), &runs);
    let found: Vec<&String> = suite.findings.iter().map(|finding| &finding.message).collect();
    let sound = suite.checked_suite().unwrap_or_else(|| panic!("{found:?}"));
    let driver = CaseDriver::new(&project, runs.clone()).expect("a runtime");
    let told = |at: usize| {
        let tried = driver.run_and_judge_case(sound, at);
        let told = tried.failures.iter().map(|failure| {
            let place = source.line_column(suite.resolve_location(&failure.at).start);
            let part = |part: &Option<String>| part.as_ref().map_or_else(String::new, |part| format!(" | {part}"));
            let (expected, actual) = (part(&failure.expected), part(&failure.actual));
            format!("{}:{} {}{expected}{actual}", place.line, place.column, failure.what)
        });
        told.collect()
    };
    (0..sound.file.cases.len()).map(told).collect()
}

/// The one expectation of a case of [`TEAM`], and what is said of it.
fn judged(expect: &str) -> Vec<String> {
    failures(TEAM, &format!("cases:\n- name: x\n  {STUBS}\n  expect: {{{expect}}}\n")).remove(0)
}

#[test]
fn outcomes_are_those_of_the_core() {
    assert_eq!(OUTCOMES, CompletionReason::ALL.map(CompletionReason::as_str));
}

#[test]
fn what_is_met_is_not_told() {
    for expect in [
        "outcome: completed",
        "turns: [a, b, a, b, c]",
        "turns: [[a], b, [a], b, c]",
        "order: [a, a, c]",
        "order: [b, b]",
        "executions: {a: 2, b: 2, c: 1}",
        "never: []",
        "outputs: {a: two, b: {ok: true}, c: {response: end}}",
        "outputs: {b: {list: [1.0, 2]}}",
        "schemas: {b: {required: [ok, list]}}",
        "result: {c: {response: end}}",
        "conditions: [executions.a == 2, turn_count == 5]",
        "not_run: []",
        "exhausted: []",
        "warnings: []",
        "most_turns: 5",
        "most_cost: 0",
    ] {
        assert_eq!(judged(expect), [""; 0], "{expect}");
    }
}

#[test]
fn what_is_not_met_is_told_with_its_place() {
    for (expect, told) in [
        ("outcome: timeout", "4:21 outcome | timeout | completed"),
        (
            "turns: [a, b, c]",
            "4:26 turns, from turn 3 on | a, b, c | a, b, a, b, c",
        ),
        (
            "turns: [a, b, a, b]",
            "4:19 turns, from turn 5 on | a, b, a, b | a, b, a, b, c",
        ),
        (
            "turns: [a, [b, c], a, b, c]",
            "4:23 turns, from turn 2 on | a, b + c, a, b, c | a, b, a, b, c",
        ),
        ("order: [a, c, b]", "4:26 order | b runs after c | a, b, a, b, c"),
        ("order: [a, a, a]", "4:26 order | a runs after a | a, b, a, b, c"),
        ("executions: {c: 0}", "4:28 executions of c | 0 | 1"),
        ("never: [c]", "4:20 c never runs | no execution | it runs in turn 5"),
        ("exhausted: [a]", "4:23 exhausted agents | a | no agent"),
        ("outputs: {a: one}", "4:25 output of a | \"one\" | \"two\""),
        ("outputs: {b: {list: [1]}}", "4:25 output of b.list | [1] | [1,2]"),
        ("outputs: {b: {list: [1, 3]}}", "4:25 output of b.list[1] | 3 | 2"),
        (
            "outputs: {b: {no: 1}}",
            "4:25 output of b.no | 1 | there is no such key; the keys are `ok`, `list`",
        ),
        (
            "schemas: {b: {required: [no]}}",
            "4:25 output of b | a value that matches the schema | \"no\" is a required property",
        ),
        (
            "result: {c: start}",
            "4:20 result.c | \"start\" | {\"response\":\"end\"}",
        ),
        (
            "conditions: [executions.a > 2]",
            "4:25 condition | executions.a > 2 | the condition is false: executions.a = 2",
        ),
        (
            "conditions: [context.nothing > 1]",
            "4:25 condition | context.nothing > 1 | the condition is false: context.nothing = null",
        ),
        ("not_run: {c: never}", "4:22 c does not run | never | it runs once"),
        ("warnings: [odd]", "4:23 warnings | odd | no warning"),
        ("most_turns: 4", "4:24 turns | at most 4 | 5"),
    ] {
        let seen = judged(expect);
        assert_eq!(seen.len(), 1, "{expect}: {seen:?}");
        // How a condition treats a missing key is the language's matter.
        if !expect.contains("nothing") {
            assert_eq!(seen, [told], "{expect}");
        }
    }
}

#[test]
fn agents_that_did_not_run_have_reasons_and_no_outputs() {
    let stubs = "stubs: {a: {fail: broken}}";
    let told = failures(
        TEAM,
        &format!(
            "cases:\n- name: x\n  {stubs}\n  expect: {{outcome: agent_failed, not_run: {{b: \"waits for a, whose latest execution failed\", c: waiting}}}}\n- name: y\n  {stubs}\n  expect: {{not_run: {{b: nothing new}}, outputs: {{a: x, b: y}}}}\n"
        ),
    );
    let expected = [
        "7:52 output of a | \"x\" | no output: the agent failed with `broken`",
        "7:58 output of b | \"y\" | no output: the agent did not run",
        "7:22 b does not run | nothing new | waits for a, whose latest execution failed",
    ];
    assert_eq!(told, [Vec::new(), expected.map(str::to_owned).to_vec()]);
}

#[test]
fn what_is_not_prepared_is_told_alone() {
    for (stubs, told) in [
        (
            "{}",
            "3:10 execution 1 of a has no stub, but needs the program `sh a.sh` | a stub | no stub; without a stub, a needs the program `sh a.sh`",
        ),
        (
            "{a: [one], b: {json: {ok: false}}}",
            "3:11 execution 2 of a has no stub: the list ends at execution 1 | a stub for execution 2 | a list that ends at execution 1",
        ),
    ] {
        let cases = format!("cases:\n- name: x\n  stubs: {stubs}\n  expect: {{outcome: timeout}}\n");
        assert_eq!(failures(TEAM, &cases), [[told]], "{stubs}");
    }
}

#[test]
fn delays_and_pauses_count_and_cost_nothing() {
    let case = |name: &str, stub: &str, expect: &str| {
        format!("- name: {name}\n  stubs: {{a: {stub}, b: {{json: {{ok: true}}}}, c: end}}\n  expect: {{{expect}}}\n")
    };
    let cases = [
        case("in time", "{text: one, delay_seconds: 4.9}", "outcome: completed"),
        case("too late", "{text: one, delay_seconds: 5.1}", "outcome: agent_failed"),
        case(
            "tried again",
            "{fail: no, kind: exit}",
            "outcome: agent_failed, conditions: ['history[0].attempt == 2']",
        ),
    ];
    let began = std::time::Instant::now();
    let told = failures(TEAM, &format!("cases:\n{}", cases.concat()));
    assert_eq!(told, [[""; 0]; 3]);
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "a pause of a minute is not waited for"
    );
}

#[test]
fn coverage_counts_what_records_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("team.yaml"), TEAM).expect("a file");
    let project = Project::from_folder(folder.path());
    let runs = Runs::for_project(project.clone(), RunHost::from_system().without_operator());
    let at_once = "stubs: {a: one, b: {json: {ok: true}}, c: end}";
    let cases = format!(
        "cases:\n- {{name: once, {at_once}}}\n- {{name: twice, {STUBS}}}\n- {{name: fails, stubs: {{a: {{fail: x}}}}}}\n"
    );
    let suite = TestSuite::load_and_check(
        &SourceText::new("team.test.yaml", cases),
        Path::new("team.test.yaml"),
        &runs,
    );
    let sound = suite.checked_suite().expect("no error");
    let driver = CaseDriver::new(&project, runs).expect("a runtime");
    let plan = &sound.ensemble.plan;
    let explored = explore_plan(plan, ExplorationBudget::with_max_states(20_000));
    let mut reached = ReachedParts::default();
    let mut seen = vec![told(&CaseCoverage::from_reached_parts(plan, &reached, &explored))];
    for at in 0..3 {
        let conversation = driver.run_and_judge_case(sound, at).conversation.expect("it was held");
        reached.add_conversation(plan, &conversation.records);
        seen.push(told(&CaseCoverage::from_reached_parts(plan, &reached, &explored)));
    }
    let expected = [
        "0/3 0/3 0/4 0/2",
        "3/3 2/3 2/4 1/2",
        "3/3 3/3 4/4 1/2",
        "3/3 3/3 4/4 2/2",
    ];
    assert_eq!(seen, expected);
}

fn told(coverage: &CaseCoverage) -> String {
    let parts = [
        &coverage.agents,
        &coverage.dependencies,
        &coverage.conditions,
        &coverage.outcomes,
    ];
    let count = parts.iter().map(|part| part.reached + part.gaps.len()).sum::<usize>();
    assert_eq!(
        parts.iter().map(|part| part.all).sum::<usize>(),
        count,
        "all = reached + gaps"
    );
    parts.map(|part| format!("{}/{}", part.reached, part.all)).join(" ")
}

const SHOP: &str = "
name: shop
model_profiles: {clerk: {provider: ollama, model: m}}
tools:
  shop: {mcp: {command: [no-such-server]}}
  stock: {script: sort, description: Counts, parameters: {type: object}}
agents:
  - {name: clerk, model_profile: clerk, prompt: Sell., tools: [shop, stock]}
";

/// Two calls of a tool, one call of another tool, and the last words.
const SALE: &str = "clerk: {replies: [{tool: shop__pay, arguments: {amount: 3}}, {tool: shop__pay, arguments: {amount: 4}}, \
    {text: Done.}]}";

#[test]
fn stubs_replace_tools_of_servers_and_permissions_answer_for_their_calls() {
    let first = |results: &str, permissions: &str, expect: &str| {
        let cases = format!("cases: [{{name: x, stubs: {{{results}}}{permissions}, expect: {{{expect}}}}}]");
        failures(SHOP, &cases).remove(0)
    };
    let paid = format!("{SALE}, shop.pay: [paid]");
    let each = format!("{SALE}, shop.pay: paid");
    let with_result = "clerk: {replies: [{tool: shop__pay, arguments: {}, result: paid}, Done.]}";
    for (stubs, permissions, expect) in [
        (
            &*each,
            ", permissions: {shop.pay: allow}",
            "outcome: completed, outputs: {clerk: Done.}",
        ),
        (&each, ", permissions: {shop: always}", "outcome: completed"),
        (&each, ", permissions: {\"*\": deny}", "outcome: completed"),
        (
            with_result,
            ", permissions: {clerk/shop.pay#1: allow}",
            "outcome: completed",
        ),
        // Without a decision, the run waits as for a person.
        (&each, "", "outcome: waiting_for_input"),
        (
            &each,
            ", permissions: {shop.pay: [allow]}",
            "outcome: waiting_for_input",
        ),
        (
            &each,
            ", permissions: {clerk/shop.pay#2: allow, shop.pay: [deny]}",
            "outcome: completed",
        ),
        // The first call has a decision, and the second call does not.
        (
            &each,
            ", permissions: {clerk/shop.pay#1: allow}",
            "outcome: waiting_for_input",
        ),
        (&paid, ", permissions: {shop.pay: allow}", "outcome: completed"),
    ] {
        assert_eq!(first(stubs, permissions, expect), [""; 0], "{stubs} {permissions}");
    }
    let what = |failures: Vec<String>| failures.first().and_then(|one| Some(one.split_once(' ')?.1.to_owned()));
    let expected = "execution 1 of clerk calls `shop.pay`, which needs the MCP server `shop` | a result of the call | no \
                    `result`; without a result, `shop.pay` needs the MCP server `shop`";
    let second =
        "clerk: {replies: [{tool: shop__pay, arguments: {}, result: paid}, {tool: shop__pay, arguments: {}}, Done.]}";
    for stubs in [SALE, second] {
        let missing = first(stubs, ", permissions: {shop: allow}", "outcome: completed");
        assert_eq!(what(missing).as_deref(), Some(expected), "{stubs}");
    }
    let unstubbed = "execution 1 of clerk has no stub, but needs the model `ollama/m` | a stub | no stub; without a stub, clerk \
                     needs the model `ollama/m`";
    assert_eq!(what(first("", "", "outcome: completed")).as_deref(), Some(unstubbed));
}

#[test]
fn a_server_has_only_the_tools_that_the_agent_may_call() {
    let narrow = SHOP.replace("[shop, stock]", "[shop.pay, stock]");
    let cases = "cases: [{name: x, stubs: {clerk: {replies: [{tool: shop__refund, arguments: {}}, Done.]}}, \
                 permissions: {shop: allow}, expect: {outcome: completed}}]";
    // The model is told that there is no such tool, so the call needs no result.
    assert_eq!(failures(&narrow, cases), [[""; 0]]);
}

#[test]
fn a_late_answer_and_another_result_are_noticed() {
    let gate = "name: gate\nagents:\n  - {name: a, input: {prompt: q, default: \"no\", timeout_seconds: 60}}\nresult: {a: outputs.a.response}\n";
    let first = |expect: &str| {
        let cases =
            format!("cases: [{{name: x, answers: {{a: {{text: go, delay_seconds: 90}}}}, expect: {{{expect}}}}}]");
        failures(gate, &cases).remove(0).len()
    };
    assert_eq!(first("outputs: {a: \"no\"}, result: {exactly: {a: \"no\"}}"), 0);
    assert_eq!(first("result: {exactly: {a: go}}"), 1);
}

#[test]
fn a_denied_call_is_not_made() {
    let cases = format!(
        "cases: [{{name: x, stubs: {{{SALE}}}, permissions: {{shop.pay: deny}}, expect: {{outcome: completed}}}}]"
    );
    assert_eq!(
        failures(SHOP, &cases),
        [[""; 0]],
        "a call that is not made needs no result"
    );
}

#[test]
fn names_of_tools_in_a_case_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let narrow = SHOP.replace("[shop, stock]", "[shop.pay, stock]");
    std::fs::write(folder.path().join("team.yaml"), narrow).expect("a file");
    let runs = Runs::for_project(
        Project::from_folder(folder.path()),
        RunHost::from_system().without_operator(),
    );
    for (case, expected) in [
        (
            "stubs: {shop.pya: x}",
            "no agent can call the tool `shop.pya`; did you mean `shop.pay`?",
        ),
        (
            "permissions: {shpo.pay: allow}",
            "there is no tool `shpo.pay`; use one of the tools: `shop`, `stock`",
        ),
        (
            "permissions: {stok: allow}",
            "there is no tool `stok`; did you mean `stock`?",
        ),
        ("permissions: {stock: []}", "this list of decisions is empty; "),
        (
            "permissions: {stock: yes}",
            "expected `allow`, `always` or `deny`, found the string 'yes'; ",
        ),
        ("permissions: {stock: allow, clerk/stock#2: deny, shop.pay: always}", ""),
    ] {
        let cases = format!("cases: [{{name: x, {case}, expect: {{outcome: completed}}}}]");
        let suite = TestSuite::load_and_check(
            &SourceText::new("team.test.yaml", cases),
            Path::new("team.test.yaml"),
            &runs,
        );
        let found: Vec<String> = suite
            .findings
            .iter()
            .map(|finding| format!("{}; {}", finding.message, finding.help.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(found.join("\n"), expected, "{case}");
    }
}

/// The plan as a text, with programs as agents.
fn text(plan: &Plan) -> String {
    let mut text = "name: random\nagents:\n".to_owned();
    for id in plan.agent_ids() {
        let agent = plan.agent(id);
        let turns = agent.conversation.max_turns;
        let _ = write!(
            text,
            "  - name: {}\n    script: sh x\n    conversation: {{max_turns: {turns}}}\n",
            agent.name
        );
        text.push_str("    dependencies:\n");
        for one in &agent.dependencies {
            let _ = write!(
                text,
                "      - {{agent_name: {}, feedback: {}",
                one.agent_name, one.feedback
            );
            if let Some(condition) = &one.condition {
                let _ = write!(text, ", condition: \"{condition}\"");
            }
            if let Some(most) = one.max_executions {
                let _ = write!(text, ", max_executions: {most}");
            }
            text.push_str("}\n");
        }
        if agent.dependencies.is_empty() {
            text.truncate(text.trim_end().len());
            text.push_str(" []\n");
        }
    }
    text
}

fn prepared(plan: &Plan, folder: &Path) -> Option<Arc<PreparedEnsemble>> {
    let source = SourceText::new("random.yaml", text(plan));
    let file = folder.join("random.yaml");
    prepare_text(source, file, folder.to_owned(), folder.to_owned())
        .ok()
        .map(Arc::new)
}

fn case(stubs: Vec<(Arc<str>, AgentStubs)>) -> TestFile {
    let case = TestCase {
        name: "random".into(),
        input: Some("in".into()),
        inputs: serde_json::Map::new(),
        answers: Vec::new(),
        responders: Vec::new(),
        permissions: Vec::new(),
        stubs,
        from: None,
        live: false,
        repeat: NonZeroU32::MIN,
        pass_rate: 1.0,
        expect: CaseExpectations::default(),
    };
    TestFile {
        ensemble: None,
        cases: vec![case],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A case that is made from the record of a run passes on the same ensemble.
    #[test]
    fn a_record_happens_again((plan, bytes) in plan_with_results()) {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(ensemble) = prepared(&plan, folder.path()) else { return Ok(()) };
        let project = Project::from_folder(folder.path());
        let driver = CaseDriver::new(&project, Runs::for_project(project.clone(), RunHost::from_system().without_operator())).expect("a runtime");
        let stub = |byte: u8| StubResult {
            output: match byte % 4 {
                0 => StubOutput::Fail(ExecutionFailure::new(FailureKind::Reported, "as drawn")),
                n => StubOutput::Json(json!({"n": n})),
            },
            delay: Duration::from_millis(u64::from(byte)),
            ..StubResult::from_output_only(StubOutput::Text(String::new()))
        };
        let draw = |at: usize| bytes.get(at % bytes.len().max(1)).copied().unwrap_or(1);
        let stubs = plan.agent_ids().map(|id| {
            let each = (0..40).map(|execution| stub(draw(id.index() * 7 + execution))).collect();
            (plan.agent_name(id).clone(), AgentStubs::Each(each))
        });
        let first = case(stubs.collect());
        let held = driver.run_and_judge_case(CheckedSuite { file: &first, ensemble: &ensemble, recorded: &[None] }, 0);
        let conversation = held.conversation.expect("it was held");
        prop_assert!(conversation.missing.is_empty());
        let recorded = RecordedCaseRun::from_records(&conversation.records).expect("a record");
        let again = case(Vec::new());
        let recorded = [Some(Arc::new(recorded))];
        let tried = driver.run_and_judge_case(CheckedSuite { file: &again, ensemble: &ensemble, recorded: &recorded }, 0);
        prop_assert_eq!(tried.failures, Vec::new());
        what_happens_is_called_possible(&ensemble.plan, &conversation.records)?;
        changes_without_effect(&driver, &first, &ensemble, &conversation)?;
    }
}

/// Nothing that a conversation reaches is missing in a complete exploration, so no gap of coverage is passed over that a case
/// could close.
fn what_happens_is_called_possible(plan: &Arc<Plan>, records: &[Record]) -> Result<(), TestCaseError> {
    let explored = explore_plan(plan, ExplorationBudget::with_max_states(2_000));
    if !explored.coverage.is_complete() || explored.requests {
        return Ok(());
    }
    let mut reached = ReachedParts::default();
    reached.add_conversation(plan, records);
    for id in plan.agent_ids() {
        let mut goals = vec![ExplorationGoal::Execution(id)];
        for (_, edge) in plan.incoming_edges(id) {
            goals.push(ExplorationGoal::Start(id, edge.position));
            goals.extend([true, false].map(|answer| ExplorationGoal::Answer(id, edge.position, answer)));
        }
        for goal in goals.into_iter().filter(|goal| reached.has_reached(*goal)) {
            prop_assert!(explored.reached.contains(&goal), "{:?}", goal);
        }
    }
    Ok(())
}

/// Every change with which exploration finds the same conversations really leads to the same conversation.
fn changes_without_effect(
    driver: &CaseDriver,
    first: &TestFile,
    ensemble: &Arc<PreparedEnsemble>,
    conversation: &CaseConversation,
) -> Result<(), TestCaseError> {
    let mut expecting = first.clone();
    let outcome = conversation
        .state
        .run_end()
        .map(|ended| ended.completion_reason.as_str());
    expecting.cases[0].expect = CaseExpectations {
        outcomes: OUTCOMES.into_iter().filter(|known| Some(*known) == outcome).collect(),
        turns: Some(list_agents_by_turn(&conversation.records)),
        exhausted: conversation
            .state
            .run_end()
            .map(|ended| ended.exhausted.iter().map(|one| one.agent.clone()).collect()),
        ..CaseExpectations::default()
    };
    let sound = CheckedSuite {
        file: &expecting,
        ensemble,
        recorded: &[None],
    };
    let document = ensemble.loaded.document.as_ref().expect("a document");
    for mutant in generate_mutants(ensemble.plan.ensemble(), document) {
        let Ok(changed) = Plan::build(Arc::new(mutant.mutated_ensemble().clone())) else {
            continue;
        };
        let same = have_same_conversations(
            &ensemble.plan,
            &Arc::new(changed),
            ExplorationBudget::with_max_states(300),
            &|| true,
        );
        if same == Some(true) {
            let fate = mutant.run_cases_on_mutant(driver, sound, &[0], &|| true);
            prop_assert_eq!(
                fate,
                Some(MutantOutcome::Equivalent),
                "{} -> {}",
                mutant.from,
                mutant.to
            );
        }
    }
    Ok(())
}
