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

use ensemble_explore::{Budget, End, ExecutionResult, ExploredExecution, Goal, examples};
use ensemble_language::cases::{Case, Expect, Gives, Stub, Stubs, TestFile};
use ensemble_language::condition::{Condition, Demand, DemandKind, DemandRoot, Expression};
use ensemble_language::data::{Failure, FailureKind, JsonMap};
use ensemble_language::ensemble::{Agent, AgentKind, Items};
use ensemble_language::plan::Plan;
use ensemble_language::yaml::edit::{Style, spell_flow, spell_text};
use serde_json::{Value, json};

use crate::coverage::{Gap, Reached};
use crate::drive::Driver;
use crate::examples::{fulfil, of_schema};
use crate::judge::turns;
use crate::suite::Sound;

/// The number of states in which examples are looked for.
const MAX_STATES: u64 = 20_000;

/// A case that reaches what no case reaches.
#[derive(Debug, Clone)]
pub struct Suggestion {
    /// The case.
    pub case: Case,
}

/// Suggested cases.
#[derive(Debug, Default)]
pub struct Suggested {
    /// The cases, each of which reaches something that no other one reaches.
    pub cases: Vec<Suggestion>,
    /// The gaps for which no case was found.
    pub open: Vec<Gap>,
}

/// Cases for these gaps.
pub fn suggest(sound: Sound<'_>, gaps: &[Gap], driver: &Driver) -> Suggested {
    let plan = &sound.ensemble.plan;
    let goals: BTreeSet<Goal> = gaps.iter().map(|gap| gap.goal).collect();
    let found = examples(plan, &goals, Budget::of_states(MAX_STATES), &|| true);
    let mut suggested = Suggested::default();
    let mut reached = Reached::default();
    let mut names: Vec<Arc<str>> = sound.file.cases.iter().map(|case| case.name.clone()).collect();
    for gap in gaps {
        if reached.has(gap.goal) {
            continue;
        }
        let end = found
            .iter()
            .find(|(goal, _)| *goal == gap.goal)
            .and_then(|(_, end)| end.as_ref());
        let name = name_for(&told(plan, gap.goal), &names);
        let found = end.and_then(|end| {
            let mut cases = Prefer::BOTH
                .into_iter()
                .filter_map(|prefer| example(plan, end, name.clone(), prefer));
            cases.find_map(|case| held(sound, case, gap.goal, driver))
        });
        match found {
            Some((case, own)) => {
                reached.join(&own);
                names.push(case.name.clone());
                suggested.cases.push(Suggestion { case });
            }
            None => suggested.open.push(gap.clone()),
        }
    }
    suggested.open.retain(|gap| !reached.has(gap.goal));
    suggested
}

/// Renders the conversation of the case.
fn told(plan: &Plan, goal: Goal) -> String {
    let edge = |id, position| plan.incoming(id).map(|(_, edge)| edge).nth(position);
    let from = |id, position| edge(id, position).map_or("", |edge| plan.name(edge.from));
    match goal {
        Goal::Execution(id) => format!("{} runs", plan.name(id)),
        Goal::Start(id, position) => format!("{} starts {}", from(id, position), plan.name(id)),
        Goal::Answer(id, position, answer) => {
            let condition = edge(id, position).and_then(|edge| edge.condition.as_ref());
            let words: Vec<&str> =
                condition.map_or(Vec::new(), |condition| condition.text().split_whitespace().collect());
            let of = format!("of {} on {}", plan.name(id), from(id, position));
            format!("{} {of} is {answer}", words.join(" "))
        }
        Goal::Outcome(reason) => format!("ends as {reason}"),
    }
}

fn name_for(told: &str, names: &[Arc<str>]) -> Arc<str> {
    let mut name: Arc<str> = told.into();
    let mut number = 2;
    while names.contains(&name) {
        name = format!("{told} ({number})").into();
        number += 1;
    }
    name
}

