//! The requests of a program: for permission, and for files.
//!
//! Invariant: a decision applies to what was shown when the permission was asked, once.

use serde_json::{Value, json};

use super::ExternalAgent;
use super::decided_request::{DecidedAcpRequest, DecidedAction, PendingDecisions};
use super::files;
use super::limits::check_undecided_count;
use super::permitted_files::FilePermission;
use super::program::METHOD_NOT_FOUND_CODE;
use super::prompt_round::{PromptFailure, PromptRound};
use super::protocol;
use super::protocol::{AcpCallUpdate, FileTextChange, PermissionOptionIds, ProgramRequest};
use crate::agent::ExecutionInput;
use crate::agent::tools::PermissionResult;
use ensemble_core::thread::ToolCall;
use ensemble_language::data::{JsonMap, sha256_of_text};
use ensemble_language::ensemble::{AcpToolKind, PermissionMode};

/// Maximum number of bytes of a method name in a reply to the program.
const MAX_METHOD_BYTES: usize = 100;

impl<'a> PromptRound<'a> {
    /// Handles a request of the program: checks it, and queues the permission decision in `deciding`. Refuses unknown methods.
    pub(super) async fn handle_program_request(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
        deciding: &mut PendingDecisions<'a>,
    ) -> Result<(), PromptFailure> {
        let request = match protocol::parse_program_request(method, params) {
            Ok(Some(request)) => request,
            Ok(None) => {
                self.limits.count_unsupported()?;
                let method = &method[..method.floor_char_boundary(MAX_METHOD_BYTES)];
                let refused = format!("`{method}` is not supported");
                return Ok(self
                    .live_program()?
                    .writer
                    .send_error(&id, METHOD_NOT_FOUND_CODE, &refused)?);
            }
            Err(wrong) => {
                self.limits.count_unsupported()?;
                return Ok(self.live_program()?.writer.send_error(&id, -32602, &wrong)?);
            }
        };
        // Without an operator, a decided request can wait for the answer of a later run.
        check_undecided_count(deciding.len() + self.waits_for.len())?;
        match request {
            ProgramRequest::Permission(mut news, answers) => {
                news.phase = None;
                let call = self.record_call_update(*news, true).await?;
                let action = DecidedAction::Answer(answers, self.list_shown_file_permissions(&call));
                self.queue_permission_check(id, call, action, false, deciding);
            }
            file => match self.describe_file_request(&file) {
                Ok((news, wanted)) => {
                    let call = self.calls.add_file_call(news)?;
                    self.record_new_call(&call).await?;
                    let before = match &wanted {
                        FilePermission::Write { before, .. } => before.clone(),
                        FilePermission::Read(_) => String::new(),
                    };
                    let is_permitted = self.permitted_files.use_permission(&wanted);
                    self.queue_permission_check(id, call, DecidedAction::Perform(file, before), is_permitted, deciding);
                }
                Err(refused) => {
                    self.limits.count_unsupported()?;
                    self.live_program()?.writer.send_error(&id, -32602, &refused)?;
                }
            },
        }
        Ok(())
    }

    /// Queues the permission checks of the call, one for each kind that it needs. `is_permitted` means that a permitted call showed the
    /// file.
    fn queue_permission_check(
        &mut self,
        id: Value,
        call: String,
        action: DecidedAction,
        is_permitted: bool,
        deciding: &mut PendingDecisions<'a>,
    ) {
        let kinds = self.calls.needed_permission_kinds(&call);
        let record = self.calls.open_call_record(&call);
        let (external, execution) = (self.external, self.execution);
        let tools: Vec<(String, AcpToolKind)> = kinds
            .iter()
            .map(|kind| (self.permission_tool_name(*kind), *kind))
            .collect();
        deciding.push(Box::pin(async move {
            let mut permitted = PermissionResult::Granted;
            for (tool, kind) in tools {
                permitted = check_kind_permission(external, execution, &record, (&tool, kind), is_permitted).await;
                if permitted != PermissionResult::Granted {
                    break;
                }
            }
            DecidedAcpRequest {
                id,
                call,
                action,
                permitted,
                kinds,
            }
        }));
    }

    /// Lists the files that a permission for the call covers: files whose content the call has shown.
    fn list_shown_file_permissions(&self, call: &str) -> Vec<FilePermission> {
        let root = &self.external.root;
        let writes = self.calls.shown_diffs(call).iter().filter_map(|diff| {
            Some(FilePermission::Write {
                path: files::path_below_root(&diff.path, root).ok()?,
                before: diff.before.clone(),
                after: diff.after.clone(),
            })
        });
        let reads = self.calls.read_paths(call).iter();
        let reads = reads.filter_map(|path| Some(FilePermission::Read(files::path_below_root(path, root).ok()?)));
        writes.chain(reads).collect()
    }

