//! One prompt: what the program says and does until it ends its turn, and what it is answered.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::External;
use super::calls::Calls;
use super::files;
use super::program::{Live, NO_METHOD, Session, refusal};
use super::prompt_text::{GO_ON, to_new_session, with_schema};
use super::protocol;
use super::protocol::{Answers, FileDiff, Phase, Request, ToolNews, Update};
use super::wire::Frame;
use crate::agent::chat::external::{
    ProgramMessage, add_message, continue_iteration, end_call, note_data, open_iteration,
};
use crate::agent::chat::{Cause, RoundRequest};
use crate::agent::chat::{RoundEnd, record_iteration};
use crate::agent::tools::Permitted;
use crate::agent::{BoxFuture, Execution};
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{LiveOutput, LiveUpdate, StopReason, Thread, ToolCall};
use ensemble_language::data::{FailureKind, JsonMap, Usage};
use ensemble_language::ensemble::{AcpToolKind, Permission};
use ensemble_models::estimate_tokens;

/// The metadata key of an iteration for the session of the program.
pub(super) const SESSION: &str = "session";
/// The metadata key for the plan of the program.
const PLAN: &str = "plan";

/// Performs a round: one prompt.
pub(super) async fn performed(
    external: &External,
    opening: &RoundRequest,
    live_output: &dyn LiveOutput,
    execution: &Execution,
) -> RoundEnd {
    let before = match &opening.goes_on {
        Some(iteration) => (*opening.thread).clone().followed_by(vec![iteration.clone()]),
        None => (*opening.thread).clone(),
    };
    let text = match &opening.goes_on {
        Some(iteration) => {
            continue_iteration(&execution.ledger, iteration, &opening.records).await;
            GO_ON.to_owned()
        }
        None => opening.text.clone(),
    };
    let wanted = session_in(&before);
    let kept = wanted.as_deref().and_then(|session| external.programs.take(session));
    let (live, session) = match kept {
        Some(live) => (live, Session::Known),
        None => Live::start(external, wanted.as_deref(), execution).await?,
    };
    let system = opening.systems.first().and_then(Option::as_deref);
    let told = match session {
        Session::Known => text.clone(),
        Session::New => to_new_session(system, &before, &text),
    };
    let told = with_schema(told, opening.output_schema.as_deref());
    open_iteration(
        &execution.ledger,
        opening,
        text,
        (external.now)(),
        &[(SESSION, json!(live.session))],
    );
    let mut turn = Turn {
        external,
        opening,
        live_output,
        execution,
        live: Some(live),
        calls: Calls::default(),
        text: String::new(),
        thought: String::new(),
        last_text: String::new(),
        said: 0,
        waits_for: Vec::new(),
        allowed: Vec::new(),
    };
    turn.hold(&told).await
}

/// The session that was noted last.
fn session_in(thread: &Thread) -> Option<String> {
    let mut noted = thread.iterations().iter().rev();
    noted.find_map(|iteration| Some(iteration.metadata.get(SESSION)?.as_str()?.to_owned()))
}

/// A request for permission that has been decided.
struct Decided {
    /// The request of the program; `None`: it writes a file, which is done now.
    id: Value,
    then: Then,
    permitted: Permitted,
}

/// The action that follows a permission.
enum Then {
    Answer(String, Answers),
    Perform(String, Request),
}

/// The state of a prompt.
struct Turn<'a> {
    external: &'a External,
    opening: &'a RoundRequest,
    live_output: &'a dyn LiveOutput,
    execution: &'a Execution,
    /// The program, until it is handed on.
    live: Option<Live>,
    calls: Calls,
    /// The text since the last tool call.
    text: String,
    thought: String,
    /// The last text that is not blank.
    last_text: String,
    /// All that the program said, in bytes.
    said: u64,
    waits_for: Vec<PendingRequest>,
    /// Paths of calls that were permitted in this prompt.
    allowed: Vec<std::path::PathBuf>,
}

/// A program that is left in the middle of a prompt is told, and ended.
impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.pass_on(self.execution);
            self.external.programs.end(live);
        }
    }
}

type Deciding<'a> = FuturesUnordered<BoxFuture<'a, Decided>>;

