//! `--suggest`: cases for what no case reaches.
//!
//! Exploration gives an example conversation: which agents run in each turn, which fail, and what conditions answer. It
//! becomes a case: each execution gets a stub, and what the conditions read in it is such that they have these answers. The
//! case is held; it is suggested only if it reaches what it is for.
//!
//! Invariant: a case is suggested only if it was held, passes, and reaches what it is for.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;

use ensemble_explore::{
    ClaimSite, ExecutionResult, ExplorationBudget, ExplorationGoal, ExploredExecution, PossibleEnd, SpentBudget,
    find_goal_examples,
};
use ensemble_language::cases::{AgentStubs, CaseExpectations, StubOutput, StubResult, TestCase, TestFile};
use ensemble_language::condition::{Condition, ExampleVariable, RequiredValue, ValueExpression, ValueRequirement};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap};
use ensemble_language::ensemble::{Agent, AgentKind, ForEachItems};
use ensemble_language::plan::Plan;
use ensemble_language::yaml::edit::{SpellingContext, spell_on_one_line, spell_string};
use serde_json::{Value, json};

use crate::coverage::{ReachedParts, UnreachedPart};
use crate::drive::CaseDriver;
use crate::examples::{example_for_schema, satisfy_required_value};
use crate::judge::list_agents_by_turn;
use crate::suite::CheckedSuite;

/// Largest number of explored states in the search for examples.
const MAX_EXPLORED_STATES: u64 = 20_000;

/// Case for a part that no other case reaches.
#[derive(Debug, Clone)]
pub struct SuggestedCase {
    /// The case.
    pub case: TestCase,
}

/// Suggested cases, and the gaps without a case.
#[derive(Debug, Default)]
pub struct CaseSuggestions {
    /// The cases, each of which reaches something that no other one reaches.
    pub cases: Vec<SuggestedCase>,
    /// The gaps for which no case was found.
    pub unresolved_gaps: Vec<UnreachedPart>,
}

/// Suggests cases that reach these gaps. Runs each case to verify that it reaches its gap.
pub fn suggest_cases_for_gaps(sound: CheckedSuite<'_>, gaps: &[UnreachedPart], driver: &CaseDriver) -> CaseSuggestions {
    let plan = &sound.ensemble.plan;
    let goals: BTreeSet<ExplorationGoal> = gaps.iter().map(|gap| gap.goal).collect();
    let examples = find_goal_examples(
        plan,
        &goals,
        ExplorationBudget::with_max_states(MAX_EXPLORED_STATES),
        &|| true,
    );
    let mut suggested = CaseSuggestions::default();
    let mut reached = ReachedParts::default();
    let mut names: Vec<Arc<str>> = sound.file.cases.iter().map(|case| case.name.clone()).collect();
    for gap in gaps {
        if reached.has_reached(gap.goal) {
            continue;
        }
        let end = examples
            .iter()
            .find(|(goal, _)| *goal == gap.goal)
            .and_then(|(_, end)| end.as_ref());
        let name = make_unique_name(&name_for_goal(plan, gap.goal), &names);
        let suggestion = end.and_then(|end| {
            let mut cases = ConflictPreference::BOTH
                .into_iter()
                .filter_map(|prefer| build_case_from_path(plan, end, name.clone(), prefer));
            cases.find_map(|case| run_suggested_case(sound, case, gap.goal, driver))
        });
        match suggestion {
            Some((case, own)) => {
                reached.add_reached(&own);
                names.push(case.name.clone());
                suggested.cases.push(SuggestedCase { case });
            }
            None => suggested.unresolved_gaps.push(gap.clone()),
        }
    }
    suggested.unresolved_gaps.retain(|gap| !reached.has_reached(gap.goal));
    suggested
}