/// The case with what happens in it as its expectation, and what it reaches.
fn held(sound: Sound<'_>, mut case: Case, goal: Goal, driver: &Driver) -> Option<(Case, Reached)> {
    let run = |case: &Case| {
        let file = TestFile {
            ensemble: sound.file.ensemble.clone(),
            cases: vec![case.clone()],
        };
        let alone = Sound {
            file: &file,
            recorded: &[None],
            ..sound
        };
        let tried = driver.run(alone, 0);
        tried.conversation.filter(|_| tried.failures.is_empty())
    };
    let conversation = run(&case)?;
    let mut reached = Reached::default();
    reached.add(&sound.ensemble.plan, &conversation.records);
    let reason = conversation.state.ended()?.completion_reason;
    case.expect = Expect {
        outcome: ensemble_language::cases::OUTCOMES
            .into_iter()
            .find(|outcome| *outcome == reason.as_str()),
        turns: Some(turns(&conversation.records)),
        ..Expect::default()
    };
    (reached.has(goal) && run(&case).is_some()).then_some((case, reached))
}

/// Which of two demands for the same value counts. Exploration may ask again for what has not changed, and then assume
/// another answer than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefer {
    First,
    Last,
}

impl Prefer {
    const BOTH: [Self; 2] = [Self::First, Self::Last];
}

/// The example as a case; `None`: it contains something for which there is no stub.
fn example(plan: &Plan, end: &End, name: Arc<str>, prefer: Prefer) -> Option<Case> {
    let mut example = Example {
        plan,
        prefer,
        latest: HashMap::new(),
        demands: HashMap::new(),
        ran: HashMap::new(),
        input: None,
        inputs: needed_inputs(plan),
    };
    for step in &end.path {
        for assumed in &step.assumed {
            for demand in Condition::demands(&assumed.claim, assumed.answer) {
                example.add_demand(&assumed.dependency, demand);
            }
        }
        for ran in &step.runs {
            example.run(ran)?;
        }
    }
    Some(example.case(name))
}

/// Inputs that a run must be given.
fn needed_inputs(plan: &Plan) -> JsonMap {
    let inputs = plan.ensemble().inputs.iter().flatten();
    let needed = inputs.filter(|input| input.default().is_none());
    needed
        .map(|input| (input.name.to_string(), of_schema(&input.schema)))
        .collect()
}

/// An agent, and which of its executions.
type Executed = (Arc<str>, u32);

struct Example<'p> {
    plan: &'p Plan,
    prefer: Prefer,
    /// The latest execution of each agent that succeeded.
    latest: HashMap<Arc<str>, u32>,
    demands: HashMap<Executed, Vec<Demand>>,
    ran: HashMap<Arc<str>, Vec<ExploredExecution>>,
    input: Option<Value>,
    inputs: JsonMap,
}