impl<'a> Turn<'a> {
    async fn hold(&mut self, told: &str) -> Result<(String, StopReason), Cause> {
        self.execution.ledger.add_usage(Usage {
            requests: 1,
            ..Usage::default()
        });
        match self.prompted(told).await {
            Ok(answer) => self.ended(answer, told).await,
            Err(failure) => {
                let cause = match failure {
                    Broken::Lost(error) => {
                        let error = match &self.live {
                            Some(live) => live.explained(error).await,
                            None => error,
                        };
                        Cause::External(FailureKind::Model, error)
                    }
                    Broken::Refused(error) => Cause::External(FailureKind::Sandbox, error),
                };
                self.close_text();
                Err(cause)
            }
        }
    }

    /// Sends the prompt and attends to the program until it has answered.
    async fn prompted(&mut self, told: &str) -> Result<Result<Value, Value>, Broken> {
        let request = self.opening.requests_made + 1;
        let mut deciding = Deciding::new();
        let live = self.live()?;
        let prompt = protocol::prompt(&live.session, told, request);
        let number = live.request("session/prompt", &prompt)?;
        live.open = Some(number);
        loop {
            let live = self.live()?;
            tokio::select! {
                biased;
                Some(decided) = deciding.next(), if !deciding.is_empty() => self.decided(decided).await?,
                frame = live.reader.next() => match frame? {
                    None => return Err(Broken::Lost("it ended before it answered".to_owned())),
                    Some(Frame::Answer(one, answer)) if one == number => {
                        self.live()?.open = None;
                        return Ok(answer);
                    }
                    Some(Frame::Answer(..)) => {}
                    Some(Frame::Notification(method, params)) => {
                        if method == "session/update" {
                            self.updated(params).await?;
                        }
                    }
                    Some(Frame::Request(id, method, params)) => self.asked(id, &method, params, &mut deciding).await?,
                },
            }
        }
    }

    fn live(&mut self) -> Result<&mut Live, Broken> {
        self.live
            .as_mut()
            .ok_or_else(|| Broken::Lost("it has ended".to_owned()))
    }

    async fn updated(&mut self, params: Value) -> Result<(), Broken> {
        let session = self.live()?.session.clone();
        match protocol::update(params, &session) {
            Some(Update::Text(text)) => {
                self.said += text.len() as u64;
                self.live_output.receive(&self.opening.source, LiveUpdate::Text(&text));
                self.text.push_str(&text);
            }
            Some(Update::Thought(text)) => {
                self.said += text.len() as u64;
                self.live_output
                    .receive(&self.opening.source, LiveUpdate::Reasoning(&text));
                self.thought.push_str(&text);
            }
            Some(Update::Plan(plan)) => note_data(&self.execution.ledger, PLAN, plan),
            Some(Update::Cost(cost)) => note_data(&self.execution.ledger, "session_cost", cost),
            Some(Update::Tool(news)) => self.tool(news, false).await?,
            Some(Update::Other) | None => {}
        }
        if self.said > super::wire::LONGEST_MESSAGE as u64 {
            return Err(Broken::Lost("it said more than 16 MiB".to_owned()));
        }
        Ok(())
    }