/// Returns the name of a case that reaches the goal.
fn name_for_goal(plan: &Plan, goal: ExplorationGoal) -> String {
    let edge = |id, position| plan.incoming_edges(id).map(|(_, edge)| edge).nth(position);
    let from = |id, position| edge(id, position).map_or("", |edge| plan.agent_name(edge.from));
    match goal {
        ExplorationGoal::Execution(id) => format!("{} runs", plan.agent_name(id)),
        ExplorationGoal::Start(id, position) => format!("{} starts {}", from(id, position), plan.agent_name(id)),
        ExplorationGoal::Answer(id, position, answer) => {
            let condition = edge(id, position).and_then(|edge| edge.condition.as_ref());
            let words: Vec<&str> =
                condition.map_or(Vec::new(), |condition| condition.text().split_whitespace().collect());
            let of = format!("of {} on {}", plan.agent_name(id), from(id, position));
            format!("{} {of} is {answer}", words.join(" "))
        }
        ExplorationGoal::Outcome(reason) => format!("ends as {reason}"),
    }
}

/// Returns the name, with a number if another case has the name.
fn make_unique_name(told: &str, names: &[Arc<str>]) -> Arc<str> {
    let mut name: Arc<str> = told.into();
    let mut number = 2;
    while names.contains(&name) {
        name = format!("{told} ({number})").into();
        number += 1;
    }
    name
}

/// Runs the case, and expects its actual outcome and turns from then on. Also returns the parts that the case reaches.
/// Returns `None` if the case fails or does not reach the goal.
fn run_suggested_case(
    sound: CheckedSuite<'_>,
    mut case: TestCase,
    goal: ExplorationGoal,
    driver: &CaseDriver,
) -> Option<(TestCase, ReachedParts)> {
    let run = |case: &TestCase| {
        let file = TestFile {
            ensemble: sound.file.ensemble.clone(),
            cases: vec![case.clone()],
        };
        let alone = CheckedSuite {
            file: &file,
            recorded: &[None],
            ..sound
        };
        let case_result = driver.run_and_judge_case(alone, 0);
        case_result.conversation.filter(|_| case_result.failures.is_empty())
    };
    let conversation = run(&case)?;
    let mut reached = ReachedParts::default();
    reached.add_conversation(&sound.ensemble.plan, &conversation.records);
    let reason = conversation.state.run_end()?.completion_reason;
    case.expect = CaseExpectations {
        outcomes: ensemble_language::cases::OUTCOMES
            .into_iter()
            .filter(|outcome| *outcome == reason.as_str())
            .collect(),
        turns: Some(list_agents_by_turn(&conversation.records)),
        ..CaseExpectations::default()
    };
    (reached.has_reached(goal) && run(&case).is_some()).then_some((case, reached))
}

/// Preference between two demands for the same value. Exploration can assume a different result for an unchanged value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConflictPreference {
    First,
    Last,
}

impl ConflictPreference {
    /// Both preferences, in the order in which they are tried.
    const BOTH: [Self; 2] = [Self::First, Self::Last];
}

/// Builds a case from the example conversation. Returns `None` if a stub cannot represent the conversation.
fn build_case_from_path(
    plan: &Plan,
    end: &PossibleEnd,
    name: Arc<str>,
    prefer: ConflictPreference,
) -> Option<TestCase> {
    let mut example = ExampleCaseBuilder {
        plan,
        prefer,
        latest: HashMap::new(),
        demands: HashMap::new(),
        executions: HashMap::new(),
        input: None,
        inputs: examples_of_required_inputs(plan),
    };
    for step in &end.path {
        for assumed in &step.assumed {
            for demand in Condition::list_value_requirements(&assumed.claim, assumed.answer) {
                let dependency = match &assumed.site {
                    ClaimSite::Dependency { dependency, .. } => Some(dependency),
                    ClaimSite::Success => None,
                };
                example.add_value_demand(dependency, demand);
            }
        }
        for ran in &step.runs {
            example.add_explored_execution(ran)?;
        }
    }
    Some(example.into_case(name))
}

/// Returns example values for the inputs without a default.
fn examples_of_required_inputs(plan: &Plan) -> JsonMap {
    let inputs = plan.ensemble().inputs.iter().flatten();
    let needed = inputs.filter(|input| input.default_value().is_none());
    needed
        .map(|input| (input.name.to_string(), example_for_schema(&input.schema)))
        .collect()
}

/// Agent, and the number of its execution.
type ExecutedAgent = (Arc<str>, u32);

