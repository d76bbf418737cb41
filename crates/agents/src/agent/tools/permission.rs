//! Permissions of tool calls: the ensemble sets them, the command line may allow more tools, and the operator decides
//! about all others.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::agent::ExecutionInput;
use ensemble_core::conversation::{AttemptScope, DecisionSource, PermissionDecided, PermissionDecision};
use ensemble_core::operator::{Operator, PermissionAnswer, PermissionRequest};
use ensemble_core::request::{AnswerAuthor, AnswerSource, PendingRequest, RequestDigest, RequestOrigin};
use ensemble_core::store::RunId;
use ensemble_core::thread::ToolCall;
use ensemble_language::data::{JsonMap, sha256_of_text};
use ensemble_language::ensemble::PermissionMode;
use serde_json::Value;

/// Name that matches every tool.
const ANY_TOOL: &str = "*";

/// Decision about a tool call: granted, refused with the reason, or waiting for an answer.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::agent) enum PermissionResult {
    /// It may be called.
    Granted,
    /// It may not be called; the error goes to the model.
    Refused(String),
    /// Nobody is there to decide, so the run waits for the answer to this request.
    Waits(Box<PendingRequest>),
}

/// Tool permissions of one run, from its options and from the operator, in addition to the ensemble.
pub struct ToolPermissions {
    operator: Arc<dyn Operator>,
    /// Tools and addresses of calls that may be called without asking.
    allowed_tools: HashSet<String>,
    /// Tools and addresses of calls that may not be called.
    denied_tools: HashSet<String>,
    /// The digests of the requests that were shown, by the addresses of their calls.
    shown_requests: HashMap<String, RequestDigest>,
    /// Tools that the operator has allowed for the rest of the run. Requests for them that wait are answered, too.
    always: watch::Sender<HashSet<String>>,
    /// Allows one form of a tool at a time.
    asking: tokio::sync::Mutex<()>,
    /// The number of times that the operator was asked, by the digest of the request.
    asked_requests: Mutex<HashMap<RequestDigest, u32>>,
    /// The digest of the arguments of each call that an address in `allowed_tools` has allowed.
    allowed_calls: Mutex<HashMap<String, String>>,
    /// The author of the options.
    option_author: AnswerAuthor,
}

impl ToolPermissions {
    /// Creates permissions that ask `operator` about tools that are not in `allowed`.
    pub fn new(operator: Arc<dyn Operator>, allowed: impl IntoIterator<Item = String>) -> Self {
        Self {
            operator,
            allowed_tools: allowed.into_iter().collect(),
            always: watch::Sender::new(HashSet::new()),
            denied_tools: HashSet::new(),
            shown_requests: HashMap::new(),
            asking: tokio::sync::Mutex::default(),
            asked_requests: Mutex::default(),
            allowed_calls: Mutex::default(),
            option_author: AnswerSource::Option.into(),
        }
    }

    /// Sets the author of the decisions in the options.
    #[must_use]
    pub fn with_option_author(self, author: AnswerAuthor) -> Self {
        Self {
            option_author: author,
            ..self
        }
    }

    /// Sets tools whose calls are denied without asking, even if other rules allow them.
    #[must_use]
    pub fn with_denied_tools(self, denied: impl IntoIterator<Item = String>) -> Self {
        Self {
            denied_tools: denied.into_iter().collect(),
            ..self
        }
    }

    /// Sets the digests of the requests that the operator saw. A decision for a call address applies only to such a request.
    #[must_use]
    pub fn with_shown_requests(self, shown_requests: HashMap<String, RequestDigest>) -> Self {
        Self { shown_requests, ..self }
    }

