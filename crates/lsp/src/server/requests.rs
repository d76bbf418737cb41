//! The answers to requests, in the form of the protocol.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_ide::analysis::files::{self, is_shared_script, list_tests_of};
use ensemble_ide::analysis::findings::{Kind, Place};
use ensemble_ide::analysis::names::Named;
use ensemble_ide::analysis::rename::{self, Renamed};
use ensemble_ide::analysis::symbols::Symbol;
use ensemble_ide::analysis::{View, complete, hover, names, symbols, tested_by};
use ensemble_language::ensemble::Ensemble;
use ensemble_language::loader::load;
use ensemble_language::source::{Source, Span};
use ensemble_language::yaml::edit::Edit;
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

use super::capabilities::{Client, GRAPH};
use super::documents::Document;
use super::outgoing::Sending;
use super::{Services, actions, address, offered};
use crate::text::Text;

/// The reason why a request has no result.
pub(super) struct Refusal(pub(super) ErrorCode, pub(super) String);

type Answer = Result<Value, Refusal>;

/// The open texts, by their addresses.
type Documents = HashMap<String, Arc<Document>>;

/// The data that is remembered between requests.
pub(super) struct Asked<'s> {
    services: &'s Services,
    outgoing: &'s Sending,
    client: Client,
    places: HashMap<PathBuf, Place<'s>>,
    /// The last ensemble of each text that had one, with the number of the change that was looked at last.
    good: HashMap<String, (u64, Option<Arc<Ensemble>>)>,
}

impl<'s> Asked<'s> {
    pub(super) fn new(services: &'s Services, outgoing: &'s Sending, client: Client) -> Self {
        Self {
            services,
            outgoing,
            client,
            places: HashMap::new(),
            good: HashMap::new(),
        }
    }

    pub(super) fn forget_files(&mut self) {
        self.places.clear();
    }

    pub(super) fn answer(&mut self, request: Request, documents: &Documents) -> Answer {
        let params = request.params;
        match request.method.as_str() {
            request::HoverRequest::METHOD => self.hover(read(params)?, documents),
            request::Completion::METHOD => self.complete(&read(params)?, documents),
            request::GotoDefinition::METHOD => self.definition(&read(params)?, documents),
            request::References::METHOD => self.references(read(params)?, documents),
            request::DocumentHighlightRequest::METHOD => self.highlights(&read(params)?, documents),
            request::PrepareRenameRequest::METHOD => self.prepare_rename(&read(params)?, documents),
            request::Rename::METHOD => self.rename(read(params)?, documents),
            request::DocumentSymbolRequest::METHOD => self.symbols(&read(params)?, documents),
            request::CodeActionRequest::METHOD => self.actions(&read(params)?, documents),
            request::ExecuteCommand::METHOD => self.execute(&read(params)?, documents),
            method => Err(Refusal(
                ErrorCode::MethodNotFound,
                format!("there is no request `{method}`"),
            )),
        }
    }

    /// Returns the view of a text. Returns `None` if the text is not open, or not an ensemble.
    fn view<'a>(&'a mut self, document: &'a Document, documents: &Documents) -> Option<View<'a>> {
        let kind = Kind::of(&document.path, &self.services.project);
        let text = document.text.text();
        let (path, ensemble) = match kind {
            Kind::Tests => {
                let path = tested_by(text, &document.path)?;
                let ensemble = self.tested(&path, documents);
                (path, ensemble)
            }
            _ => (document.path.clone(), self.good(document)),
        };
        let view = View::of(text, self.place(&path).folder(), ensemble, kind);
        (kind != Kind::Ensemble || view.is_ensemble()).then_some(view)
    }

