//! The answers to requests, in the form of the protocol.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_ide::analysis::findings::{EditedFileKind, FolderChecks};
use ensemble_ide::analysis::related_files::{
    is_script_named_elsewhere, list_ensembles_passing_input, read_test_files_beside,
};
use ensemble_ide::analysis::rename::{self, RenameEdits, RenameSurroundings};
use ensemble_ide::analysis::symbols::AgentSymbol;
use ensemble_ide::analysis::{EditorView, completions, hover, name_occurrences, symbols, tested_ensemble_path};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::load_ensemble;
use ensemble_language::source::{SourceText, Span};
use ensemble_language::yaml::edit::TextEdit;
use ensemble_project::project::read_source;
use lsp_server::{ErrorCode, Request};
use lsp_types::notification::ShowMessage;
use lsp_types::request::{self, Request as _};
use lsp_types::{
    CodeActionParams, DocumentHighlight, DocumentHighlightKind, DocumentSymbol, DocumentSymbolParams,
    ExecuteCommandParams, Hover, HoverContents, HoverParams, Location, MarkupContent, MarkupKind, MessageType,
    Position, ReferenceParams, RenameParams, ShowMessageParams, SymbolKind, TextDocumentPositionParams, Uri,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::capabilities::{ClientFeatures, GRAPH_COMMAND};
use super::documents::OpenDocument;
use super::message_writer::MessageSender;
use super::{LspServerOptions, code_actions, completion_items, file_address};
use crate::text::EditorText;

/// An error answer to a request: its code and its message.
pub(super) struct LspRequestError(pub(super) ErrorCode, pub(super) String);

type LspAnswer = Result<Value, LspRequestError>;

/// The open texts, by their addresses.
type OpenDocuments = HashMap<String, Arc<OpenDocument>>;

/// The state of answering requests, with data that is cached between requests.
pub(super) struct RequestHandler<'s> {
    services: &'s LspServerOptions,
    outgoing: &'s MessageSender,
    client: ClientFeatures,
    places: HashMap<PathBuf, FolderChecks<'s>>,
    /// The last ensemble of each text that had one, with the number of the change that was looked at last.
    good_ensembles: HashMap<String, (u64, Option<Arc<Ensemble>>)>,
}

impl<'s> RequestHandler<'s> {
    pub(super) fn new(services: &'s LspServerOptions, outgoing: &'s MessageSender, client: ClientFeatures) -> Self {
        Self {
            services,
            outgoing,
            client,
            places: HashMap::new(),
            good_ensembles: HashMap::new(),
        }
    }

    /// Drops the checks of all folders, because files on disk have changed.
    pub(super) fn drop_folder_checks(&mut self) {
        self.places.clear();
    }

    /// Answers one request. # Errors: the method is unknown, its parameters are not valid, or it cannot be fulfilled.
    pub(super) fn answer_request(&mut self, request: Request, documents: &OpenDocuments) -> LspAnswer {
        let params = request.params;
        match request.method.as_str() {
            request::HoverRequest::METHOD => self.answer_hover(parse_params(params)?, documents),
            request::Completion::METHOD => self.answer_completion(&parse_params(params)?, documents),
            request::GotoDefinition::METHOD => self.answer_definition(&parse_params(params)?, documents),
            request::References::METHOD => self.answer_references(parse_params(params)?, documents),
            request::DocumentHighlightRequest::METHOD => self.answer_highlights(&parse_params(params)?, documents),
            request::PrepareRenameRequest::METHOD => self.answer_prepare_rename(&parse_params(params)?, documents),
            request::Rename::METHOD => self.answer_rename(parse_params(params)?, documents),
            request::DocumentSymbolRequest::METHOD => self.answer_symbols(&parse_params(params)?, documents),
            request::CodeActionRequest::METHOD => self.answer_code_actions(&parse_params(params)?, documents),
            request::ExecuteCommand::METHOD => self.answer_command(&parse_params(params)?, documents),
            method => Err(LspRequestError(
                ErrorCode::MethodNotFound,
                format!("there is no request `{method}`"),
            )),
        }
    }