    /// Decides whether the call is permitted, and asks the operator if necessary. Records decisions about tools with `permission: ask`.
    pub(in crate::agent) async fn decide_permission(
        &self,
        permission: PermissionMode,
        tool: &str,
        call: &ToolCall,
        arguments: &JsonMap,
        execution: &ExecutionInput,
    ) -> PermissionResult {
        match permission {
            PermissionMode::Deny => return denied_result(tool, "the ensemble does not permit it"),
            PermissionMode::Allow if !self.denies_allowed_call(tool, call, execution) => {
                return PermissionResult::Granted;
            }
            PermissionMode::Allow | PermissionMode::Ask => {}
        }
        let origin = call_origin(tool, call, execution);
        let request = PendingRequest::for_permission(execution, origin, &call.id, tool, arguments);
        if let Some(permitted) = self.find_earlier_decision(tool, call, &request.digest, execution) {
            return permitted;
        }
        let event = |decision, by, answerer, request: &PendingRequest| PermissionDecided {
            within: AttemptScope::default(),
            call: call.id.as_str().into(),
            tool: tool.into(),
            decision,
            by,
            address: Some(request.address.clone()),
            answered_by: Some(answerer),
            digest: Some(request.digest.clone()),
            prompt: None,
            choices: None,
        };
        if let Some(decision) = self.find_option_decision(tool, &request, arguments) {
            let decided = event(decision, DecisionSource::Option, self.option_author.clone(), &request);
            return self.record_decision(decided, execution).await;
        }
        let request = self.with_repetition_digest(request);
        let requested = PermissionRequest {
            run: RunId::new(execution.run_id.clone()),
            request: request.clone(),
            call: call.id.as_str().into(),
            tool: tool.into(),
            arguments: arguments.clone(),
        };
        let pause_guard = execution.stopwatch.pause_with_outer_stopwatches();
        let mut always = self.always.subscribe();
        let answer = tokio::select! {
            biased;
            _ = always.wait_for(|tools| tools.contains(tool)) => return PermissionResult::Granted,
            answer = self.operator.request_permission(requested) => answer,
        };
        drop(pause_guard);
        let (decision, by): (PermissionDecision, AnswerAuthor) = match answer {
            PermissionAnswer::Decided { decision, by } => (decision, by),
            PermissionAnswer::Cancelled => return denied_result(tool, "the question was withdrawn"),
            PermissionAnswer::Nobody => return PermissionResult::Waits(Box::new(request)),
        };
        let decided = PermissionDecided {
            prompt: Some(request.question.prompt.clone()),
            choices: Some(PermissionDecision::ALL.map(|one| one.as_str().to_owned()).to_vec()),
            ..event(decision, DecisionSource::Operator, by, &request)
        };
        self.record_decision(decided, execution).await
    }

    /// Returns whether an option of the run denies all calls of the tool.
    pub(in crate::agent) fn denies_tool(&self, tool: &str) -> bool {
        any_matches_tool(&self.denied_tools, tool)
    }

    /// Returns whether an option denies a call that the ensemble allows: by tool, server or call address.
    ///
    /// `*` denies only calls that need permission.
    fn denies_allowed_call(&self, tool: &str, call: &ToolCall, execution: &ExecutionInput) -> bool {
        let mut names = self.denied_tools.iter().filter(|name| *name != ANY_TOOL);
        let has_addresses = || self.denied_tools.iter().any(|name| name.contains('#'));
        names.any(|name| matches_tool(name, tool))
            || (has_addresses() && {
                let address = call_origin(tool, call, execution).address;
                self.denied_tools.contains(&address.to_string())
            })
    }

    /// Changes the digest of a repeated request, so that the answer to the first request is not used for the second.
    fn with_repetition_digest(&self, request: PendingRequest) -> PendingRequest {
        let mut asked = self.asked_requests.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asked.entry(request.digest.clone()).or_default();
        *count += 1;
        match *count {
            1 => request,
            number => request.with_repetition_digest(number),
        }
    }

    /// Finds the decision of the options about the call. A call address matches one request only.
    fn find_option_decision(
        &self,
        tool: &str,
        request: &PendingRequest,
        arguments: &JsonMap,
    ) -> Option<PermissionDecision> {
        let address = request.address.to_string();
        let shown = self.shown_requests.get(&address);
        let is_shown = shown.is_none_or(|digest| *digest == request.digest);
        if any_matches_tool(&self.denied_tools, tool) || self.denied_tools.contains(&address) {
            return Some(PermissionDecision::Denied);
        }
        if any_matches_tool(&self.allowed_tools, tool) {
            return Some(PermissionDecision::Always);
        }
        if !is_shown || !self.allowed_tools.contains(&address) {
            return None;
        }
        let digest = sha256_of_text(&Value::Object(arguments.clone()).to_string());
        let mut allowed_calls = self.allowed_calls.lock().unwrap_or_else(PoisonError::into_inner);
        let first = allowed_calls.entry(address).or_insert_with(|| digest.clone());
        (*first == digest).then_some(PermissionDecision::Once)
    }

