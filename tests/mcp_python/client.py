"""Drives `ensemble mcp` with the official Python SDK. Arguments: the folder of the packages, the program, a folder with the ensembles,
the protocol (legacy or auto), and the address and the token of a server over HTTP, or nothing for stdio. Prints what it was
told as JSON."""

import asyncio
import json
import os
import sys

sys.path.insert(0, sys.argv[1])

import httpx2  # noqa: E402
from mcp import Client, types  # noqa: E402
from mcp.client.stdio import StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402


async def main(program, folder, mode, address=None, token=None):
    told = {"asked": [], "progress": []}

    async def answer(context, params):
        told["asked"].append(params.message)
        return types.ElicitResult(action="accept", content={"answer": "yes"})

    async def progress(progress, total, message):
        told["progress"].append(message)

    environment = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "ENSEMBLE_TRUST") if name in os.environ}
    if address:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
        server = streamable_http_client(address, http_client=http)
    else:
        server = StdioServerParameters(command=program, args=["mcp", folder], env=environment, cwd=folder)
    async with Client(server, elicitation_callback=answer, mode=mode, read_timeout_seconds=60) as client:
        told["version"] = client.protocol_version
        told["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        # The SDK judges the result by the schema of the tool.
        result = await client.call_tool("gate", {"topic": "the sea"}, progress_callback=progress)
        told["gate"] = result.structured_content
        result = await client.call_tool("gate", {})
        told["wrong"] = [result.is_error, result.content[0].text]
        result = await client.call_tool("run_status", {"run": told["gate"]["run"]})
        told["status"] = result.structured_content["status"]
        result = await client.call_tool("validate", {"text": "name: x\nagents: []"})
        told["codes"] = [finding["code"] for finding in result.structured_content["diagnostics"]]
    print(json.dumps(told))


asyncio.run(main(*sys.argv[2:]))