impl Example<'_> {
    /// Notes what a value should be that is read now.
    fn add_demand(&mut self, dependency: &Arc<str>, mut demand: Demand) {
        let agent = match demand.of {
            DemandRoot::Output => dependency.clone(),
            DemandRoot::Outputs | DemandRoot::Context => {
                let agents = &self.plan.ensemble().agents;
                let key = demand.path.first().cloned().unwrap_or_default();
                let named = agents.iter().find(|agent| match demand.of {
                    DemandRoot::Context => **agent.state_key() == *key,
                    _ => *agent.name == *key,
                });
                match named {
                    Some(agent) => {
                        demand.path.remove(0);
                        agent.name.clone()
                    }
                    // A key that an output writes into the context.
                    None => dependency.clone(),
                }
            }
            DemandRoot::Input => {
                let mut input = Value::Null;
                fulfil(&mut input, &[], &demand.kind, Some(&json!({"type": "string"})));
                self.input = Some(input);
                return;
            }
            DemandRoot::Inputs => return self.demand_of_input(&demand),
        };
        if let Some(execution) = self.latest.get(&agent) {
            let demands = self.demands.entry((agent, *execution)).or_default();
            let known = demands.iter_mut().find(|known| known.path == demand.path);
            match (known, self.prefer) {
                (None, _) => demands.push(demand),
                (Some(known), Prefer::Last) => *known = demand,
                (Some(_), Prefer::First) => {}
            }
        }
    }

    fn demand_of_input(&mut self, demand: &Demand) {
        let input = demand.path.first().and_then(|name| self.plan.ensemble().input(name));
        let schema = input.map(|input| json!({"properties": {&*input.name: input.schema}}));
        let mut inputs = Value::Object(std::mem::take(&mut self.inputs));
        fulfil(&mut inputs, &demand.path, &demand.kind, schema.as_ref());
        if let Value::Object(inputs) = inputs {
            self.inputs = inputs;
        }
    }

    /// Notes an execution. `None`: there is no stub for it.
    fn run(&mut self, ran: &ExploredExecution) -> Option<()> {
        let agent = self.plan.agent(self.plan.id(&ran.agent)?);
        let is_question = matches!(agent.kind, AgentKind::Input(_));
        if is_question && ran.spends_budget {
            return None;
        }
        if let Some(Items::Expression(text)) = agent.for_each.as_ref().map(|each| &each.items) {
            let (of, path) = Expression::read_path(text)?;
            let kind = DemandKind::Is(json!(["one"]));
            self.add_demand(&ran.agent, Demand { of, path, kind });
        }
        if ran.result == ExecutionResult::Succeeded {
            self.latest.insert(ran.agent.clone(), ran.execution);
        }
        self.ran.entry(ran.agent.clone()).or_default().push(ran.clone());
        Some(())
    }

    fn case(self, name: Arc<str>) -> Case {
        let (mut answers, mut stubs) = (Vec::new(), Vec::new());
        for agent in &self.plan.ensemble().agents {
            let Some(ran) = self.ran.get(&agent.name) else { continue };
            let fails = ran.iter().any(|ran| ran.result == ExecutionResult::Failed);
            if let AgentKind::Input(input) = &agent.kind
                && !fails
            {
                let answered = ran.iter().filter(|ran| ran.result == ExecutionResult::Succeeded);
                let given: Vec<Value> = answered.map(|ran| self.answer(agent, ran, &input.choices)).collect();
                if !given.is_empty() {
                    answers.push((agent.name.clone(), one_or_all(&given).cloned().unwrap_or(given.into())));
                }
                continue;
            }
            let each: Vec<Stub> = ran.iter().map(|ran| self.stub(agent, ran)).collect();
            let stub = one_or_all(&each).cloned();
            stubs.push((agent.name.clone(), stub.map_or(Stubs::Each(each), Stubs::Always)));
        }
        Case {
            name,
            input: self.input.and_then(|input| Some(input.as_str()?.into())),
            inputs: self.inputs,
            answers,
            stubs,
            from: None,
            live: false,
            repeat: NonZeroU32::MIN,
            pass_rate: 1.0,
            expect: Expect::default(),
        }
    }

    fn demands(&self, ran: &ExploredExecution) -> &[Demand] {
        self.demands
            .get(&(ran.agent.clone(), ran.execution))
            .map_or(&[], Vec::as_slice)
    }

    fn answer(&self, agent: &Agent, ran: &ExploredExecution, choices: &[String]) -> Value {
        let mut output = json!({"response": choices.first().map_or("yes", String::as_str)});
        let spoken = match choices {
            [] => json!({"properties": {"response": {"type": "string"}}}),
            choices => json!({"properties": {"response": {"enum": choices}}}),
        };
        for demand in self.demands(ran) {
            let schema = agent.output_schema.as_ref().unwrap_or(&spoken);
            fulfil(&mut output, &demand.path, &demand.kind, Some(schema));
        }
        match output.as_object() {
            Some(map) if map.len() == 1 => map.values().next().cloned().unwrap_or(output),
            _ => output,
        }
    }

    fn stub(&self, agent: &Agent, ran: &ExploredExecution) -> Stub {
        let gives = match (ran.result, &agent.kind) {
            (ExecutionResult::Succeeded, AgentKind::Input(input)) => match self.answer(agent, ran, &input.choices) {
                Value::String(text) => Gives::Text(text),
                answer => Gives::Json(answer),
            },
            (ExecutionResult::Succeeded, _) => self.output(agent, ran),
            (_, AgentKind::Input(_)) => Gives::Fail(Failure::new(FailureKind::Timeout, "nobody answered in time")),
            _ => Gives::Fail(Failure::new(FailureKind::Reported, "it failed")),
        };
        let budget = self.plan.ensemble().limits.max_total_tokens;
        Stub {
            tokens: budget.filter(|_| ran.spends_budget).unwrap_or_default(),
            ..Stub::of(gives)
        }
    }

    fn output(&self, agent: &Agent, ran: &ExploredExecution) -> Gives {
        let demands = self.demands(ran);
        if demands.is_empty() && agent.output_schema.is_none() && ran.requests.is_none() {
            return Gives::Text(format!("from {}", agent.name));
        }
        let mut output = agent.output_schema.as_ref().map_or_else(|| json!({}), of_schema);
        for demand in demands {
            let whole = json!({"properties": {"response": {"type": "string"}}});
            let schema = agent.output_schema.as_ref().unwrap_or(&whole);
            fulfil(&mut output, &demand.path, &demand.kind, Some(schema));
        }
        if let (Some(target), Value::Object(output)) = (&ran.requests, &mut output) {
            output.insert("agent_requests".to_owned(), json!([{"target_agent": target}]));
        }
        match output {
            // An execution has an output with at least one key.
            Value::Object(map) if map.is_empty() => Gives::Text(format!("from {}", agent.name)),
            output => Gives::Json(output),
        }
    }
}

