use std::num::NonZeroUsize;
use std::sync::Mutex;

use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, LedgerEntries, fixtures};
use ensemble_core::operator::UnattendedOperator;
use ensemble_core::thread::{ToolCall, ToolCallEnd};
use ensemble_language::data::{ModelUsage, RemainingBudget};
use ensemble_language::ensemble::ToolKind;

/// Says what it was told to say, and keeps what it was handed.
struct Fake {
    says: AttemptEnd,
    handed: Mutex<Vec<ExecutionInput>>,
    ends: bool,
}

impl Fake {
    fn new(says: AttemptEnd) -> Arc<Self> {
        Arc::new(Self {
            says,
            handed: Mutex::default(),
            ends: true,
        })
    }
}

fn requests(requests: u64) -> ModelUsage {
    ModelUsage {
        requests,
        ..ModelUsage::default()
    }
}

impl Runner for Fake {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            execution.ledger.set_stderr("on stderr".into());
            execution.ledger.add_warning("careful");
            execution.ledger.add_usage(requests(1));
            self.handed.lock().unwrap().push(execution);
            if !self.ends {
                std::future::pending::<()>().await;
            }
            self.says.clone()
        })
    }
}

fn tool(permission: PermissionMode) -> ToolDefinition {
    ToolDefinition {
        repeatable: None,
        description: Some("does".into()),
        kind: ToolKind::Agent {
            agent: "helper".into(),
            parameters: None,
        },
        permission,
        timeout: Duration::from_secs(5),
        max_result_bytes: NonZeroUsize::new(100).unwrap(),
        summarize_above: None,
        summarize_with: None,
        output_schema: None,
        exclusive: false,
    }
}

fn left(tokens: u64) -> RemainingBudget {
    RemainingBudget {
        tokens: Some(tokens),
        cost: None,
    }
}

fn toolset(tool_runner: DeclaredToolRunner, permission: PermissionMode) -> AgentToolset {
    let mut toolset = AgentToolset::new(Arc::new(ToolPermissions::new(Arc::new(UnattendedOperator), [])));
    toolset.add_declared_tool(
        &"t".into(),
        &tool(permission),
        ToolKind::default_task_schema(),
        tool_runner,
    );
    toolset
}

fn helper(runner: Arc<Fake>) -> DeclaredToolRunner {
    let config = json!({"style": "brief", "own": 1});
    DeclaredToolRunner::Agent {
        goes_on: true,
        name: "helper".into(),
        config: Arc::new(config.as_object().unwrap().clone()),
        timeout: None,
        runner,
    }
}

fn call(arguments: Value) -> ToolCall {
    ToolCall::new("1", "t", arguments)
}

#[tokio::test]
async fn what_a_tool_leaves_and_costs_is_the_callers() {
    let runner = Fake::new(AttemptEnd::Finished(AttemptResult {
        result: Ok(json!({"response": "fine"}).as_object().unwrap().clone()),
        usage: Some(ModelUsage {
            requests: 2,
            input_tokens: 30,
            output_tokens: 4,
            ..ModelUsage::default()
        }),
        exchange: Vec::new(),
        parts: Vec::new(),
        nested_answers: Vec::new(),
        answer: None,
    }));
    let toolset = toolset(helper(Arc::clone(&runner)), PermissionMode::Allow);
    let execution = ExecutionInput {
        remaining: left(100),
        ..fixtures::execution("boss", 3)
    };
    let hand = toolset.tools_for_execution(&execution);
    let specs = hand.list_specs().await.unwrap();
    assert_eq!((specs.len(), &*specs[0].name, &*specs[0].description), (1, "t", "does"));
    let ended = hand.call_tool(call(json!({"input": "count", "style": "long"}))).await;
    assert_eq!(ended.end, Some(ToolCallEnd::Result(json!("fine"))));
    let spent = hand.take_usage();
    execution.ledger.add_recorded_usage(spent);
    assert_eq!((spent.requests, spent.by_tools, spent.own_requests()), (2, 2, 0));
    assert_eq!(hand.take_usage(), ModelUsage::default(), "it is booked once");
    hand.call_tool(call(json!({}))).await;

    let handed = runner.handed.lock().unwrap();
    let (first, second) = (&handed[0], &handed[1]);
    assert_eq!(
        (&*first.agent_name, &*first.input, first.execution),
        ("helper", "count", 3)
    );
    assert_eq!(
        json!(first.parameters),
        json!({"style": "long", "own": 1, "input": "count"})
    );
    assert_eq!(first.request.as_ref().map(|request| &*request.from), Some("boss"));
    assert_eq!((first.remaining, second.remaining), (left(100), left(66)));
    assert_eq!(&*second.input, "the input", "the run's own");
    drop(handed);
    drop(hand);
    let LedgerEntries {
        stderr,
        warnings,
        usage,
        ..
    } = execution.ledger.take_entries();
    assert_eq!(usage.map(|usage| usage.by_tools), Some(2), "of the first");
    assert_eq!(stderr, "on stderr\non stderr");
    assert_eq!(warnings, ["tool t: careful", "tool t: careful"]);
}

