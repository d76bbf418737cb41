//! The built-in external agent: a program without a model that answers as it was told, for examples and tests.
//!
//! It speaks the protocol as a real program does. The n-th prompt of an agent gets the n-th reply, and the last repeats.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// The environment variable with the `config` of the agent, as JSON.
pub const ACP_CONFIG_VARIABLE: &str = "ENSEMBLE_ACP_CONFIG";

/// Serves one ACP client until it disconnects. `config` is JSON of the form `{replies: [...]}`.
pub fn serve_simulated_agent(input: impl BufRead + Send + 'static, output: impl Write, config: &str) {
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for line in input.lines() {
            let Ok(line) = line else { return };
            if let Ok(message) = serde_json::from_str::<Value>(&line)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    let mut agent = SimulatedAcpAgent {
        replies: config["replies"].as_array().cloned().unwrap_or_default(),
        messages,
        output,
        sent: 0,
        session: String::new(),
        folder: PathBuf::new(),
    };
    while let Ok(message) = agent.messages.recv() {
        if agent.answer_message(&message).is_none() {
            return;
        }
    }
}

/// External agent that plays scripted replies over ACP.
struct SimulatedAcpAgent<W> {
    replies: Vec<Value>,
    messages: Receiver<Value>,
    output: W,
    sent: u64,
    session: String,
    /// The working folder of the session.
    folder: PathBuf,
}

/// Result of a request that the simulated agent sent to the client.
enum SentRequestResult {
    Result(Value),
    Error(String),
    Cancelled,
}

impl<W: Write> SimulatedAcpAgent<W> {
    /// Handles a message of the client. Returns `None` if the client has disconnected.
    fn answer_message(&mut self, message: &Value) -> Option<()> {
        let (id, params) = (&message["id"], &message["params"]);
        let method = message["method"].as_str().unwrap_or_default();
        if id.is_null() || method.is_empty() {
            return Some(());
        }
        if let Some(folder) = params["cwd"].as_str() {
            self.folder = folder.into();
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": true, "sessionCapabilities": {"resume": {}}},
                "agentInfo": {"name": "simulated", "version": env!("CARGO_PKG_VERSION")},
                "authMethods": [],
            }),
            "session/new" => {
                self.session = format!("simulated-{}", std::process::id());
                json!({ "sessionId": self.session })
            }
            "session/load" | "session/resume" => {
                params["sessionId"].as_str()?.clone_into(&mut self.session);
                json!({})
            }
            "session/prompt" => return self.answer_prompt(id, params),
            _ => return self.send_message(&json!({"id": id, "error": {"code": -32601, "message": "unknown method"}})),
        };
        self.send_message(&json!({"id": id, "result": result}))
    }

    /// Plays the scripted reply with the number of the request, and replies to the prompt. Returns `None` if the client has disconnected.
    fn answer_prompt(&mut self, id: &Value, params: &Value) -> Option<()> {
        let number = params["_meta"]["ensemble"]["request"].as_u64().unwrap_or(1);
        let at = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let reply = self.replies.get(at).or(self.replies.last()).cloned();
        let reply = reply.unwrap_or_else(|| json!(format!("(simulated reply {number})")));
        if let Some(error) = reply["error"].as_str() {
            return self.send_message(&json!({"id": id, "error": {"code": -32603, "message": error}}));
        }
        let reason = match self.play_scripted_reply(&reply)? {
            true => reply["stop"].as_str().unwrap_or("end_turn"),
            false => "cancelled",
        };
        self.send_message(&json!({"id": id, "result": {"stopReason": reason}}))
    }

    /// Plays one scripted reply: thoughts, plan, steps and text. Returns `false` after a cancellation, `None` after a disconnection.
    fn play_scripted_reply(&mut self, reply: &Value) -> Option<bool> {
        if let Some(text) = reply.as_str() {
            self.send_text("agent_message_chunk", text)?;
            return Some(true);
        }
        if let Some(thought) = reply["thought"].as_str() {
            self.send_text("agent_thought_chunk", thought)?;
        }
        if let Some(steps) = reply["plan"].as_array() {
            let entries = steps
                .iter()
                .map(|step| json!({"content": step, "priority": "medium", "status": "pending"}));
            let entries: Vec<Value> = entries.collect();
            self.send_update(json!({"sessionUpdate": "plan", "entries": entries}))?;
        }
        if let Some(seconds) = reply["delay_seconds"].as_f64()
            && !self.wait_unless_cancelled(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0)))?
        {
            return Some(false);
        }
        for (at, step) in reply["steps"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            if !self.play_scripted_step(&format!("step-{}", at + 1), step)? {
                return Some(false);
            }
        }
        self.send_text("agent_message_chunk", reply["text"].as_str().unwrap_or_default())?;
        Some(true)
    }

    /// Plays one step: `{read: path}`, `{write: path, text}` or `{execute: title}`. Returns `false` if the client cancelled the prompt.
    fn play_scripted_step(&mut self, call: &str, step: &Value) -> Option<bool> {
        let (kind, what) = match (step["read"].as_str(), step["write"].as_str(), step["execute"].as_str()) {
            (Some(path), ..) => ("read", path),
            (_, Some(path), _) => ("edit", path),
            (.., title) => ("execute", title.unwrap_or_default()),
        };
        let text = step["text"].as_str().unwrap_or_default();
        let is_file = kind != "execute";
        let locations: Vec<Value> = is_file.then(|| json!({ "path": what })).into_iter().collect();
        let title = if is_file {
            format!("{kind} {what}")
        } else {
            what.to_owned()
        };
        self.send_update(json!({
            "sessionUpdate": "tool_call", "toolCallId": call, "title": title, "kind": kind, "locations": locations,
        }))?;
        let options = json!([
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]);
        let mut tool_call = json!({"toolCallId": call, "title": title, "kind": kind});
        if kind == "edit" {
            let diff = json!({"type": "diff", "path": what, "oldText": self.read_text(what), "newText": text});
            tool_call["content"] = json!([diff]);
        }
        let params = json!({"sessionId": self.session, "toolCall": tool_call, "options": options});
        let allowed = match self.send_and_wait("session/request_permission", &params)? {
            SentRequestResult::Result(result) => result["outcome"]["optionId"] == "yes",
            SentRequestResult::Error(_) => false,
            SentRequestResult::Cancelled => return Some(false),
        };
        let step_result = match (allowed, kind) {
            (false, _) => Err("it was not allowed".to_owned()),
            (true, "read") => {
                let params = json!({"sessionId": self.session, "path": what});
                self.request_file("fs/read_text_file", &params)?
            }
            (true, "edit") => {
                let params = json!({"sessionId": self.session, "path": what, "content": text});
                self.request_file("fs/write_text_file", &params)?
            }
            (true, _) => Ok(text.to_owned()),
        };
        let (status, said) = match step_result {
            Ok(output) => ("completed", output),
            Err(error) => ("failed", error),
        };
        let content = json!([{"type": "content", "content": {"type": "text", "text": said}}]);
        self.send_update(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call, "status": status, "content": content,
        }))?;
        Some(true)
    }

    /// Reads the text of a file for the diff of a change.
    #[expect(clippy::disallowed_methods, reason = "this is a program of its own")]
    fn read_text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(path)).ok()
    }

    /// Sends a file request and waits for the text of the file. Returns `None` if the client has disconnected.
    fn request_file(&mut self, method: &str, params: &Value) -> Option<Result<String, String>> {
        Some(match self.send_and_wait(method, params)? {
            SentRequestResult::Result(result) => Ok(result["content"].as_str().unwrap_or_default().to_owned()),
            SentRequestResult::Error(error) => Err(error),
            SentRequestResult::Cancelled => Err("it was cancelled".to_owned()),
        })
    }

    /// Waits. Returns `false` if the client cancels the prompt, `None` if it disconnects.
    fn wait_unless_cancelled(&mut self, pause: Duration) -> Option<bool> {
        use std::sync::mpsc::RecvTimeoutError;
        match self.messages.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Some(true),
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(message) => Some(message["method"] != "session/cancel"),
        }
    }

    /// Sends a request and waits for its reply or a cancellation. Ignores other messages. Returns `None` if the client has disconnected.
    fn send_and_wait(&mut self, method: &str, params: &Value) -> Option<SentRequestResult> {
        self.sent += 1;
        let number = self.sent;
        self.send_message(&json!({"id": number, "method": method, "params": params}))?;
        loop {
            let message = self.messages.recv().ok()?;
            if message["method"] == "session/cancel" {
                return Some(SentRequestResult::Cancelled);
            }
            if message["id"] == number && message["method"].is_null() {
                return Some(match message["error"]["message"].as_str() {
                    Some(error) => SentRequestResult::Error(error.to_owned()),
                    None => SentRequestResult::Result(message["result"].clone()),
                });
            }
        }
    }

    /// Sends a text update of this kind.
    fn send_text(&mut self, kind: &str, text: &str) -> Option<()> {
        self.send_update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}}))
    }

    /// Sends a session update.
    fn send_update(&mut self, update: Value) -> Option<()> {
        let params = json!({"sessionId": self.session, "update": update});
        self.send_message(&json!({"method": "session/update", "params": params}))
    }

    /// Writes the message as one line. Returns `None` if the client has disconnected.
    fn send_message(&mut self, message: &Value) -> Option<()> {
        let mut message = message.clone();
        message["jsonrpc"] = json!("2.0");
        writeln!(self.output, "{message}")
            .and_then(|()| self.output.flush())
            .ok()
    }
}
