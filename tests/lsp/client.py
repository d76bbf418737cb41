"""Drives `ensemble lsp` with the client of pygls, whose types are generated from the protocol's own model: an answer that
does not have its type is an error. Arguments: the folder of the packages, the program, a folder with `a.yaml`. Prints what
it was told as JSON."""

import asyncio
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])

from lsprotocol import types  # noqa: E402
from pygls.lsp.client import LanguageClient  # noqa: E402


class Client(LanguageClient):
    def __init__(self):
        super().__init__("ensemble-test", "1")
        self.published = asyncio.Queue()
        self.errors = []

    def report_server_error(self, error, source):
        self.errors.append(repr(error))


async def main(program, folder):
    client = Client()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def _published(params):
        client.published.put_nowait(params)

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def _registered(params):
        told["registered"] = [one.method for one in params.registrations]

    told = {}
    await client.start_io(program, "lsp", cwd=folder)
    capabilities = types.ClientCapabilities(
        text_document=types.TextDocumentClientCapabilities(
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(related_information=True)
        ),
        workspace=types.WorkspaceClientCapabilities(
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
        ),
    )
    root = pathlib.Path(folder)
    started = await client.initialize_async(types.InitializeParams(capabilities=capabilities, root_uri=root.as_uri()))
    told["name"] = started.server_info.name
    told["encoding"] = started.capabilities.position_encoding
    client.initialized(types.InitializedParams())

    uri = (root / "a.yaml").as_uri()
    text = (root / "a.yaml").read_text()
    lines = text.splitlines()

    def place(mark):
        line = next(at for at, one in enumerate(lines) if mark in one)
        return types.Position(line=line, character=lines[line].index(mark) + len(mark))

    async def findings(version):
        while True:
            params = await asyncio.wait_for(client.published.get(), 60)
            if params.version == version:
                return [[one.code, one.severity.name] for one in params.diagnostics]

    client.text_document_did_open(
        types.DidOpenTextDocumentParams(
            text_document=types.TextDocumentItem(uri=uri, language_id="yaml", version=1, text=text)
        )
    )
    told["opened"] = await findings(1)
    document = types.TextDocumentIdentifier(uri=uri)
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=2),
            content_changes=[
                types.TextDocumentContentChangePartial(
                    range=types.Range(start=place("output.don"), end=place("output.done")), text="x"
                )
            ],
        )
    )
    told["changed"] = await findings(2)

    at = place("agent_name: wri")
    hover = await client.text_document_hover_async(types.HoverParams(text_document=document, position=at))
    told["hover"] = hover.contents.value
    offered = await client.text_document_completion_async(
        types.CompletionParams(text_document=document, position=place("on_error: "))
    )
    told["offered"] = [one.label for one in offered]
    definition = await client.text_document_definition_async(
        types.DefinitionParams(text_document=document, position=at)
    )
    told["definition"] = definition.range.start.line
    references = await client.text_document_references_async(
        types.ReferenceParams(
            text_document=document, position=at, context=types.ReferenceContext(include_declaration=True)
        )
    )
    told["references"] = len(references)
    highlights = await client.text_document_document_highlight_async(
        types.DocumentHighlightParams(text_document=document, position=at)
    )
    told["highlights"] = [one.kind.name for one in highlights]
    prepared = await client.text_document_prepare_rename_async(
        types.PrepareRenameParams(text_document=document, position=at)
    )
    told["prepared"] = prepared.placeholder
    renamed = await client.text_document_rename_async(
        types.RenameParams(text_document=document, position=at, new_name="author")
    )
    told["renamed"] = {name.rsplit("/", 1)[1]: len(edits) for name, edits in renamed.changes.items()}
    try:
        await client.text_document_rename_async(
            types.RenameParams(text_document=document, position=at, new_name="reviewer")
        )
    except Exception as error:
        told["refused"] = str(error)
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(text_document=document))
    told["symbols"] = [one.name for one in symbols]
    graph = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command="ensemble.graph", arguments=[uri, "dot"])
    )
    told["graph"] = graph.split("\n", 1)[0]
    client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=document))
    told["closed"] = await findings(None)
    await client.shutdown_async(None)
    client.exit(None)
    process = client._server
    told["code"] = await asyncio.wait_for(process.wait(), 60)
    told["errors"] = client.errors
    await client.stop()
    print(json.dumps(told))


asyncio.run(main(sys.argv[2], sys.argv[3]))
