//! What the server says it can do, and what the client says.

use lsp_types::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CompletionOptions, ExecuteCommandOptions,
    HoverProviderCapability, InitializeParams, InitializeResult, OneOf, PositionEncodingKind, RenameOptions,
    SaveOptions, ServerCapabilities, ServerInfo, TextDocumentSyncCapability, TextDocumentSyncKind,
    TextDocumentSyncOptions, TextDocumentSyncSaveOptions, WorkDoneProgressOptions,
};

use crate::text::ColumnEncoding;

/// The command that gives the graph of an ensemble.
pub(super) const GRAPH_COMMAND: &str = "ensemble.graph";

/// The kind of the action that applies all safe fixes.
pub(super) const FIX_ALL_ACTION: &str = "source.fixAll.ensemble";

/// The features of the client that change the behavior of the server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClientFeatures {
    /// The code units of columns.
    pub(super) encoding: ColumnEncoding,
    /// It shows other places of a finding.
    pub(super) shows_related: bool,
    /// It can be asked to tell of files that change.
    pub(super) watches_files: bool,
}

impl ClientFeatures {
    /// Reads the features from the parameters of `initialize`.
    pub(super) fn from_params(params: &InitializeParams) -> Self {
        let capabilities = &params.capabilities;
        let encodings = capabilities
            .general
            .as_ref()
            .and_then(|it| it.position_encodings.as_ref());
        let is_utf8 = encodings.is_some_and(|all| all.contains(&PositionEncodingKind::UTF8));
        let texts = capabilities.text_document.as_ref();
        let findings = texts.and_then(|it| it.publish_diagnostics.as_ref());
        let workspace = capabilities.workspace.as_ref();
        let watched = workspace.and_then(|it| it.did_change_watched_files.as_ref());
        Self {
            encoding: if is_utf8 {
                ColumnEncoding::Utf8
            } else {
                ColumnEncoding::Utf16
            },
            shows_related: findings.and_then(|it| it.related_information).unwrap_or_default(),
            watches_files: watched.and_then(|it| it.dynamic_registration).unwrap_or_default(),
        }
    }
}

/// Builds the answer to `initialize`.
pub(super) fn initialize_result(client: ClientFeatures, version: &str) -> InitializeResult {
    InitializeResult {
        capabilities: server_capabilities(client),
        server_info: Some(ServerInfo {
            name: "ensemble".to_owned(),
            version: Some(version.to_owned()),
        }),
    }
}

/// Returns the features of the server for this client.
fn server_capabilities(client: ClientFeatures) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(match client.encoding {
            ColumnEncoding::Utf8 => PositionEncodingKind::UTF8,
            ColumnEncoding::Utf16 => PositionEncodingKind::UTF16,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions {
                include_text: Some(false),
            })),
            ..TextDocumentSyncOptions::default()
        })),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some([".", "\"", "'", "[", "{", " ", "|", "(", ":"].map(str::to_owned).into()),
            ..CompletionOptions::default()
        }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, CodeActionKind::from(FIX_ALL_ACTION)]),
            ..CodeActionOptions::default()
        })),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: vec![GRAPH_COMMAND.to_owned()],
            work_done_progress_options: WorkDoneProgressOptions::default(),
        }),
        ..ServerCapabilities::default()
    }
}