/// Builder of a case from an example conversation.
struct ExampleCaseBuilder<'p> {
    plan: &'p Plan,
    prefer: ConflictPreference,
    /// The latest execution of each agent that succeeded.
    latest: HashMap<Arc<str>, u32>,
    demands: HashMap<ExecutedAgent, Vec<ValueRequirement>>,
    executions: HashMap<Arc<str>, Vec<ExploredExecution>>,
    input: Option<Value>,
    inputs: JsonMap,
}

impl ExampleCaseBuilder<'_> {
    /// Records the demand on a value that a condition reads now.
    fn add_value_demand(&mut self, dependency: Option<&Arc<str>>, mut demand: ValueRequirement) {
        let agent = match demand.variable {
            ExampleVariable::Output => dependency.cloned(),
            ExampleVariable::Outputs | ExampleVariable::Context => {
                let agents = &self.plan.ensemble().agents;
                let key = demand.path.first().cloned().unwrap_or_default();
                let named_agent = agents.iter().find(|agent| match demand.variable {
                    ExampleVariable::Context => **agent.state_key() == *key,
                    _ => *agent.name == *key,
                });
                match named_agent {
                    Some(agent) => {
                        demand.path.remove(0);
                        Some(agent.name.clone())
                    }
                    // A key that an output writes into the context.
                    None => dependency.cloned(),
                }
            }
            ExampleVariable::Input => {
                let mut input = Value::Null;
                satisfy_required_value(&mut input, &[], &demand.kind, Some(&json!({"type": "string"})));
                self.input = Some(input);
                return;
            }
            ExampleVariable::Inputs => return self.satisfy_input_demand(&demand),
        };
        let Some(agent) = agent else { return };
        if let Some(execution) = self.latest.get(&agent) {
            let demands = self.demands.entry((agent, *execution)).or_default();
            let earlier_demand = demands.iter_mut().find(|known| known.path == demand.path);
            match (earlier_demand, self.prefer) {
                (None, _) => demands.push(demand),
                (Some(earlier_demand), ConflictPreference::Last) => *earlier_demand = demand,
                (Some(_), ConflictPreference::First) => {}
            }
        }
    }

    /// Changes the inputs so that they satisfy the demand.
    fn satisfy_input_demand(&mut self, demand: &ValueRequirement) {
        let input = demand
            .path
            .first()
            .and_then(|name| self.plan.ensemble().find_input(name));
        let schema = input.map(|input| json!({"properties": {&*input.name: input.schema}}));
        let mut inputs = Value::Object(std::mem::take(&mut self.inputs));
        satisfy_required_value(&mut inputs, &demand.path, &demand.kind, schema.as_ref());
        if let Value::Object(inputs) = inputs {
            self.inputs = inputs;
        }
    }

    /// Records an execution. Returns `None` if no stub can represent the execution.
    fn add_explored_execution(&mut self, ran: &ExploredExecution) -> Option<()> {
        let agent = self.plan.agent(self.plan.find_agent_id(&ran.agent)?);
        let is_question = matches!(agent.kind, AgentKind::Input(_));
        if is_question && ran.spent_budget.is_some() {
            return None;
        }
        if let Some(ForEachItems::Expression(text)) = agent.for_each.as_ref().map(|each| &each.items) {
            let (of, path) = ValueExpression::parse_example_path(text)?;
            let kind = RequiredValue::Is(json!(["one"]));
            self.add_value_demand(
                Some(&ran.agent),
                ValueRequirement {
                    variable: of,
                    path,
                    kind,
                },
            );
        }
        if ran.result == ExecutionResult::Succeeded {
            self.latest.insert(ran.agent.clone(), ran.execution);
        }
        self.executions.entry(ran.agent.clone()).or_default().push(ran.clone());
        Some(())
    }

    /// Converts the recorded executions and demands to a case.
    fn into_case(self, name: Arc<str>) -> TestCase {
        let (mut answers, mut stubs) = (Vec::new(), Vec::new());
        for agent in &self.plan.ensemble().agents {
            let Some(ran) = self.executions.get(&agent.name) else {
                continue;
            };
            let fails = ran.iter().any(|ran| ran.result == ExecutionResult::Failed);
            if let AgentKind::Input(input) = &agent.kind
                && !fails
            {
                let answered = ran.iter().filter(|ran| ran.result == ExecutionResult::Succeeded);
                let input_answers: Vec<Value> = answered
                    .map(|ran| self.build_answer(agent, ran, &input.choices))
                    .collect();
                if !input_answers.is_empty() {
                    answers.push((
                        agent.name.clone(),
                        single_distinct_value(&input_answers)
                            .cloned()
                            .unwrap_or(input_answers.into()),
                    ));
                }
                continue;
            }
            let each: Vec<StubResult> = ran.iter().map(|ran| self.build_stub(agent, ran)).collect();
            let stub = single_distinct_value(&each).cloned();
            stubs.push((
                agent.name.clone(),
                stub.map_or(AgentStubs::Each(each), AgentStubs::Always),
            ));
        }
        TestCase {
            name,
            input: self.input.and_then(|input| Some(input.as_str()?.into())),
            inputs: self.inputs,
            answers,
            responders: Vec::new(),
            permissions: Vec::new(),
            stubs,
            from: None,
            live: false,
            repeat: NonZeroU32::MIN,
            pass_rate: 1.0,
            expect: CaseExpectations::default(),
        }
    }

    /// Returns the demands on the output of the execution.
    fn list_demands(&self, ran: &ExploredExecution) -> &[ValueRequirement] {
        self.demands
            .get(&(ran.agent.clone(), ran.execution))
            .map_or(&[], Vec::as_slice)
    }

    /// Builds the answer of a person that satisfies the demands.
    fn build_answer(&self, agent: &Agent, ran: &ExploredExecution, choices: &[String]) -> Value {
        let mut output = json!({"response": choices.first().map_or("yes", String::as_str)});
        let spoken = match choices {
            [] => json!({"properties": {"response": {"type": "string"}}}),
            choices => json!({"properties": {"response": {"enum": choices}}}),
        };
        for demand in self.list_demands(ran) {
            let schema = agent.output_schema.as_ref().unwrap_or(&spoken);
            satisfy_required_value(&mut output, &demand.path, &demand.kind, Some(schema));
        }
        match output.as_object() {
            Some(map) if map.len() == 1 => map.values().next().cloned().unwrap_or(output),
            _ => output,
        }
    }

    /// Builds the stub with the result of the execution.
    fn build_stub(&self, agent: &Agent, ran: &ExploredExecution) -> StubResult {
        let gives = match (ran.result, &agent.kind) {
            (ExecutionResult::Succeeded, AgentKind::Input(input)) => {
                match self.build_answer(agent, ran, &input.choices) {
                    Value::String(text) => StubOutput::Text(text),
                    answer => StubOutput::Json(answer),
                }
            }
            (ExecutionResult::Succeeded, _) => self.build_output(agent, ran),
            (_, AgentKind::Input(_)) => {
                StubOutput::Fail(ExecutionFailure::new(FailureKind::Timeout, "no answer in time"))
            }
            _ => StubOutput::Fail(ExecutionFailure::new(FailureKind::Reported, "it failed")),
        };
        let stub = StubResult::from_output_only(gives);
        match ran.spent_budget {
            Some(SpentBudget::Tokens(tokens)) => StubResult { tokens, ..stub },
            Some(SpentBudget::Cost(cost)) => StubResult {
                cost: Some(cost),
                ..stub
            },
            None => stub,
        }
    }

    /// Builds an output that satisfies the schema and the demands.
    fn build_output(&self, agent: &Agent, ran: &ExploredExecution) -> StubOutput {
        let demands = self.list_demands(ran);
        if demands.is_empty() && agent.output_schema.is_none() && ran.requests.is_none() {
            return StubOutput::Text(format!("from {}", agent.name));
        }
        let mut output = agent
            .output_schema
            .as_ref()
            .map_or_else(|| json!({}), example_for_schema);
        for demand in demands {
            let default_schema = json!({"properties": {"response": {"type": "string"}}});
            let schema = agent.output_schema.as_ref().unwrap_or(&default_schema);
            satisfy_required_value(&mut output, &demand.path, &demand.kind, Some(schema));
        }
        if let (Some(target), Value::Object(output)) = (&ran.requests, &mut output) {
            output.insert("agent_requests".to_owned(), json!([{"target_agent": target}]));
        }
        match output {
            // An execution has an output with at least one key.
            Value::Object(map) if map.is_empty() => StubOutput::Text(format!("from {}", agent.name)),
            output => StubOutput::Json(output),
        }
    }
}