    /// Creates a tool call for a file request of the program, and the file permission that the request needs.
    fn describe_file_request(&self, request: &ProgramRequest) -> Result<(AcpCallUpdate, FilePermission), String> {
        let root = &self.external.root;
        let (kind, title, file, diffs) = match request {
            ProgramRequest::Read { path, .. } => {
                let path = files::path_below_root(path, root)?;
                (AcpToolKind::Read, "Read", FilePermission::Read(path), Vec::new())
            }
            ProgramRequest::Write { path, content } => {
                let path = files::path_below_root(path, root)?;
                files::check_not_in_private_folders(root, &path, &self.external.private_folders)?;
                let old = files::read_replaced_text(root, &path)?;
                let file = FilePermission::Write {
                    path: path.clone(),
                    before: sha256_of_text(&old),
                    after: sha256_of_text(content),
                };
                let new = content.clone();
                (
                    AcpToolKind::Edit,
                    "Write",
                    file,
                    vec![FileTextChange { path, old, new }],
                )
            }
            ProgramRequest::Permission(..) => return Err("it is not a file".to_owned()),
        };
        let (FilePermission::Read(path) | FilePermission::Write { path, .. }) = &file;
        let news = AcpCallUpdate {
            title: Some(format!("{title} {}", path.display())),
            kind: Some(kind),
            paths: vec![root.join(path)],
            diffs,
            ..AcpCallUpdate::default()
        };
        Ok((news, file))
    }

    /// Executes a decided request if it is permitted, and sends the reply to the program.
    pub(super) async fn execute_decided_request(&mut self, decided: DecidedAcpRequest) -> Result<(), PromptFailure> {
        let DecidedAcpRequest { id, call, .. } = decided;
        let refused = match decided.permitted {
            PermissionResult::Granted => None,
            PermissionResult::Refused(refused) => Some(refused),
            PermissionResult::Waits(request) => {
                self.waits_for.push(*request);
                let live = self.live_program()?;
                let cancel = protocol::cancel_params(&live.session);
                live.writer.send_notification("session/cancel", &cancel)?;
                return Ok(live.writer.send_answer(&id, &PermissionOptionIds::cancelled_json())?);
            }
        };
        match (decided.action, refused) {
            (DecidedAction::Answer(answers, files), None) => {
                self.permitted_files.add_call(&call, files);
                self.record_call_start(&call).await;
                self.live_program()?
                    .writer
                    .send_answer(&id, &answers.outcome_json(true))?;
            }
            (DecidedAction::Answer(answers, _), Some(refused)) => {
                self.live_program()?
                    .writer
                    .send_answer(&id, &answers.outcome_json(false))?;
                self.calls.mark_refused_or_failed(&call, refused, decided.kinds);
                self.record_call_end(&call, true).await?;
            }
            (DecidedAction::Perform(request, before), None) => {
                self.record_call_start(&call).await;
                let performed = self.perform_file_request(request, &before);
                let writer = &self.live_program()?.writer;
                let is_failed = performed.is_err();
                match performed {
                    Ok(answer) => writer.send_answer(&id, &answer)?,
                    Err(error) => {
                        writer.send_error(&id, -32603, &error)?;
                        self.calls.mark_refused_or_failed(&call, error, Vec::new());
                    }
                }
                self.record_call_end(&call, is_failed).await?;
            }
            (DecidedAction::Perform(..), Some(refused)) => {
                self.live_program()?.writer.send_error(&id, -32603, &refused)?;
                self.calls.mark_refused_or_failed(&call, refused, decided.kinds);
                self.record_call_end(&call, true).await?;
            }
        }
        Ok(())
    }

    /// Reads or writes the file of a request. `before` is the digest of the text that was shown.
    fn perform_file_request(&self, request: ProgramRequest, before: &str) -> Result<Value, String> {
        let root = &self.external.root;
        match request {
            ProgramRequest::Read { path, line, limit } => {
                files::read_lines(root, &files::path_below_root(&path, root)?, line, limit)
                    .map(protocol::file_content_json)
            }
            ProgramRequest::Write { path, content } => {
                files::write_if_unchanged_since_shown(root, &files::path_below_root(&path, root)?, &content, before)
                    .map(|()| json!({}))
            }
            ProgramRequest::Permission(..) => Err("it is not a file".to_owned()),
        }
    }
}

/// Decides the permission for one kind of tool that a call needs. Asks the operator if necessary.
async fn check_kind_permission(
    external: &ExternalAgent,
    execution: &ExecutionInput,
    record: &ToolCall,
    (tool, kind): (&str, AcpToolKind),
    is_permitted: bool,
) -> PermissionResult {
    let permission = match (external.acp.permission_for(kind), is_permitted) {
        // An option that denies the kind wins over the ensemble.
        (PermissionMode::Allow, _) if external.permissions.denies_tool(tool) => PermissionMode::Ask,
        (PermissionMode::Ask, true) => PermissionMode::Allow,
        (permission, _) => permission,
    };
    let call = ToolCall {
        name: kind.as_str().to_owned(),
        ..record.clone()
    };
    let arguments = record.arguments.as_object().cloned().unwrap_or_else(JsonMap::new);
    let permissions = &external.permissions;
    permissions
        .decide_permission(permission, tool, &call, &arguments, execution)
        .await
}
