//! The JSON object that a script receives on stdin.
//!
//! The object is written piece by piece, so that a large context is not copied for each agent. The buffer holds at most
//! one value and [`WRITE_BUFFER_BYTES`] bytes.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use ensemble_core::runner::ExecutionInput;
use ensemble_language::condition::PartVariables;
use ensemble_language::execution_history::ExecutionHistory;

/// The number of bytes that are collected before they are written.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// Writes the text, or without a text the JSON object of the execution, and closes the pipe.
pub(super) async fn write_stdin_and_close(
    mut pipe: impl AsyncWrite + Unpin,
    text: Option<&str>,
    execution: &ExecutionInput,
) {
    match text {
        Some(text) => {
            let _nobody_reads = pipe.write_all(text.as_bytes()).await;
        }
        None => write_execution_json_and_close(pipe, execution).await,
    }
}

/// Writes the JSON object of the execution and a newline, and closes the pipe. Ignores errors, because a script can close its stdin.
///
/// An error means that the script has closed its stdin, which is permitted.
pub(super) async fn write_execution_json_and_close(pipe: impl AsyncWrite + Unpin, execution: &ExecutionInput) {
    let mut stream = ExecutionJsonWriter {
        pipe,
        buffer: Vec::new(),
        fields: 0,
    };
    let _nobody_reads = stream.write_object(execution).await;
}

/// Buffered writer of the JSON object of an execution.
struct ExecutionJsonWriter<W> {
    pipe: W,
    buffer: Vec<u8>,
    fields: usize,
}

impl<W: AsyncWrite + Unpin> ExecutionJsonWriter<W> {
    /// Writes the whole object.
    async fn write_object(&mut self, execution: &ExecutionInput) -> io::Result<()> {
        self.buffer.push(b'{');
        self.write_field("input", &execution.input).await?;
        self.write_field("input_data", &execution.input).await?;
        self.write_map_field("inputs", execution.inputs.iter()).await?;
        self.write_map_field("context", execution.context.iter()).await?;
        self.write_map_field(
            "dependencies",
            outputs_once_per_agent(execution.latest_success_outputs()),
        )
        .await?;
        self.write_map_field("failures", outputs_once_per_agent(&execution.failures))
            .await?;
        self.write_field("news", &execution.news).await?;
        self.write_field("parameters", &execution.parameters).await?;
        self.write_field("turn_count", &execution.turn_count).await?;
        self.write_field("execution", &execution.execution).await?;
        self.write_field("attempt", &execution.attempt).await?;
        self.write_field("run_id", &execution.run_id).await?;
        self.write_field("agent_name", &execution.agent_name).await?;
        self.write_field("request", &execution.request).await?;
        self.write_history_field(&execution.history).await?;
        if let Some(part) = &execution.part {
            self.write_field(&part.item_name, &part.item).await?;
            self.write_field(PartVariables::PART, &part.variable).await?;
        }
        self.buffer.extend_from_slice(b"}\n");
        self.write_buffer().await
    }

    /// Writes one field.
    async fn write_field(&mut self, name: &str, value: &(impl Serialize + Sync)) -> io::Result<()> {
        self.write_field_name(name)?;
        self.buffer_json_value(value).await
    }

    /// Writes one field whose value is a map.
    async fn write_map_field<'a>(
        &mut self,
        name: &str,
        entries: impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)> + Send,
    ) -> io::Result<()> {
        self.write_field_name(name)?;
        self.buffer.push(b'{');
        for (index, (key, value)) in entries.enumerate() {
            if index > 0 {
                self.buffer.push(b',');
            }
            serde_json::to_writer(&mut self.buffer, key)?;
            self.buffer.push(b':');
            self.buffer_json_value(value).await?;
        }
        self.buffer.push(b'}');
        Ok(())
    }

    /// Writes the field `history`, one entry at a time.
    async fn write_history_field(&mut self, past: &ExecutionHistory) -> io::Result<()> {
        self.write_field_name("history")?;
        self.buffer.push(b'[');
        for at in 0..past.len() {
            if at > 0 {
                self.buffer.push(b',');
            }
            self.buffer_json_value(&past.serializable_entry(at)).await?;
        }
        self.buffer.push(b']');
        Ok(())
    }

    /// Writes the name of a field, after a comma if it is not the first one.
    fn write_field_name(&mut self, name: &str) -> io::Result<()> {
        if self.fields > 0 {
            self.buffer.push(b',');
        }
        self.fields += 1;
        serde_json::to_writer(&mut self.buffer, name)?;
        self.buffer.push(b':');
        Ok(())
    }

    /// Writes a value into the buffer, and the buffer to the pipe if it is full.
    async fn buffer_json_value(&mut self, value: &(impl Serialize + Sync)) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, value)?;
        if self.buffer.len() >= WRITE_BUFFER_BYTES {
            self.write_buffer().await?;
        }
        Ok(())
    }

    /// Writes the buffered bytes to the pipe and clears the buffer.
    async fn write_buffer(&mut self) -> io::Result<()> {
        self.pipe.write_all(&self.buffer).await?;
        self.buffer.clear();
        Ok(())
    }
}