/// Returns the value if all values are equal. Otherwise returns `None`.
fn single_distinct_value<T: PartialEq>(all: &[T]) -> Option<&T> {
    let first = all.first()?;
    all.iter().all(|one| one == first).then_some(first)
}

/// Renders the case as an item of `cases`. Each line starts with `indent` spaces.
pub fn render_case_as_yaml(case: &TestCase, indent: usize) -> String {
    let margin = " ".repeat(indent);
    let mut text = format!("{margin}- name: {}\n", spell_string(&case.name, SpellingContext::Block));
    let mut line = |text_: String| text.push_str(&format!("{margin}  {text_}\n"));
    if let Some(input) = &case.input {
        line(format!("input: {}", spell_string(input, SpellingContext::Block)));
    }
    if !case.inputs.is_empty() {
        line(format!(
            "inputs: {}",
            spell_on_one_line(&json!(case.inputs), SpellingContext::Block)
        ));
    }
    if !case.answers.is_empty() {
        line("answers:".to_owned());
        for (agent, answer) in &case.answers {
            line(format!(
                "  {}: {}",
                spell_string(agent, SpellingContext::Block),
                spell_on_one_line(answer, SpellingContext::Block)
            ));
        }
    }
    if !case.stubs.is_empty() {
        line("stubs:".to_owned());
        for (agent, stubs) in &case.stubs {
            let stubs = match stubs {
                AgentStubs::Always(stub) => stub_to_json(stub),
                AgentStubs::Each(each) => each.iter().map(stub_to_json).collect(),
            };
            line(format!(
                "  {}: {}",
                spell_string(agent, SpellingContext::Block),
                spell_on_one_line(&stubs, SpellingContext::Block)
            ));
        }
    }
    line("expect:".to_owned());
    for outcome in &case.expect.outcomes {
        line(format!("  outcome: {outcome}"));
    }
    let spelt = |turn: &Vec<Arc<str>>| match turn.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    let turns: Value = case.expect.turns.iter().flatten().map(spelt).collect();
    line(format!(
        "  turns: {}",
        spell_on_one_line(&turns, SpellingContext::Block)
    ));
    text
}

