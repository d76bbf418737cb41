//! A client of `ensemble acp`, and a judge of messages by the schema of the protocol.

#![expect(clippy::disallowed_methods, reason = "tests start programs and look at files")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Workspace, binary};

/// Judges messages by the JSON Schema of the protocol that `tests/install.sh acp` installs; without it, by nothing.
pub(crate) struct Judge {
    schema: Option<Value>,
    validators: HashMap<String, Validator>,
    /// The methods of the requests, by who has made them and their ids.
    asked: HashMap<(bool, String), String>,
}

impl Judge {
    pub(crate) fn new() -> Self {
        // The program stands in target/<profile>/.
        let target = Path::new(binary()).ancestors().nth(2).unwrap_or(Path::new("."));
        let path = target.join("acp/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json");
        let text = std::fs::read_to_string(path).ok();
        Self {
            schema: text.map(|text| serde_json::from_str(&text).expect("a schema")),
            validators: HashMap::new(),
            asked: HashMap::new(),
        }
    }

    /// Whether there is a schema.
    pub(crate) fn is_there(&self) -> bool {
        self.schema.is_some()
    }

    /// Remembers a request that is not judged.
    pub(crate) fn heard(&mut self, request: &Value, is_of_client: bool) {
        if let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) {
            self.asked.insert((is_of_client, id.to_string()), method.to_owned());
        }
    }

    /// Refuses a message, which the client has sent or which it gets, if it is not what the protocol says.
    pub(crate) fn judge(&mut self, message: &Value, is_of_client: bool) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        self.heard(message, is_of_client);
        let id = message.get("id").map(Value::to_string);
        if let Some(method) = message["method"].as_str() {
            let kind = if id.is_some() { "Request" } else { "Notification" };
            return self.holds(method, kind, &message["params"]);
        }
        if message.get("error").is_some() {
            return self.is_as("Error", &message["error"]);
        }
        let method = id.and_then(|id| self.asked.remove(&(!is_of_client, id)));
        let method = method.unwrap_or_else(|| panic!("an answer that nobody waits for: {message}"));
        self.holds(&method, "Response", &message["result"]);
    }

    fn holds(&mut self, method: &str, kind: &str, value: &Value) {
        let Some(schema) = &self.schema else { return };
        let about = schema["$defs"].as_object().expect("definitions").iter();
        let mut named = about.filter(|(name, about)| about["x-method"] == method && name.ends_with(kind));
        let name = named.next().map(|(name, _)| name.clone());
        let name = name.unwrap_or_else(|| panic!("the protocol has no {kind} `{method}`: {value}"));
        self.is_as(&name, value);
    }

    /// The value is what a definition says, without keys that it does not know.
    fn is_as(&mut self, name: &str, value: &Value) {
        let Some(schema) = &self.schema else { return };
        let validator = self.validators.entry(name.to_owned()).or_insert_with(|| {
            let mut whole = schema.clone();
            let whole_map = whole.as_object_mut().expect("an object");
            whole_map.remove("anyOf");
            whole_map.insert("$ref".to_owned(), json!(format!("#/$defs/{name}")));
            whole_map.insert("unevaluatedProperties".to_owned(), json!(false));
            if name == "SessionNotification" {
                let update = json!({"update": {"$ref": "#/$defs/SessionUpdate", "unevaluatedProperties": false}});
                whole_map.insert("properties".to_owned(), update);
            }
            jsonschema::validator_for(&whole).expect("a schema")
        });
        let faults: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}: {value}");
    }
}

/// A client.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Receiver<Value>,
    /// The updates that came before an answer.
    pub(crate) updates: Vec<Value>,
    /// What the server can do.
    pub(crate) initialized: Value,
    next: u64,
    judge: Judge,
}

impl Client {
    /// Starts the server, and tells it what the client can do.
    pub(crate) fn start(workspace: &Workspace, served: &str, capabilities: Value) -> Self {
        let mut client = Self::bare(workspace, served);
        let answer = client.ask(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}),
        );
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        client.initialized = answer["result"].clone();
        client
    }

    /// Starts the server, and tells it nothing.
    pub(crate) fn bare(workspace: &Workspace, served: &str) -> Self {
        let command = &mut workspace.command(["acp", served]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("a frame and nothing else");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            received,
            updates: Vec::new(),
            next: 1,
            initialized: Value::Null,
            judge: Judge::new(),
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.judge.judge(message, true);
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{message}").expect("the server reads");
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message of the server, which the protocol's schema has judged.
    pub(crate) fn next(&mut self) -> Value {
        let wait = Duration::from_secs(60);
        let message = self.received.recv_timeout(wait).expect("a message of the server");
        self.judge.judge(&message, false);
        message
    }

    /// Ends the input of the server, and waits until it has ended.
    pub(crate) fn leave(mut self) {
        self.stdin = None;
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is reaped");
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.updates.push(message);
        }
    }

    /// The next request of the server, before which updates are kept.
    pub(crate) fn asked(&mut self) -> Value {
        loop {
            let message = self.next();
            if message.get("id").is_some() && message.get("method").is_some() {
                return message;
            }
            self.updates.push(message);
        }
    }

    /// Permits once what the server asks about next, and gives the request.
    pub(crate) fn permit(&mut self) -> Value {
        let asked = self.asked();
        assert_eq!(asked["method"], "session/request_permission", "{asked}");
        let options = asked["params"]["options"].as_array().expect("options").clone();
        let once = options.iter().find(|option| option["kind"] == "allow_once");
        let chosen = json!({"outcome": "selected", "optionId": once.expect("once")["optionId"]});
        self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": chosen}}));
        asked
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub(crate) fn session(&mut self, workspace: &Workspace) -> String {
        let answer = self.ask("session/new", json!({"cwd": workspace.path(), "mcpServers": []}));
        let id = answer["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(crate) fn begin_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begin("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.begin_prompt(session, text);
        self.answer(id)
    }

    /// The texts of updates of a kind since the last call.
    pub(crate) fn told(&mut self, kind: &str) -> String {
        let updates = std::mem::take(&mut self.updates);
        let told = updates.iter().map(|message| &message["params"]["update"]);
        let told = told.filter(|update| update["sessionUpdate"] == kind);
        told.filter_map(|update| update["content"]["text"].as_str()).collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