    /// Records what is new of a tool call. `is_asked`: the program waits for permission.
    async fn tool(&mut self, news: ToolNews, is_asked: bool) -> Result<(), Broken> {
        let phase = news.phase;
        let (text, thought) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thought));
        if !text.trim().is_empty() {
            self.last_text.clone_from(&text);
        }
        let (is_new, id, kind) = self.calls.add(news);
        if is_new {
            let call = self.calls.call(&id);
            self.add_message(text, thought, vec![call]);
            record_iteration(&self.execution.ledger, &self.opening.records).await;
        } else {
            self.text = text;
            self.thought = thought;
        }
        let is_under_way = matches!(phase, Some(Phase::Running | Phase::Completed | Phase::Failed));
        if is_under_way && !is_asked {
            let is_denied = self.external.acp.permission(kind) == Permission::Deny;
            if is_denied && !self.calls.is_decided(&id) && phase != Some(Phase::Failed) {
                return Err(Broken::Refused(format!(
                    "the external agent used a tool without asking, and `permissions` denies `{}`: {}",
                    kind.word(),
                    self.calls.title(&id)
                )));
            }
            self.start(&id).await;
        }
        if let Some(Phase::Completed | Phase::Failed) = phase {
            self.end(&id, phase == Some(Phase::Failed)).await;
        }
        Ok(())
    }

    async fn start(&mut self, id: &str) {
        if self.calls.begin(id) {
            self.opening.records.call_started(id).await;
            let call = self.calls.call(id);
            self.live_output
                .receive(&self.opening.source, LiveUpdate::ToolStarted(&call));
        }
    }

    async fn end(&mut self, id: &str, is_failed: bool) {
        if let Some(call) = self.calls.end(id, is_failed) {
            end_call(&self.execution.ledger, &call);
            self.opening.records.call_ended(&call, Usage::default()).await;
            self.live_output
                .receive(&self.opening.source, LiveUpdate::ToolEnded(&call));
        }
    }

    /// The program asks for something.
    async fn asked(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
        deciding: &mut Deciding<'a>,
    ) -> Result<(), Broken> {
        let request = match protocol::request(method, params) {
            Ok(Some(request)) => request,
            Ok(None) => {
                let refused = format!("`{method}` is not offered here");
                return Ok(self.live()?.writer.refuse(&id, NO_METHOD, &refused)?);
            }
            Err(wrong) => return Ok(self.live()?.writer.refuse(&id, -32602, &wrong)?),
        };
        let (news, then) = match request {
            Request::Permission(mut news, answers) => {
                news.phase = None;
                let call = news.id.clone();
                (*news, Then::Answer(call, answers))
            }
            file => match self.file(&file) {
                Ok(news) => {
                    let call = news.id.clone();
                    (news, Then::Perform(call, file))
                }
                Err(refused) => return Ok(self.live()?.writer.refuse(&id, -32602, &refused)?),
            },
        };
        let call_id = news.id.clone();
        let paths: Vec<_> = news
            .diffs
            .iter()
            .map(|diff| diff.path.clone())
            .chain(news.paths.clone())
            .collect();
        self.tool(news, true).await?;
        let kind = self.calls.kind(&call_id);
        // A file of a call that was permitted a moment ago is not asked about once more.
        let is_allowed = matches!(then, Then::Perform(..)) && paths.iter().any(|path| self.allowed.contains(path));
        let permission = match (self.external.acp.permission(kind), is_allowed) {
            (Permission::Ask, true) => Permission::Allow,
            (permission, _) => permission,
        };
        let call = self.calls.call(&call_id);
        let (external, execution) = (self.external, self.execution);
        deciding.push(Box::pin(async move {
            let tool = format!("{}.{}", execution.agent_name, kind.word());
            let arguments = call.arguments.as_object().cloned().unwrap_or_else(JsonMap::new);
            let permitted = external
                .permissions
                .ask(permission, &tool, &call, &arguments, execution);
            let permitted = permitted.await;
            Decided { id, then, permitted }
        }));
        Ok(())
    }

    /// A file that the program reads or writes, as a call of its own.
    fn file(&mut self, request: &Request) -> Result<ToolNews, String> {
        let root = &self.external.root;
        let (kind, title, path, diffs) = match request {
            Request::Read { path, .. } => (AcpToolKind::Read, "Read", files::below(path, root)?, Vec::new()),
            Request::Write { path, content } => {
                let path = files::below(path, root)?;
                let old = files::read(root, &path, None, None).unwrap_or_default();
                let diff = FileDiff {
                    path: path.clone(),
                    old,
                    new: content.clone(),
                };
                (AcpToolKind::Edit, "Write", path, vec![diff])
            }
            Request::Permission(..) => return Err("it is no file".to_owned()),
        };
        Ok(ToolNews {
            id: self.calls.next_id(),
            title: Some(format!("{title} {}", path.display())),
            kind: Some(kind),
            paths: vec![root.join(path)],
            diffs,
            ..ToolNews::default()
        })
    }

    /// Answers the program, and does what it asked for.
    async fn decided(&mut self, decided: Decided) -> Result<(), Broken> {
        let call = match &decided.then {
            Then::Answer(call, _) | Then::Perform(call, _) => call.clone(),
        };
        self.calls.decide(&call);
        let refused = match decided.permitted {
            Permitted::Yes => None,
            Permitted::No(refused) => Some(refused),
            Permitted::Waits(request) => {
                self.waits_for.push(*request);
                let cancel = protocol::cancel(&self.live()?.session);
                self.live()?.writer.notify("session/cancel", &cancel)?;
                return Ok(self.live()?.writer.answer(&decided.id, &Answers::cancelled())?);
            }
        };
        match (decided.then, refused) {
            (Then::Answer(_, answers), refused) => {
                if refused.is_none() {
                    self.allowed.extend(self.calls.paths(&call));
                    self.start(&call).await;
                }
                let outcome = answers.outcome(refused.is_none());
                self.live()?.writer.answer(&decided.id, &outcome)?;
                if let Some(refused) = refused {
                    self.calls.refuse(&call, refused);
                    self.end(&call, true).await;
                }
            }
            (Then::Perform(_, request), None) => {
                self.start(&call).await;
                let performed = self.performed(request);
                let writer = &self.live()?.writer;
                let is_failed = performed.is_err();
                match performed {
                    Ok(answer) => writer.answer(&decided.id, &answer)?,
                    Err(error) => {
                        writer.refuse(&decided.id, -32603, &error)?;
                        self.calls.refuse(&call, error);
                    }
                }
                self.end(&call, is_failed).await;
            }
            (Then::Perform(..), Some(refused)) => {
                self.live()?.writer.refuse(&decided.id, -32603, &refused)?;
                self.calls.refuse(&call, refused);
                self.end(&call, true).await;
            }
        }
        Ok(())
    }

    fn performed(&self, request: Request) -> Result<Value, String> {
        let root = &self.external.root;
        match request {
            Request::Read { path, line, limit } => {
                files::read(root, &files::below(&path, root)?, line, limit).map(protocol::read_answer)
            }
            Request::Write { path, content } => {
                files::write(root, &files::below(&path, root)?, &content).map(|_before| json!({}))
            }
            Request::Permission(..) => Err("it is no file".to_owned()),
        }
    }

    /// The end of the prompt.
    async fn ended(&mut self, answer: Result<Value, Value>, told: &str) -> Result<(String, StopReason), Cause> {
        self.close_text();
        for call in self.calls.open() {
            self.end(&call, false).await;
        }
        let end = answer
            .map_err(|error| format!("the external agent refused the prompt: {}", refusal(&error)))
            .and_then(protocol::prompt_end);
        let tokens = end.as_ref().ok().and_then(|end| end.tokens);
        let (input, cached, output) = tokens.unwrap_or((estimate_tokens(told), 0, self.said.div_ceil(4)));
        self.execution.ledger.add_usage(Usage {
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            estimated: tokens.is_none(),
            ..Usage::default()
        });
        if let Some(live) = self.live.take() {
            live.pass_on(self.execution);
            self.external.programs.keep(live);
        }
        let requests = std::mem::take(&mut self.waits_for);
        if !requests.is_empty() {
            return Err(Cause::Waits(requests));
        }
        let end = end.map_err(|error| Cause::External(FailureKind::Model, error))?;
        note_data(&self.execution.ledger, "stop_reason", json!(end.reason));
        let reply = std::mem::take(&mut self.last_text);
        match end.reason {
            StopReason::EndTurn | StopReason::MaxTokens => Ok((reply, end.reason)),
            StopReason::Refusal if reply.trim().is_empty() => Err(Cause::Refused("it gave no reason".to_owned())),
            StopReason::Refusal => Err(Cause::Refused(reply)),
            StopReason::MaxTurnRequests => Err(Cause::External(
                FailureKind::MaxIterations,
                "the external agent stopped at its own limit of requests in a turn".to_owned(),
            )),
            StopReason::Cancelled => Err(Cause::External(
                FailureKind::Cancelled,
                "the external agent says that its turn was cancelled, and nobody has cancelled it here".to_owned(),
            )),
        }
    }

    /// Adds the text after the last tool call to the exchange.
    fn close_text(&mut self) {
        let (text, thought) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thought));
        if !text.trim().is_empty() {
            self.last_text.clone_from(&text);
        }
        if !text.is_empty() || !self.calls.is_any() {
            self.add_message(text, thought, Vec::new());
        }
    }

    fn add_message(&self, text: String, thought: String, calls: Vec<ToolCall>) {
        let message = ProgramMessage {
            text,
            thought,
            from: self.name(),
            calls,
        };
        add_message(&self.execution.ledger, message, (self.external.now)());
    }

    /// The program's own name, else that in the file.
    fn name(&self) -> String {
        let own = self.live.as_ref().and_then(|live| live.abilities.name.clone());
        own.unwrap_or_else(|| self.external.acp.program.shown().to_owned())
    }
}

/// An error that leaves a prompt without a reply.
enum Broken {
    /// The program ended, or does not keep to the protocol.
    Lost(String),
    /// It did what it may not do.
    Refused(String),
}

impl From<String> for Broken {
    fn from(error: String) -> Self {
        Self::Lost(error)
    }
}