#[tokio::test]
async fn a_tool_that_is_stopped_leaves_its_notes() {
    let runner = Arc::new(Fake {
        ends: false,
        says: AttemptEnd::from_output(JsonMap::new()),
        handed: Mutex::default(),
    });
    let mut toolset = AgentToolset::new(Arc::new(ToolPermissions::new(Arc::new(UnattendedOperator), [])));
    let short = ToolDefinition {
        timeout: Duration::from_millis(10),
        ..tool(PermissionMode::Allow)
    };
    toolset.add_declared_tool(
        &"t".into(),
        &short,
        ToolKind::default_task_schema(),
        DeclaredToolRunner::Script(runner),
    );
    let execution = fixtures::execution("boss", 1);
    let hand = toolset.tools_for_execution(&execution);
    hand.list_specs().await.unwrap();
    let ended = hand.call_tool(call(json!({}))).await;
    let Some(ToolCallEnd::Error(error)) = ended.end else {
        panic!("{ended:?}")
    };
    assert!(error.contains("timed out after 0.01 s"), "{error}");
    assert!(
        hand.call_tool(call(json!({}))).now_or_never().is_none(),
        "and one is dropped"
    );
    let of_tools = requests(1).as_tool_usage();
    assert_eq!(hand.take_usage(), of_tools, "of the one that ran out of time");
    let left = execution.ledger.take_entries();
    assert_eq!(left.stderr, "on stderr\non stderr");
    assert_eq!(left.usage, Some(of_tools), "of the one that was dropped");
}

#[tokio::test]
async fn an_agents_own_time_limit_only_shortens_the_tools() {
    for (own, of_tool) in [(5000, 10), (10, 5000)] {
        let runner = Arc::new(Fake {
            ends: false,
            says: AttemptEnd::from_output(JsonMap::new()),
            handed: Mutex::default(),
        });
        let tool_runner = DeclaredToolRunner::Agent {
            goes_on: true,
            name: "helper".into(),
            config: Arc::default(),
            timeout: Some(Duration::from_millis(own)),
            runner,
        };
        let limited = ToolDefinition {
            timeout: Duration::from_millis(of_tool),
            ..tool(PermissionMode::Allow)
        };
        let mut toolset = AgentToolset::new(Arc::new(ToolPermissions::new(Arc::new(UnattendedOperator), [])));
        toolset.add_declared_tool(&"t".into(), &limited, ToolKind::default_task_schema(), tool_runner);
        let execution = fixtures::execution("boss", 1);
        let hand = toolset.tools_for_execution(&execution);
        hand.list_specs().await.unwrap();
        let ended = hand.call_tool(call(json!({}))).await;
        assert_eq!(
            ended.end,
            Some(ToolCallEnd::Error("the tool timed out after 0.01 s".into()))
        );
    }
}

#[tokio::test]
async fn what_is_denied_is_not_offered_and_what_is_asked_for_waits_without_anybody() {
    let runner = Fake::new(AttemptEnd::from_output(JsonMap::new()));
    assert!(toolset(DeclaredToolRunner::Script(runner.clone()), PermissionMode::Deny).is_empty());
    let toolset = toolset(DeclaredToolRunner::Script(runner.clone()), PermissionMode::Ask);
    let execution = fixtures::execution("boss", 1);
    let hand = toolset.tools_for_execution(&execution);
    assert_eq!(hand.list_specs().await.unwrap().len(), 1);
    let ended = hand.call_tool(call(json!({}))).await;
    assert_eq!(ended.end, None, "it waits");
    let question = hand.pending_requests().remove(0).question;
    assert_eq!(question.permission.map(|wanted| wanted.tool), Some("t".into()));
    assert!(runner.handed.lock().unwrap().is_empty());
}
