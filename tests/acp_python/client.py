"""Drives `ensemble acp` with the official Python SDK. Arguments: the folder of the packages, the program, and a folder whose
`ensembles` are served. Prints what it was told as JSON."""

import asyncio
import json
import os
import sys

sys.path.insert(0, sys.argv[1])

import acp  # noqa: E402
from acp import schema  # noqa: E402


class Client:
    """Answers the requests of the server, and keeps what it is told."""

    def __init__(self):
        self.updates = []
        self.answers = []
        self.server = None

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    async def request_permission(self, session_id, tool_call, options, **_):
        if self.answers.pop(0) == "cancel":
            await self.server.cancel(session_id)
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        once = next(option for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=once.option_id))

    async def create_elicitation(self, message, mode, **_):
        return acp.AcceptElicitationResponse(action="accept", content={"answer": "yes"})

    def told(self):
        """The updates since the last call: their kinds, and the text of the agent's messages."""
        updates, self.updates = self.updates, []

        def texts(kind):
            return [update.content.text for update in updates if update.session_update == kind]

        return {
            "kinds": sorted({update.session_update for update in updates}),
            "said": "".join(texts("agent_message_chunk")),
            "heard": texts("user_message_chunk"),
            "cards": [update.title for update in updates if update.session_update == "tool_call"],
        }


def start(client, program, folder):
    names = ("HOME", "XDG_CONFIG_HOME", "ENSEMBLE_TRUST", "PATH")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    return acp.spawn_agent_process(
        client, program, "acp", "ensembles", env=environment, cwd=folder, use_unstable_protocol=True
    )


async def initialize(client, server, forms):
    client.server = server
    form = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()) if forms else None
    return await server.initialize(1, client_capabilities=schema.ClientCapabilities(elicitation=form))


async def session(server, folder, ensemble):
    opened = await server.new_session(cwd=folder, mcp_servers=[])
    chosen = await server.set_config_option("ensemble", opened.session_id, ensemble)
    return opened.session_id, [[option.id, option.current_value] for option in chosen.config_options]


async def prompt(server, identity, words):
    answer = await server.prompt(session_id=identity, prompt=[acp.text_block(words)])
    return answer.stop_reason


async def until(path):
    while not os.path.exists(path):
        await asyncio.sleep(0.01)


async def main(program, folder):
    told = {}
    client = Client()
    async with start(client, program, folder) as (server, process):
        initialized = await initialize(client, server, True)
        told["initialized"] = initialized.model_dump(mode="json", by_alias=True, exclude_none=True)
        gate, told["options"] = await session(server, folder, "gate")
        told["gate"] = [await prompt(server, gate, "go"), client.told()]

        client.answers = ["allow"]
        careful, _ = await session(server, folder, "careful")
        told["careful"] = [await prompt(server, careful, "go"), client.told()]

        # A cancellation while a permission is open; then the session goes on.
        client.answers = ["cancel", "allow"]
        careful, _ = await session(server, folder, "careful")
        told["cancelled"] = [await prompt(server, careful, "go"), await prompt(server, careful, "/resume")]
        client.told()

        # A cancellation in the middle; then the session goes on, also after its server was killed.
        slow, _ = await session(server, folder, "slow")
        begun = os.path.join(folder, "begun")
        going = asyncio.create_task(prompt(server, slow, "go"))
        await until(begun)
        await server.cancel(slow)
        told["slow"] = [await going]
        os.remove(begun)
        going = asyncio.create_task(prompt(server, slow, "/resume"))
        await until(begun)
        open(os.path.join(folder, "done"), "w").close()
        process.kill()
        await process.wait()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)

    client = Client()
    async with start(client, program, folder) as (server, process):
        await initialize(client, server, False)
        await server.load_session(cwd=folder, session_id=slow, mcp_servers=[])
        # What came before this answer has been handled.
        listed = await server.list_sessions(cwd=folder)
        told["loaded"] = client.told()
        told["slow"] += [await prompt(server, slow, "/resume"), client.told()]

        told["listed"] = gate in [listed.session_id for listed in listed.sessions]
        await server.resume_session(cwd=folder, session_id=gate, mcp_servers=[])
        told["resumed"] = [client.told(), await prompt(server, gate, "more"), client.told()]
        await server.close_session(gate)
        try:
            told["closed"] = await prompt(server, gate, "more")
        except acp.RequestError as error:
            told["closed"] = str(error)
    print(json.dumps(told))


asyncio.run(main(*sys.argv[2:]))