/// The first of them, if all are the same.
fn one_or_all<T: PartialEq>(all: &[T]) -> Option<&T> {
    let first = all.first()?;
    all.iter().all(|one| one == first).then_some(first)
}

/// The case as an item of `cases`, each line after `indent` spaces.
pub fn yaml(case: &Case, indent: usize) -> String {
    let margin = " ".repeat(indent);
    let mut text = format!("{margin}- name: {}\n", spell_text(&case.name, Style::Block));
    let mut line = |text_: String| text.push_str(&format!("{margin}  {text_}\n"));
    if let Some(input) = &case.input {
        line(format!("input: {}", spell_text(input, Style::Block)));
    }
    if !case.inputs.is_empty() {
        line(format!("inputs: {}", spell_flow(&json!(case.inputs), Style::Block)));
    }
    if !case.answers.is_empty() {
        line("answers:".to_owned());
        for (agent, answer) in &case.answers {
            line(format!(
                "  {}: {}",
                spell_text(agent, Style::Block),
                spell_flow(answer, Style::Block)
            ));
        }
    }
    if !case.stubs.is_empty() {
        line("stubs:".to_owned());
        for (agent, stubs) in &case.stubs {
            let stubs = match stubs {
                Stubs::Always(stub) => stub_json(stub),
                Stubs::Each(each) => each.iter().map(stub_json).collect(),
            };
            line(format!(
                "  {}: {}",
                spell_text(agent, Style::Block),
                spell_flow(&stubs, Style::Block)
            ));
        }
    }
    line("expect:".to_owned());
    if let Some(outcome) = case.expect.outcome {
        line(format!("  outcome: {outcome}"));
    }
    let spelt = |turn: &Vec<Arc<str>>| match turn.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    let turns: Value = case.expect.turns.iter().flatten().map(spelt).collect();
    line(format!("  turns: {}", spell_flow(&turns, Style::Block)));
    text
}

fn stub_json(stub: &Stub) -> Value {
    let mut map = match &stub.gives {
        Gives::Text(text) if stub.tokens == 0 => return json!(text),
        Gives::Text(text) => json!({"text": text}),
        Gives::Json(value) => json!({"json": value}),
        Gives::Fail(failure) if failure.kind == FailureKind::Reported => json!({"fail": failure.error}),
        Gives::Fail(failure) => json!({"fail": failure.error, "kind": failure.kind}),
        Gives::Parts(parts) => {
            let parts = parts.iter().map(|(key, stub)| (key.to_string(), stub_json(stub)));
            json!({"parts": parts.collect::<JsonMap>()})
        }
    };
    if stub.tokens > 0 {
        map["tokens"] = stub.tokens.into();
    }
    map
}