    /// Returns the check context of a file.
    fn place(&mut self, path: &Path) -> &Place<'s> {
        let services = self.services;
        let folder = path.parent().unwrap_or(path).to_owned();
        self.places
            .entry(folder)
            .or_insert_with(|| Place::around(path, &services.project, &*services.checks))
    }

    /// The ensemble of a text, or of the last text before that had one.
    fn good(&mut self, document: &Document) -> Option<Arc<Ensemble>> {
        let (change, good) = self.good.entry(document.uri.as_str().to_owned()).or_default();
        if *change != document.change {
            *change = document.change;
            let ensemble = load(&Source::new("", document.text.text().clone())).ensemble;
            *good = ensemble.map(Arc::new).or(good.take());
        }
        good.clone()
    }

    /// The ensemble in a file that may be open.
    fn tested(&mut self, path: &Path, documents: &Documents) -> Option<Arc<Ensemble>> {
        match documents.values().find(|document| document.path == *path) {
            Some(document) => self.good(document),
            None => load(&files::read_file(path).ok()?).ensemble.map(Arc::new),
        }
    }

    fn hover(&mut self, params: HoverParams, documents: &Documents) -> Answer {
        let at = params.text_document_position_params;
        self.on(&at, documents, |view, text, offset| {
            let found = hover::hover(view, offset)?;
            Some(Hover {
                contents: HoverContents::Markup(MarkupContent {
                    kind: MarkupKind::Markdown,
                    value: found.text,
                }),
                range: Some(text.range(found.span)),
            })
        })
    }

    fn complete(&mut self, at: &TextDocumentPositionParams, documents: &Documents) -> Answer {
        self.on(at, documents, |view, text, offset| {
            let found = complete::complete(view, offset);
            Some(
                found
                    .iter()
                    .enumerate()
                    .map(|(rank, one)| offered::item(one, rank, text))
                    .collect::<Vec<_>>(),
            )
        })
    }

    fn definition(&mut self, at: &TextDocumentPositionParams, documents: &Documents) -> Answer {
        let uri = at.text_document.uri.clone();
        self.on(at, documents, |view, text, offset| {
            let all = names::same(view, offset)?;
            let span = all.iter().find(|one| one.is_definition)?.span;
            Some(Location::new(uri, text.range(span)))
        })
    }

    fn references(&mut self, params: ReferenceParams, documents: &Documents) -> Answer {
        let at = params.text_document_position;
        let (uri, with_definition) = (at.text_document.uri.clone(), params.context.include_declaration);
        self.on(&at, documents, |view, text, offset| {
            let all = names::same(view, offset)?.into_iter();
            let all = all.filter(|one| with_definition || !one.is_definition);
            Some(
                all.map(|one| Location::new(uri.clone(), text.range(one.span)))
                    .collect::<Vec<_>>(),
            )
        })
    }

    fn highlights(&mut self, at: &TextDocumentPositionParams, documents: &Documents) -> Answer {
        self.on(at, documents, |view, text, offset| {
            let all = names::same(view, offset)?;
            let highlight = |one: names::Occurrence| DocumentHighlight {
                range: text.range(one.span),
                kind: Some(match one.is_definition {
                    true => DocumentHighlightKind::WRITE,
                    false => DocumentHighlightKind::READ,
                }),
            };
            Some(all.into_iter().map(highlight).collect::<Vec<_>>())
        })
    }

    fn prepare_rename(&mut self, at: &TextDocumentPositionParams, documents: &Documents) -> Answer {
        self.on(at, documents, |view, text, offset| {
            let found = rename::prepare(view, offset)?;
            Some(json!({"range": text.range(found.span), "placeholder": found.name}))
        })
    }

    fn rename(&mut self, params: RenameParams, documents: &Documents) -> Answer {
        let at = &params.text_document_position;
        let Some(document) = documents.get(at.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let root = self.services.project.folder.clone();
        let is_shared =
            |script: &Path| is_shared_script(script, &document.path) || is_open(&root.join(script), documents);
        let offset = document.text.offset(at.position);
        let renamed = match self.view(document, documents) {
            Some(view) => {
                let tests = tests_in_editor(&document.path, documents);
                rename::rename(&view, offset, &params.new_name, &is_shared, tests)
            }
            None => Err("there is no ensemble here".to_owned()),
        };
        let renamed = renamed.map_err(|why| Refusal(ErrorCode::RequestFailed, why))?;
        self.tell_of_uncertain(&renamed);
        Ok(self.workspace_edit(document, &renamed))
    }

    /// Says which scripts are left to the user.
    fn tell_of_uncertain(&self, renamed: &Renamed) {
        let scripts: Vec<String> = renamed
            .uncertain
            .iter()
            .map(|path| format!("`{}`", path.display()))
            .collect();
        if !scripts.is_empty() {
            let scripts = scripts.join(", ");
            let message = match renamed.what {
                Some(Named::Tool) => {
                    format!("{scripts} may name the tool and was not changed: look for its old name there")
                }
                _ => format!(
                    "{scripts} may name the agent and was not changed, because other agents or ensembles use it too, it is open, or it has \
                     variables of its own with these names"
                ),
            };
            self.outgoing.notify::<ShowMessage>(ShowMessageParams {
                typ: MessageType::WARNING,
                message,
            });
        }
    }

    fn workspace_edit(&self, document: &Document, renamed: &Renamed) -> Value {
        let edits = |text: &Text, edits: &[Edit]| -> Value {
            let edit = |edit: &Edit| json!({"range": text.range(edit.span), "newText": edit.replacement});
            edits.iter().map(edit).collect()
        };
        let mut changes = Map::new();
        changes.insert(document.uri.as_str().to_owned(), edits(&document.text, &renamed.edits));
        for (path, text, of_other) in &renamed.others {
            let path = self.services.project.folder.join(path);
            let text = Text::new(text.as_str(), self.client.encoding);
            if let Some(uri) = address::of_path(&path) {
                changes.insert(uri.as_str().to_owned(), edits(&text, of_other));
            }
        }
        json!({ "changes": changes })
    }

    fn symbols(&mut self, params: &DocumentSymbolParams, documents: &Documents) -> Answer {
        let at = TextDocumentPositionParams::new(params.text_document.clone(), Position::default());
        self.on(&at, documents, |view, text, _| {
            let all = symbols::symbols(view);
            Some(
                all.into_iter()
                    .map(|symbol| document_symbol(symbol, text))
                    .collect::<Vec<_>>(),
            )
        })
    }

    fn actions(&mut self, params: &CodeActionParams, documents: &Documents) -> Answer {
        let Some(document) = documents.get(params.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let (services, client) = (self.services, self.client);
        let actions = actions::actions(params, documents, self.place(&document.path), services, client);
        Ok(actions.map_or(Value::Null, Value::Array))
    }

    /// `ensemble.graph`: the address of an ensemble, and a format.
    fn execute(&mut self, params: &ExecuteCommandParams, documents: &Documents) -> Answer {
        let refused = |why: String| Refusal(ErrorCode::InvalidParams, why);
        if params.command != GRAPH {
            return Err(refused(format!("there is no command `{}`", params.command)));
        }
        let argument = |at: usize| params.arguments.get(at).and_then(Value::as_str);
        let uri = argument(0).and_then(|uri| uri.parse::<Uri>().ok());
        let uri = uri.ok_or_else(|| refused("the first argument must be the address of an ensemble".to_owned()))?;
        let format = argument(1).unwrap_or("mermaid");
        let source = match documents.get(uri.as_str()) {
            Some(document) => Source::new("", document.text.text().clone()),
            None => {
                let path = address::path_of(&uri, &self.services.project.folder);
                files::read_file(&path).map_err(|error| Refusal(ErrorCode::RequestFailed, error.to_string()))?
            }
        };
        let Some(ensemble) = load(&source).ensemble else {
            let why = "the ensemble has errors, so it has no graph".to_owned();
            return Err(Refusal(ErrorCode::RequestFailed, why));
        };
        let graph = (self.services.graph)(&ensemble, format);
        graph.map(Value::String).ok_or_else(|| {
            refused(format!(
                "there is no format `{format}`: it is mermaid, dot, svg or ascii"
            ))
        })
    }

    /// Answers about a place in a text.
    fn on<T: Serialize>(
        &mut self,
        at: &TextDocumentPositionParams,
        documents: &Documents,
        what: impl FnOnce(&View<'_>, &Text, usize) -> Option<T>,
    ) -> Answer {
        let Some(document) = documents.get(at.text_document.uri.as_str()) else {
            return Ok(Value::Null);
        };
        let offset = document.text.offset(at.position);
        let found = self
            .view(document, documents)
            .and_then(|view| what(&view, &document.text, offset));
        serde_json::to_value(found).map_err(|error| Refusal(ErrorCode::InternalError, error.to_string()))
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refusal> {
    let why = |error: serde_json::Error| {
        Refusal(
            ErrorCode::InvalidParams,
            format!("the parameters are not valid: {error}"),
        )
    };
    serde_json::from_value(params).map_err(why)
}

/// Returns the test files of an ensemble with their texts; an open file has the text of the editor.
fn tests_in_editor(ensemble: &Path, documents: &Documents) -> Vec<(PathBuf, String)> {
    let mut tests = list_tests_of(ensemble);
    for (path, text) in &mut tests {
        if let Some(document) = documents.values().find(|document| document.path == *path) {
            *text = document.text.text().to_string();
        }
    }
    tests
}

/// Returns whether the file is open, so that its text may be another than that on disk.
fn is_open(path: &Path, documents: &Documents) -> bool {
    documents.values().any(|document| document.path == path)
}

#[expect(deprecated, reason = "the type has a field that the protocol no longer wants")]
fn document_symbol(symbol: Symbol, text: &Text) -> DocumentSymbol {
    let range = |span: Span| text.range(span);
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