    /// Builds the view of a document. Returns `None` if the document is no ensemble and no test file of an ensemble.
    fn build_editor_view<'a>(
        &'a mut self,
        document: &'a OpenDocument,
        documents: &OpenDocuments,
    ) -> Option<EditorView<'a>> {
        let kind = EditedFileKind::for_path(&document.path, &self.services.project);
        let text = document.text.content();
        let (path, ensemble) = match kind {
            EditedFileKind::Tests => {
                let path = tested_ensemble_path(text, &document.path)?;
                let ensemble = self.find_tested_ensemble_by_path(&path, documents);
                (path, ensemble)
            }
            _ => (document.path.clone(), self.last_valid_ensemble(document)),
        };
        let view = EditorView::parse(text, self.folder_checks(&path).ensemble_folder(), ensemble, kind);
        (kind != EditedFileKind::Ensemble || view.can_be_ensemble()).then_some(view)
    }

    /// Returns the checks of the file's folder. Loads them on first use.
    fn folder_checks(&mut self, path: &Path) -> &FolderChecks<'s> {
        let services = self.services;
        let folder = path.parent().unwrap_or(path).to_owned();
        self.places
            .entry(folder)
            .or_insert_with(|| FolderChecks::for_file(path, &services.project, &*services.checks))
    }

    /// Returns the ensemble of a document, or of its last version that was a valid ensemble.
    fn last_valid_ensemble(&mut self, document: &OpenDocument) -> Option<Arc<Ensemble>> {
        let (change, good) = self.good_ensembles.entry(document.uri.as_str().to_owned()).or_default();
        if *change != document.change {
            *change = document.change;
            let ensemble = load_ensemble(&SourceText::new("", document.text.content().clone())).ensemble;
            *good = ensemble.map(Arc::new).or(good.take());
        }
        good.clone()
    }

    /// Returns the ensemble at this path, from the editor if the file is open, otherwise from disk.
    fn find_tested_ensemble_by_path(&mut self, path: &Path, documents: &OpenDocuments) -> Option<Arc<Ensemble>> {
        match documents.values().find(|document| document.path == *path) {
            Some(document) => self.last_valid_ensemble(document),
            None => load_ensemble(&read_source(path).ok()?).ensemble.map(Arc::new),
        }
    }

    /// Answers with the hover text at the position.
    fn answer_hover(&mut self, params: HoverParams, documents: &OpenDocuments) -> LspAnswer {
        let at = params.text_document_position_params;
        self.answer_at_position(&at, documents, |view, text, offset| {
            let hover_text = hover::find_hover_text(view, offset)?;
            Some(Hover {
                contents: HoverContents::Markup(MarkupContent {
                    kind: MarkupKind::Markdown,
                    value: hover_text.text,
                }),
                range: Some(text.range_for_span(hover_text.span)),
            })
        })
    }

    /// Answers with the completions at the position.
    fn answer_completion(&mut self, at: &TextDocumentPositionParams, documents: &OpenDocuments) -> LspAnswer {
        self.answer_at_position(at, documents, |view, text, offset| {
            let items = completions::list_completions(view, offset);
            Some(
                items
                    .iter()
                    .enumerate()
                    .map(|(rank, one)| completion_items::build_completion_item(one, rank, text))
                    .collect::<Vec<_>>(),
            )
        })
    }

    /// Answers with the definition of the agent or tool at the position.
    fn answer_definition(&mut self, at: &TextDocumentPositionParams, documents: &OpenDocuments) -> LspAnswer {
        let uri = at.text_document.uri.clone();
        self.answer_at_position(at, documents, |view, text, offset| {
            let all = name_occurrences::list_same_occurrences(view, offset)?;
            let span = all.iter().find(|one| one.is_definition)?.span;
            Some(Location::new(uri, text.range_for_span(span)))
        })
    }

    /// Answers with all names of the agent or tool at the position.
    fn answer_references(&mut self, params: ReferenceParams, documents: &OpenDocuments) -> LspAnswer {
        let at = params.text_document_position;
        let (uri, with_definition) = (at.text_document.uri.clone(), params.context.include_declaration);
        self.answer_at_position(&at, documents, |view, text, offset| {
            let all = name_occurrences::list_same_occurrences(view, offset)?.into_iter();
            let all = all.filter(|one| with_definition || !one.is_definition);
            Some(
                all.map(|one| Location::new(uri.clone(), text.range_for_span(one.span)))
                    .collect::<Vec<_>>(),
            )
        })
    }

    /// Answers with the names to highlight. The definition is a write, all others are reads.
    fn answer_highlights(&mut self, at: &TextDocumentPositionParams, documents: &OpenDocuments) -> LspAnswer {
        self.answer_at_position(at, documents, |view, text, offset| {
            let all = name_occurrences::list_same_occurrences(view, offset)?;
            let highlight = |one: name_occurrences::NameOccurrence| DocumentHighlight {
                range: text.range_for_span(one.span),
                kind: Some(match one.is_definition {
                    true => DocumentHighlightKind::WRITE,
                    false => DocumentHighlightKind::READ,
                }),
            };
            Some(all.into_iter().map(highlight).collect::<Vec<_>>())
        })
    }

    /// Answers with the name at the position and its range, if the name can be renamed.
    fn answer_prepare_rename(&mut self, at: &TextDocumentPositionParams, documents: &OpenDocuments) -> LspAnswer {
        self.answer_at_position(at, documents, |view, text, offset| {
            let renameable_name = rename::find_renameable_name(view, offset)?;
            Some(json!({"range": text.range_for_span(renameable_name.span), "placeholder": renameable_name.name}))
        })
    }

    /// Answers with the edits of a rename in all files, and warns of files that are left unchanged.
    fn answer_rename(&mut self, params: RenameParams, documents: &OpenDocuments) -> LspAnswer {
        let at = &params.text_document_position;
        let Some(document) = documents.get(at.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let root = self.services.project.folder.clone();
        let is_shared = |script: &Path| {
            is_script_named_elsewhere(script, &document.path) || is_open_file(&root.join(script), documents)
        };
        let offset = document.text.offset_at(at.position);
        let renamed = match self.build_editor_view(document, documents) {
            Some(view) => {
                let around = RenameSurroundings {
                    is_shared: &is_shared,
                    tests: list_edited_test_files(&document.path, documents),
                    find_callers: &|input| list_ensembles_passing_input(&document.path, &root, input),
                };
                rename::rename_symbol(&view, offset, &params.new_name, around)
            }
            None => Err("there is no ensemble here".to_owned()),
        };
        let renamed = renamed.map_err(|why| LspRequestError(ErrorCode::RequestFailed, why))?;
        if let Some(message) = renamed.unchanged_files_warning() {
            self.outgoing.send_notification::<ShowMessage>(ShowMessageParams {
                typ: MessageType::WARNING,
                message,
            });
        }
        Ok(self.build_rename_edit(document, &renamed))
    }

    /// Builds the edits of a rename in the form of the protocol.
    fn build_rename_edit(&self, document: &OpenDocument, renamed: &RenameEdits) -> Value {
        let edits = |text: &EditorText, edits: &[TextEdit]| -> Value {
            let edit = |edit: &TextEdit| json!({"range": text.range_for_span(edit.span), "newText": edit.replacement});
            edits.iter().map(edit).collect()
        };
        let mut changes = Map::new();
        changes.insert(document.uri.as_str().to_owned(), edits(&document.text, &renamed.edits));
        for (path, text, of_other) in &renamed.other_files {
            let path = self.services.project.folder.join(path);
            let text = EditorText::new(text.as_str(), self.client.encoding);
            if let Some(uri) = file_address::uri_from_path(&path) {
                changes.insert(uri.as_str().to_owned(), edits(&text, of_other));
            }
        }
        json!({ "changes": changes })
    }

    /// Answers with the agents of the text as its outline.
    fn answer_symbols(&mut self, params: &DocumentSymbolParams, documents: &OpenDocuments) -> LspAnswer {
        let at = TextDocumentPositionParams::new(params.text_document.clone(), Position::default());
        self.answer_at_position(&at, documents, |view, text, _| {
            let all = symbols::list_agent_symbols(view);
            Some(
                all.into_iter()
                    .map(|symbol| build_document_symbol(symbol, text))
                    .collect::<Vec<_>>(),
            )
        })
    }

    /// Answers with the fixes for a range of the text.
    fn answer_code_actions(&mut self, params: &CodeActionParams, documents: &OpenDocuments) -> LspAnswer {
        let Some(document) = documents.get(params.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let (services, client) = (self.services, self.client);
        let actions =
            code_actions::list_code_actions(params, documents, self.folder_checks(&document.path), services, client);
        Ok(actions.map_or(Value::Null, Value::Array))
    }

    /// Runs the command `ensemble.graph`, whose arguments are the URI of an ensemble and a format.
    fn answer_command(&mut self, params: &ExecuteCommandParams, documents: &OpenDocuments) -> LspAnswer {
        let refused = |why: String| LspRequestError(ErrorCode::InvalidParams, why);
        if params.command != GRAPH_COMMAND {
            return Err(refused(format!("there is no command `{}`", params.command)));
        }
        let argument = |at: usize| params.arguments.get(at).and_then(Value::as_str);
        let uri = argument(0).and_then(|uri| uri.parse::<Uri>().ok());
        let uri = uri.ok_or_else(|| refused("the first argument must be the URI of an ensemble file".to_owned()))?;
        let format = argument(1).unwrap_or("mermaid");
        let source = match documents.get(uri.as_str()) {
            Some(document) => SourceText::new("", document.text.content().clone()),
            None => {
                let path = file_address::path_from_uri(&uri, &self.services.project.folder);
                read_source(&path).map_err(|error| LspRequestError(ErrorCode::RequestFailed, error.to_string()))?
            }
        };
        let Some(ensemble) = load_ensemble(&source).ensemble else {
            let message = "the ensemble has errors, so it has no graph".to_owned();
            return Err(LspRequestError(ErrorCode::RequestFailed, message));
        };
        let graph = (self.services.graph)(&ensemble, format);
        graph.map(Value::String).ok_or_else(|| {
            refused(format!(
                "there is no format `{format}`; expected mermaid, ascii, dot or svg"
            ))
        })
    }

    /// Answers a request about a position of a text. Answers `null` if the text is not open or no ensemble.
    fn answer_at_position<T: Serialize>(
        &mut self,
        at: &TextDocumentPositionParams,
        documents: &OpenDocuments,
        what: impl FnOnce(&EditorView<'_>, &EditorText, usize) -> Option<T>,
    ) -> LspAnswer {
        let Some(document) = documents.get(at.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let offset = document.text.offset_at(at.position);
        let answer = self
            .build_editor_view(document, documents)
            .and_then(|view| what(&view, &document.text, offset));
        serde_json::to_value(answer).map_err(|error| LspRequestError(ErrorCode::InternalError, error.to_string()))
    }
}

/// Parses the parameters of a request.
fn parse_params<T: DeserializeOwned>(params: Value) -> Result<T, LspRequestError> {
    let invalid_params = |error: serde_json::Error| {
        LspRequestError(
            ErrorCode::InvalidParams,
            format!("the parameters are not valid: {error}"),
        )
    };
    serde_json::from_value(params).map_err(invalid_params)
}

/// Returns the test files of an ensemble with their texts. Open files have the texts of the editor.
fn list_edited_test_files(ensemble: &Path, documents: &OpenDocuments) -> Vec<(PathBuf, String)> {
    let mut tests = read_test_files_beside(ensemble);
    for (path, text) in &mut tests {
        if let Some(document) = documents.values().find(|document| document.path == *path) {
            *text = document.text.content().to_string();
        }
    }
    tests
}

/// Returns whether the file is open, so that its text can differ from the text on disk.
fn is_open_file(path: &Path, documents: &OpenDocuments) -> bool {
    documents.values().any(|document| document.path == path)
}

/// Converts an agent to a symbol of the protocol.
#[expect(deprecated, reason = "the type has a field that the protocol no longer wants")]
fn build_document_symbol(symbol: AgentSymbol, text: &EditorText) -> DocumentSymbol {
    let range = |span: Span| text.range_for_span(span);
    let kind = match symbol.detail.split(':').next() {
        Some("script") => SymbolKind::FUNCTION,
        Some("model_profile" | "model") => SymbolKind::OBJECT,
        Some("input") => SymbolKind::EVENT,
        Some("ensemble") => SymbolKind::MODULE,
        _ => SymbolKind::CLASS,
    };
    DocumentSymbol {
        name: if symbol.name.is_empty() {
            "?".to_owned()
        } else {
            symbol.name
        },
        detail: Some(symbol.detail),
        kind,
        tags: None,
        deprecated: None,
        range: range(symbol.span),
        selection_range: range(symbol.name_span),
        children: None,
    }
}