    /// Finds an earlier decision in this run about the call or about all calls of the tool.
    fn find_earlier_decision(
        &self,
        tool: &str,
        call: &ToolCall,
        digest: &RequestDigest,
        execution: &ExecutionInput,
    ) -> Option<PermissionResult> {
        if self.always.borrow().contains(tool) {
            return Some(PermissionResult::Granted);
        }
        let before = execution.records.earlier_exchange();
        let decided = before.and_then(|before| before.decisions.get(call.id.as_str()));
        let decided = decided.filter(|decided| decided.applies_to_call(digest));
        match decided.map(|decided| decided.decision) {
            Some(PermissionDecision::Denied) => return Some(denied_result(tool, "the operator refused the call")),
            Some(PermissionDecision::Once | PermissionDecision::Always) => return Some(PermissionResult::Granted),
            None => {}
        }
        // An option of today wins over what was decided for the rest of the run.
        (execution.records.is_tool_permitted(tool) && !any_matches_tool(&self.denied_tools, tool))
            .then_some(PermissionResult::Granted)
    }

    /// Records the decision and returns its result. `Always` also releases other requests that wait for the tool.
    async fn record_decision(&self, decided: PermissionDecided, execution: &ExecutionInput) -> PermissionResult {
        let (tool, decision, by) = (decided.tool.clone(), decided.decision, decided.by);
        // Requests that wait for the same tool are withdrawn at once. Their calls are recorded after this decision, which is
        // queued before they continue.
        if decision == PermissionDecision::Always {
            self.always.send_modify(|tools| {
                tools.insert(tool.to_string());
            });
        }
        execution.records.record_permission_and_wait(decided).await;
        match (decision, by) {
            (PermissionDecision::Denied, DecisionSource::Operator) => {
                denied_result(&tool, "the operator refused the call")
            }
            (PermissionDecision::Denied, DecisionSource::Option) => denied_result(&tool, "it is denied for this run"),
            _ => PermissionResult::Granted,
        }
    }

    /// Waits for the right to ask the operator. No other question is asked while the guard exists.
    pub(crate) async fn lock_operator(&self) -> (tokio::sync::MutexGuard<'_, ()>, &dyn Operator) {
        (self.asking.lock().await, &*self.operator)
    }
}

/// Returns whether the name in `--allow-tool` or `--deny-tool` matches the tool: its name, its server, or `*`.
pub fn matches_tool(name: &str, tool: &str) -> bool {
    let server = tool.split_once('.').map(|(server, _)| server);
    [Some(tool), server, Some(ANY_TOOL)].contains(&Some(name))
}

/// Returns whether one of the names matches the tool.
fn any_matches_tool(names: &HashSet<String>, tool: &str) -> bool {
    names.iter().any(|name| matches_tool(name, tool))
}

/// Creates the refusal of a tool with its reason.
fn denied_result(tool: &str, why: &str) -> PermissionResult {
    PermissionResult::Refused(format!("the use of `{tool}` was denied: {why}"))
}

/// Returns the origin of a call, with its number among the calls of the tool in the execution.
pub(crate) fn call_origin(tool: &str, call: &ToolCall, execution: &ExecutionInput) -> RequestOrigin {
    let numbers = execution.records.find_or_add_call_position(&call.name, &call.id);
    execution
        .origin
        .append_tool_call(tool.into(), numbers.of_tool, numbers.index)
}

#[cfg(test)]
mod tests {
    use ensemble_core::operator::{OperatorAnswer, QuestionRequest};
    use serde_json::json;

    use super::*;
    use crate::agent::{BoxFuture, fixtures};

    /// Decides as it was told to, and keeps what it was asked.
    struct Scripted {
        decisions: Mutex<Vec<PermissionAnswer>>,
        asked: Mutex<Vec<PermissionRequest>>,
    }

    impl Operator for Scripted {
        fn ask_question(&self, _asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
            Box::pin(async { OperatorAnswer::Nobody })
        }

        fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
            self.asked.lock().unwrap().push(requested);
            let mut decisions = self.decisions.lock().unwrap();
            let decision = (!decisions.is_empty()).then(|| decisions.remove(0));
            Box::pin(async move {
                tokio::task::yield_now().await;
                match decision {
                    Some(decision) => decision,
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn decided(decision: PermissionDecision) -> PermissionAnswer {
        PermissionAnswer::from_decision(decision, AnswerSource::Terminal)
    }

    fn permissions(allowed: &[&str], decisions: Vec<PermissionAnswer>) -> (ToolPermissions, Arc<Scripted>) {
        let operator = Arc::new(Scripted {
            decisions: Mutex::new(decisions),
            asked: Mutex::default(),
        });
        let allowed = allowed.iter().map(|name| (*name).to_owned());
        (ToolPermissions::new(operator.clone(), allowed), operator)
    }

    fn call() -> ToolCall {
        ToolCall::new("call 7", "look", json!({}))
    }

    async fn ask(permissions: &ToolPermissions, permission: PermissionMode, tool: &str) -> PermissionResult {
        let execution = fixtures::execution("scout", 1);
        permissions
            .decide_permission(permission, tool, &call(), &JsonMap::new(), &execution)
            .await
    }

    #[tokio::test]
    async fn what_is_allowed_is_not_asked() {
        for (allowed, permission, tool) in [
            (vec![], PermissionMode::Allow, "files.read"),
            (vec!["*"], PermissionMode::Ask, "files.read"),
            (vec!["files"], PermissionMode::Ask, "files.read"),
            (vec!["files.read"], PermissionMode::Ask, "files.read"),
            (vec!["look"], PermissionMode::Ask, "look"),
        ] {
            let (permissions, _) = permissions(&allowed, vec![]);
            assert_eq!(
                ask(&permissions, permission, tool).await,
                PermissionResult::Granted,
                "{allowed:?}"
            );
        }
        let (permissions, _) = permissions(&["*"], vec![]);
        assert!(
            matches!(
                ask(&permissions, PermissionMode::Deny, "look").await,
                PermissionResult::Refused(_)
            ),
            "deny is deny"
        );
    }

    #[tokio::test]
    async fn a_call_that_the_ensemble_allows_is_denied_by_name() {
        for (denied, is_granted) in [
            ("files.read", false),
            ("files", false),
            ("scout/files.read#1", false),
            ("scout/files.read#2", true),
            ("files.write", true),
            ("*", true),
        ] {
            let (permissions, operator) = permissions(&["*"], vec![]);
            let permissions = permissions.with_denied_tools([denied.to_owned()]);
            let result = ask(&permissions, PermissionMode::Allow, "files.read").await;
            assert_eq!(result == PermissionResult::Granted, is_granted, "{denied}: {result:?}");
            assert!(operator.asked.lock().unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn a_name_that_begins_alike_is_another_tool() {
        for (allowed, tool) in [
            ("files", "files_write"),
            ("file", "files.read"),
            ("files.read", "files.write"),
            ("read", "files.read"),
            ("look", "lo"),
        ] {
            let (permissions, operator) = permissions(&[allowed], vec![decided(PermissionDecision::Denied)]);
            assert!(
                matches!(
                    ask(&permissions, PermissionMode::Ask, tool).await,
                    PermissionResult::Refused(_)
                ),
                "{allowed} {tool}"
            );
            assert_eq!(operator.asked.lock().unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn what_is_no_permission_is_a_refusal() {
        for decision in [decided(PermissionDecision::Denied), PermissionAnswer::Cancelled] {
            let (permissions, _) = permissions(&[], vec![decision.clone()]);
            assert!(
                matches!(
                    ask(&permissions, PermissionMode::Ask, "look").await,
                    PermissionResult::Refused(_)
                ),
                "{decision:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_operator_decides_each_time_or_once_for_all() {
        let decisions = vec![
            decided(PermissionDecision::Once),
            decided(PermissionDecision::Denied),
            decided(PermissionDecision::Always),
            decided(PermissionDecision::Denied),
        ];
        let (permissions, operator) = permissions(&["files.write"], decisions);
        assert_eq!(
            ask(&permissions, PermissionMode::Ask, "files.read").await,
            PermissionResult::Granted
        );
        let PermissionResult::Refused(refused) = ask(&permissions, PermissionMode::Ask, "files.read").await else {
            panic!("it is refused")
        };
        assert!(
            refused.contains("denied") && refused.contains("operator refused"),
            "{refused}"
        );
        assert_eq!(
            ask(&permissions, PermissionMode::Ask, "files.read").await,
            PermissionResult::Granted
        );
        assert_eq!(
            ask(&permissions, PermissionMode::Ask, "files.read").await,
            PermissionResult::Granted
        );
        assert!(matches!(
            ask(&permissions, PermissionMode::Ask, "other").await,
            PermissionResult::Refused(_)
        ));
        assert_eq!(operator.asked.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn an_operator_is_told_the_call_with_all_its_arguments() {
        let (permissions, operator) = permissions(&[], vec![decided(PermissionDecision::Once)]);
        let arguments = json!({"path": "x".repeat(5000)});
        let arguments = arguments.as_object().expect("an object");
        let execution = fixtures::execution("scout", 3);
        let asked = permissions
            .decide_permission(PermissionMode::Ask, "files.read", &call(), arguments, &execution)
            .await;
        assert_eq!(asked, PermissionResult::Granted);
        let asked = operator.asked.lock().unwrap();
        let request = &asked[0].request;
        let told = (&*request.agent, request.execution, &*asked[0].call, &*asked[0].tool);
        assert_eq!(told, ("scout", 3, "call 7", "files.read"));
        assert_eq!(asked[0].arguments, *arguments);
    }

    #[tokio::test(start_paused = true)]
    async fn time_stands_while_an_operator_decides() {
        struct Slow;
        impl Operator for Slow {
            fn ask_question(&self, _asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
                Box::pin(async { OperatorAnswer::Nobody })
            }
            fn request_permission(&self, _requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
                Box::pin(async {
                    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                    decided(PermissionDecision::Once)
                })
            }
        }
        let permissions = ToolPermissions::new(Arc::new(Slow), []);
        let execution = fixtures::execution("scout", 1);
        let asked = permissions
            .decide_permission(PermissionMode::Ask, "look", &call(), &JsonMap::new(), &execution)
            .await;
        assert_eq!(asked, PermissionResult::Granted);
        assert_eq!(execution.stopwatch.elapsed_time(), std::time::Duration::ZERO);
    }

    #[tokio::test]
    async fn always_answers_those_that_wait() {
        let (permissions, operator) = permissions(&[], vec![decided(PermissionDecision::Always)]);
        let (one, other) = tokio::join!(
            ask(&permissions, PermissionMode::Ask, "look"),
            ask(&permissions, PermissionMode::Ask, "look")
        );
        assert_eq!((one, other), (PermissionResult::Granted, PermissionResult::Granted));
        assert_eq!(operator.asked.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn what_is_denied_is_not_asked_whatever_allows_it() {
        for denied in ["files", "files.read", "*"] {
            let (permissions, operator) = permissions(&["*"], vec![]);
            let permissions = permissions.with_denied_tools([denied.to_owned()]);
            let decided = ask(&permissions, PermissionMode::Ask, "files.read").await;
            assert!(matches!(decided, PermissionResult::Refused(_)), "{denied}");
            // A name denies a tool that the file allows; `*` means only those that ask.
            let allowed = ask(&permissions, PermissionMode::Allow, "files.read").await;
            assert_eq!(
                allowed == PermissionResult::Granted,
                denied == "*",
                "{denied}: {allowed:?}"
            );
            assert_eq!(operator.asked.lock().unwrap().len(), 0);
        }
    }

    #[tokio::test]
    async fn where_nobody_is_there_the_call_waits() {
        let (permissions, _) = permissions(&[], vec![PermissionAnswer::Nobody]);
        let PermissionResult::Waits(request) = ask(&permissions, PermissionMode::Ask, "look").await else {
            panic!("it waits")
        };
        let question = request.question;
        assert_eq!(question.prompt, "may the tool `look` be called with {}?");
        assert_eq!(question.permission.map(|wanted| wanted.tool), Some("look".into()));
    }

    #[tokio::test]
    async fn a_call_that_is_repeated_with_its_id_is_another_request() {
        let (permissions, operator) = permissions(
            &[],
            vec![decided(PermissionDecision::Once), decided(PermissionDecision::Denied)],
        );
        ask(&permissions, PermissionMode::Ask, "look").await;
        ask(&permissions, PermissionMode::Ask, "look").await;
        let asked = operator.asked.lock().unwrap();
        let digests: Vec<&RequestDigest> = asked.iter().map(|one| &one.request.digest).collect();
        assert!(digests.len() == 2 && digests[0] != digests[1], "{digests:?}");
        assert_eq!(asked[0].request.address, asked[1].request.address);
    }

    #[tokio::test]
    async fn the_address_of_a_call_allows_no_other_arguments() {
        let (permissions, operator) = permissions(&["scout/look#1"], vec![decided(PermissionDecision::Denied)]);
        let execution = fixtures::execution("scout", 1);
        for (n, is_granted) in [(1, true), (1, true), (2, false)] {
            let arguments: JsonMap = [("n".to_owned(), json!(n))].into_iter().collect();
            let result = permissions
                .decide_permission(PermissionMode::Ask, "look", &call(), &arguments, &execution)
                .await;
            assert_eq!(result == PermissionResult::Granted, is_granted, "{n}");
        }
        assert_eq!(operator.asked.lock().unwrap().len(), 1);
    }
}