/// Iterates over the outputs, each agent once, even if several dependencies name it.
fn outputs_once_per_agent(outputs: &[(Arc<str>, Arc<Value>)]) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
    let mut seen_names = HashSet::new();
    let all = outputs.iter().map(|(name, output)| (name, output));
    all.filter(move |(name, _)| seen_names.insert(Arc::clone(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::{an_execution, stdin_of};
    use ensemble_language::data::{AgentRequest, RunContext};

    #[tokio::test]
    async fn it_has_one_shape_always() {
        let object = stdin_of(&an_execution()).await;
        assert_eq!(
            object,
            json!({
                "input": "hi \"you\"", "input_data": "hi \"you\"", "inputs": {"topic": "sea"}, "context": {}, "dependencies": {}, "failures": {}, "news": [], "parameters": {},
                "turn_count": 2, "execution": 3, "attempt": 4, "run_id": "run-1", "agent_name": "asker", "request": null,
                "history": [],
            })
        );
    }

    #[tokio::test]
    async fn everything_is_in_it() {
        let mut execution = an_execution();
        let big = Arc::new(Value::String("x".repeat(3 * WRITE_BUFFER_BYTES)));
        execution.context = Arc::new(RunContext::from_iter([
            (Arc::from("a\"b"), Arc::clone(&big)),
            (Arc::from("c"), Arc::new(json!({"d": [1, null]}))),
        ]));
        execution.dependencies = vec![
            (Arc::from("w"), Arc::new(json!({"n": 1}))),
            (Arc::from("v"), Arc::new(json!({"n": 2}))),
        ];
        execution.latest_outputs = Some(execution.dependencies[..1].to_vec());
        execution.failures = vec![(Arc::from("v"), Arc::new(json!({"n": 2})))];
        execution.news = vec!["w".into()];
        execution.parameters = Arc::new(json!({"k": "v"}).as_object().expect("an object").clone());
        execution.request = Some(Arc::new(AgentRequest {
            from: Arc::from("boss"),
            parameters: json!([1]),
            priority: -1,
        }));
        let object = stdin_of(&execution).await;
        assert_eq!(object["context"], json!({"a\"b": *big, "c": {"d": [1, null]}}));
        assert_eq!(object["dependencies"], json!({"w": {"n": 1}}));
        assert_eq!(object["failures"], json!({"v": {"n": 2}}));
        assert_eq!(object["news"], json!(["w"]));
        assert_eq!(object["parameters"], json!({"k": "v"}));
        assert_eq!(
            object["request"],
            json!({"from": "boss", "parameters": [1], "priority": -1})
        );
    }

    #[tokio::test]
    async fn an_agent_on_two_edges_is_written_once() {
        let mut execution = an_execution();
        let output = (Arc::from("w"), Arc::new(json!("its output")));
        execution.dependencies = vec![output.clone(), output];
        let mut bytes = Vec::new();
        write_execution_json_and_close(&mut bytes, &execution).await;
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert_eq!(text.matches("its output").count(), 1, "{text}");
    }

    /// Remembers how much it was handed at most.
    struct Widest(usize);

    impl AsyncWrite for Widest {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<io::Result<usize>> {
            self.0 = self.0.max(bytes.len());
            std::task::Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_long_context_is_never_in_memory_at_once() {
        let mut execution = an_execution();
        let entry = |index: usize| (Arc::from(format!("k{index}")), Arc::new(json!("x".repeat(1000))));
        execution.context = Arc::new((0..2_000).map(entry).collect());
        let mut widest = Widest(0);
        write_execution_json_and_close(&mut widest, &execution).await;
        assert!(
            (WRITE_BUFFER_BYTES..WRITE_BUFFER_BYTES + 2_000).contains(&widest.0),
            "{}",
            widest.0
        );
    }
}