/// Converts a failure to its form in a test file.
fn failure_to_json(failure: &ExecutionFailure) -> Value {
    let mut map = json!({"fail": failure.error});
    if failure.kind != FailureKind::Reported {
        map["kind"] = json!(failure.kind);
    }
    if let Some(exit_code) = failure.exit_code {
        map["exit_code"] = exit_code.into();
    }
    for (name, text) in [("stdout", &failure.stdout), ("stderr", &failure.stderr)] {
        if !text.is_empty() {
            map[name] = text.as_str().into();
        }
    }
    map
}

/// Converts a stub to its form in a test file.
fn stub_to_json(stub: &StubResult) -> Value {
    let mut map = match &stub.output {
        StubOutput::Text(text) if stub.tokens == 0 && stub.cost.is_none() => return json!(text),
        StubOutput::Text(text) => json!({"text": text}),
        StubOutput::Json(value) => json!({"json": value}),
        StubOutput::Fail(failure) => failure_to_json(failure),
        StubOutput::Parts(parts) => {
            let parts = parts.iter().map(|(key, stub)| (key.to_string(), stub_to_json(stub)));
            json!({"parts": parts.collect::<JsonMap>()})
        }
        // No suggested case has replies.
        StubOutput::Replies(_) => json!({}),
    };
    if stub.tokens > 0 {
        map["tokens"] = stub.tokens.into();
    }
    if let Some(cost) = stub.cost {
        map["cost"] = cost.amount().into();
    }
    map
}
